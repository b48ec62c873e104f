"""Weights that cannot be trained, found before anything is sampled from them."""

from __future__ import annotations

import torch
from torch import nn

from easyvideor1.errors import RunError


def require_finite(model: nn.Module, *, where: str) -> None:
    """Make sure that all weights are numbers.

    Raises:
        RunError: a weight holds NaN or infinity; names the first, and how many there are.
    """
    bad = [name for name, weight in model.named_parameters() if not bool(torch.isfinite(weight.detach()).all())]
    if bad:
        weight = model.get_parameter(bad[0])
        count = int((~torch.isfinite(weight.detach())).sum())
        more = f", and {len(bad) - 1} more tensors hold such values" if len(bad) > 1 else ""
        raise RunError(
            f"{where}: {count} of {weight.numel()} numbers of the weight {bad[0]} are NaN or infinite{more}; nothing "
            "can be learnt from there: take another model or checkpoint"
        )
