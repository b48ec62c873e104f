"""The filter of kernel calls, read by a small machine of the same kind: what it says to calls on both processors."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from easyvideor1.sandbox.syscalls import ALLOW, ALWAYS, KILL_PROCESS, MACHINES, REFUSE, NoFilterError, program_for

PID = 4711
NO = REFUSE | errno.EPERM


def answer(machine: str, number: int, *arguments: int, audit: int | None = None, may_open: bool = True) -> int:
    """What a filter returns, by the rules of Documentation/networking/filter.rst."""
    code = program_for(machine, pid=PID, may_open=may_open)
    data = struct.pack("<iIQ6Q", number, audit or MACHINES[machine][1], 0, *(*arguments, *[0] * 6)[:6])
    held, place = 0, 0
    while True:
        kind, if_true, if_false, value = struct.unpack_from("<HBBI", code, 8 * place)
        place += 1
        if kind == 0x20:  # load a word
            (held,) = struct.unpack_from("<I", data, value)
        elif kind == 0x54:  # and
            held &= value
        elif kind == 0x15:  # jump if equal
            place += if_true if held == value else if_false
        else:
            assert kind == 0x06, "return"
            return value


# (x86-64, ARM64) from asm/unistd_64.h and asm-generic/unistd.h, arguments, answer.
CALLS = {
    "read": ((0, 63), (), ALLOW),
    "mmap": ((9, 222), (), ALLOW),
    "a thread": ((56, 220), (0x3D0F00,), ALLOW),
    "a process": ((56, 220), (0x1200011,), NO),
    "a process by the newer call": ((435, 435), (), REFUSE | errno.ENOSYS),
    "another program": ((59, 221), (), NO),
    "a socket": ((41, 198), (2, 1), NO),
    "a pair of streams": ((53, 199), (1, 0x80001), ALLOW),
    "a pair for datagrams": ((53, 199), (1, 2), NO),
    "a pair that is not local": ((53, 199), (2, 1), NO),
    "connect": ((42, 203), (), NO),
    "open to read": ((257, 56), (0, 0, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY), ALLOW),
    "open to write": ((257, 56), (0, 0, os.O_WRONLY), NO),
    "open to read and write": ((257, 56), (0, 0, os.O_RDWR), NO),
    "open to make": ((257, 56), (0, 0, os.O_CREAT), NO),
    "open without a name": ((257, 56), (0, 0, os.O_TMPFILE), NO),
    "remove": ((263, 35), (), NO),
    "kill": ((62, 129), (PID, 9), NO),
    "a signal to itself": ((234, 131), (PID, PID, 6), ALLOW),
    "a signal to another": ((234, 131), (1, 1, 9), NO),
    "own limits": ((302, 261), (0,), ALLOW),
    "another's limits": ((302, 261), (1,), NO),
    "owner of a descriptor": ((72, 25), (3, 8, 1), NO),
    "flags of a descriptor": ((72, 25), (3, 4, 0o4000), ALLOW),
    "text into a terminal": ((16, 29), (0, 0x5412), NO),
    "is it a terminal": ((16, 29), (0, 0x5401), ALLOW),
    "trace": ((101, 117), (), NO),
    "another's memory": ((310, 270), (), NO),
    "setsid": ((112, 157), (), NO),
    "prctl": ((157, 167), (), NO),
    "io_uring": ((425, 425), (), NO),
    "unshare": ((272, 97), (), NO),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_answered_alike_on_both_processors(call: str) -> None:
    numbers, arguments, expected = CALLS[call]
    assert [answer(machine, numbers[column], *arguments) for machine, (column, _) in MACHINES.items()] == [expected] * 2


def test_numbers_of_another_processor_end_the_process() -> None:
    assert answer("x86_64", 0, audit=0x40000003) == KILL_PROCESS
    assert answer("x86_64", 0x40000000) == NO  # the 32-bit calls of the same processor


def test_nothing_is_opened_where_nothing_says_what_may_be() -> None:
    assert answer("x86_64", 257, 0, 0, os.O_RDONLY, may_open=False) == NO


def test_no_number_stands_twice_and_other_machines_have_no_filter() -> None:
    for column in (0, 1):
        numbers = [pair[column] for pair in ALWAYS.values() if pair[column] is not None]
        assert len(numbers) == len({*numbers})
    with pytest.raises(NoFilterError, match="riscv64"):
        program_for("riscv64", pid=1, may_open=True)
