"""Open answers graded by the judge, by the rule of a benchmark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import jinja2.sandbox

from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.protocol import JudgeRule
from easyvideor1.evals.strict import HIDDEN
from easyvideor1.rewards.judge import Judge

_VERDICT = re.compile(r"VERDICT:[*_ ]*(RIGHT|WRONG)", re.IGNORECASE)
_RATINGS = re.compile(r"RATINGS:[*_ ]*([1-5](?:\.\d+)?)[ ,]+([1-5](?:\.\d+)?)", re.IGNORECASE)
_FORM = re.compile(rf"[-*_# ]*({_VERDICT.pattern}|{_RATINGS.pattern})[*_ .]*", re.IGNORECASE)
"""The last line of a reply."""
_ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)


def judge_items(items: Sequence[Item], responses: Mapping[str, str], rule: JudgeRule, judge: Judge) -> dict[str, float]:
    """Id -> worth in [0, 1] of the items that need a judge; without a response 0, without a verdict left out."""
    asked = [item for item in items if item.judge and item.judge != HIDDEN]
    found = {item.id: 0.0 for item in asked if not responses.get(item.id, "").strip()}
    open_items = [item for item in asked if item.id not in found]
    template = _ENVIRONMENT.from_string(rule.prompt)
    known = {"scoring_points": [], "mc_question": "", "mc_answer": ""}
    texts = [template.render(known | dict(item.fields) | {"response": responses[item.id]}) for item in open_items]
    for item, verdict in zip(open_items, judge.verdicts(texts, _FORM), strict=True):
        if verdict is not None:
            found[item.id] = worth_of(verdict)
    return found


def worth_of(verdict: str) -> float:
    """The grade in a verdict, in [0, 1]: right or wrong, or the mean of two ratings of 1 to 5.

    >>> worth_of("VERDICT: RIGHT"), worth_of("RATINGS: 3 4")
    (1.0, 0.625)
    """
    said, ratings = _VERDICT.fullmatch(verdict), _RATINGS.fullmatch(verdict)
    if said:
        return float(said[1].upper() == "RIGHT")
    assert ratings is not None, verdict
    return (float(ratings[1]) + float(ratings[2]) - 2) / 8
