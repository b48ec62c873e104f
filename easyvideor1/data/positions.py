"""3-D positions (time, height, width) of a prompt's tokens, as the Qwen-VL families count them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TEXT, IMAGE, VIDEO = 0, 1, 2
"""Transformers' `mm_token_type_ids`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Consecutive tokens of one kind: a piece of text, or one grid of vision tokens."""

    token_type: int
    num_tokens: int
    grid_thw: tuple[int, int, int] = (0, 0, 0)
    """Of vision: tokens (after the spatial merge) in time, height and width."""
    interval: float = 1.0
    """Of vision: positions between two steps in time, before rounding down."""


def time_interval(positions_per_s: float, seconds_per_patch: float) -> float:
    """Positions between two temporal patches, in the float32 of the models: rounding down decides by the last bit."""
    return float(np.float32(positions_per_s) * np.float32(seconds_per_patch))


def positions(runs: Sequence[Run]) -> np.ndarray:
    """Positions of the tokens of all runs, in order.

    Text counts on by one in all three axes. A grid starts where the text has come to; its tokens count time,
    rows and columns from there, and the text goes on after the longer side of the grid. These are the numbers of
    Transformers' `get_rope_index` (M-RoPE, arXiv:2409.12191; time scaled by seconds, arXiv:2502.13923).

    Returns:
        int64 [3, L].

    >>> text, grid = Run(token_type=TEXT, num_tokens=2), Run(token_type=VIDEO, num_tokens=4, grid_thw=(2, 1, 2))
    >>> positions([text, grid, text]).tolist()
    [[0, 1, 2, 2, 3, 3, 4, 5], [0, 1, 2, 2, 2, 2, 4, 5], [0, 1, 2, 3, 2, 3, 4, 5]]
    """
    out = np.empty((3, sum(run.num_tokens for run in runs)), np.int64)
    start = position = 0
    for run in runs:
        tokens = out[:, start : start + run.num_tokens]
        start += run.num_tokens
        if run.token_type == TEXT:
            tokens[:] = np.arange(position, position + run.num_tokens)
            position += run.num_tokens
            continue
        t, h, w = run.grid_thw
        grid = tokens.reshape(3, t, h, w)
        # float32 and rounding down after the product, as the models do it.
        steps = (np.arange(t, dtype=np.float32) * np.float32(run.interval)).astype(np.int64)
        grid[0] = steps[:, None, None]
        grid[1] = np.arange(h)[:, None]
        grid[2] = np.arange(w)
        tokens += position
        position += max(h, w)
    return out
