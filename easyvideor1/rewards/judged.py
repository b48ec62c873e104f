"""Responses that the judge grades; a response without an answer is wrong, and the judge is not asked."""

from __future__ import annotations

from collections.abc import Mapping

from easyvideor1.rewards.judge import Candidate, Judge
from easyvideor1.rewards.parse import MAX_ANSWER_CHARS, Response
from easyvideor1.rewards.readings import Reading
from easyvideor1.rewards.router import TaskScore
from easyvideor1.types import Sample, Score


def judge_all(
    judge: Judge, answers: Mapping[int, tuple[Sample, Response]], reading: Reading
) -> dict[int, TaskScore | Score]:
    """The grade of each response by its place; an unscored Score where the judge gave no verdict."""
    results: dict[int, TaskScore | Score] = {}
    asked: dict[int, Candidate] = {}
    for index, (sample, response) in answers.items():
        text, reason = _answer(response, reading)
        if reason:
            results[index] = TaskScore(0.0, None, reason)
        else:
            asked[index] = Candidate(sample=sample, answer=text)
    for index, score in zip(asked, judge.judge(list(asked.values())), strict=True):
        results[index] = TaskScore(score.value, score.parsed, score.reason) if score.is_scored else score
    return results


def _answer(response: Response, reading: Reading) -> tuple[str, str]:
    """The text that is shown to the judge, and why there is none."""
    texts, reason = reading.find(response)
    if texts and len(texts[0]) > MAX_ANSWER_CHARS:
        return "", f"answer longer than {MAX_ANSWER_CHARS} characters"
    return (texts[0] if texts else ""), reason
