"""What the ranks of tests/training/test_ranks.py do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from easyvideor1.config import ParallelConfig
from easyvideor1.errors import DataError, RunError
from easyvideor1.training.ranks import Ranks, joined
from easyvideor1.training.sequence import join


def told(ranks: Ranks, of: str, error: Exception | None) -> str:
    """The error that a rank sees where one of them may have had one."""
    try:
        with ranks.agree(of):
            if error is not None:
                raise error
    except Exception as found:  # noqa: BLE001 - it is what is looked at
        return f"{type(found).__name__}: {found}"
    return ""


def talk() -> dict[str, Any]:
    with joined(timeout_s=60) as ranks:
        first = ranks.rank == 0
        return {
            "rank": (ranks.rank, ranks.size, ranks.is_first),
            "gather": ranks.gather({"rank": ranks.rank, "ids": torch.arange(3 + ranks.rank).tolist()}, of="ids"),
            "sum": ranks.sum(0.1 * (1 + ranks.rank), of="loss"),
            "most": ranks.most(5 if first else 3, of="packs"),
            "share": list(ranks.share([10, 11, 12, 13, 14])),
            "well": told(ranks, "work", None),
            "data": told(ranks, "work", None if first else DataError("broken", where="7.mp4", remedy="replace it")),
            "both": told(ranks, "work", RunError(f"rank {ranks.rank} stops")),
            "bug": told(ranks, "work", ZeroDivisionError("division by zero") if first else None),
            "after": ranks.sum(1.0, of="still there"),
        }


def part_ways() -> str:
    """Ranks that gather different things."""
    with joined(timeout_s=60) as ranks:
        try:
            ranks.gather(0, of="packs" if ranks.is_first else "losses")
        except RunError as error:
            return str(error)
        return "no error"


def wait_in_vain() -> list[str]:
    """Rank 1 comes neither to an exchange of packs that are computed together, nor to the second call."""
    with joined(timeout_s=2) as ranks:
        pair = join(ranks, ParallelConfig(sequence=2, timeout_s=1))
        ranks.gather(0, of="rollouts")
        if not ranks.is_first:
            time.sleep(5)
            return []
        errors = []
        for call in (lambda: pair.everything(torch.ones(1), count=2), lambda: ranks.gather(0, of="packs")):
            try:
                call()
            except RunError as error:
                errors.append(str(error))
        return errors


def lose_the_other() -> str:
    """Rank 1 ends early."""
    with joined(timeout_s=60) as ranks:
        ranks.gather(0, of="rollouts")
        if not ranks.is_first:
            return "left"
        of_tensors = _lost(ranks, lambda: dist.all_reduce(torch.ones(1)))
        return of_tensors + "\n" + _lost(ranks, lambda: ranks.gather(0, of="packs"))


def _lost(ranks: Ranks, exchange: Callable[[], object]) -> str:
    try:
        with ranks.losses_told():
            exchange()
    except RunError as error:
        return str(error)
    return "no error"
