"""A function run by several processes that find each other as those of torchrun do."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.warm_start import WarmProcess


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the process of a rank ended."""

    code: int | None
    stderr: str
    result: Any
    """What the function returned; None where it raised."""


def on_ranks(function: Callable[..., Any], *args: Any, size: int = 2, timeout_s: float = 600.0) -> list[Ended]:
    """Call a function of a support module in `size` processes at once, with the environment of torchrun.

    Raises:
        TimeoutError: they did not end in time; they are killed.
    """
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        common = {
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
        }
        files = [Path(name) / f"result{rank}" for rank in range(size)]
        processes = [
            WarmProcess(
                _call, function, args, file, env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            )
            for rank, file in enumerate(files)
        ]
        with contextlib.ExitStack() as stack:
            for process in processes:
                stack.enter_context(process)
                stack.callback(process.kill)
            errors = [process.communicate(timeout=timeout_s)[1] for process in processes]
        return [
            Ended(
                code=process.returncode,
                stderr=stderr,
                result=pickle.loads(file.read_bytes()) if file.exists() else None,
            )
            for process, stderr, file in zip(processes, errors, files, strict=True)
        ]


def _call(function: Callable[..., Any], args: tuple[Any, ...], file: Path) -> int:
    file.write_bytes(pickle.dumps(function(*args)))
    return 0


def results(function: Callable[..., Any], *args: Any, size: int = 2, timeout_s: float = 600.0) -> list[Any]:
    """The same where no rank may fail: what each returned."""
    ended = on_ranks(function, *args, size=size, timeout_s=timeout_s)
    for rank, end in enumerate(ended):
        assert end.code == 0, f"rank {rank}: {end.stderr[-3000:]}"
    return [end.result for end in ended]
