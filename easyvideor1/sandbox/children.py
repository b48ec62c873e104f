"""The locked processes that programs run in, and waiting for them as long as somebody wants to know."""

from __future__ import annotations

import fcntl
import os
import select
import signal

from easyvideor1.sandbox import locks
from easyvideor1.sandbox.syscalls import filter_calls

_CHILDREN: list[int] = []
"""Those that have not been waited for."""


class Stopped(Exception):
    """Whoever gave the order wants no more."""


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


def exit_code_of_child() -> int:
    """The exit code of the last child, negative for a signal, once it ends.

    Raises:
        Stopped: nobody wants to know any more.
    """
    wait_s = 0.0005
    while True:
        done, status = os.waitpid(_CHILDREN[-1], os.WNOHANG)
        if done:
            _CHILDREN.pop()
            return os.waitstatus_to_exitcode(status)
        wait([], [], wait_s)
        wait_s = min(2 * wait_s, 0.05)


def wait(readers: list[int], writers: list[int], wait_s: float | None = None) -> tuple[list[int], list[int]]:
    """The descriptors that are ready, as of `select`.

    Raises:
        Stopped: standard input, where orders come from, has been closed at its other end.
    """
    polled = select.poll()
    polled.register(0, 0)  # nothing but its end
    for descriptor in readers:
        polled.register(descriptor, select.POLLIN)
    for descriptor in writers:
        polled.register(descriptor, select.POLLOUT)
    ready = [descriptor for descriptor, _ in polled.poll(None if wait_s is None else 1000 * wait_s)]
    if 0 in ready:
        raise Stopped
    return [one for one in ready if one in readers], [one for one in ready if one in writers]
