"""Python answers run by a command of the user's (a container, a micro-VM); nothing is ever run without one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence

from easyvideor1.rewards.parse import MAX_LONG_CHARS, code_in, read_response
from easyvideor1.rewards.readings import TAGS
from easyvideor1.types import Sample, Score


def sandbox_reward(command: Sequence[str], *, timeout_s: float) -> Callable[[Sample, str], Score]:
    """The reward that asks a command.

    The command gets one JSON object (id, problem, answer, code, extra) on its standard input, and its last line of
    output is the accuracy in [0, 1]. A failure of the command is no failure of the program: it is unscored.
    """

    def reward(sample: Sample, text: str) -> Score:
        response = read_response(text)
        texts, reason = TAGS.find(response)
        if texts and len(texts[0]) > MAX_LONG_CHARS:
            reason = f"answer longer than {MAX_LONG_CHARS} characters"
        if reason:
            return Score(value=0.0, reason=reason)
        request = {
            "id": sample.id,
            "problem": sample.problem,
            "answer": sample.gold,
            "code": code_in(texts[0]),
            "extra": dict(sample.extra),
        }
        try:
            done = subprocess.run(
                list(command), input=json.dumps(request), capture_output=True, text=True, timeout=timeout_s, check=True
            )
            accuracy = float(done.stdout.strip().splitlines()[-1])
        except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
            return Score.unscored(f"sandbox: {type(error).__name__}: {error}"[:300])
        return Score(value=accuracy, parsed=request["code"])

    return reward
