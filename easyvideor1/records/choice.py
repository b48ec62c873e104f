"""Which checkpoint of a run stands for it: what `export` takes, and what the report marks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError, UsageError
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.jsonl import read_records

GREEDY = "validation/greedy_accuracy_frac"
BEST, LAST = "best", "last"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A checkpoint, and the reason for it."""

    checkpoint: Path
    step: int
    why: str
    """Why it is this one, in words that follow "step 12, "."""
    warning: str = ""
    """What speaks against it, with the alternative; "" if nothing does."""


def choose(run: Path, step: str = "") -> Choice:
    """The checkpoint of a run that is asked for.

    Args:
        run: folder of a run, or one of its checkpoints.
        step: "best", "last", a number; "": the best, or the last where nothing was validated.

    Raises:
        UsageError: there is no such checkpoint; names those that are there.
    """
    if (run / "state.json").exists():
        if step:
            raise UsageError(f"{run} is one checkpoint; give the folder of its run to choose a step of it")
        return Choice(checkpoint=run, step=_step(run), why="the checkpoint that was named")
    found = checkpoints(run)
    if not found:
        raise UsageError(f"{run}: neither a checkpoint nor the folder of a run with one; give the `out` of a recipe")
    newest = max(number for name, number in found.items() if name != BEST) if found.keys() - {BEST} else found[BEST]
    last = next(name for name, number in found.items() if number == newest)
    if step == LAST or (not step and BEST not in found):
        why = "the last checkpoint" if step else "the last checkpoint: no validation marked a best one"
        return Choice(checkpoint=run / "checkpoints" / last, step=newest, why=why)
    if step in ("", BEST):
        if BEST not in found:
            raise UsageError(f"{run}: no validation marked a best checkpoint; give --step last")
        return _best(run, found[BEST], newest=newest)
    for name, number in found.items():
        if step == str(number):
            return Choice(checkpoint=run / "checkpoints" / name, step=number, why="the step that was asked for")
    there = ", ".join(map(str, sorted(set(found.values()))))
    raise UsageError(f"{run}: no checkpoint of step {step}; there are best, last, {there} (--step)")


def checkpoints(run: Path) -> dict[str, int]:
    """Name of each complete checkpoint of a run -> its step, the numbered ones first and oldest first."""
    folder = run / "checkpoints"
    numbered = sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())
    best = [folder / BEST] if (folder / BEST / "state.json").is_file() else []
    return {path.name: _step(path) for path in [*numbered, *best]}


def _best(run: Path, step: int, *, newest: int) -> Choice:
    accuracies = greedy_accuracies(run)
    best, start = accuracies.get(step), accuracies.get(0)
    why = "the best greedy accuracy on the validation questions"
    if best is not None:
        why += f": {best:.1%}"
        if start is not None and step != 0:
            why += f", {start:.1%} at the start"
    warning = ""
    instead = f"give --step last for step {newest}" if newest != step else "train on, or from another start"
    if step == 0:
        warning = f"this is the start of the run: no later validation was as good; {instead}"
    elif best is not None and start is not None and best < start:
        warning = f"its accuracy of {best:.1%} is below the {start:.1%} of the start; {instead}"
    return Choice(checkpoint=run / "checkpoints" / BEST, step=step, why=why, warning=warning)


def greedy_accuracies(run: Path) -> Mapping[int, float]:
    """Step -> greedy accuracy of its validation; empty where the run has no readable metrics."""
    try:
        records: Sequence[Mapping[str, Any]] = read_records(RunFolder(run).metrics)
    except DataError:  # the choice was made when the checkpoint was marked; only its words are poorer
        return {}
    return {record["step"]: record[GREEDY] for record in records if isinstance(record.get(GREEDY), (int, float))}


def _step(checkpoint: Path) -> int:
    path = checkpoint / "state.json"
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["step"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: not the state of a checkpoint: {error}; name another checkpoint") from None
