"""The configuration of a run: frozen dataclasses, one per section of a recipe (see recipe.py for how they are read)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from easyvideor1.config_checks import LONGEST_S, check_positive, check_range, check_text, check_time
from easyvideor1.config_data import CacheConfig, CacheMode, DataConfig
from easyvideor1.config_paths import PathText
from easyvideor1.config_reward import RewardConfig, found_places
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


@dataclass(frozen=True, kw_only=True)
class VLLMConfig:
    """vLLM as the rollout engine (docs/vllm.md); read where rollout.engine is vllm or vllm_server."""

    engine_args: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of vLLM's EngineArgs, e.g. {gpu_memory_utilization: 0.5, max_num_seqs: 256}."""
    seeded: bool = True
    """Give every response a random generator of its own, so that what is sampled depends on the request alone; False is
    faster on a GPU."""
    deadline_s: float = 1800.0
    """Wall time a request may take; responses that are not done by then do not train and are counted."""
    servers: tuple[str, ...] = ()
    """vllm_server: addresses of servers that run already, e.g. [http://node1:8200]."""
    start_servers: int = 0
    """vllm_server: servers that the run starts on this machine, one GPU each, and ends with itself."""
    weights_dir: PathText | None = None
    """vllm_server: folder that the run and all servers see under this path, for the weights of each step; None: in the
    folder of the run."""
    retries: int = 2
    """vllm_server: how often a request is asked again elsewhere when its server failed; then it is given up."""
    check_every: int = 20
    """Steps between comparisons of the engine's log-probs with the actor's, beside the one at the start; 0: only that
    one."""
    max_logprob_gap: float | None = None
    """Mean distance of the two, in nats per token, above which the run stops; None: 0.001 in float32, 0.1 in
    bfloat16."""

    def __post_init__(self) -> None:
        check_range("rollout.vllm", self, low=0, names=("start_servers", "retries", "check_every"))
        check_positive("rollout.vllm", self, "max_logprob_gap")
        check_time("rollout.vllm", self, "deadline_s")
        if self.servers and self.start_servers:
            raise UsageError(
                f"rollout.vllm.servers names {len(self.servers)} and rollout.vllm.start_servers={self.start_servers} "
                "would start others; keep one of the two"
            )
        for address in self.servers:
            if not address.startswith("http://"):
                raise UsageError(f"rollout.vllm.servers: '{address}' is no address such as http://node1:8200")


@dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    """How the policy samples responses in training."""

    engine: Literal["hf", "vllm", "vllm_server"] = "hf"
    """What samples: the actor itself in a loop of this package, vLLM in this process, or vLLM servers."""
    vllm: VLLMConfig = field(default_factory=VLLMConfig)
    """Settings of the last two."""

    n: int = 8
    """Rollouts per prompt (group size)."""
    temperature: float = 1.0
    """Divides the logits before sampling."""
    top_p: float = 1.0
    """Sample among the likeliest tokens that together have this probability; 1: among all."""
    top_k: int = 0
    """Sample among the k likeliest tokens; 0: among all."""
    max_response_tokens: int = 1024
    """Longest response; longer ones are cut there."""
    tokens_per_batch: int = 65_536
    """Tokens whose keys and values are in memory at once while sampling: each prompt once, and max_response_tokens for
    each response under way (one is always, however long)."""

    def __post_init__(self) -> None:
        check_range("rollout", self, low=1, names=("n", "max_response_tokens", "tokens_per_batch"))
        check_range("rollout", self, low=0, names=("top_k",))
        check_range("rollout", self, low=0, high=1, names=("top_p",))
        check_positive("rollout", self, "top_p")
        if not 0 < self.temperature < math.inf:
            raise UsageError(
                f"rollout.temperature must be above 0, got {self.temperature}; at 0 all rollouts of a prompt are the "
                "same, so that nothing can be learnt from comparing them (validation is greedy by itself)"
            )
        self._check_engine()

    def _check_engine(self) -> None:
        vllm = self.vllm
        if self.engine != "hf" and self.temperature != 1.0 and (self.top_p < 1.0 or self.top_k > 0):
            raise UsageError(
                f"rollout.engine={self.engine} with rollout.temperature={self.temperature:g} and a filter "
                f"(rollout.top_p={self.top_p:g}, rollout.top_k={self.top_k}): vLLM then tells log-probs after the "
                "filter, and learning needs those before it; sample at temperature 1, or without a filter, or with "
                "rollout.engine=hf"
            )
        if self.engine == "vllm_server" and not (vllm.servers or vllm.start_servers):
            raise UsageError(
                "rollout.engine=vllm_server without servers: name them in rollout.vllm.servers, or let the run start "
                "some with rollout.vllm.start_servers"
            )
        if self.engine != "vllm_server" and (vllm.servers or vllm.start_servers):
            raise UsageError(
                f"rollout.vllm names servers, but rollout.engine={self.engine} asks none; set it to vllm_server"
            )


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


MomentKind = Literal["float32", "bfloat16", "8bit"]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW, and the learning rate over the steps of the run."""

    learning_rate: float = 1e-6
    """Learning rate at the end of the warm-up; from there on it follows the schedule."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's two moments."""
    states: MomentKind = "float32"
    """Number type of the two moments: 4, 2 or about 1 byte for each of them and weight. bfloat16 is rounded at random;
    8bit is torchao's, in a run of one process. The weights that are moved stay in float32."""
    weight_decay: float = 0.01
    """Share of a weight that is taken away per step, times the learning rate."""
    max_grad_norm: float = 1.0
    """Largest norm of the gradient; longer gradients are scaled down to it. .inf: never."""
    warmup_steps: int = 0
    """Steps over which the rate rises evenly to its full value, the first of them not at 0."""
    warmup_frac: float = 0.0
    """Instead of warmup_steps: their share of all steps, rounded down."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the rate goes on after the warm-up; linear and cosine fall to min_learning_rate_frac at the last step."""
    min_learning_rate_frac: float = 0.0
    """Share of the learning rate that linear and cosine schedules end at."""

    def __post_init__(self) -> None:
        check_range("optimizer", self, low=0, names=("learning_rate", "weight_decay", "warmup_steps"))
        check_range("optimizer", self, low=0, high=1, names=("warmup_frac", "min_learning_rate_frac"))
        check_positive("optimizer", self, "max_grad_norm")
        if self.warmup_steps and self.warmup_frac:
            raise UsageError(
                f"optimizer.warmup_steps={self.warmup_steps} and optimizer.warmup_frac={self.warmup_frac:g} both say "
                "how long the warm-up is; keep one"
            )
        if self.min_learning_rate_frac and self.schedule == "constant":
            raise UsageError(
                f"optimizer.min_learning_rate_frac={self.min_learning_rate_frac:g} has no effect on a constant rate; "
                "set optimizer.schedule to linear or cosine, or remove it"
            )
        for name in ("learning_rate", "weight_decay"):
            if getattr(self, name) == math.inf:
                raise UsageError(f"optimizer.{name} must be finite, got inf")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UsageError(f"optimizer.betas must be at least 0 and below 1, got {list(self.betas)}")


@dataclass(frozen=True, kw_only=True)
class StopConfig:
    """When to end a run that does not learn any more; 0 turns a rule off."""

    zero_reward_steps: int = 30
    """Steps in a row without one right rollout."""
    dead_steps: int = 5
    """Steps in a row in which all rewards and the gradient are 0, although they were not before: an update broke the
    weights. While this lasts no checkpoint is written over the earlier ones."""
    collapse_frac: float = 0.0
    """Share of the best average reward below which the average must not fall."""
    max_kl: float = 0.0
    """Largest KL from the reference model, or from the policy before the step, in nats per token."""

    def __post_init__(self) -> None:
        check_range("train.stop", self, low=0, names=("zero_reward_steps", "dead_steps", "max_kl"))
        check_range("train.stop", self, low=0, high=1, names=("collapse_frac",))


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The steps of a run."""

    steps: int | None = None
    """Steps of the whole run; each samples, scores and updates once. 0: only validate. None: see epochs."""
    epochs: float | None = None
    """Instead of steps: how often each training sample is asked; a run has epochs * samples / prompts_per_step whole
    steps."""
    prompts_per_step: int = 32
    """Groups per step."""
    passes: int = 1
    """How often a step learns from its groups (PPO's epochs over a batch); old log-probs are those before the first."""
    async_level: Literal[0, 1] = 0
    """1: the rollouts of the next step are sampled while this one trains, by weights one update older, for which
    truncated importance sampling corrects (docs/vllm.md). 0: one after the other."""
    updates_per_step: int = 1
    """Optimizer steps that the groups of a step are dealt to; with more than one, old log-probs are computed first."""
    tokens_per_pack: int = 16_384
    """Bound on the tokens of one forward and backward, which their memory follows; the longest prompt with
    rollout.max_response_tokens has to fit."""
    shared_prefix: bool = True
    """Compute the prompt of a group once; False: once per rollout (same numbers, slower)."""
    validate_every: int = 0
    """Steps between validations; 0: only before the first and after the last step."""
    validation_samples: int = 0
    """Further sampled responses per validation question, beside the greedy one."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; a killed run loses the steps since the last one. None: chosen by size, so that at most
    8 GiB are written per step on average: 1 for small models and LoRA, 14 for all weights of an 8B model (112 GB).
    0: only before the first and after the last step, and where a validation is the best so far."""
    keep_checkpoints: int = 2
    """Newest checkpoints that are kept, beside the best one."""
    checkpoint_optimizer: bool = True
    """Keep the optimizer's numbers in a checkpoint, without which a run cannot go on exactly; False: the weights alone,
    about a seventh of the size in bfloat16, a third in float32. Another run can begin with either (model.path)."""
    fresh_optimizer: bool = False
    """Where a checkpoint holds no optimizer, let the run go on from it all the same, with new moments and the schedule
    where it was; False: that is an error."""
    save_in_background: bool = False
    """Copy a checkpoint to main memory, which must have room for it, and write it while the run goes on."""
    stall_limit_s: float = 3600.0
    """Time without any progress (a sample prepared, its responses done, an update, a checkpoint) after which a run is
    ended with the stacks of all its processes in stalled.txt; 0: never."""
    stop: StopConfig = field(default_factory=StopConfig)
    """When to end a run that does not learn any more."""

    def __post_init__(self) -> None:
        check_range("train", self, low=0, high=LONGEST_S, names=("stall_limit_s",))
        check_range("train", self, low=0, names=("steps", "validate_every", "validation_samples", "checkpoint_every"))
        check_range(
            "train",
            self,
            low=1,
            names=("prompts_per_step", "passes", "updates_per_step", "tokens_per_pack", "keep_checkpoints"),
        )
        check_positive("train", self, "epochs")
        if (self.steps is None) == (self.epochs is None):
            raise UsageError(
                f"train.steps={self.steps} and train.epochs={self.epochs}: give one of the two, the length of the run"
            )
        if self.updates_per_step > self.prompts_per_step:
            raise UsageError(
                f"train.updates_per_step={self.updates_per_step} is more than train.prompts_per_step="
                f"{self.prompts_per_step}: each update needs a prompt of its own"
            )

    @property
    def num_steps(self) -> int:
        """Steps of the run, which are known once its samples are (see `RunConfig.with_samples`)."""
        assert self.steps is not None, "the steps of this run follow from its samples"
        return self.steps

    @property
    def updates_in_all(self) -> int:
        """Optimizer steps of one step."""
        return self.updates_per_step * self.passes


@dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """How validation questions are answered, beside the greedy response that the best checkpoint is chosen by."""

    temperature: float = 1.0
    """Of the sampled responses (train.validation_samples of them per question)."""
    top_p: float = 1.0
    """Sample among the likeliest tokens that together have this probability; 1: among all."""
    top_k: int = 0
    """Sample among the k likeliest tokens; 0: among all."""
    presence_penalty: float = 0.0
    """Taken from the logits of tokens that the response has already."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens that stand in the prompt or the response."""
    max_response_tokens: int | None = None
    """Longest response; None: rollout.max_response_tokens."""
    before_training: bool = True
    """Validate before the first step too."""
    cache_mode: CacheMode | None = None
    """How the media of questions use the frame cache; None: as cache.mode says."""

    def __post_init__(self) -> None:
        check_positive("validation", self, "temperature", "top_p", "max_response_tokens", "repetition_penalty")
        check_range("validation", self, low=0, high=1, names=("top_p",))
        check_range("validation", self, low=0, names=("top_k",))
        if self.temperature == math.inf:
            raise UsageError("validation.temperature must be finite, got inf")

    @property
    def is_penalized(self) -> bool:
        return (self.presence_penalty, self.repetition_penalty) != (0.0, 1.0)

    @property
    def is_about_sampling(self) -> bool:
        """Whether something is set that only sampled responses have."""
        values = (self.temperature, self.top_p, self.top_k, self.presence_penalty, self.repetition_penalty)
        return values != (1.0, 1.0, 0, 0.0, 1.0)


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
    """Keep that part, weights and optimizer, in main memory while it is not computed with: slower, for small GPUs; of
    several ranks only."""
    compile: bool = False
    """Compile the layers with torch.compile: the first steps take minutes, the others less time."""
    timeout_s: float = 1800.0
    """Time a rank waits for the others before the run ends with an error; longer than decoding and sampling may differ
    between ranks."""

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
