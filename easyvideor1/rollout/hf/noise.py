"""The random numbers of a response, by position: what they are does not depend on what else is sampled."""

from __future__ import annotations

import numpy as np

from easyvideor1.seeds import mix_seed, number_of

BITS = 40
"""Bits of a random number: fewer than a float64 holds, so that a share of a sum, however it is rounded, stays below the
sum."""


def uniforms(*, seed: int, sample_id: str, index: int, count: int) -> np.ndarray:
    """The first `count` numbers of a response, one per token, by the counter-based generator Philox.

    Args:
        seed: of the request.
        index: of the response among those to the same request.

    Returns:
        float64 [count], strictly between 0 and 1; with a larger count the same numbers and more.
    """
    generator = np.random.Philox(key=mix_seed(seed, number_of(sample_id), index))
    return ((generator.random_raw(count) >> (64 - BITS)) + 0.5) / 2.0**BITS
