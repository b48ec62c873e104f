"""The sections of a recipe that say how responses are sampled, in training and in validation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from easyvideor1.config_checks import check_positive, check_range, check_time
from easyvideor1.config_data import CacheMode
from easyvideor1.config_paths import PathText
from easyvideor1.errors import UsageError


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
    """Settings of vLLM, in this process or as servers."""

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
class ValidationConfig:
    """How validation questions are answered, beside the greedy response that the best checkpoint is chosen by."""

    temperature: float = 1.0
    """Temperature of the sampled responses, of which there are train.validation_samples per question."""
    top_p: float = 1.0
    """Sample among the likeliest tokens that together have this probability; 1: among all."""
    top_k: int = 0
    """Sample among the k likeliest tokens; 0: among all."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of tokens that the response already has."""
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
