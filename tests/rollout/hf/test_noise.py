from typing import Any

import numpy as np

from easyvideor1.rollout.hf.noise import BITS, uniforms

STORED = [182815293829.5, 850411124431.5, 840957657281.5]


def test_numbers_depend_on_the_request_and_the_response_and_on_nothing_else():
    fields: dict[str, Any] = {"seed": 1, "sample_id": "a", "index": 0}
    numbers = uniforms(**fields, count=50)
    np.testing.assert_array_equal(numbers[:7], uniforms(**fields, count=7))
    changes: list[dict[str, Any]] = [{"seed": 2}, {"sample_id": "b"}, {"index": 1}, {"seed": 0, "index": 1}]
    for change in changes:
        assert not np.isin(uniforms(**fields | change, count=50), numbers).any()


def test_numbers_are_those_of_philox():
    # numpy promises its bit stream for ever; a run that is continued elsewhere draws the same.
    assert (uniforms(seed=7, sample_id="q1", index=3, count=3) * 2**BITS).tolist() == STORED


def test_numbers_are_uniform_and_never_0_or_1():
    numbers = np.concatenate([uniforms(seed=0, sample_id=str(i), index=i, count=500) for i in range(200)])
    assert numbers.min() > 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert ((counts - 5000) ** 2 / 5000).sum() < 45  # chi-squared with 19 degrees of freedom: p = 0.0007
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
