"""Responses to benchmarks scored: by rules in processes that can be killed, or by a judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from easyvideor1.config_reward import JudgeConfig
from easyvideor1.errors import JobError
from easyvideor1.evals.answers import AnswerFiles, read_answers, scores_of
from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.grading import Response, Worth, judged, worthless
from easyvideor1.evals.judging import judge_items
from easyvideor1.evals.protocol import Protocol
from easyvideor1.evals.schedule import Task
from easyvideor1.evals.strict import HIDDEN
from easyvideor1.jobs.pool import Pool
from easyvideor1.rewards.judge import Judge
from easyvideor1.runs.benchmarks import JudgeAddress


def graded(
    task: Task, text: str | None, why_not: str, *, pool: Pool[Response, Worth], judge: JudgeAddress | None
) -> Worth:
    """What a response is worth; by a language model where its item needs one and one is given."""
    item, rules = task.item, task.protocol
    if item.judge and item.judge != HIDDEN and judge is not None and rules.judge is not None:
        if not (text or "").strip():
            return judged(0.0)
        verdicts = judge_items([item], {item.id: text or ""}, rules.judge, judge_at(judge, rules))
        if item.id in verdicts:
            return judged(verdicts[item.id])
    if text is None:
        return worthless(item, rules, why_not)
    try:
        return pool.call(Response(item=item, protocol=rules, text=text))
    except JobError as error:
        return worthless(item, rules, f"it could not be scored: {error.problem}")


def judge_again(items: Sequence[Item], rules: Protocol, files: AnswerFiles, address: JudgeAddress) -> None:
    """Have the answers judged that have no verdict, because none was asked for or the judge failed.

    Args:
        files: of the benchmark; what is judged is appended, and stands for the line before it.
    """
    if rules.judge is None:
        return
    by_id = {item.id: item for item in items if item.judge and item.judge != HIDDEN}
    left: dict[int, dict[str, dict[str, Any]]] = {}
    for record in read_answers(files.folder):
        if record["id"] in by_id and record["score"] is None and record["response"] is not None:
            left.setdefault(record["repeat"], {})[record["id"]] = record
    for records in left.values():
        responses = {name: record["response"] for name, record in records.items()}
        verdicts = judge_items([by_id[name] for name in records], responses, rules.judge, judge_at(address, rules))
        for name, verdict in verdicts.items():
            worth = judged(verdict)
            files.append(records[name] | scores_of(worth.strict, worth.official))


def judge_at(address: JudgeAddress, rules: Protocol) -> Judge:
    """The judge at an address."""
    assert rules.judge is not None
    return Judge(
        JudgeConfig(
            base_url=address.url,
            model=address.model or rules.judge.model,
            problem_types=("open-ended",),
            cache_dir=address.cache_dir,
        )
    )
