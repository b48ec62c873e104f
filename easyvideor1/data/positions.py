"""3-D positions (time, height, width) of a prompt's tokens: M-RoPE, by the published rule of the Qwen-VL families.

"Position numbering for each modality is initialized by incrementing the maximum position ID of the preceding modality
by one" (arXiv:2409.12191; time scaled by seconds: arXiv:2502.13923): a piece of a prompt starts one after the largest
position so far, in any of the three axes. vLLM counts so too. `get_rope_index` of Transformers 5.16 to 5.24 goes on
after the longer side of a grid, which is another number where a video has more steps in time than rows and columns:
the text after it then stands at times that lie within the video. So the models are always given these positions.
"""

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
    """For vision tokens: their number (after the spatial merge) in time, height and width."""
    interval: float = 1.0
    """For vision tokens: positions between two steps in time, before rounding down."""


def time_interval(positions_per_s: float, seconds_per_patch: float) -> float:
    """Positions between two temporal patches, in the float32 of the models: rounding down decides by the last bit."""
    return float(np.float32(positions_per_s) * np.float32(seconds_per_patch))


def positions(runs: Sequence[Run]) -> np.ndarray:
    """Positions of the tokens of all runs, in order.

    Text counts on by one in all three axes. The tokens of a grid count time, rows and columns from where it starts.

    Returns:
        int64 [3, L].

    >>> text, grid = Run(token_type=TEXT, num_tokens=2), Run(token_type=VIDEO, num_tokens=3, grid_thw=(3, 1, 1))
    >>> positions([text, grid, text]).tolist()
    [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 2, 2, 5, 6], [0, 1, 2, 2, 2, 5, 6]]
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
        position = int(tokens.max()) + 1
    return out
