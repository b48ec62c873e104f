"""What prompts about the same media begin with: everything up to the end of the last medium."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyvideor1.rollout.hf.stacks import ReadPrompt
from easyvideor1.types import Example, Prompt

Key = tuple[bytes, bytes, tuple[str, ...]]


@dataclass(kw_only=True, eq=False)
class Beginning:
    """The tokens of a prompt up to the end of its last medium."""

    key: Key
    """Equal for beginnings that a model reads alike: tokens, positions, and the frames behind the vision tokens."""
    prompt: Prompt
    example: Example | None
    """With the pixels of the whole prompt, which all belong to the beginning; None once it is read."""
    read: ReadPrompt | None = None


def beginning_of(example: Example) -> Beginning | None:
    """The beginning of an example; None where it has no media, or nothing stands after them."""
    prompt = example.prompt
    vision = np.flatnonzero(prompt.token_types)
    if not len(vision) or vision[-1] + 1 >= len(prompt):
        return None
    end = int(vision[-1]) + 1
    ids, positions = prompt.input_ids[:end], prompt.position_ids[:, :end]
    return Beginning(
        key=(ids.tobytes(), positions.tobytes(), tuple(plan.cache_key for plan in prompt.plans)),
        prompt=replace(
            prompt, input_ids=ids, token_types=prompt.token_types[:end], position_ids=np.ascontiguousarray(positions)
        ),
        example=example,
    )
