"""Open answers judged by a language model under a benchmark's own rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import jinja2.sandbox

from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.protocol import JudgeRule
from easyvideor1.evals.strict import HIDDEN
from easyvideor1.rewards.judge import Judge

_VERDICT = re.compile(r"[*_ ]*VERDICT:[*_ ]*(RIGHT|WRONG)[*_ .]*", re.IGNORECASE)
_RATINGS = re.compile(r"[*_ ]*RATINGS:[*_ ]*([1-5](?:\.\d+)?)[ ,]+([1-5](?:\.\d+)?)[*_ .]*", re.IGNORECASE)
_ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)


def judge_items(items: Sequence[Item], responses: Mapping[str, str], rule: JudgeRule, judge: Judge) -> dict[str, float]:
    """Id -> worth in [0, 1] of the items that need a judge; without a response 0, without a verdict left out."""
    asked = [item for item in items if item.judge and item.judge != HIDDEN]
    found = {item.id: 0.0 for item in asked if not responses.get(item.id, "").strip()}
    open_items = [item for item in asked if item.id not in found]
    template = _ENVIRONMENT.from_string(rule.prompt)
    known = {"scoring_points": [], "mc_question": "", "mc_answer": ""}
    texts = [template.render(known | dict(item.fields) | {"response": responses[item.id]}) for item in open_items]
    for item, reply in zip(open_items, judge.replies(texts), strict=True):
        worth = None if reply is None else worth_of(reply)
        if worth is not None:
            found[item.id] = worth
    return found


def worth_of(reply: str) -> float | None:
    """What the last line of a reply says, in [0, 1]: a verdict, or two ratings of 1 to 5; None where it says neither.

    >>> worth_of("It names it. VERDICT: WRONG\\nVERDICT: RIGHT"), worth_of("RATINGS: 3 4"), worth_of("Right.")
    (1.0, 0.625, None)
    """
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    verdict, ratings = _VERDICT.fullmatch(last), _RATINGS.fullmatch(last)
    if verdict:
        return float(verdict[1].upper() == "RIGHT")
    return (float(ratings[1]) + float(ratings[2]) - 2) / 8 if ratings else None
