"""The locked-down processes that programs run in, and waiting for them while their result is wanted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import time

from easyvideor1.sandbox import locks
from easyvideor1.sandbox.syscalls import filter_calls

CPUCLOCK_SCHED = 2
"""With a process id in the bits above, the kernel's name of the clock of its processor time (clock_getcpuclockid)."""
_CHILDREN: list[int] = []
"""Processes that have not been waited for."""
LOOK_EVERY_S = 0.02
"""How often it is looked how much processor time programs have used."""


class Stopped(Exception):
    """Nobody waits for the result of the order any more."""


class Late(Exception):
    """The children have used up their processor time."""


def in_child(descriptors: list[int], *, may_open: bool, seccomp: bool) -> bool:
    """True in a new process that holds these descriptors only, as 0, 1, 2, .., and is locked; False in this one."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        _CHILDREN.append(pid)
        return False
    locks.end_with(parent)
    _CHILDREN.clear()
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, locks.OPEN_FILES // 2) for descriptor in descriptors]
    for place, descriptor in enumerate(high):
        os.dup2(descriptor, place)
    os.closerange(len(descriptors), locks.OPEN_FILES)
    if seccomp:
        filter_calls(may_open=may_open)
    else:
        locks.forbid_processes()
        locks.drop_privileges()
        locks.end_with(parent)  # a change of user has made the kernel forget it
    return True


def end_children() -> None:
    """Kill the children, and wait for them, so that none is left as a zombie."""
    for pid in _CHILDREN:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    _CHILDREN.clear()


def exit_code_of_child(cpu_s: float) -> int:
    """The exit code of the last child, negative for a signal, once it ends; raises as `wait`."""
    wait_s = 0.0005
    while True:
        done, status = os.waitpid(_CHILDREN[-1], os.WNOHANG)
        if done:
            _CHILDREN.pop()
            return os.waitstatus_to_exitcode(status)
        _ready([], [], wait_s)
        _require_time(cpu_s)
        wait_s = min(2 * wait_s, LOOK_EVERY_S)


def wait(readers: list[int], writers: list[int], cpu_s: float) -> tuple[list[int], list[int]]:
    """The descriptors that are ready, as of `select`, once one is.

    Args:
        cpu_s: processor time that all children of this process may have used together.

    Raises:
        Stopped: standard input, where orders come from, has been closed at its other end.
        Late: the children have used more.
    """
    while True:
        ready = _ready(readers, writers, LOOK_EVERY_S)
        if any(ready):
            return ready
        _require_time(cpu_s)


def _require_time(cpu_s: float) -> None:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = ended.ru_utime + ended.ru_stime
    for pid in _CHILDREN:
        with contextlib.suppress(OSError):  # it has ended, and is counted when it has been waited for
            used_s += time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)
    if used_s > cpu_s:
        raise Late


def _ready(readers: list[int], writers: list[int], wait_s: float) -> tuple[list[int], list[int]]:
    polled = select.poll()
    polled.register(0, 0)  # nothing but its end
    for descriptor in readers:
        polled.register(descriptor, select.POLLIN)
    for descriptor in writers:
        polled.register(descriptor, select.POLLOUT)
    ready = [descriptor for descriptor, _ in polled.poll(1000 * wait_s)]
    if 0 in ready:
        raise Stopped
    return [one for one in ready if one in readers], [one for one in ready if one in writers]
