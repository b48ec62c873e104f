"""Stray time stamps: those of single packets that lie far outside the times of the packets around them."""

from __future__ import annotations

import numpy as np

STRAY_S = 10.0
"""How far outside. A pause moves all packets after it; reordered frames differ by less."""
NEAR = 8
"""Packets looked at before and after."""
OTHER_STRAYS = 2
"""Strays that may be among those."""


def stray_places(stamps: np.ndarray, unit_s: float) -> dict[int, None]:
    """Places of the stray ones among stamps in file order, rising; the first and last few are never called stray.

    Args:
        stamps: int64 [P], all known.
        unit_s: seconds of one unit of a stamp.
    """
    limit = STRAY_S / unit_s
    jumps = np.abs(np.diff(stamps.astype(float))) > limit
    doubtful = np.flatnonzero(np.append(jumps, False) | np.append(False, jumps))
    return dict.fromkeys(place for place in doubtful.tolist() if _is_outside(stamps, place, limit))


def without_strays(stamps: np.ndarray, unit_s: float) -> np.ndarray:
    """int64 [P] stamps in file order, stray ones spread over the widest step between those around them, where their
    frames are missing; arguments as of `stray_places`."""
    mended, strays = stamps.copy(), stray_places(stamps, unit_s)
    for first in [place for place in strays if place - 1 not in strays]:
        run = [first]
        while run[-1] + 1 in strays:
            run.append(run[-1] + 1)
        near = [near for near in _near(stamps, first) if near < first or near not in strays]
        times = np.sort(mended[near])
        widest = int(np.argmax(np.diff(times)))
        start, step = int(times[widest]), int(times[widest + 1] - times[widest])
        mended[run] = [start + step * (number + 1) // (len(run) + 1) for number in range(len(run))]
    return mended


def _is_outside(stamps: np.ndarray, place: int, limit: float) -> bool:
    near = _near(stamps, place)
    if len(near) < 2 * NEAR:
        return False
    times = np.sort(stamps[near])
    lowest, highest = int(times[OTHER_STRAYS]), int(times[-1 - OTHER_STRAYS])
    return not lowest - limit <= int(stamps[place]) <= highest + limit


def _near(stamps: np.ndarray, place: int) -> list[int]:
    return [near for near in range(place - NEAR, place + NEAR + 1) if near != place and 0 <= near < len(stamps)]
