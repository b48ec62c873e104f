"""The configuration of a run: frozen dataclasses, one per section of a recipe (see recipe.py for how they are read)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from easyvideor1.config_checks import check_frames, check_pixels, check_positive, check_range, check_text
from easyvideor1.config_tree import build, to_tree
from easyvideor1.errors import UsageError
from easyvideor1.types import FrameSpec, Modality


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

    path: str
    """Folder with the model, its tokenizer and chat template, in Transformers' format."""
    chat_template: str | None = None
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
class SourceConfig:
    """One data file."""

    path: str
    """File of rows (docs/data.md): JSON objects, one per line or in one list, plain or gzipped."""
    media_root: str | None = None
    """Folder that relative media paths start from; None: the folder of the data file."""
    name: str | None = None
    """Name in metrics; None: the file's name without its ending."""
    video: Mapping[str, Any] = field(default_factory=dict)
    """What of data.video is otherwise for its videos, e.g. {fps: 1, max_frames: 64}."""
    image: Mapping[str, Any] = field(default_factory=dict)
    """What of data.image is otherwise for its images, e.g. {max_pixels: 262144}."""
    weight: float | None = None
    """Share of the training samples that come from this file, relative to the other weights; None everywhere: every
    sample once per epoch."""

    def __post_init__(self) -> None:
        check_text("data.train", self, "path")
        if self.weight is not None and not 0 < self.weight < float("inf"):
            raise UsageError(
                f"data.train: the weight of {self.path} must be a number > 0, got {self.weight:g}; "
                "to take nothing from a file, leave it out"
            )

    @property
    def label(self) -> str:
        return self.name or Path(self.path).stem


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """The frame cache."""

    dir: str
    """Folder of the frame cache; may be shared by runs and machines."""
    mode: Literal["prefer_preprocessed", "preprocessed_only", "realtime_only"] = "prefer_preprocessed"
    """prefer_preprocessed decodes what is missing and stores it; preprocessed_only takes a missing clip for a bad
    sample; realtime_only always decodes and stores nothing."""
    codec: Literal["raw", "zstd", "jpeg"] = "raw"
    """raw is memory-mapped; zstd (lossless) and jpeg (lossy) are for small disks and cost CPU time at every read."""
    max_bytes: int | None = None
    """Size above which the entries unused for longest are removed; None: no limit."""
    deadline_s: float = 300.0
    """Wall time that decoding one file may take; then it is a bad sample, and its process is killed."""

    def __post_init__(self) -> None:
        check_text("cache", self, "dir")
        check_positive("cache", self, "max_bytes", "deadline_s")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Samples, and how they become prompts."""

    train: tuple[SourceConfig, ...] = ()
    """Files of training samples, e.g. [{path: data/train.jsonl}]."""
    validation: tuple[SourceConfig, ...] = ()
    """Files of validation questions; none: no validation."""
    video: FrameSpec = field(default_factory=FrameSpec)
    """Budget of one video."""
    image: FrameSpec = field(default_factory=lambda: FrameSpec(max_pixels=1_048_576))
    """Budget of one image; only the pixel limits count."""
    shuffle: bool = True
    """Ask the samples of each epoch in a new order; False: in the order of their rows, such as a curriculum."""
    problem_types: tuple[str, ...] | None = None
    """Only rows of these problem types are used, in training and validation, e.g. for an ablation; None: all."""
    system: str | None = None
    """System message of rows that have none of their own; None: that of the chat template."""
    max_prompt_tokens: int = 16_384
    """Longest prompt; longer ones are bad samples, found from the plan before any decode."""
    workers: int = 2
    """Samples that each rank plans, decodes and cuts into patches at once, each decoder in a process of its own."""
    ahead_mb: int = 8192
    """Memory, in MiB on each rank, for samples of the next step that are made ready while this one samples and trains
    (the first always is); 0: none is."""
    on_bad_sample: Literal["error", "skip"] = "error"
    """What a sample does that cannot be used (a wrong row, a broken file, too long a prompt): stop the run, or be left
    out, counted and noted in bad_samples.jsonl."""
    allow_shared_validation: bool = False
    """Let validation ask questions or look at media that training has too; False: that is an error."""
    thinking: bool = True
    """Ask for `<think>..</think>` before `<answer>..</answer>`."""
    templates: str | None = None
    """Prompt templates: a file for all types, or a folder whose files TYPE.jinja (spaces as "_") come before the
    package's own."""
    problem_type_ratios: Mapping[str, float] | None = None
    """Share of the training samples of each problem type, relative to each other; None: as they come."""
    modality_ratios: Mapping[str, float] | None = None
    """Share of the training samples of each modality (video, image, text), relative to each other; None: as they
    come."""

    def __post_init__(self) -> None:
        check_range("data", self, low=1, names=("max_prompt_tokens", "workers"))
        check_range("data", self, low=0, names=("ahead_mb",))
        if self.problem_types is not None and not self.problem_types:
            raise UsageError("data.problem_types names no type, so no row would be used; leave it out for all")
        check_frames("data.video", self.video)
        check_pixels("data.image", self.image)
        for source in (*self.train, *self.validation):
            self._check_budgets(source)
        labels = [source.label for source in self.train]
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise UsageError(f"data.train: two files are called '{twice}'; give one of them another `name`")
        if len({source.weight is None for source in self.train}) > 1:
            missing = next(source.path for source in self.train if source.weight is None)
            raise UsageError(f"data.train: {missing} has no weight, but others have; give every file one, or none")
        if weighted := next((source.path for source in self.validation if source.weight is not None), None):
            raise UsageError(f"data.validation: {weighted} has a weight, but every question is asked; remove it")
        self._check_ratios()

    def _check_budgets(self, source: SourceConfig) -> None:
        """Raise UsageError for a source whose own budgets are none."""
        for kind, spec in (("video", self.video), ("image", self.image)):
            where = f"data: {kind} of {source.path}"
            own = build(FrameSpec, {**to_tree(spec), **getattr(source, kind)}, where=where)
            if kind == "video":
                check_frames(where, own)
            else:
                check_pixels(where, own)

    def _check_ratios(self) -> None:
        if self.problem_type_ratios is not None and self.modality_ratios is not None:
            raise UsageError(
                "data.problem_type_ratios and data.modality_ratios: shares are of problem types or of modalities; keep "
                "one of the two"
            )
        for name, ratio in (self.problem_type_ratios or {}).items():
            if not 0 < ratio < float("inf"):
                raise UsageError(
                    f"data.problem_type_ratios: {name} must be a number > 0, got {ratio:g}; to leave a type out, name "
                    "the others in data.problem_types"
                )
        for modality, ratio in (self.modality_ratios or {}).items():
            if modality not in get_args(Modality):
                raise UsageError(
                    f"data.modality_ratios: unknown modality '{modality}'; known: {', '.join(get_args(Modality))}"
                )
            if not 0 < ratio < float("inf"):
                raise UsageError(
                    f"data.modality_ratios: {modality} must be a number > 0, got {ratio:g}; "
                    "to take nothing of a modality, keep its rows in a file of their own"
                )


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
    weights_dir: str | None = None
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
        check_positive("rollout.vllm", self, "deadline_s", "max_logprob_gap")
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


@dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """A language model that grades answers, behind an OpenAI-compatible endpoint."""

    base_url: str
    """Address of the endpoint, such as http://localhost:8000/v1."""
    model: str
    """Name of the model there."""
    problem_types: tuple[str, ...]
    """Types whose accuracy the judge gives instead of the built-in reward; "preference" is compared in pairs."""
    cache_dir: str
    """Folder of the judge's replies, kept by content."""
    api_key_file: str | None = None
    """File that holds the key; None: the endpoint wants none."""
    concurrency: int = 16
    """Requests under way at once."""
    timeout_s: float = 60.0
    """Longest time that one request may take, in seconds."""
    retries: int = 3
    """Further tries of a failed request, by the client, with growing pauses."""
    max_tokens: int = 1024
    """Longest reply of the judge, in tokens."""

    def __post_init__(self) -> None:
        check_text("reward.judge", self, "base_url", "model", "cache_dir")
        check_range("reward.judge", self, low=1, names=("concurrency", "max_tokens"))
        check_range("reward.judge", self, low=0, names=("retries",))
        check_positive("reward.judge", self, "timeout_s")
        if not self.problem_types:
            raise UsageError("reward.judge.problem_types names no type, so the judge is never asked; name one")


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """How responses are scored."""

    weights: Mapping[str, float] = field(default_factory=lambda: {"accuracy": 0.9, "format": 0.1})
    """Weight of each reward part; they sum to 1."""
    max_unscored_frac: float = 0.25
    """A step with a larger share of unscored rollouts stops the run."""
    overlong_buffer_tokens: int = 0
    """The last tokens before rollout.max_response_tokens over which the part "overlong" falls from 0 to -1; 0: none."""
    rewards: Mapping[str, str] = field(default_factory=dict)
    """Problem type -> "file.py:function": a reward of your own for that type, or for all types without one under the
    name "*"; the path is relative to the recipe. Functions of `reward_input` dictionaries (EasyR1) are run as they
    are."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Name -> "file.py:function": a part of your own in every score; `weights` says what it is worth. The path is
    relative to the recipe."""
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of one of `rewards` or `parts` -> keyword arguments of its function, e.g. {"*": {format_weight: 0.2}}."""
    workers: int = 2
    """Processes for answers that may take long to score (math, code, rewards of your own)."""
    deadline_s: float = 10.0
    """Wall time one answer may take there: then it is wrong, or unscored where code of yours scores it. A batch that
    has lost much time this way gives the others less."""
    memory_mb: int = 2048
    """Address space of one such process."""
    sandbox: tuple[str, ...] = ()
    """Command that runs Python answers in a sandbox of yours; none: programs are compared as text, never run."""
    judge: JudgeConfig | None = None
    """A language model that grades the answers of some problem types; None: no judge."""

    def __post_init__(self) -> None:
        check_range("reward", self, low=0, high=1, names=("max_unscored_frac",))
        check_range("reward", self, low=0, names=("overlong_buffer_tokens",))
        check_range("reward", self, low=1, names=("workers",))
        check_range("reward", self, low=256, names=("memory_mb",))
        check_positive("reward", self, "deadline_s")
        if not self.weights:
            raise UsageError("reward.weights is empty, so every score would be 0; give accuracy a weight")
        if abs(sum(self.weights.values()) - 1.0) > 1e-6 or min(self.weights.values()) < 0:
            raise UsageError(
                f"reward.weights must sum to 1, none negative, got {sum(self.weights.values()):g} "
                f"from {dict(self.weights)}"
            )
        if self.weights.get("format", 0.0) > self.weights.get("accuracy", 1.0):
            raise UsageError(
                f"reward.weights: format weighs {self.weights['format']:g}, more than accuracy with "
                f"{self.weights.get('accuracy', 1.0):g}, so well-formed wrong answers would pay more than right ones; "
                "give accuracy at least the weight of format"
            )

    def found_from(self, folder: Path) -> RewardConfig:
        """The same with the files of your own rewards looked for in a folder, that of the recipe.

        A file that is not there stays as it is named, and is looked for in the working folder.
        """

        return replace(self, rewards=found_places(self.rewards, folder), parts=found_places(self.parts, folder))


def found_places(places: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Places "file.py:function" by name, those whose file lies in a folder with its path."""
    return {
        name: str((folder / place).resolve()) if (folder / place.rpartition(":")[0]).is_file() else place
        for name, place in places.items()
    }


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
    source: str | None = None
    """JSONL file of offline trajectories, or a data file with them such as the collected.jsonl of `data filter` (see
    rollout.offline); None: those that the samples carry."""

    def __post_init__(self) -> None:
        if self.accuracy_threshold is not None and not 0 < self.accuracy_threshold <= 1:
            raise UsageError(
                f"offline.accuracy_threshold must be above 0 and at most 1, got {self.accuracy_threshold:g}; "
                "leave it out to put an offline trajectory into every group"
            )


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW, and the learning rate over the steps of the run."""

    learning_rate: float = 1e-6
    """Learning rate at the end of the warm-up; from there on it follows the schedule."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's two moments."""
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
        if self.learning_rate == math.inf:
            raise UsageError("optimizer.learning_rate must be finite, got inf")
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
    save_in_background: bool = False
    """Copy a checkpoint to main memory, which must have room for it, and write it while the run goes on."""
    stall_limit_s: float = 3600.0
    """Time without any progress (a sample prepared, its responses done, an update, a checkpoint) after which a run is
    ended with the stacks of all its processes in stalled.txt; 0: never."""
    stop: StopConfig = field(default_factory=StopConfig)
    """When to end a run that does not learn any more."""

    def __post_init__(self) -> None:
        check_range("train", self, low=0, names=("stall_limit_s",))
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


TrackerName = Literal["tensorboard", "wandb", "trackio", "swanlab"]


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """How several processes (ranks) train together; without a launcher there is one, and none of this counts."""

    shard: Literal["full", "hybrid", "none"] = "full"
    """What a rank holds of the weights, their gradients and the optimizer's numbers: a part, the other parts being with
    all other ranks (full) or with those of the same machine (hybrid); or everything (none)."""
    cpu_offload: bool = False
    """Keep that part in main memory while it is not computed with: slower, for small GPUs."""
    compile: bool = False
    """Compile the layers with torch.compile: the first steps take minutes, the others less time."""
    timeout_s: float = 1800.0
    """Time a rank waits for the others before the run ends with an error; longer than decoding and sampling may differ
    between ranks."""

    def __post_init__(self) -> None:
        check_positive("parallel", self, "timeout_s")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides a run; written, resolved, beside its metrics."""

    out: str
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

    out: str | None = None
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
