"""The one resize rule: float32 separable bicubic with antialiasing, rounded to uint8.

The arithmetic is that of torch's `interpolate(mode="bicubic", antialias=True)` followed by clamp and round, which is
what qwen-vl-utils applies to float frames; sums run in another order, so a value in a million may differ by one level.
When any value changes, `keys.RESIZE_RULE` has to be counted up.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

BAND_ROWS = 8
"""Output rows that the horizontal pass handles at once, so that its inner loop is contiguous."""


def resize(frame: np.ndarray, *, width: int, out: np.ndarray) -> None:
    """Resize one RGB frame into `out`.

    Args:
        frame: uint8 [H, >= 3*width] rows of interleaved RGB, possibly padded at the right.
        width: pixels of a row that count.
        out: uint8 [3, h, w], written.
    """
    height = frame.shape[0]
    _, out_height, out_width = out.shape
    starts_y, weights_y = axis_weights(height, out_height)
    starts_x, weights_x = axis_weights(width, out_width)
    _resize(frame, width, starts_y, weights_y, starts_x, weights_x, out)


@lru_cache(maxsize=256)
def axis_weights(size: int, out_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of one axis.

    Returns:
        starts: int64 [out_size], first input position of each output position.
        weights: float32 [out_size, taps], rows padded with zeros; the reach never exceeds the axis.
    """
    f32 = np.float32
    scale = f32(size) / f32(out_size)
    support = f32(2.0) * max(scale, f32(1.0))
    inverse = f32(1.0) / max(scale, f32(1.0))
    centers = scale * (np.arange(out_size, dtype=f32) + f32(0.5))
    starts = np.maximum((centers - support + f32(0.5)).astype(np.int64), 0)
    ends = np.minimum((centers + support + f32(0.5)).astype(np.int64), size)
    taps = int((ends - starts).max())
    offsets = np.arange(taps)
    distance = ((offsets[None] + starts[:, None]).astype(f32) - centers[:, None] + f32(0.5)) * inverse
    weights = np.where(offsets[None] < (ends - starts)[:, None], _cubic(np.abs(distance)), f32(0.0))
    weights /= np.cumsum(weights, axis=1, dtype=f32)[:, -1:]  # cumsum adds one by one, as torch does; sum() does not
    # Shift rows near the far edge so that start + taps stays inside the axis.
    shifted = np.zeros_like(weights)
    moved = np.minimum(starts, size - taps)
    for row, shift in enumerate(starts - moved):
        shifted[row, shift:] = weights[row, : taps - shift]
    return moved, shifted


def _cubic(x: np.ndarray) -> np.ndarray:
    """Keys' cubic with a = -0.5, for float32 x >= 0, each multiply-add rounded once as the fused instruction does."""
    near = _fused(_fused(np.float32(1.5), x, np.float32(-2.5)) * x, x, np.float32(1.0))
    far = _fused(_fused(x - np.float32(5.0), x, np.float32(8.0)), x, np.float32(-4.0)) * np.float32(-0.5)
    return np.where(x < 1, near, np.where(x < 2, far, np.float32(0.0)))


def _fused(a: np.ndarray | np.float32, b: np.ndarray, c: np.float32) -> np.ndarray:
    """a*b + c in float32 with one rounding: the product of two float32 is exact in float64."""
    return (np.float64(a) * b.astype(np.float64) + np.float64(c)).astype(np.float32)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _resize(frame, width, starts_y, weights_y, starts_x, weights_x, out):
    """Rows first, then columns, taps in rising order with fused multiply-adds: torch's order of rounding."""
    height, out_height, out_width = frame.shape[0], out.shape[1], out.shape[2]
    narrow = np.empty((height + BAND_ROWS, 3 * out_width), np.float32)
    band = np.zeros((3 * width, BAND_ROWS), np.float32)
    for top in range(0, height, BAND_ROWS):
        _fill_band(frame, top, band)
        for x in range(out_width):
            _narrow_band(band, 3 * starts_x[x], weights_x[x], narrow[top : top + BAND_ROWS], 3 * x)
    row = np.empty(3 * out_width, np.float32)
    for y in range(out_height):
        row[:] = np.float32(0.0)
        for tap in range(weights_y.shape[1]):
            weight = weights_y[y, tap]
            source = narrow[starts_y[y] + tap]
            for i in range(3 * out_width):
                row[i] += weight * source[i]
        for i in range(3 * out_width):
            row[i] = np.rint(min(max(row[i], np.float32(0.0)), np.float32(255.0)))
        for c in range(3):
            for x in range(out_width):
                out[c, y, x] = np.uint8(row[3 * x + c])


@njit(cache=True, nogil=True)
def _fill_band(frame, top, band):
    """Turn BAND_ROWS rows on their side; in blocks, so that the strided writes stay in the first-level cache."""
    rows = min(BAND_ROWS, frame.shape[0] - top)
    for start in range(0, band.shape[0], 128):
        stop = min(start + 128, band.shape[0])
        for r in range(rows):
            for i in range(start, stop):
                band[i, r] = np.float32(frame[top + r, i])


@njit(cache=True, nogil=True, fastmath={"contract"})
def _narrow_band(band, first, weights, narrow, column):
    """One output pixel of BAND_ROWS rows. Eight named sums, because only scalars stay in registers."""
    for c in range(3):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0.0)
        for tap in range(weights.shape[0]):
            w = weights[tap]
            i = first + 3 * tap + c
            s0 += w * band[i, 0]
            s1 += w * band[i, 1]
            s2 += w * band[i, 2]
            s3 += w * band[i, 3]
            s4 += w * band[i, 4]
            s5 += w * band[i, 5]
            s6 += w * band[i, 6]
            s7 += w * band[i, 7]
        j = column + c
        narrow[0, j], narrow[1, j], narrow[2, j], narrow[3, j] = s0, s1, s2, s3
        narrow[4, j], narrow[5, j], narrow[6, j], narrow[7, j] = s4, s5, s6, s7
