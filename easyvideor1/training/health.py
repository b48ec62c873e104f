"""Weights that cannot be trained, found before anything is sampled from them."""

from __future__ import annotations

import torch
from torch import nn

from easyvideor1.errors import RunError
from easyvideor1.model.parts import held_part


def require_finite(model: nn.Module, *, where: str) -> None:
    """Make sure that all weights are numbers; of a sharded model, what this process holds of them.

    Raises:
        RunError: a weight holds NaN or infinity; names the first, and how many there are.
    """
    held = {name: held_part(weight) for name, weight in model.named_parameters()}
    bad = [name for name, weight in held.items() if not bool(torch.isfinite(weight).all())]
    if bad:
        weight = held[bad[0]]
        count = int((~torch.isfinite(weight)).sum())
        more = f", and {len(bad) - 1} more tensors hold such values" if len(bad) > 1 else ""
        raise RunError(
            f"{where}: {count} of {weight.numel()} numbers of the weight {bad[0]} are NaN or infinite{more}; nothing "
            "can be learnt from there: take another model or checkpoint"
        )
