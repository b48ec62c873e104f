"""Official metrics of benchmarks: pure functions of scored outcomes, in percent unless a line says otherwise."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from easyvideor1.evals.benchmark import Metrics, Outcome

IOU_LEVELS = (0.3, 0.5, 0.7)


def mean(values: Iterable[float]) -> float:
    """Mean of numbers, NaN of none."""
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


def accuracy(outcomes: Sequence[Outcome]) -> float:
    """Mean over items."""
    return 100 * mean(outcome.value for outcome in outcomes if outcome.value is not None)


def by_label(outcomes: Sequence[Outcome], name: str) -> dict[str, list[Outcome]]:
    """Value of a breakdown -> its outcomes, in order of first appearance."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        for value in outcome.item.labels.get(name, ()):
            found.setdefault(value, []).append(outcome)
    return found


def macro(outcomes: Sequence[Outcome], name: str) -> float:
    """Unweighted mean of the accuracies of the values of a breakdown."""
    return mean(accuracy(group) for group in by_label(outcomes, name).values())


def micro_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    return {"accuracy": accuracy(outcomes)}


def macro_metrics(name: str, metric: str) -> Metrics:
    """The mean over a breakdown as the headline, and the mean over items beside it."""

    def metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
        items = accuracy(outcomes)
        if not by_label(outcomes, name):
            return {metric: items} if metric == "accuracy" else {"accuracy": items}
        over_items = "accuracy_over_items" if metric == "accuracy" else "accuracy"
        return {metric: macro(outcomes, name), over_items: items}

    return metrics


def mean_relative_accuracy(value: float, gold: float) -> float:
    """Share of the levels t = 0.50, 0.55 .. 0.95 at which |value - gold| / gold <= 1 - t, as the authors of VSI-Bench
    count (thinking-in-space, `mean_relative_accuracy`); thresholds are exact, where their floats may lose a step.

    >>> mean_relative_accuracy(3, 4), mean_relative_accuracy(1.1, 1), mean_relative_accuracy(2, 4)
    (0.6, 0.9, 0.1)
    """
    if gold == 0:
        return float(value == 0)
    error = round(abs(value - gold) / abs(gold), 12)
    return sum(error <= (100 - level) / 100 for level in range(50, 100, 5)) / 10


def spatial_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """VSI-Bench: overall is the mean of eight task scores, rel_direction the mean of its three difficulties."""
    tasks = {task: accuracy(group) for task, group in by_label(outcomes, "question_type").items()}
    directions = [score for task, score in tasks.items() if task.startswith("object_rel_direction")]
    merged = {task: score for task, score in tasks.items() if not task.startswith("object_rel_direction")}
    if directions:
        merged["object_rel_direction"] = mean(directions)
    return {"overall": mean(merged.values())} | merged


def track_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Video-MMMU: accuracy of each track, and the mean of the tracks."""
    tracks = {track: accuracy(group) for track, group in by_label(outcomes, "track").items()}
    if not tracks:
        return {"accuracy": accuracy(outcomes)}
    return {"overall": mean(tracks.values())} | tracks | {"accuracy": accuracy(outcomes)}


def delta_knowledge(after: float, before: float) -> float:
    """Video-MMMU: what watching the video added, in percent of what was missing before; may be negative.

    >>> round(delta_knowledge(50.0, 40.0), 4)
    16.6667
    """
    return 100 * (after - before) / (100 - before) if before != 100 else math.nan


def all_right(outcomes: Sequence[Outcome]) -> float:
    """Share of the groups of which every item is right."""
    groups = _groups(outcomes)
    return 100 * mean(float(all(outcome.value == 1 for outcome in group)) for group in groups.values())


def pair_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """VideoMathQA: mcq over questions with all options; mbin: a question is right if all of its pairs are."""
    forms = by_label(outcomes, "split")
    found = {}
    if "mcq" in forms:
        found["mcq"] = accuracy(forms["mcq"])
    if "mbin" in forms:
        found["mbin"] = all_right(forms["mbin"])
    return found | {"accuracy": accuracy(outcomes)}


_LINEAR = (0.0, 100 / 16, 400 / 16, 900 / 16, 100.0)
_PREFIX_SCORES = {
    "[1, 2, 3, 4]": _LINEAR,
    "[1, [2, 3], 4]": (0.0, 100 / 12, 400 / 12, 700 / 12, 100.0),
    "[[1, 2], 3, 4]": (0.0, 10.0, 20.0, 50.0, 100.0),
}


def linked_score(right: Sequence[bool], *, group_type: str, structure: str) -> float:
    """Video-MME-v2 (arXiv:2604.05015): the score of a group of four linked questions, in percent.

    relevance: (c / 4)^2 for c right ones. logic: a table of the length of the right prefix; of two questions that may
    be answered in either order, the second alone counts as one step, once.

    >>> linked_score([True, False, True, True], group_type="logic", structure="[1, [2, 3], 4]")
    33.333333333333336
    """
    if group_type != "logic":
        return _LINEAR[sum(right)]
    scores = _PREFIX_SCORES.get(structure, _LINEAR)
    prefix = next((place for place, is_right in enumerate(right) if not is_right), len(right))
    is_swapped = (structure == "[1, [2, 3], 4]" and prefix == 1 and right[2]) or (
        structure == "[[1, 2], 3, 4]" and prefix == 0 and right[1]
    )
    return scores[prefix + is_swapped]


def linked_groups(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, Outcome]]:
    """Group -> its score and its last question, which carries the labels of the group."""
    scored = {}
    for name, group in _groups(outcomes).items():
        ordered = sorted(group, key=lambda outcome: outcome.item.fields["place"])
        right = [False] * 4
        for outcome in ordered:  # a question that is missing from the file is a wrong one
            right[min(max(outcome.item.fields["place"], 1), 4) - 1] = outcome.value == 1
        fields = ordered[-1].item.fields
        score = linked_score(right, group_type=fields["group_type"], structure=fields["group_structure"])
        scored[name] = (score, ordered[-1])
    return scored


def linked_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    return {
        "overall": mean(score for score, _ in linked_groups(outcomes).values()),
        "accuracy": accuracy(outcomes),
    }


def linked_label_scores(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Mean group score by breakdown; a group's labels are those of its last question."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for score, last in linked_groups(outcomes).values():
        for name, values in last.item.labels.items():
            for value in values:
                found[name][value].append(score)
    return {name: {value: mean(scores) for value, scores in values.items()} for name, values in found.items()}


def span_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Charades-STA: mean overlap, and the share of items that overlap by at least 0.3, 0.5, 0.7."""
    ious = [outcome.value for outcome in outcomes if outcome.value is not None]
    recalls = {f"r1@{level}": 100 * mean(float(iou >= level) for iou in ious) for level in IOU_LEVELS}
    return {"miou": 100 * mean(ious)} | recalls


def tube_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """STVG: means of the overlaps in time, of boxes in common frames and of the tube, and shares above levels."""
    found = {}
    for part in ("tiou", "siou", "viou"):
        values = [outcome.parts[part] for outcome in outcomes if part in outcome.parts]
        found[f"m_{part}"] = 100 * mean(values)
        found |= {f"{part}@{level}": 100 * mean(float(value >= level) for value in values) for level in IOU_LEVELS}
    return found


TRACK_TASKS: Mapping[str, tuple[str, ...]] = {
    "backward": ("EPM", "ASI", "HLD"),
    "realtime": ("STU", "OJR", "ATR", "ACR", "OCR", "FPD"),
    "forward": ("REC", "SSR", "CRR"),
}


def track_of(task: str) -> str:
    """The track of an OVO-Bench task; "" for an unknown one."""
    return next((track for track, tasks in TRACK_TASKS.items() if task in tasks), "")


def track_averages(task_scores: Mapping[str, float]) -> dict[str, float]:
    """OVO-Bench v2: a track is the mean of its tasks, the total the mean of the tracks that are there.

    >>> track_averages({"EPM": 40.0, "HLD": 20.0, "OCR": 90.0})
    {'total': 60.0, 'backward': 30.0, 'realtime': 90.0}
    """
    tracks = {
        track: mean(task_scores[task] for task in tasks if task in task_scores)
        for track, tasks in TRACK_TASKS.items()
        if any(task in task_scores for task in tasks)
    }
    return {"total": mean(tracks.values())} | tracks


def streaming_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """OVO-Bench: a forward task is the mean over its probes (the authors' code), "_rows" the mean over rows (paper)."""
    tasks = by_label(outcomes, "task")
    found = track_averages({task: accuracy(group) for task, group in tasks.items()})
    forward = {task: group for task, group in tasks.items() if task in TRACK_TASKS["forward"]}
    if forward:
        found["forward_over_rows"] = mean(mean_of_groups(group) for group in forward.values())
    return found


def mean_of_groups(outcomes: Sequence[Outcome]) -> float:
    """Mean of the accuracies of the groups."""
    return mean(accuracy(group) for group in _groups(outcomes).values())


def form_metrics(name: str) -> Metrics:
    """Accuracy of each value of a breakdown, and over all items."""

    def metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
        forms = {form: accuracy(group) for form, group in by_label(outcomes, name).items()}
        return {"accuracy": accuracy(outcomes)} | forms

    return metrics


def mlvu_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """M-Avg: mean of the task accuracies; G-Avg: mean of the two generation tasks, each in [2, 10]."""
    written = [outcome for outcome in outcomes if outcome.item.form == "open"]
    chosen = [outcome for outcome in outcomes if outcome.item.form != "open"]
    found: dict[str, float] = {}
    if by_label(chosen, "task"):
        found["m_avg"] = macro(chosen, "task")
    if chosen:
        found["accuracy"] = accuracy(chosen)
    if written:
        found["g_avg"] = mean(
            mean(2 + 8 * outcome.value for outcome in group if outcome.value is not None)
            for group in by_label(written, "task").values()
        )
    return found


def _groups(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.item.group or outcome.item.id, []).append(outcome)
    return groups
