"""Values that a test knows to be there."""

from collections.abc import Iterable
from typing import TypeVar

import torch

from easyvideor1.model.whole import whole

T = TypeVar("T")


def present(value: T | None) -> T:
    """The value; a test that meets None fails here."""
    assert value is not None
    return value


def copied(named: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Copies of tensors, sharded ones whole; all ranks must come here."""
    tensors = dict(named)
    return {name: tensor.detach().clone() for name, tensor in zip(tensors, whole(tensors.values()), strict=True)}
