"""Pictures of high dynamic range made fit for a standard screen, with one fixed rule.

1. To light, in cd/m2: PQ by its EOTF (SMPTE ST 2084; ITU-R BT.2100, table 4). HLG by its inverse OETF and the OOTF of a
   1000 cd/m2 screen, gamma 1.2 (BT.2100, table 5).
2. From the primaries of BT.2020 to those of BT.709 (ITU-R BT.2087); what is negative then becomes 0.
3. The brightest of the three is mapped from 0 .. 1000 to 0 .. 203 cd/m2 by the EETF of ITU-R BT.2390-11, 5.4.1, and the
   others by the same factor, so that the hue stays. 203 cd/m2 is the white of paper in HDR video (ITU-R BT.2408); up to
   some 90 cd/m2 nothing changes, what is above 1000 is 1000.
4. To the values of a standard screen by the inverse of BT.1886 (gamma 2.4), 203 cd/m2 being 255.

When any value changes, `keys.TONE_RULE` has to be counted up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numba import njit

SOURCE_PEAK = 1000.0
TARGET_PEAK = 203.0
"""Brightest light of the source and of the standard screen, in cd/m2."""
M1, M2 = 2610 / 16384, 2523 / 4096 * 128
C1, C2, C3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32
"""Constants of PQ (SMPTE ST 2084)."""
HLG_A, HLG_B, HLG_C = 0.17883277, 0.28466892, 0.55991073
"""Constants of HLG (ARIB STD-B67)."""
HLG_GAMMA = 1.2
LUMA_2020 = (0.2627, 0.6780, 0.0593)
TO_709 = np.array([[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]], np.float32)
NUM_STEPS = 4096
"""Steps of the tables that hold rules 3 and 4."""


def tone_map(pixels: np.ndarray, *, transfer: Literal["PQ", "HLG"]) -> np.ndarray:
    """uint8 [H, W, 3] for a standard screen.

    Args:
        pixels: uint16 [H, W, >= 3], R'G'B' of BT.2020 over the whole range; further channels are not looked at.
    """
    gains, levels = _tables()
    out = np.empty((*pixels.shape[:2], 3), np.uint8)
    _map(pixels, _light(transfer), transfer == "HLG", gains, levels, out)
    return out


def pq_light(signal: np.ndarray) -> np.ndarray:
    """cd/m2 of a PQ signal in [0, 1]."""
    root = np.power(np.maximum(signal, 0), 1 / M2)
    return 10_000 * np.power(np.maximum(root - C1, 0) / (C2 - C3 * root), 1 / M1)


def pq_signal(light: np.ndarray) -> np.ndarray:
    """The inverse of `pq_light`."""
    power = np.power(light / 10_000, M1)
    return np.power((C1 + C2 * power) / (1 + C3 * power), M2)


@lru_cache
def _light(transfer: Literal["PQ", "HLG"]) -> np.ndarray:
    """float32 [65536], light of a 16-bit signal: cd/m2 of PQ, light of the scene in [0, 1] of HLG."""
    signal = np.arange(1 << 16) / ((1 << 16) - 1)
    if transfer == "PQ":
        return pq_light(signal).astype(np.float32)
    bright = (np.exp((signal - HLG_C) / HLG_A) + HLG_B) / 12
    return np.where(signal <= 0.5, signal**2 / 3, bright).astype(np.float32)


@lru_cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Factors of step 3 by the fourth root of light / SOURCE_PEAK, levels of step 4 by the root of light / TARGET_PEAK.

    Both are float32 [NUM_STEPS + 2]: the entry after the last serves the place 1.0.
    """
    steps = np.minimum(np.arange(NUM_STEPS + 2) / NUM_STEPS, 1.0)
    light = SOURCE_PEAK * np.maximum(steps, 1 / NUM_STEPS) ** 4
    peak = pq_signal(np.array(SOURCE_PEAK))
    top = pq_signal(np.array(TARGET_PEAK)) / peak
    knee = 1.5 * top - 0.5
    signal = pq_signal(light) / peak
    t = (signal - knee) / (1 - knee)
    bent = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (-2 * t**3 + 3 * t**2) * top
    gains = np.where(signal < knee, 1.0, pq_light(bent * peak) / light)
    levels = 255 * steps ** (2 / 2.4)
    return gains.astype(np.float32), levels.astype(np.float32)


@njit(cache=True, nogil=True)
def _map(pixels, light, is_hlg, gains, levels, out):
    """Fill `out`; constants of the module are compiled in."""
    for y in range(pixels.shape[0]):
        for x in range(pixels.shape[1]):
            r, g, b = light[pixels[y, x, 0]], light[pixels[y, x, 1]], light[pixels[y, x, 2]]
            if is_hlg:
                scene = LUMA_2020[0] * r + LUMA_2020[1] * g + LUMA_2020[2] * b
                screen = np.float32(SOURCE_PEAK * scene ** (HLG_GAMMA - 1.0)) if scene > 0 else np.float32(0.0)
                r, g, b = r * screen, g * screen, b * screen
            red = max(TO_709[0, 0] * r + TO_709[0, 1] * g + TO_709[0, 2] * b, np.float32(0.0))
            green = max(TO_709[1, 0] * r + TO_709[1, 1] * g + TO_709[1, 2] * b, np.float32(0.0))
            blue = max(TO_709[2, 0] * r + TO_709[2, 1] * g + TO_709[2, 2] * b, np.float32(0.0))
            most = max(red, green, blue)
            if most > SOURCE_PEAK:
                factor = gains[NUM_STEPS] * np.float32(SOURCE_PEAK) / most
            else:
                factor = _looked_up(gains, np.sqrt(np.sqrt(most / np.float32(SOURCE_PEAK))))
            factor /= np.float32(TARGET_PEAK)
            out[y, x, 0] = np.uint8(_looked_up(levels, np.sqrt(min(red * factor, np.float32(1.0)))) + np.float32(0.5))
            out[y, x, 1] = np.uint8(_looked_up(levels, np.sqrt(min(green * factor, np.float32(1.0)))) + np.float32(0.5))
            out[y, x, 2] = np.uint8(_looked_up(levels, np.sqrt(min(blue * factor, np.float32(1.0)))) + np.float32(0.5))


@njit(cache=True, nogil=True, inline="always")
def _looked_up(table, place):
    """The value of a table at a place in [0, 1], between two entries by their distance."""
    position = place * np.float32(NUM_STEPS)
    step = int(position)
    return table[step] + (table[step + 1] - table[step]) * (position - np.float32(step))
