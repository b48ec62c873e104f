"""A program that reads and prints, run anew in a process of its own for every text it is given."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import types
from typing import Any

from easyvideor1.sandbox.children import end_children, exit_code_of_child, in_child, wait
from easyvideor1.sandbox.frames import read_frame, write_frame

MOST_OUTPUT_BYTES = 4 << 20
"""Most bytes that one run of a program prints; what prints more is ended."""
PIECE_BYTES = 1 << 16
NOT_FLUSHED = 120
"""Python's exit code where standard output was gone at the end."""


def follow(source: str, *, cpu_s: float, may_open: bool, seccomp: bool) -> None:
    """Answer each {"input": text} with {"code", "output", "is_cut"}, until the text is null; raises as `wait`."""
    while (request := read_frame(0)) is not None and request["input"] is not None:
        write_frame(1, _printed(source, request["input"], cpu_s=cpu_s, may_open=may_open, seccomp=seccomp))


def _printed(source: str, given: str, *, cpu_s: float, may_open: bool, seccomp: bool) -> dict[str, Any]:
    """What the program prints when it is given a text on standard input, and how it ended."""
    in_reader, in_writer = os.pipe()
    out_reader, out_writer = os.pipe()
    if in_child([in_reader, out_writer, 2], may_open=may_open, seccomp=seccomp):
        _run(source)
    os.close(in_reader)
    os.close(out_writer)
    output, is_cut = _fed(in_writer, out_reader, given.encode(errors="replace"), cpu_s)
    os.close(out_reader)
    if is_cut:
        end_children()
        return {"code": 0, "output": "", "is_cut": True}
    return {"code": exit_code_of_child(cpu_s), "output": output.decode(errors="replace"), "is_cut": False}


def _run(source: str) -> None:
    """Be the main program and end as Python does, but for taking itself apart, which takes longer than most answers."""
    main_module = types.ModuleType("__main__")
    sys.modules["__main__"] = main_module
    code = 0
    try:
        exec(compile(source, "answer.py", "exec"), main_module.__dict__)
    except SystemExit as ending:
        code = 0 if ending.code is None else ending.code if isinstance(ending.code, int) else 1
    except BaseException:  # noqa: BLE001 - whatever it raises ends it
        code = 1
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads, as at Python's end
        atexit._run_exitfuncs()
        for stream in {sys.stdout, sys.__stdout__}:
            if stream is not None:
                stream.flush()
    except BaseException:  # noqa: BLE001 - a program may have put anything there
        code = code or NOT_FLUSHED
    os._exit(code & 0xFF)


def _fed(writer: int, reader: int, given: bytes, cpu_s: float) -> tuple[bytes, bool]:
    """What comes out while a text goes in, and whether it was too much."""
    os.set_blocking(writer, False)
    rest, parts, num_bytes = memoryview(given), [], 0
    is_open = True
    while True:
        if is_open and not rest:
            os.close(writer)
            is_open = False
        readable, writable = wait([reader], [writer] if is_open else [], cpu_s)
        if writable:
            try:
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(writer, rest[:PIECE_BYTES]) :]
            except BrokenPipeError:  # it reads no more
                rest = rest[:0]
        if not readable:
            continue
        part = os.read(reader, PIECE_BYTES)
        parts.append(part)
        num_bytes += len(part)
        if not part or num_bytes > MOST_OUTPUT_BYTES:
            if is_open:
                os.close(writer)
            return b"".join(parts), bool(part)
