"""float32 copies of the weights that train, for models in half precision.

Neighbouring bfloat16 numbers are up to 0.8 % apart, so a usual step of 1e-6 would be rounded away, at every weight and
in every step. The optimizer therefore works on float32 copies, and the model gets them rounded (arXiv:1710.03740).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from easyvideor1.model.parts import held_part, is_sharded, summed, zeros_like
from easyvideor1.training.value_head import ValueHead

VALUES = "value_head"
"""Begins the names of a value head's weights; no weight of a model is named so."""


class MasterWeights:
    """The weights of a model that train, as the optimizer sees them; weights in float32 are their own masters."""

    def __init__(self, model: nn.Module, *, value_head: ValueHead | None = None) -> None:
        trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self.of_values: Mapping[str, nn.Parameter] = (
            {} if value_head is None else {f"{VALUES}.{name}": weight for name, weight in value_head.named_parameters()}
        )
        """The weights of a value head, which are in float32."""
        trained |= self.of_values
        self.by_name: Mapping[str, nn.Parameter] = {
            name: parameter if parameter.dtype == torch.float32 else nn.Parameter(parameter.detach().float())
            for name, parameter in trained.items()
        }
        self.of_model: Mapping[str, nn.Parameter] = {
            name: weight for name, weight in self.by_name.items() if name not in self.of_values
        }
        self.copies: Mapping[str, nn.Parameter] = {
            name: master for name, master in self.by_name.items() if master is not trained[name]
        }
        """The float32 copies, by name; weights in float32 have none."""
        self._pairs = [(trained[name], master) for name, master in self.copies.items()]

    def zero_gradients(self) -> None:
        """Start a sum of gradients, of zeros: what a step does not reach is a gradient of 0, not a missing one.

        So a step is the same whether a group that cannot move the weights was computed or not, on one process or many.
        """
        for weight in self.by_name.values():
            if weight.grad is None:
                weight.grad = zeros_like(weight)
            else:
                held_part(weight.grad).zero_()

    def collect_gradients(self) -> None:
        """Add the model's gradients to those of the copies, and clear them: call it after every backward."""
        for parameter, master in self._pairs:
            if parameter.grad is not None:
                gradient = parameter.grad.float()
                master.grad = gradient if master.grad is None else master.grad.add_(gradient)
                parameter.grad = None

    @torch.no_grad()
    def write_back(self) -> None:
        """Round the copies into the model: call it after every optimizer step."""
        for parameter, master in self._pairs:
            parameter.copy_(master)


@torch.no_grad()
def clip_gradients(weights: Iterable[nn.Parameter], *, max_norm: float) -> torch.Tensor:
    """Shorten the gradients of weights so that they are no longer than `max_norm` together; returns how long they were.

    They may be sharded; then all ranks must come here.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    held = [held_part(gradient) for gradient in gradients]
    norm = torch.nn.utils.get_total_norm(held)
    if is_sharded(gradients[0]):
        norm = summed(norm.square(), gradients[0]).sqrt()
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    torch._foreach_mul_(held, scale)  # type: ignore[attr-defined] - what PyTorch clips with
    return norm
