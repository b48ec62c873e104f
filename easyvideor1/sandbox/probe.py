"""Which walls hold on this machine: the strongest that an honest program runs behind and a curious one cannot leave."""

from __future__ import annotations

import functools
import logging
import shutil

from easyvideor1 import errors
from easyvideor1.errors import DataError, UsageError
from easyvideor1.sandbox.isolation import Isolation
from easyvideor1.sandbox.runs import Limits, Sandbox

log = logging.getLogger(__name__)

LIMITS = Limits(cpu_s=10.0, wall_s=30.0, memory_bytes=512 << 20)
HONEST = "import math\nprint(math.prod(map(int, input().split())))"
CURIOUS = """
import os
def tried(what, function, *arguments):
    try:
        function(*arguments)
    except (OSError, ImportError):
        return
    print(what)
def connect():
    import _socket
    _socket.socket()
tried("starts processes", os.fork)
if input() == "all":
    tried("reads files", os.open, {file!r}, os.O_RDONLY)
    tried("writes files", os.open, "/tmp/easyvideor1-probe", os.O_WRONLY | os.O_CREAT)
    tried("makes folders", os.mkdir, "/tmp/easyvideor1-probe-folder")
    tried("opens sockets", connect)
    tried("signals its parent", os.kill, os.getppid(), 0)
"""
"""Prints what it could do; without the kernel's filter only processes are forbidden."""


def isolation_here() -> Isolation:
    """The strongest walls that hold here; the log says which, a warning where they are weak.

    Raises:
        UsageError: none do.
    """
    isolation = _strongest()
    if isolation.seccomp:
        log.info("Python answers run behind %s", isolation.text)
    else:
        log.warning(
            "Python answers run behind %s: they can read files, use the network and signal processes of their user; "
            "install bubblewrap",
            isolation.text,
        )
    return isolation


@functools.cache
def _strongest() -> Isolation:
    """The first of the walls that hold, tried once in a process."""
    reasons = []
    for isolation in candidates():
        reason = why_not(isolation)
        if reason is None:
            return isolation
        reasons.append(f"{isolation.text}: {reason}")
    raise UsageError(
        f"reward.run_python: no sandbox holds on this machine ({'; '.join(reasons)}); install bubblewrap, use Linux "
        "5.13 or later, or name a sandbox of yours in reward.sandbox"
    )


def candidates() -> list[Isolation]:
    """Walls to try, the strongest first."""
    bubblewrap = shutil.which("bwrap")
    return [
        Isolation(bubblewrap=outer, landlock=landlock, seccomp=True)
        for outer in ([bubblewrap, None] if bubblewrap else [None])
        for landlock in (True, False)
    ] + [Isolation(bubblewrap=None, landlock=False, seccomp=False)]


def why_not(isolation: Isolation) -> str | None:
    """What is wrong with some walls here; None: nothing."""
    try:
        with Sandbox(isolation) as sandbox:
            with sandbox.printing(HONEST, LIMITS) as program:
                found = program.run("6 7")
            if (found.output, found.code) != ("42\n", 0):
                return f"a program that should print 42 ended with {found.code}"
            with sandbox.printing(CURIOUS.format(file=errors.__file__), LIMITS) as program:
                found = program.run("all" if isolation.seccomp else "processes")
        if found.output or found.code:
            return f"a program in it {', '.join(found.output.split(chr(10))[:-1]) or f'ended with {found.code}'}"
    except (DataError, OSError) as error:
        return str(error)
    return None
