"""The folder of a run's checkpoints: which there are, which one to go on from, and how one appears and disappears."""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path

from easyvideor1.disk import sync
from easyvideor1.errors import RunError
from easyvideor1.training import manifest

PREFIX, BEST = "step-", "best"
DRAFT = ".tmp"
"""End of the names of what is being written or deleted; nobody reads it."""
DAMAGED = "damaged-"
"""Start of the name of a checkpoint that was set aside; it is deleted once a later one is written."""
_NAME = re.compile(rf"{PREFIX}(\d+)")
log = logging.getLogger(__name__)


def name_of(step: int) -> str:
    """The folder of the checkpoint after a step.

    >>> name_of(12)
    'step-000012'
    """
    return f"{PREFIX}{step:06d}"


def list_checkpoints(folder: Path) -> list[Path]:
    """Finished checkpoints, oldest first; whether the disk kept them whole, `newest_whole` finds out."""
    return [path for path in _named(folder) if (path / manifest.NAME).exists()]


def newest_whole(folder: Path) -> Path | None:
    """The checkpoint to go on from; None: there never was one.

    Every byte of it is compared with its checksums. One that is damaged is named in the log and set aside, and the one
    before it is taken; what a killed process left behind is deleted.

    Raises:
        RunError: none of those that are there is whole.
    """
    _clear(folder)
    faults = []
    for checkpoint in reversed(_named(folder)):
        fault = manifest.fault_of(checkpoint)
        if fault is None:
            if faults:
                log.warning("%s: going on from %s", folder, checkpoint.name)
            return checkpoint
        faults.append(f"{checkpoint}: {fault}")
        log.warning("the checkpoint %s is damaged and not used: %s", checkpoint, fault)
        set_aside(checkpoint)
    best = folder / BEST
    if faults and best.exists():
        fault = manifest.fault_of(best)
        if fault is None:
            log.warning("%s: going on from the best checkpoint, which is older", folder)
            return best
        faults.append(f"{best}: {fault}")
    if faults or any(folder.glob(f"{DAMAGED}*")):
        told = "; ".join(faults) or "all were set aside as damaged before"
        raise RunError(
            f"{folder}: no checkpoint of this run is whole ({told}). Put a copy of one back, or start a new run "
            "(another `out`)"
        )
    return None


def put(draft: Path, final: Path) -> None:
    """Give a finished checkpoint its name; one that has it makes room first."""
    if final.exists():
        _remove(final)
    draft.rename(final)
    sync(final.parent)


def prune(folder: Path, *, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints, and those that were set aside."""
    for old in list_checkpoints(folder)[:-keep]:
        _remove(old)
    for damaged in folder.glob(f"{DAMAGED}*"):
        _remove(damaged)


def mark_best(checkpoint: Path) -> None:
    """Keep a copy of a checkpoint as `best`, whatever becomes of it."""
    best, draft = checkpoint.parent / BEST, checkpoint.parent / f".{BEST}{DRAFT}"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(checkpoint, draft, copy_function=_link)
    put(draft, best)


def set_aside(checkpoint: Path) -> None:
    """Take the name of a checkpoint away, so that nobody takes it for one."""
    aside = checkpoint.with_name(DAMAGED + checkpoint.name)
    if aside.exists() or aside.is_symlink():
        _remove(aside)
    checkpoint.rename(aside)


def _named(folder: Path) -> list[Path]:
    """What carries the name of a checkpoint, oldest first."""
    steps = {path: _step(path) for path in folder.glob(f"{PREFIX}*")}
    return sorted((path for path, step in steps.items() if step is not None), key=lambda path: steps[path] or 0)


def _step(path: Path) -> int | None:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def _clear(folder: Path) -> None:
    for left in folder.glob(f".*{DRAFT}"):
        _delete(left)


def _remove(path: Path) -> None:
    """Delete a checkpoint so that one that is half deleted does not carry its name."""
    going = path.with_name(f".{path.name}.old{DRAFT}")
    _delete(going)
    path.rename(going)
    _delete(going)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _link(source: str, target: str) -> None:
    """A second name for a file, which is never written to again; a copy on file systems without such names."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
