"""Frames to the rows a Qwen vision tower reads: normalise and cut into patches in one pass over the bytes.

The values are those of Transformers' image and video processors: a uint8 pixel has only 256 values, so the
processor's own float32 arithmetic is done once per value and channel, and each pixel is a look-up.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numba
import numpy as np
import torch

from easyvideor1.data.buffers import BufferPool
from easyvideor1.types import VisionSpec

BUFFERS = BufferPool()
"""The buffers that hold the patches of this process."""
CHANNELS = 3
MAX_PIXEL = 255.0


def patches(
    frames: np.ndarray,
    vision: VisionSpec,
    *,
    dtype: torch.dtype = torch.float32,
    out: torch.Tensor | None = None,
    threads: int = 1,
) -> torch.Tensor:
    """Cut frames into normalised patch rows.

    Time is padded to whole temporal patches by repeating the last frame; an image is one frame, so all its
    temporal slices are that frame.

    Args:
        frames: uint8 [T, 3, H, W]; H and W are multiples of patch_px * merge. May be a read-only memory map.
        vision: patch sizes and normalisation of the model.
        dtype: torch.float32, or torch.bfloat16 (the float32 value rounded once).
        out: contiguous tensor of the result's shape and dtype to write into; None allocates one.
        threads: threads that share the work; 1 leaves the other cores to other processes.

    Returns:
        [t*h*w, 3 * temporal_patch * patch_px**2] with h, w in patches. Row order: time, then blocks of
        merge x merge patches row by row, then the patches of a block; column order: channel, time, y, x.

    Raises:
        ValueError: frames, dtype or out are not as described.
    """
    num_frames, height, width = _checked_shape(frames, vision)
    grid_t = -(-num_frames // vision.temporal_patch)
    num_rows = grid_t * (height // vision.patch_px) * (width // vision.patch_px)
    shape = (num_rows, CHANNELS * vision.temporal_patch * vision.patch_px**2)
    table = _table(vision, dtype)
    if out is None:
        out = BUFFERS.empty(shape, dtype)
    elif out.shape != shape or out.dtype != dtype or not out.is_contiguous():
        raise ValueError(
            f"out must be a contiguous {dtype} tensor of shape {shape}, got {out.dtype} {tuple(out.shape)}"
        )
    pixels = np.ascontiguousarray(frames).view()
    pixels.flags.writeable = False  # memory maps are read-only; one array type is one compiled kernel
    rows = _as_numpy(out)
    sizes = (vision.patch_px, vision.merge, vision.temporal_patch)
    if threads <= 1 or grid_t == 1:
        _fill(pixels, table, rows, *sizes, 0, grid_t)
    else:
        bounds = np.linspace(0, grid_t, min(threads, grid_t) + 1).astype(int).tolist()
        with ThreadPoolExecutor(len(bounds) - 1) as pool:
            list(pool.map(lambda start, stop: _fill(pixels, table, rows, *sizes, start, stop), bounds, bounds[1:]))
    return out


def _checked_shape(frames: np.ndarray, vision: VisionSpec) -> tuple[int, int, int]:
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[1] != CHANNELS or frames.shape[0] == 0:
        raise ValueError(f"frames must be uint8 [T>=1, 3, H, W], got {frames.dtype} {list(frames.shape)}")
    num_frames, _, height, width = frames.shape
    if height % vision.factor_px or width % vision.factor_px or not height * width:
        raise ValueError(f"height and width must be multiples of {vision.factor_px} px, got {height}x{width}")
    return num_frames, height, width


@lru_cache(maxsize=32)
def _table(vision: VisionSpec, dtype: torch.dtype) -> np.ndarray:
    """[3, 256] value of each pixel by channel; bfloat16 as its bits in uint16."""
    if dtype not in (torch.float32, torch.bfloat16):
        raise ValueError(f"dtype must be torch.float32 or torch.bfloat16, got {dtype}")
    # In the processor's order of operations, in float32: (pixel - 255 mean) / (255 std).
    mean = torch.tensor(vision.image_mean)[:, None] * MAX_PIXEL
    std = torch.tensor(vision.image_std)[:, None] * MAX_PIXEL
    table = _as_numpy(((torch.arange(256.0)[None] - mean) / std).to(dtype))
    table.flags.writeable = False
    return table


def _as_numpy(tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


@numba.njit(nogil=True, cache=True)
def _fill(pixels, table, rows, patch, merge, temporal, t_start, t_stop):
    """Fill the rows of temporal patches t_start .. t_stop, in memory order.

    Slices carry the inner loop: with full indices each pixel would pay for numba's wrap-around of negative ones.
    """
    num_frames, channels, height, width = pixels.shape
    blocks_y = height // (patch * merge)
    blocks_x = width // (patch * merge)
    row = t_start * blocks_y * blocks_x * merge * merge
    for t in range(t_start, t_stop):
        for block_y in range(blocks_y):
            for block_x in range(blocks_x):
                for inner in range(merge * merge):
                    top = (block_y * merge + inner // merge) * patch
                    left = (block_x * merge + inner % merge) * patch
                    values = rows[row]
                    column = 0
                    for channel in range(channels):
                        value_of = table[channel]
                        for step in range(temporal):
                            image = pixels[min(t * temporal + step, num_frames - 1), channel]
                            for y in range(top, top + patch):
                                source = image[y, left : left + patch]
                                target = values[column : column + patch]
                                for x in range(patch):
                                    target[x] = value_of[source[x]]
                                column += patch
                    row += 1
