"""The kernel calls a program may make, as a filter of the kernel (seccomp): whatever is not named here is refused.

The filter is a program for the kernel's packet-filter machine (BPF, Documentation/userspace-api/seccomp_filter.rst),
which looks at the number of a call and at the plain numbers among its arguments; it cannot follow pointers, so it knows
no paths. No call here starts a process or a program, opens a connection, writes to a file by its name, signals another
process, leaves the process group, or reads another process's memory.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

# BPF instructions: what is done, how many of the next ones are skipped if true and if false, and a number.
LOAD, JUMP_EQUAL, AND, RETURN = 0x20, 0x15, 0x54, 0x06
ALLOW, REFUSE, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER_AT, MACHINE_AT, ARGUMENTS_AT = 0, 4, 16
"""Offsets in the kernel's `struct seccomp_data`; every argument is eight bytes, the low four first."""

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine -> its column in the table of numbers, and the kernel's name of it (AUDIT_ARCH)."""

# Numbers on x86-64 and ARM64, from the kernel's headers; None: there is no such call.
ALWAYS = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "stat": (4, None), "lstat": (6, None),
    "newfstatat": (262, 79), "statx": (332, 291), "lseek": (8, 62), "pread64": (17, 67), "readv": (19, 65),
    "writev": (20, 66), "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "getcwd": (79, 17), "getdents64": (217, 61), "fadvise64": (221, 223),
    "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59),
    "eventfd2": (290, 19), "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None),
    "epoll_pwait": (281, 22), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216),
    "madvise": (28, 233), "brk": (12, 214), "membarrier": (324, 283), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133),
    "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132), "pause": (34, None), "alarm": (37, None),
    "setitimer": (38, 103), "getitimer": (36, 102), "restart_syscall": (219, 128), "futex": (202, 98),
    "set_robust_list": (273, 99), "set_tid_address": (218, 96), "rseq": (334, 293), "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123), "exit": (60, 93), "exit_group": (231, 94), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101), "gettimeofday": (96, 169),
    "time": (201, None), "times": (100, 153), "getrandom": (318, 278), "getpid": (39, 172), "gettid": (186, 178),
    "getppid": (110, 173), "getpgrp": (111, None), "getpgid": (121, 155), "getsid": (124, 156), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getrlimit": (97, 163),
    "setrlimit": (160, 164), "getrusage": (98, 165), "sysinfo": (99, 179), "uname": (63, 160),
    "getsockname": (51, 204), "getpeername": (52, 205), "getsockopt": (55, 209), "sendto": (44, 206),
    "recvfrom": (45, 207),
}  # fmt: skip
"""Calls that change nothing outside of the process. Without capabilities `setrlimit` can only lower what is hard, and
nothing here makes a socket that `sendto` could send elsewhere with."""
CLONE, CLONE3, OPENAT, FCNTL = (56, 220), (435, 435), (257, 56), (72, 25)
IOCTL, TGKILL, PRLIMIT64, SOCKETPAIR = (16, 29), (234, 131), (302, 261), (53, 199)

CLONE_THREAD = 0x10000
FCNTL_KINDS = (0, 1, 2, 3, 4, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC; not F_SETOWN, which sends signals to others."""
IOCTL_KINDS = (0x5401, 0x5421, 0x5450, 0x5451)
"""TCGETS (is it a terminal?), FIONBIO, FIONCLEX, FIOCLEX."""
AF_UNIX, SOCK_STREAM, SOCK_KIND_BITS = 1, 1, 0xF


class NoFilterError(Exception):
    """The kernel has no such filter, or the machine is not in the table."""


def filter_calls(*, may_open: bool) -> None:
    """Put this process, and all threads it will have, under the filter for good; it needs `no new privileges`.

    Args:
        may_open: files may be opened for reading; something else says which.

    Raises:
        NoFilterError: the kernel refuses it.
    """
    code = program_for(platform.machine(), pid=os.getpid(), may_open=may_open)
    held = ctypes.create_string_buffer(code, len(code))
    given = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(held)), 16)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, given, 0, 0) != 0:
        raise NoFilterError(os.strerror(ctypes.get_errno()))


def program_for(machine: str, *, pid: int, may_open: bool) -> bytes:
    """The filter, eight bytes an instruction.

    Raises:
        NoFilterError: the machine's numbers are not known here.
    """
    if machine not in MACHINES or struct.calcsize("P") != 8:
        raise NoFilterError(f"no table of kernel calls for {machine}")
    column, audit_name = MACHINES[machine]
    refused = _instruction(RETURN, REFUSE | errno.EPERM)
    parts = [
        _instruction(LOAD, MACHINE_AT),
        # Numbers mean other calls on another machine (32-bit code on a 64-bit kernel).
        _instruction(JUMP_EQUAL, audit_name, if_true=1),
        _instruction(RETURN, KILL_PROCESS),
        _instruction(LOAD, NUMBER_AT),
        *(_where(numbers[column], [_instruction(RETURN, ALLOW)]) for numbers in ALWAYS.values()),
        _where(CLONE[column], _if_bits(0, CLONE_THREAD, CLONE_THREAD)),
        # The C library then takes the older call, whose flags can be looked at.
        _where(CLONE3[column], [_instruction(RETURN, REFUSE | errno.ENOSYS)]),
        _where(FCNTL[column], _if_one_of(1, FCNTL_KINDS)),
        _where(IOCTL[column], _if_one_of(1, IOCTL_KINDS)),
        _where(TGKILL[column], _if_one_of(0, (pid,))),
        _where(PRLIMIT64[column], _if_one_of(0, (0,))),
        _where(SOCKETPAIR[column], [*_unless(0, AF_UNIX), *_if_bits(1, SOCK_KIND_BITS, SOCK_STREAM)]),
    ]
    if may_open:
        writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | (os.O_TMPFILE & ~os.O_DIRECTORY)
        parts.append(_where(OPENAT[column], _if_bits(2, writing, 0)))
    return b"".join([*parts, refused])


def _instruction(code: int, number: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, number & 0xFFFFFFFF)


def _where(number: int | None, then: list[bytes]) -> bytes:
    """Instructions for one call; they end by returning."""
    if number is None:
        return b""
    return b"".join([_instruction(JUMP_EQUAL, number, if_false=len(then)), *then])


def _load_argument(place: int) -> bytes:
    return _instruction(LOAD, ARGUMENTS_AT + 8 * place)


def _refuse() -> bytes:
    return _instruction(RETURN, REFUSE | errno.EPERM)


def _if_bits(place: int, bits: int, wanted: int) -> list[bytes]:
    """Allow the call if these bits of an argument are as wanted."""
    return [
        _load_argument(place),
        _instruction(AND, bits),
        _instruction(JUMP_EQUAL, wanted, if_false=1),
        _instruction(RETURN, ALLOW),
        _refuse(),
    ]


def _if_one_of(place: int, numbers: tuple[int, ...]) -> list[bytes]:
    """Allow the call if an argument is one of these numbers."""
    checks = [part for n in numbers for part in (_instruction(JUMP_EQUAL, n, if_false=1), _instruction(RETURN, ALLOW))]
    return [_load_argument(place), *checks, _refuse()]


def _unless(place: int, number: int) -> list[bytes]:
    """Refuse the call unless an argument is this number; go on otherwise."""
    return [_load_argument(place), _instruction(JUMP_EQUAL, number, if_true=1), _refuse()]
