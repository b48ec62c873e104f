"""What a run of a recipe will need, before anything is rented or loaded: tokens, memory, disk, time; what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config import LoraConfig, RunConfig
from easyvideor1.config_train import MomentKind
from easyvideor1.data.encode import Encoder
from easyvideor1.errors import UsageError
from easyvideor1.model.sizes import Sizes, config_file, model_without_weights, sizes_of
from easyvideor1.runs.devices import DEVICES, Device
from easyvideor1.runs.footprint import Footprint, checkpoint_bytes, footprint, usable_bytes
from easyvideor1.runs.pace import ASSUMED, Pace, num_validations, pace
from easyvideor1.runs.planned_tokens import Tokens, planned_tokens
from easyvideor1.runs.rank_limits import check_number_of_ranks
from easyvideor1.training.costs import costs_of
from easyvideor1.training.sequence import require_divisible, why_indivisible
from easyvideor1.video.sampling import vision_spec

PACK_STEP = 1024
MOST_GPUS = 1024


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run needs."""

    config: RunConfig
    device: Device
    device_name: str
    ranks: int
    response_tokens: int
    """Mean length of a response that is reckoned with."""
    sizes: Sizes
    tokens: Tokens
    steps: int
    """Steps of the run; with train.epochs, those that they come to."""
    memory: Footprint
    pace: Pace
    checkpoint_bytes: int
    """Size of one checkpoint."""
    largest_pack_tokens: int | None
    """Largest `train.tokens_per_pack` that fits; None: not even the longest prompt does."""
    remedies: tuple[str, ...]
    """Settings that make it fit, each by itself; empty where it fits, or where no single one does."""

    @property
    def fits(self) -> bool:
        return self.memory.fits(self.device)

    @property
    def update_tokens_per_step(self) -> int:
        """Tokens that an update computes: in each pass every prompt once, and its responses."""
        of_group = self.tokens.prompt_mean + self.config.rollout.n * self.response_tokens
        return round(self.config.train.prompts_per_step * of_group) * self.config.train.passes

    @property
    def validations(self) -> int:
        return num_validations(self.config, steps=self.steps) if self.tokens.num_questions else 0

    @property
    def steps_per_epoch(self) -> float:
        return self.tokens.num_rows / self.config.train.prompts_per_step

    def as_values(self) -> dict[str, Any]:
        """For `--json`."""
        tokens, memory = self.tokens, self.memory
        return {
            "gpu": self.device_name,
            "gpus": self.ranks,
            "fits": self.fits,
            "peak_bytes": memory.peak,
            "usable_bytes": usable_bytes(self.device),
            "memory_bytes": {
                "base": memory.base,
                "lasting": dict(memory.lasting),
                "update": dict(memory.update),
                "rollout": dict(memory.rollout),
                "host": dict(memory.host),
            },
            "tokens": {
                "basis": tokens.basis,
                "rows": tokens.num_rows,
                "bad_rows": tokens.num_bad,
                "prompt_mean": tokens.prompt_mean,
                "prompt_max": tokens.prompt_max,
                "vision_mean": tokens.vision_mean,
                "vision_max": tokens.vision_max,
                "response_mean": self.response_tokens,
                "update_per_step": self.update_tokens_per_step,
            },
            "weights": asdict(self.sizes),
            "cache_bytes": tokens.cache_bytes,
            "media": tokens.num_media,
            "checkpoint_bytes": self.checkpoint_bytes,
            "steps": self.steps,
            "steps_per_epoch": self.steps_per_epoch,
            "pace": {**self.pace.as_values(), "assumed": ASSUMED},
            "validations": self.validations,
            "run_hours": (self.pace.step_s * self.steps + self.pace.validation_s * self.validations) / 3600,
            "largest_pack_tokens": self.largest_pack_tokens,
            "remedies": list(self.remedies),
        }


def make_plan(
    config: RunConfig, *, device: str, gpus: int, memory_gb: float | None = None, response_tokens: int | None = None
) -> Plan:
    """Plan a run.

    Args:
        device: name in DEVICES.
        gpus: ranks that train together.
        memory_gb: of each, where it is not the usual size.
        response_tokens: mean length of a response; None: half the limit.

    Raises:
        UsageError: a setting that cannot run, or a model whose sizes are not known.
        DataError: no row of the data can be used.
    """
    fitting_algorithm(config)
    place = DEVICES[device] if memory_gb is None else replace(DEVICES[device], memory_bytes=int(memory_gb * 1e9))
    if gpus < 1:
        raise UsageError(f"--gpus must be at least 1, got {gpus}")
    check_number_of_ranks(config, gpus)
    length = response_tokens or max(1, config.rollout.max_response_tokens // 2)
    model = model_without_weights(config.model)
    require_divisible(model, config.parallel.sequence)
    sizes, costs = sizes_of(model), costs_of(model)
    encoder = _encoder(config)
    vision = vision_spec(model.config.to_dict()) if encoder is None else encoder.vision
    tokens = planned_tokens(config, vision=vision, encoder=encoder)

    def memory(changed: RunConfig, ranks: int = gpus) -> Footprint:
        shape = sizes if changed.model == config.model else sizes_of(model_without_weights(changed.model))
        return footprint(
            changed, shape, tokens, response_tokens=length, ranks=ranks, device=place, is_gpu=device != "cpu"
        )

    found = memory(config)
    largest = _largest_pack(config, tokens, fits=lambda changed: memory(changed).fits(place))
    return Plan(
        config=config,
        device=place,
        device_name=device,
        ranks=gpus,
        response_tokens=length,
        sizes=sizes,
        tokens=tokens,
        steps=config.with_samples(tokens.num_rows).train.num_steps,
        memory=found,
        pace=pace(config, sizes, costs, tokens, response_tokens=length, ranks=gpus, device=place),
        checkpoint_bytes=checkpoint_bytes(config, sizes, ranks=gpus),
        largest_pack_tokens=largest,
        remedies=()
        if found.fits(place)
        else tuple(_remedies(config, gpus, memory, place, largest_pack=largest, together=_together(model, gpus))),
    )


def _encoder(config: RunConfig) -> Encoder | None:
    """None: the model's folder holds no tokenizer."""
    folder, tokenizer = config_file(config.model.path).parent, config.model.tokenizer
    if not any((Path(tokenizer or folder) / name).is_file() for name in ("tokenizer.json", "vocab.json")):
        return None
    return Encoder.from_pretrained(folder, tokenizer=tokenizer, chat_template=config.model.chat_template)


def _largest_pack(config: RunConfig, tokens: Tokens, *, fits: Callable[[RunConfig], bool]) -> int | None:
    least = -(-(tokens.prompt_max + config.rollout.max_response_tokens) // PACK_STEP)

    def is_possible(steps: int) -> bool:
        return fits(replace(config, train=replace(config.train, tokens_per_pack=steps * PACK_STEP)))

    # Beyond what a rank has in a step nothing grows.
    of_group = tokens.prompt_mean + config.rollout.n * config.rollout.max_response_tokens
    most = max(least, round(config.train.prompts_per_step * of_group) // PACK_STEP + 1)
    if not is_possible(least):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if is_possible(middle) else (least, middle - 1)
    return least * PACK_STEP


def _together(model: Any, gpus: int) -> list[int]:
    """How many ranks can compute a pack together, more than one."""
    return [size for size in range(2, gpus + 1) if gpus % size == 0 and not why_indivisible(model, size)]


def _remedies(
    config: RunConfig,
    gpus: int,
    memory: Callable[..., Footprint],
    device: Device,
    *,
    largest_pack: int | None,
    together: Sequence[int],
) -> Iterator[str]:
    """Single changes after which the run fits.

    Args:
        together: ranks that can compute a pack together, from few to many.
    """
    model = config.model
    least = -(-config.rollout.max_response_tokens // PACK_STEP) * PACK_STEP
    if largest_pack:
        yield f"train.tokens_per_pack={largest_pack}"
    states: MomentKind = "8bit" if gpus == 1 else "bfloat16"
    changes: Mapping[str, RunConfig] = {
        "model.gradient_checkpointing=true": replace(config, model=replace(model, gradient_checkpointing=True)),
        f"rollout.tokens_per_batch={least} (slower)": replace(
            config, rollout=replace(config.rollout, tokens_per_batch=least)
        ),
        f"optimizer.states={states}": replace(config, optimizer=replace(config.optimizer, states=states)),
        "model.dtype=bfloat16": replace(config, model=replace(model, dtype="bfloat16")),
        "model.freeze_vision_tower=true": replace(config, model=replace(model, freeze_vision_tower=True)),
        "model.lora='{rank: 64, alpha: 128}' (adapters, with a higher learning rate)": replace(
            config, model=replace(model, lora=LoraConfig(rank=64, alpha=128))
        ),
    }
    for words, changed in changes.items():
        if changed != config and memory(changed).fits(device):
            yield words
    for size in together:
        cut = replace(config, parallel=replace(config.parallel, sequence=size))
        if size > config.parallel.sequence and memory(cut).fits(device):
            yield f"parallel.sequence={size}"
            break
    if gpus > 1 and not config.parallel.cpu_offload:
        offloaded = replace(config, parallel=replace(config.parallel, cpu_offload=True))
        if memory(offloaded).fits(device):
            yield "parallel.cpu_offload=true (slower)"
    ranks = gpus
    while ranks < MOST_GPUS:
        ranks *= 2
        if memory(config, ranks).fits(device):
            yield f"{ranks} GPUs instead of {gpus}"
            return
