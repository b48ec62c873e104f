"""What the files of a run say, as plain values for the page: comparisons, picked rollouts, a verdict on time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from easyvideor1.records.rollouts import spread
from easyvideor1.records.stopwatch import PARTS, Part
from easyvideor1.report.intervals import Estimate, accuracy, change

Record = Mapping[str, Any]
Series = list[tuple[int, float]]
"""(step, value) pairs in order."""

ADVICE: dict[Part, str] = {
    "decode": "training waits for videos; preprocess them into the frame cache first, then raise data.workers",
    "process": "training waits for prompts to be made; raise data.workers first",
    "rollout": "sampling decides the speed; a faster engine or larger rollout.tokens_per_batch helps first",
    "reward": "scoring decides the speed; give the rewards more workers or a faster judge",
    "update": "the gradient decides the speed; larger packs (train.tokens_per_pack) or more devices help first",
    "sync": "handing the weights to the sampler decides the speed; update less often or sync within the process",
    "validate": "validation takes more than training; validate less often or on fewer questions",
    "checkpoint": "writing checkpoints takes more than training; write them less often",
    "wait": "sampling beside the update takes longer than the update; a faster engine helps first",
    "other": "most of the time is not measured by any part; profile the loop before changing anything",
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Accuracy of one kind of questions at the first and the last validation."""

    name: str
    first: Estimate
    last: Estimate
    change: Estimate


@dataclass(frozen=True, kw_only=True)
class Scoreboard:
    """The first and the last validation compared, all questions first, then by type, modality and source."""

    first_step: int
    last_step: int
    total: Comparison
    by_type: list[Comparison]
    by_modality: list[Comparison]
    by_source: list[Comparison]
    num_answers: int
    """Answers per question; 1 for greedy ones."""
    num_unscored: int
    """Unscored answers of both validations; they count as wrong."""
    num_unpaired: int
    """Questions that only one of the two validations asked; they are left out."""


@dataclass(frozen=True, kw_only=True)
class ChangedAnswer:
    """A validation question whose greedy answer got better or worse."""

    first: Record
    last: Record
    is_better: bool


def series(records: Iterable[Record]) -> dict[str, Series]:
    """Each metric over the steps; values that were not finite are left out.

    >>> series([{"step": 1, "a": 0.5}, {"step": 2, "a": None}, {"step": 3, "a": 1.0}])
    {'a': [(1, 0.5), (3, 1.0)]}
    """
    found: dict[str, Series] = {}
    for record in records:
        for name, value in record.items():
            if name != "step" and isinstance(value, (int, float)) and math.isfinite(value):
                found.setdefault(name, []).append((record["step"], value))
    return found


def answer_accuracy(record: Record) -> float:
    """Accuracy of one answer in [0, 1]; an unscored one is wrong, so that everybody counts."""
    if record.get("status") != "scored":
        return 0.0
    value = record.get("parts", {}).get("accuracy", record.get("value"))
    return min(1.0, max(0.0, float(value))) if value is not None else 0.0


def scoreboard(records: Sequence[Record], *, is_greedy: bool) -> Scoreboard | None:
    """Compare the first with the last validation by their greedy or by their sampled answers; None without both."""
    chosen = [record for record in records if (record.get("kind") == "greedy") == is_greedy]
    steps = sorted({record["step"] for record in chosen})
    if len(steps) < 2:
        return None
    first, last = (_by_question(chosen, step=step) for step in (steps[0], steps[-1]))
    ids = [key for key in first if key in last]
    if not ids:
        return None

    def compare(name: str, keys: list[str]) -> Comparison:
        before = [_mean_accuracy(first[key]) for key in keys]
        after = [_mean_accuracy(last[key]) for key in keys]
        return Comparison(name=name, first=accuracy(before), last=accuracy(after), change=change(before, after))

    def by(field: str) -> list[Comparison]:
        names = sorted({str(first[key][0].get(field)) for key in ids})
        return [compare(name, [key for key in ids if str(first[key][0].get(field)) == name]) for name in names]

    compared = [record for key in ids for record in first[key] + last[key]]
    return Scoreboard(
        first_step=steps[0],
        last_step=steps[-1],
        total=compare("all questions", ids),
        by_type=by("problem_type"),
        by_modality=by("modality"),
        by_source=by("source"),
        num_answers=max(len(last[key]) for key in ids),
        num_unscored=sum(record.get("status") != "scored" for record in compared),
        num_unpaired=len(first.keys() ^ last.keys()),
    )


def validation_series(records: Iterable[Record]) -> dict[str, Series]:
    """Mean accuracy of every validation, "greedy" and "sampled"."""
    values: dict[str, dict[int, list[float]]] = {}
    for record in records:
        kind = "greedy" if record.get("kind") == "greedy" else "sampled"
        values.setdefault(kind, {}).setdefault(record["step"], []).append(answer_accuracy(record))
    return {
        kind: [(step, math.fsum(found) / len(found)) for step, found in sorted(steps.items())]
        for kind, steps in values.items()
    }


def changed_answers(records: Sequence[Record]) -> list[ChangedAnswer]:
    """Greedy answers that got better or worse between the first and the last validation, largest change first."""
    greedy = [record for record in records if record.get("kind") == "greedy"]
    steps = sorted({record["step"] for record in greedy})
    if len(steps) < 2:
        return []
    first, last = (_by_question(greedy, step=step) for step in (steps[0], steps[-1]))
    found = []
    for key in first.keys() & last.keys():
        rise = answer_accuracy(last[key][0]) - answer_accuracy(first[key][0])
        if rise:
            found.append((-abs(rise), key, ChangedAnswer(first=first[key][0], last=last[key][0], is_better=rise > 0)))
    return [answer for _, _, answer in sorted(found, key=lambda item: item[:2])]


def pick_rollouts(records: Sequence[Record], *, most: int) -> list[Record]:
    """Up to `most` rollouts in order of steps: every problem type has its share, spread over the whole run."""
    by_type: dict[str, list[Record]] = {}
    for record in records:
        by_type.setdefault(str(record.get("problem_type")), []).append(record)
    picked: list[Record] = []
    # Rarest type first: what it cannot fill goes to the others.
    queue = sorted(by_type.values(), key=len)
    for index, found in enumerate(queue):
        share = math.ceil((most - len(picked)) / (len(queue) - index))
        picked += [found[i] for i in spread(len(found), share)]
    return sorted(picked[:most], key=lambda record: record["step"])


def mean_times(metrics: Mapping[str, Series]) -> dict[Part, float]:
    """Mean seconds a step by part, over the steps that were measured."""
    return {
        part: math.fsum(value for _, value in metrics[f"time/{part}_s"]) / steps
        for part in PARTS
        if f"time/{part}_s" in metrics and (steps := _num_timed_steps(metrics))
    }


def time_verdict(times: Mapping[Part, float]) -> str:
    """One line: what takes most of a step, and what to do about it first."""
    total = math.fsum(times.values())
    if total <= 0:
        return "No part of the time was measured."
    part = max(times, key=lambda name: times[name])
    return (
        f"{part.capitalize()} takes {times[part] / total:.0%} of the time "
        f"({times[part]:.2f} of {total:.2f} s a step): {ADVICE[part]}."
    )


def _num_timed_steps(metrics: Mapping[str, Series]) -> int:
    return max((len(found) for name, found in metrics.items() if name.startswith("time/")), default=0)


def _by_question(records: Iterable[Record], *, step: int) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        if record["step"] == step:
            found.setdefault(str(record.get("id")), []).append(record)
    return found


def _mean_accuracy(records: Sequence[Record]) -> float:
    return math.fsum(map(answer_accuracy, records)) / len(records)
