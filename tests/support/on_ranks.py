"""A function run by several processes that find each other as those of torchrun do."""

from __future__ import annotations

import importlib
import os
import pickle
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the process of a rank ended."""

    code: int
    stderr: str
    result: Any
    """What the function returned; None where it raised."""


def on_ranks(function: Callable[..., Any], *args: Any, size: int = 2, timeout_s: float = 600.0) -> list[Ended]:
    """Call a function of a support module in `size` processes at once, with the environment of torchrun.

    Raises:
        subprocess.TimeoutExpired: they did not end in time; they are killed.
    """
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        folder = Path(name)
        (folder / "args").write_bytes(pickle.dumps((function.__module__, function.__name__, args)))
        common = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "support.on_ranks", name],
                env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": path},
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]
        try:
            errors = [process.communicate(timeout=timeout_s)[1] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        files = [folder / f"result{rank}" for rank in range(size)]
        return [
            Ended(
                code=process.returncode,
                stderr=stderr,
                result=pickle.loads(file.read_bytes()) if file.exists() else None,
            )
            for process, stderr, file in zip(processes, errors, files, strict=True)
        ]


def results(function: Callable[..., Any], *args: Any, size: int = 2, timeout_s: float = 600.0) -> list[Any]:
    """The same where no rank may fail: what each returned."""
    ended = on_ranks(function, *args, size=size, timeout_s=timeout_s)
    for rank, end in enumerate(ended):
        assert end.code == 0, f"rank {rank}: {end.stderr[-3000:]}"
    return [end.result for end in ended]


def main(folder: Path) -> None:
    module, name, args = pickle.loads((folder / "args").read_bytes())
    result = getattr(importlib.import_module(module), name)(*args)
    (folder / f"result{os.environ['RANK']}").write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
