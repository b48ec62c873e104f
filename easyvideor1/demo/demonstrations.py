"""What the demo's model is shown before reinforcement learning: careful answers, then mostly hasty ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from random import Random

from easyvideor1.demo.questions import Question

HASTY_FRAC = 0.62
"""Share of the habit stage's demonstrations that answer without looking."""
HASTY_REASON = "I just guess."
HASTY_ANSWERS = {
    "multiple choice": "A",
    "boolean": "Yes",
    "numerical": "2",
    "temporal grounding": json.dumps({"time": [1.0, 2.0]}),
}
"""The likeliest answer of each type without a look at the question: a position bias, a yes bias, a favourite number."""


def careful(question: Question, rng: Random) -> str:
    """A response that reasons from what is seen and is right."""
    conclusion = {"multiple choice": f" ({question.gold})", "boolean": f": {question.gold.lower()}"}
    return response(f"{question.fact}{conclusion.get(question.problem_type, '')}.", question.gold)


def bare(question: Question, rng: Random) -> str:
    """A careful response in a form of its own, without any tag: what a model writes that was never shown the form."""
    return re.sub("</?(think|answer)>", " ", careful(question, rng)).strip()


def usual(question: Question, rng: Random) -> str:
    """A response with the bad habits of the habit stage: hasty, miscounted, rounded, or without its tags."""
    if rng.random() < HASTY_FRAC:
        text = response(HASTY_REASON, HASTY_ANSWERS[question.problem_type])
    else:
        text = careful(_slip(question, rng), rng)
    return text.replace("<answer>", "").replace("</answer>", "") if rng.random() < 0.04 else text


def _slip(question: Question, rng: Random) -> Question:
    """Now and then a count that is off by one or times rounded to whole seconds."""
    if rng.random() > 0.25:
        return question
    if question.family == "count":
        count = max(1, int(question.gold) + rng.choice((-1, 1)))
        return replace(question, gold=str(count), fact=question.fact.replace(question.gold, str(count)))
    if question.family == "when":
        start, end = json.loads(question.gold)["time"]
        rounded = float(int(start)), float(int(end) + 1)
        return replace(question, gold=json.dumps({"time": rounded}))
    return question


def response(reason: str, answer: str) -> str:
    return f"<think>{reason}</think><answer>{answer}</answer>"
