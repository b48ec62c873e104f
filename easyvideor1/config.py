"""The configuration of a run: frozen dataclasses, one per section of a recipe (see recipe.py for how they are read)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from easyvideor1.config_checks import check_range, check_text, check_time
from easyvideor1.config_data import CacheConfig, DataConfig
from easyvideor1.config_paths import PathText
from easyvideor1.config_reward import RewardConfig, found_places
from easyvideor1.config_rollout import RolloutConfig, ValidationConfig
from easyvideor1.config_train import OptimizerConfig, TrainConfig
from easyvideor1.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Low-rank adapters in the language model; all other weights are frozen."""

    rank: int = 16
    """Rank of the two matrices of an adapter."""
    alpha: int = 32
    """Scale of the adapters: they are multiplied by alpha / rank."""
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Last part of the names of the layers that get one."""

    def __post_init__(self) -> None:
        check_range("model.lora", self, low=1, names=("rank", "alpha"))
        if not self.targets:
            raise UsageError(
                "model.lora.targets names no layer, so nothing would train; leave it out for the usual ones"
            )


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The model that is trained or asked."""

    path: PathText
    """Folder with the model, its tokenizer and chat template, in Transformers' format."""
    tokenizer: PathText | None = None
    """Folder of a tokenizer with its chat template, in place of the model's own; its ids have to fit the model."""
    chat_template: PathText | None = None
    """File of a Jinja chat template that takes the place of the tokenizer's own; None: its own."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number type of the model in sampling, forward and backward; the optimizer keeps float32 weights either way."""
    freeze_vision_tower: bool = False
    """Train the language model only."""
    gradient_checkpointing: bool = False
    """Keep no activations inside a layer and compute them again in backward: less memory, about a third more time."""
    lora: LoraConfig | None = None
    """Train low-rank adapters instead of the weights, e.g. {rank: 16, alpha: 32}; None: train the weights."""

    def __post_init__(self) -> None:
        check_text("model", self, "path")


OWN_FUNCTIONS = ("own_advantage", "own_loss")
"""Options of an algorithm that name a function of the user."""


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig:
    """The algorithm of an update: how it learns from the scores."""

    name: str = "grpo"
    """Name of an algorithm (docs/adding-an-algorithm.md lists them)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the algorithm's own numbers, e.g. {clip_high: 0.28, kl_coef: 0.01}."""

    def found_from(self, folder: Path) -> AlgorithmConfig:
        """The same with the files of functions of your own looked for in a folder, as `RewardConfig.found_from`."""
        places = {name: place for name in OWN_FUNCTIONS if isinstance(place := self.options.get(name), str)}
        return replace(self, options={**self.options, **found_places(places, folder)})


@dataclass(frozen=True, kw_only=True)
class OfflineConfig:
    """Offline trajectories in the groups of the policy (see rollout.groups)."""

    enable: bool = False
    """Put them into the groups."""
    accuracy_threshold: float | None = None
    """None: of the n rollouts of a group, n - 1 are sampled and the last is an offline trajectory. A number: n are
    sampled, and the last is replaced only where their mean accuracy is below it."""
    source: PathText | None = None
    """JSONL file of offline trajectories, or a data file with them such as the collected.jsonl of `data filter` (see
    rollout.offline); None: those that the samples carry."""

    def __post_init__(self) -> None:
        if self.accuracy_threshold is not None and not 0 < self.accuracy_threshold <= 1:
            raise UsageError(
                f"offline.accuracy_threshold must be above 0 and at most 1, got {self.accuracy_threshold:g}; "
                "leave it out to put an offline trajectory into every group"
            )


TrackerName = Literal["tensorboard", "wandb", "trackio", "swanlab", "mlflow"]


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """How several processes (ranks) train together; without a launcher there is one."""

    shard: Literal["full", "hybrid", "none"] = "full"
    """What a rank holds of the weights, their gradients and the optimizer's numbers: a part, the other parts being with
    all other ranks (full) or with those of the same machine (hybrid); or everything (none)."""
    sequence: int = 1
    """Neighbouring ranks that compute each pack together, every rank a part of its tokens (sequence parallelism as in
    DeepSpeed-Ulysses): for videos whose activations do not fit on one GPU. It must divide the number of ranks and of
    attention heads."""
    cpu_offload: bool = False
    """Keep a rank's part of weights and optimizer in main memory while it is not computed with: slower, for small GPUs;
    needs several ranks."""
    compile: bool = False
    """Compile the layers with torch.compile: the first steps take minutes, the others less time."""
    timeout_s: float = 1800.0
    """Time a rank waits for the others before the run ends with an error. Give more than decoding and sampling may take
    longer on one rank than on another."""

    def __post_init__(self) -> None:
        check_time("parallel", self, "timeout_s")
        check_range("parallel", self, low=1, names=("sequence",))


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides a run; written, resolved, beside its metrics."""

    out: PathText
    """Folder of the run: metrics, checkpoints, rollouts, report."""
    seed: int = 0
    """Seed of the order of samples and of all sampling."""
    model: ModelConfig
    """The model that is trained."""
    data: DataConfig
    """Samples, and how they become prompts."""
    cache: CacheConfig
    """The frame cache."""
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    """How the policy samples responses."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """How responses are scored."""
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    """What an update learns from the scores."""
    offline: OfflineConfig = field(default_factory=OfflineConfig)
    """Offline trajectories in the groups of the policy."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """AdamW and the learning rate."""
    train: TrainConfig
    """The steps of the run."""
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    """How validation questions are answered."""
    trackers: tuple[TrackerName, ...] = ()
    """Where metrics go beside metrics.jsonl; each takes its server, key and mode from its own settings."""
    project: str = "easyvideor1"
    """Name under which trackers file the run."""
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    """How several processes train together."""

    def __post_init__(self) -> None:
        check_text("", self, "out", "project")
        if len(set(self.trackers)) < len(self.trackers):
            raise UsageError(f"trackers: one stands twice in {list(self.trackers)}; name each once")
        check_range("", self, low=0, names=("seed",))
        if self.train.async_level and self.rollout.engine == "vllm":
            raise UsageError(
                f"train.async_level={self.train.async_level} with rollout.engine=vllm: vLLM in the process of the "
                "trainer sleeps while the policy learns; use vllm_server, or hf (a copy of the model), or async_level=0"
            )
        self._check_validation()
        if self.model.tokenizer is not None and self.rollout.engine != "hf":
            raise UsageError(
                f"model.tokenizer with rollout.engine={self.rollout.engine}: vLLM reads the tokenizer of the "
                "model's folder; copy that folder with the other tokenizer in it and name it in model.path, or use hf"
            )

    def _check_validation(self) -> None:
        is_asked = self.train.validation_samples > 0
        if self.validation.is_about_sampling and not is_asked:
            raise UsageError(
                "validation: temperature, top_p, top_k and penalties are of sampled responses, and "
                "train.validation_samples=0 asks for none: the greedy one samples nothing. Set "
                "train.validation_samples to 1 or more, or remove them"
            )
        if self.validation.is_penalized and self.rollout.engine == "hf":
            raise UsageError(
                "validation.presence_penalty and repetition_penalty: rollout.engine=hf has none; use vllm or "
                "vllm_server, or remove them"
            )
        if self.train.steps == 0 and self.data.validation and not self.validation.before_training:
            raise UsageError(
                "train.steps=0 only validates, and validation.before_training=false leaves that out; give steps, or "
                "remove the latter"
            )

    @property
    def question_cache(self) -> CacheConfig:
        """The frame cache as validation questions use it."""
        return replace(self.cache, mode=self.validation.cache_mode or self.cache.mode)

    def with_samples(self, num_samples: int) -> RunConfig:
        """The same with the steps that its epochs over so many training samples have, at least one."""
        train = self.train
        if train.epochs is None:
            return self
        steps = max(1, math.floor(train.epochs * num_samples / train.prompts_per_step + 1e-9))
        return replace(self, train=replace(train, steps=steps, epochs=None))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sections of a recipe that commands beside training use; what is required there may be left out here."""

    out: PathText | None = None
    seed: int = 0
    model: ModelConfig | None = None
    data: DataConfig = field(default_factory=DataConfig)
    cache: CacheConfig | None = None
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    offline: OfflineConfig = field(default_factory=OfflineConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    train: TrainConfig | None = None
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    trackers: tuple[TrackerName, ...] = ()
    project: str = "easyvideor1"
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
