"""The way from a score back to what made it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError, UsageError
from easyvideor1.evals.answers import read_answers
from easyvideor1.records.jsonl import read_objects


def traced(run: Path, name: str) -> dict[str, Any]:
    """Protocol, prompt, frame times, responses and scores of an item.

    Args:
        name: id of the item, or BENCHMARK/ID.

    Raises:
        DataError: the folder holds no run.
        UsageError: no such item, or several benchmarks have it.
    """
    facts = _json(run / "run.json")
    folders = sorted(path.parent for path in run.glob("*/protocol.json"))
    found = {}
    for folder in folders:
        wanted = name.removeprefix(f"{folder.name}/")
        records = [record for record in read_answers(folder) if record["id"] in (name, wanted)]
        if records:
            found[folder] = records
    if not found:
        raise UsageError(f"{run} has no answer to an item '{name}'")
    if len(found) > 1:
        raise UsageError(f"'{name}' is an item of {', '.join(folder.name for folder in found)}; say BENCHMARK/{name}")
    [(folder, records)] = found.items()
    first = records[0]
    return {
        "benchmark": folder.name,
        "id": first["id"],
        "model": facts["model"],
        "engine": facts["engine"],
        "protocol": _json(folder / "protocol.json"),
        "prompt": first["prompt"],
        "prompt_hash": first["prompt_hash"],
        "frames": _frames(folder, first["frames"]),
        "gold": _gold(folder, first["id"]),
        "repeats": [{key: value for key, value in record.items() if key != "prompt"} for record in records],
    }


def _frames(folder: Path, key: str) -> dict[str, Any]:
    """The record of the frames that were seen; empty where there were none."""
    for path in sorted(folder.glob("frames*.jsonl")):
        for record in read_objects(path):
            if key and record["key"] == key:
                return record
    return {}


def _gold(folder: Path, name: str) -> str | None:
    """From the outcomes, which are written when a run ends."""
    path = folder / "outcomes.jsonl"
    records = read_objects(path) if path.exists() else []
    return next((record["gold"] for record in records if record["id"] == name), None)


def _json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"it cannot be read: {error}", where=str(path), remedy="give the --out folder of `easyvideor1 eval`"
        ) from None
