"""A program that tests call: program and tests each run in a process of their own, with pipes between them."""

from __future__ import annotations

import os

from easyvideor1.sandbox.children import end_children, in_child, wait
from easyvideor1.sandbox.client import passed
from easyvideor1.sandbox.frames import read_frame, write_frame
from easyvideor1.sandbox.server import serve

FIRST_FREE = 3
"""Descriptor after standard input, output and error."""


def follow(source: str, *, cpu_s: float, may_open: bool, seccomp: bool) -> None:
    """Run the {"tests", "entry_point"} that come once the program's process is there; reports {"passed", "why"}.

    Raises as `wait`.
    """
    question_reader, question_writer = os.pipe()
    reply_reader, reply_writer = os.pipe()
    verdict_reader, verdict_writer = os.pipe()
    empty_reader, empty_writer = os.pipe()
    os.close(empty_writer)
    if in_child([empty_reader, 2, 2, question_reader, reply_writer], may_open=may_open, seccomp=seccomp):
        serve(source, reader=FIRST_FREE, writer=FIRST_FREE + 1)
        os._exit(0)
    held = [empty_reader, 2, 2, reply_reader, question_writer, verdict_writer, 0]
    if in_child(held, may_open=may_open, seccomp=seccomp):
        asked = read_frame(FIRST_FREE + 3)
        is_passed, why = passed(asked["tests"], asked["entry_point"], reader=FIRST_FREE, writer=FIRST_FREE + 1)
        write_frame(FIRST_FREE + 2, {"passed": is_passed, "why": why})
        os._exit(0)
    for descriptor in (question_reader, question_writer, reply_reader, reply_writer, verdict_writer, empty_reader):
        os.close(descriptor)
    wait([verdict_reader], [], cpu_s)
    verdict = read_frame(verdict_reader)
    end_children()
    write_frame(1, verdict or {"passed": False, "why": "the tests ended without a verdict"})
