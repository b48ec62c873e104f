"""The process behind the walls: it locks itself, and follows orders one after another, each in a process of its own.

Orders come on standard input and reports go to standard output, as frames. What is expected of a program never comes
here before the process it runs in has been started, and no order is read by a process that outlives it, so that
nothing a program can look into knows it, or another program.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import select

from easyvideor1.sandbox import calling, locks, printing
from easyvideor1.sandbox.children import Late, Stopped, end_children
from easyvideor1.sandbox.frames import read_frame, write_frame

PRELOADED = (
    "abc", "array", "bisect", "builtins", "calendar", "cmath", "collections", "collections.abc", "contextlib", "copy",
    "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "io", "itertools",
    "json", "math", "numbers", "operator", "os.path", "queue", "random", "re", "statistics", "string", "struct",
    "textwrap", "threading", "time", "types", "typing", "unicodedata",
)  # fmt: skip
"""What programs import most; loaded ahead where no file can be opened any more."""
KINDS = {"printing": printing.follow, "calling": calling.follow}


def main() -> None:
    """Read the walls to put up, say that they stand, and follow orders until standard input ends."""
    locks.end_with(os.getppid())
    walls = read_frame(0)
    if walls is None:
        return
    os.environ.clear()
    os.umask(0o077)
    _leave_files()
    if not walls["may_open"]:
        for name in PRELOADED:
            importlib.import_module(name)
    if walls["seccomp"]:
        locks.drop_privileges()
    if walls["landlock"]:
        locks.limit_files(walls["readable"])
    write_frame(1, {"is_ready": True})
    here = os.getpid()
    polled = select.poll()
    polled.register(0, select.POLLIN)
    while any(event & select.POLLIN for _, event in polled.poll()):
        pid = os.fork()
        if not pid:
            locks.end_with(here)
            _follow(may_open=walls["may_open"], seccomp=walls["seccomp"])
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            return  # it failed in the middle of an order: what comes next could not be told


def _follow(*, may_open: bool, seccomp: bool) -> None:
    """Follow one order: {"kind", "program", "memory_bytes", "cpu_s"}."""
    order = read_frame(0)
    cpu_s = order["cpu_s"]
    locks.limit_resources(memory_bytes=order["memory_bytes"], cpu_s=math.ceil(cpu_s) + 1)
    try:
        KINDS[order["kind"]](order["program"], cpu_s=cpu_s, may_open=may_open, seccomp=seccomp)
    except Stopped:
        end_children()
    except Late:
        end_children()
        write_frame(1, {"is_late": True})


def _leave_files() -> None:
    """Make an empty folder that exists no more the working folder: nothing can be made in it, and nothing is left.

    Where there is no room for one it stays the root, where the walls let nothing be made either.
    """
    folder = f"/tmp/.{os.getpid()}-{os.urandom(8).hex()}"
    with contextlib.suppress(OSError):
        os.mkdir(folder, 0o700)
        os.chdir(folder)
        os.rmdir(folder)
