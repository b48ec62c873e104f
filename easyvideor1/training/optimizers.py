"""AdamW over float32 weights, with its two moments in float32, in bfloat16 or in 8 bits.

Moments of fewer bits are read into float32, moved, used for the step and only then rounded. In bfloat16 they are
rounded up or down at random, in proportion to the distance (arXiv:2010.06192): to the nearest, the second moment would
stay where it is, because a step of 0.1 % is less than half the distance to the next number. In 8 bits a block of 256
numbers has one scale, and their values are spaced as in arXiv:2110.02861; that is torchao's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import torch

from easyvideor1.config_train import MomentKind, OptimizerConfig
from easyvideor1.extras import need
from easyvideor1.model.parts import held_part, zeros_like
from easyvideor1.seeds import mix_seed

MOMENTS = ("exp_avg", "exp_avg_sq")
"""AdamW's state of a weight that has the weight's shape."""
MOMENT_BYTES: Mapping[MomentKind, float] = {"float32": 4, "bfloat16": 2, "8bit": 1 + 4 / 256}
"""Of one number of a moment; in 8 bits, a float32 scale for each block beside it."""
PIECE = 1 << 24
"""Numbers of a weight that a step in bfloat16 goes through at once."""
EPS = 1e-8
"""Added to the root of the second moment."""
IS_OF_VALUES = "is_of_values"
"""Key of a parameter group: whether it is that of a value head, which has a learning rate of its own."""
Groups = Iterable[dict[str, Any]]
"""Parameter groups with their weight decay."""


class AdamW(Protocol):
    """What training needs of an optimizer."""

    param_groups: list[dict[str, Any]]
    state: Any

    def step(self) -> Any: ...

    def new_state(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        """The state of a weight before its first step: `step` and MOMENTS, all zeros."""
        ...


def make_optimizer(config: OptimizerConfig, groups: Groups, *, is_gpu: bool) -> AdamW:
    """AdamW over groups of float32 weights, which may be sharded unless its moments are in 8 bits.

    Raises:
        UsageError: torchao is missing.
    """
    options: dict[str, Any] = {"lr": config.learning_rate, "betas": config.betas, "eps": EPS}
    if config.states == "float32":
        return Float32AdamW(groups, **options, fused=True)
    if config.states == "bfloat16":
        return Bfloat16AdamW(groups, **options)
    return _eight_bit_adamw(is_gpu=is_gpu)(groups, **options)


def set_learning_rate(optimizer: AdamW, rate: float, *, of_values: float = 0.0) -> None:
    """
    Args:
        of_values: that of the group of a value head, where there is one.
    """
    for group in optimizer.param_groups:
        own = of_values if group.get(IS_OF_VALUES) else rate
        if isinstance(group["lr"], torch.Tensor):  # torchao's compiled step reads it there
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def pieces(state: torch.Tensor) -> dict[str, torch.Tensor]:
    """The plain tensors that one of an optimizer's is made of, by what their names end with on disk."""
    if hasattr(state, "codes"):
        return {"/codes": state.codes, "/scale": state.scale}  # type: ignore[attr-defined] - torchao's 8 bits
    return {"": state}


class Float32AdamW(torch.optim.AdamW):
    """PyTorch's, where a process goes through what it holds of a sharded weight as if that were the weight."""

    def new_state(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        step = torch.zeros((), device=weight.device)  # where the fused kernel reads it
        return {"step": step} | {key: zeros_like(weight) for key in MOMENTS}

    def _init_group(self, group: dict[str, Any], *found: Any) -> bool:  # type: ignore[override]
        """Fill the lists `found` with the tensors of a group's step."""
        for weight in group["params"]:
            if weight.grad is not None and not self.state[weight]:
                self.state[weight] |= self.new_state(weight)
        is_complex = super()._init_group(group, *found)
        for tensors in found:
            tensors[:] = [held_part(tensor) for tensor in tensors]
        return is_complex


class Bfloat16AdamW(torch.optim.Optimizer):
    """AdamW whose moments are kept in bfloat16. How they are rounded follows from the step and the place of the weight
    among the others, so that a run that goes on makes the same steps."""

    def __init__(self, groups: Groups, *, lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(list(groups), {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    def new_state(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"step": torch.zeros(())} | {key: zeros_like(weight, dtype=torch.bfloat16) for key in MOMENTS}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "gradients are there when a step is made"
        weights = [(group, weight) for group in self.param_groups for weight in group["params"]]
        for index, (group, weight) in enumerate(weights):
            if weight.grad is None:
                continue
            state = self.state[weight]
            if not state:
                state |= self.new_state(weight)
            state["step"] += 1
            step = int(state["step"])
            random = torch.Generator(weight.device).manual_seed(mix_seed(step, index))
            whole = (weight, weight.grad, *(state[key] for key in MOMENTS))
            for parts in zip(*(held_part(item).view(-1).split(PIECE) for item in whole), strict=True):
                _step_of(*parts, group=group, step=step, random=random)


def _step_of(
    weight: torch.Tensor,
    gradient: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    *,
    group: Mapping[str, Any],
    step: int,
    random: torch.Generator,
) -> None:
    """Move flat float32 weights and their bfloat16 moments, in place."""
    first, second = group["betas"]
    new_mean = mean.float().lerp_(gradient, 1 - first)
    new_square = square.float().mul_(second).addcmul_(gradient, gradient, value=1 - second)
    mean.copy_(rounded_at_random(new_mean, random))
    square.copy_(rounded_at_random(new_square, random))
    weight.mul_(1 - group["lr"] * group["weight_decay"])
    root = new_square.div_(1 - second**step).sqrt_().add_(group["eps"])
    weight.addcdiv_(new_mean, root, value=-group["lr"] / (1 - first**step))


def rounded_at_random(values: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """float32 numbers as bfloat16 ones next to them, so that their mean over many roundings is the number itself."""
    noise = torch.randint(0, 1 << 16, values.shape, dtype=torch.int32, device=values.device, generator=random)
    # The upper half of the bits is the bfloat16 number below in size; the lower half is the share of the way above it.
    return noise.add_(values.view(torch.int32)).bitwise_and_(-(1 << 16)).view(torch.float32).bfloat16()


def _eight_bit_adamw(*, is_gpu: bool) -> Callable[..., AdamW]:
    """torchao's AdamW with moments in 8 bits; weights of less than 4096 numbers, or of no whole number of blocks, keep
    theirs in float32."""
    need("torchao", for_what="optimizer.states=8bit")
    from torchao.optim import AdamW8bit  # type: ignore - an extra that the checks go without

    class EightBitAdamW(AdamW8bit):
        def new_state(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
            moments = {key: self._new_buffer(weight, key == "exp_avg") for key in MOMENTS}
            return {"step": torch.zeros(())} | moments

        def step(self, closure: Any = None) -> Any:
            if is_gpu:
                return super().step(closure)
            with torch.compiler.set_stance("force_eager"):  # compiling takes half a minute and needs a C++ compiler
                return super().step(closure)

    return EightBitAdamW
