"""What a process gives up for good before it runs an untrusted program: privileges, files, memory, time."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
CAPABILITY_VERSION_3 = 0x20080522
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
"""Numbers of these kernel calls, the same on every machine."""
LANDLOCK_VERSION_FLAG, LANDLOCK_PATH_BENEATH = 1, 1
READ_FILE, READ_DIR = 1 << 2, 1 << 3
NOBODY = 65534
OPEN_FILES = 64


class NoLockError(Exception):
    """The system does not offer a lock."""


def end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    _libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was told
        os._exit(1)


def limit_resources(*, memory_bytes: int, cpu_s: int) -> None:
    """Bound memory and processor time, and allow no bytes in files, no core dumps and few open files."""
    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_MEMLOCK: 0,
    }
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def forbid_processes() -> None:
    """Allow no further process and no thread, where the kernel's filter cannot; the superuser, whom that limit does not
    hold, becomes nobody."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def drop_privileges() -> None:
    """Give up every capability, and that of getting new ones; be invisible to debuggers and core dumps.

    Raises:
        NoLockError: the kernel refuses it.
    """
    libc = _libc()
    header = ctypes.create_string_buffer(struct.pack("Ii", CAPABILITY_VERSION_3, 0), 8)
    nothing = ctypes.create_string_buffer(24)
    _require(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges")
    _require(libc.capset(header, nothing) == 0, "dropping capabilities")
    _require(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "hiding from debuggers")


def limit_files(readable: list[str]) -> None:
    """Let this process and its children read files beneath these paths only, connect nowhere and signal only
    themselves, as far as the kernel can (Landlock); it needs `drop_privileges`.

    Raises:
        NoLockError: the kernel has no Landlock, or it is switched off.
    """
    libc = _libc()
    version = libc.syscall(LANDLOCK_CREATE, None, 0, LANDLOCK_VERSION_FLAG)
    _require(version >= 1, "Landlock")
    # Every right that this version of the kernel knows is taken; see linux/landlock.h.
    rights = (1 << 13) - 1 | (1 << 13 if version >= 2 else 0) | (1 << 14 if version >= 3 else 0)
    rights |= 1 << 15 if version >= 5 else 0
    network = 0b11 if version >= 4 else 0
    scopes = 0b11 if version >= 6 else 0
    attributes = struct.pack("QQQ", rights, network, scopes)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = libc.syscall(LANDLOCK_CREATE, attributes, len(attributes), 0)
    _require(ruleset >= 0, "Landlock rules")
    for path in readable:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        allowed = READ_FILE | (READ_DIR if os.path.isdir(path) else 0)
        rule = struct.pack("=Qi", allowed, place)
        _require(libc.syscall(LANDLOCK_ADD, ruleset, LANDLOCK_PATH_BENEATH, rule, 0) == 0, "a Landlock rule")
        os.close(place)
    _require(libc.syscall(LANDLOCK_RESTRICT, ruleset, 0) == 0, "putting Landlock in force")
    os.close(ruleset)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _require(is_done: bool, what: str) -> None:
    if not is_done:
        raise NoLockError(f"{what}: {os.strerror(ctypes.get_errno())}")
