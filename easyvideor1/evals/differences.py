"""What differs between two scored folders: how they were asked, what was asked, and what they are worth."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError
from easyvideor1.evals.intervals import paired_change
from easyvideor1.evals.metrics import delta_knowledge, mean
from easyvideor1.records.jsonl import read_objects


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """A folder that `eval score --out` wrote."""

    result: Mapping[str, Any]
    protocol: Mapping[str, Any]
    outcomes: Mapping[str, Mapping[str, Any]]
    """Id -> record of the item."""


def read_folder(path: Path) -> Folder:
    """Read a scored folder.

    Raises:
        DataError: it is none, or damaged.
    """
    values = []
    for name in ("results.json", "protocol.json"):
        try:
            values.append(json.loads((path / name).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise DataError(
                f"{name} cannot be read: {error}", where=str(path), remedy="`easyvideor1 eval score --out` writes it"
            ) from None
    outcomes = {record["id"]: record for record in read_objects(path / "outcomes.jsonl")}
    return Folder(result=values[0], protocol=values[1], outcomes=outcomes)


def differences(first: Folder, second: Folder) -> dict[str, Any]:
    """Settings that differ, items that only one has, and the paired difference of the scores (second - first).

    Items that either side leaves unscored are not compared, and counted.
    """
    before, after = _values(first), _values(second)
    shared = [name for name in first.outcomes if name in second.outcomes]
    videos = {name: first.outcomes[name]["video"] for name in shared}
    both = [name for name in shared if name in before and name in after]
    change = paired_change({name: before[name] for name in both}, {name: after[name] for name in both}, videos)
    return {
        "protocol": changed(first.protocol, second.protocol),
        "results": {
            name: [first.result[name], second.result[name]]
            for name in ("benchmark", "metric", "score", "official_score", "num_items", "num_missing", "num_unscored")
            if first.result.get(name) != second.result.get(name)
        },
        "only_first": [name for name in first.outcomes if name not in second.outcomes],
        "only_second": [name for name in second.outcomes if name not in first.outcomes],
        "num_compared": len(both),
        "num_not_compared": len(shared) - len(both),
        "gained": [name for name in both if after[name] > before[name]],
        "lost": [name for name in both if after[name] < before[name]],
        "knowledge": _knowledge(first, second),
        "change_of_item_mean": None if change is None else {
            key: 100 * value if key != "num_clusters" else value for key, value in asdict(change).items()
        },
    }  # fmt: skip


def _knowledge(before: Folder, after: Folder) -> dict[str, float] | None:
    """Video-MMMU, in percent, over the track adaptation: what watching added (`metrics.delta_knowledge`), if the first
    folder was asked without the lectures; and how many wrong answers became right, how many right ones wrong."""
    if not before.result.get("benchmark") == after.result.get("benchmark") == "videommmu":
        return None
    pairs = [
        (record["value"], after.outcomes[name]["value"])
        for name, record in before.outcomes.items()
        if name in after.outcomes and "adaptation" in record["labels"].get("track", ())
    ]
    pairs = [pair for pair in pairs if None not in pair]
    if not pairs:
        return None
    right_before, right_after = (mean(pair[side] for pair in pairs) for side in (0, 1))
    found = {
        "delta_knowledge": delta_knowledge(100 * right_after, 100 * right_before),
        "wrong_to_right": 100 * mean(new for old, new in pairs if old < 1),
        "right_to_wrong": 100 * mean(1 - new for old, new in pairs if old == 1),
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}


def changed(first: Any, second: Any, name: str = "") -> dict[str, list[Any]]:
    """Path of a setting -> its two values, where they differ.

    >>> changed({"video": {"fps": 1}, "n": 2}, {"video": {"fps": 2}, "n": 2})
    {'video.fps': [1, 2]}
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        found: dict[str, list[Any]] = {}
        for key in dict.fromkeys([*first, *second]):
            found |= changed(first.get(key), second.get(key), f"{name}.{key}" if name else str(key))
        return found
    return {} if first == second else {name: [first, second]}


def _values(folder: Folder) -> dict[Any, float]:
    return {name: record["value"] for name, record in folder.outcomes.items() if record["value"] is not None}
