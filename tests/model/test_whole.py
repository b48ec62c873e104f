"""Whole tensors of those that two ranks hold parts of."""

from __future__ import annotations

import torch
from support.on_ranks import results
from support.rank_tensors import gathered, tensors


def test_tensors_of_any_type_and_division_are_whole_and_in_order_on_both_ranks() -> None:
    for rank in results(gathered):
        assert rank.keys() == {"cut", "cut within machines", "copied", "few at once"}
        for name, found in rank.items():
            for tensor, expected in zip(found, tensors(), strict=True):
                assert type(tensor) is torch.Tensor, name
                assert tensor.dtype == expected.dtype, name
                assert torch.equal(tensor, expected), name
