"""Worker processes that start at once: forked from one that has imported what most of them need.

A worker of the package is a program of its own (`easyvideor1.jobs.serve`). Importing and loading compiled code costs it
0.3 to 0.7 s of CPU, and tests of a second start hundreds. Here the same program runs in a fork of a process without
threads that has its imports. `tests/jobs` and commands in a new interpreter start their workers as users do.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

TESTS = Path(__file__).parents[1]
POLL_S = 0.005
MOST_BYTES = 1 << 17
"""Of a request; most of it is the environment."""
ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
"""What compiled code reads once, when it is imported."""


class WarmWorkers:
    """Stands in for the module `subprocess` in `easyvideor1.jobs.worker`.

    Args:
        address: of a server of another process; None: one of its own, which starts when it is first needed.
    """

    DEVNULL = subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._lock = threading.RLock()
        self._server: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def Popen(self, command: Sequence[str], **options: Any) -> WarmWorker | subprocess.Popen[Any]:
        if any(options["env"].get(name) != value for name, value in ONE_CORE.items()):
            return subprocess.Popen(command, **options)
        descriptors = [*map(int, command[-2:]), options["stderr"]]
        return WarmWorker(self, self.ask((options["env"], os.getcwd()), descriptors))

    def ask(self, request: object, descriptors: Sequence[int] = ()) -> Any:
        """What the server answers."""
        with self._lock:
            line = self._line or self._connected(self.address)
            socket.send_fds(line, [pickle.dumps(request)], list(descriptors))
            return pickle.loads(line.recv(MOST_BYTES))

    def _connected(self, address: str) -> socket.socket:
        if self._line is None:
            self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._line.connect(address)
        return self._line

    @property
    def address(self) -> str:
        """Of the server, which runs."""
        with self._lock:
            if self._address is None:
                self._address = f"\0{uuid.uuid4()}"
                self._start(self._address)
            return self._address

    def _start(self, address: str) -> None:
        search_path = os.pathsep.join((str(TESTS), str(TESTS.parent)))
        env = dict(os.environ) | ONE_CORE | {"PYTHONHASHSEED": "0", "PYTHONPATH": search_path}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.bind(address)
            door.listen(64)
            command = [sys.executable, "-P", "-m", "support.warm_workers", str(door.fileno())]
            self._server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, env=env, pass_fds=[door.fileno()], start_new_session=True
            )
            self._connected(address)  # the first: the server ends with it

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._server is not None:
            self._server.wait()


WORKERS = WarmWorkers()
"""Those of this process."""


class WarmWorker:
    """Used like the `subprocess.Popen` of a worker."""

    def __init__(self, workers: WarmWorkers, pid: int) -> None:
        self.pid = pid
        self._workers = workers
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None: it runs."""
        if self._code is None:
            self._code = self._workers.ask(self.pid)
        return self._code

    def wait(self, timeout: float) -> int:
        until_s = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until_s:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(POLL_S)
        return code


def _serve(door: socket.socket) -> None:
    """Fork workers and tell how they ended, until the first connection is closed."""
    owner, _ = door.accept()
    lines, ended = [owner], dict[int, int]()
    while True:
        ready, _, _ = select.select([door, *lines], [], [])
        with contextlib.suppress(ChildProcessError):  # there is none
            while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                ended[found[0]] = os.waitstatus_to_exitcode(found[1])
        for line in ready:
            if line is door:
                lines.append(door.accept()[0])
            elif not _answer(line, ended, others=[door, *lines]):
                lines.remove(line)
                line.close()
                if line is owner:
                    return


def _answer(line: socket.socket, ended: dict[int, int], *, others: Sequence[socket.socket]) -> bool:
    """Answer a request; False where none comes any more."""
    try:
        message, descriptors, _, _ = socket.recv_fds(line, MOST_BYTES, 3)
    except ConnectionResetError:  # killed before it read its answer
        return False
    if not message:
        return False
    request = pickle.loads(message)
    if isinstance(request, int):
        answer = ended.get(request)
    else:
        answer = os.fork()
        if answer == 0:
            for other in others:
                other.close()
            _become_worker(*request, *descriptors)
        ended.pop(answer, None)
        for descriptor in descriptors:
            os.close(descriptor)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # who asked may have been killed
        line.send(pickle.dumps(answer))
    return True


def _become_worker(env: dict[str, str], folder: str, connection: int, lifeline: int, output: int) -> NoReturn:
    from easyvideor1.jobs.serve import main

    os.setsid()
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(env)
    with contextlib.suppress(FileNotFoundError):
        os.chdir(folder)
    sys.argv = ["serve", str(connection), str(lifeline)]
    sys.exit(main())


def _import_what_most_need() -> None:
    for name in ("data.check", "rewards.grader", "rewards.workers", "video.pool", "video.preprocess"):
        importlib.import_module(f"easyvideor1.{name}")
    from easyvideor1.video.resize import resize

    # The first call loads the compiled code.
    resize(np.zeros((64, 192), np.uint8), width=64, out=np.zeros((3, 64, 64), np.uint8))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_what_most_need()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _serve(socket.socket(fileno=int(sys.argv[1])))
