"""The model that learns: forward, loss, backward and optimizer step over packed batches."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from transformers import PreTrainedModel

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.kl import sequence_kl
from easyvideor1.algo.losses import Tokens, policy_loss
from easyvideor1.config import OptimizerConfig
from easyvideor1.errors import RunError
from easyvideor1.model.families import shares_prefix
from easyvideor1.records.tally import Tally
from easyvideor1.training.logprobs import Features, response_logprobs
from easyvideor1.training.masters import MasterWeights
from easyvideor1.training.pack import Batch, Pack, pack_groups
from easyvideor1.training.reference import Reference
from easyvideor1.types import Group

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Minibatch:
    """What one optimizer step learns from."""

    batch: Batch
    features: Mapping[int, Features]
    """Index of a group in the batch -> its visual arguments."""
    normalizer: float
    """Divides the summed loss of all packs (see algo.credit.normalizer)."""


class Policy:
    """A model with its optimizer."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        algorithm: Algorithm,
        optimizer: OptimizerConfig,
        total_steps: int,
        temperature: float,
        reference: Reference | None = None,
    ) -> None:
        """
        Args:
            total_steps: length of the run, for learning-rate schedules that end with it.
            temperature: of the sampler; log-probs are those of the distribution that was sampled from.
            reference: for algorithms with a KL term.
        """
        assert reference is not None or not algorithm.needs_reference, "this algorithm needs a reference model"
        self.model = model
        self.shares_prefix = shares_prefix(model)
        """Whether a group can be packed with its prompt once; else with a prompt per response."""
        if not self.shares_prefix:
            log.info("the model has linear-attention layers: each response is computed with a prompt of its own")
        self._reference = reference if algorithm.needs_reference else None
        self.num_old_forwards = 0
        self._algorithm = algorithm
        self._config = optimizer
        self._total_steps = total_steps
        self._temperature = temperature
        self.masters = MasterWeights(model)
        self.optimizer = torch.optim.AdamW(
            self.masters.by_name.values(),
            lr=optimizer.learning_rate,
            betas=optimizer.betas,
            weight_decay=optimizer.weight_decay,
            fused=model.device.type == "cuda",
        )

    def update(self, minibatches: Sequence[Minibatch], *, step: int) -> Tally:
        """One optimizer step per minibatch; where nothing trains (normalizer 0) there is none.

        Old log-probs are computed only for several minibatches: with one, they equal the current ones.

        Raises:
            RunError: the loss or the gradient is not finite; the optimizer step is not made.
        """
        tally = Tally()
        learning_rate = scheduled_rate(self._config, step=step, total_steps=self._total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.model.train()
        old_logprobs = [self._old_logprobs(work) if len(minibatches) > 1 else None for work in minibatches]
        for work, old in zip(minibatches, old_logprobs, strict=True):
            if work.normalizer > 0:
                self._optimizer_step(work, old, tally)
        tally.add("update/learning_rate", total=learning_rate)
        tally.add("update/model_tokens", total=sum(work.batch.num_tokens for work in minibatches))
        return tally

    def _optimizer_step(self, work: Minibatch, old: list[torch.Tensor] | None, tally: Tally) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for index, pack in enumerate(work.batch.packs):
            pack = pack.to(self.model.device)
            logprobs, entropy = self._forward(pack, work.features)
            loss = policy_loss(
                Tokens(
                    logprobs=logprobs,
                    advantages=pack.tokens.advantages,
                    weights=pack.tokens.weights,
                    sequence=pack.tokens.sequence,
                    num_sequences=work.batch.num_sequences,
                    is_offline=pack.tokens.is_offline,
                    old_logprobs=None if old is None else old[index],
                    ref_logprobs=self._reference_logprobs(pack, work.features),
                    sampler_logprobs=pack.tokens.sampler_logprobs,
                    entropy=entropy,
                ),
                self._algorithm,
                normalizer=work.normalizer,
            )
            loss.value.backward()
            self.masters.collect_gradients()
            total += loss.value.item()
            tally.add_sums({name: (float(part.total), float(part.count)) for name, part in loss.metrics.items()})
            _add_sampler_gap(tally, logprobs.detach() if old is None else old[index], pack)
        norm = torch.nn.utils.clip_grad_norm_(self.masters.by_name.values(), self._config.max_grad_norm).item()
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise RunError(
                f"the loss is {total} and the gradient norm {norm}; the weights were not touched. Lower "
                "optimizer.learning_rate, or look for the samples in rollouts/ of this step"
            )
        self.optimizer.step()
        self.masters.write_back()
        tally.add("loss/total", total=total)
        tally.add("update/grad_norm", total=norm)
        tally.add("update/clipped_steps_frac", total=float(norm > self._config.max_grad_norm))

    def _old_logprobs(self, work: Minibatch) -> list[torch.Tensor]:
        """Log-probs of each pack's tokens before the first optimizer step."""
        with torch.no_grad():
            self.num_old_forwards += len(work.batch.packs)
            return [self._forward(pack.to(self.model.device), work.features)[0] for pack in work.batch.packs]

    def kl_per_rollout(
        self, groups: Sequence[Group], features: Mapping[int, Features], *, tokens_per_pack: int
    ) -> list[list[float]]:
        """KL of each rollout from the reference, summed over its tokens in nats, for algorithms with it in the reward.

        Args:
            groups: scored groups; advantages are not needed yet.
            features: index of a group -> its visual arguments.
        """
        blank = [
            replace(group, advantages=(0.0,) * len(group.rollouts), weights=(0.0,) * len(group.rollouts))
            for group in groups
        ]
        batch = pack_groups(blank, tokens_per_pack=tokens_per_pack, shared_prefix=self.shares_prefix)
        sums = torch.zeros(batch.num_sequences)
        with torch.no_grad():
            for pack in batch.packs:
                pack = pack.to(self.model.device)
                logprobs, _ = self._forward(pack, features)
                ref_logprobs = self._reference_logprobs(pack, features)
                assert ref_logprobs is not None
                sums += sequence_kl(
                    logprobs,
                    ref_logprobs,
                    sequence_N=pack.tokens.sequence,
                    num_sequences=batch.num_sequences,
                    kind=self._algorithm.kl_kind,
                ).cpu()
        values = iter(sums.tolist())
        return [[next(values) for _ in group.rollouts] for group in groups]

    def _reference_logprobs(self, pack: Pack, features: Mapping[int, Features]) -> torch.Tensor | None:
        if self._reference is None:
            return None
        return self._reference.logprobs(pack, features, temperature=self._temperature)

    def _forward(self, pack: Pack, features: Mapping[int, Features]) -> tuple[torch.Tensor, torch.Tensor]:
        return response_logprobs(
            self.model,
            pack,
            features,
            temperature=self._temperature,
            entropy_gradients=self._algorithm.needs_entropy,
        )


def scheduled_rate(config: OptimizerConfig, *, step: int, total_steps: int) -> float:
    """Learning rate of an update.

    Args:
        step: updates done before it, from 0.
        total_steps: updates of the whole run; "linear" and "cosine" reach 0 there.

    >>> scheduled_rate(OptimizerConfig(learning_rate=1.0, warmup_steps=4), step=0, total_steps=10)
    0.25
    >>> scheduled_rate(OptimizerConfig(learning_rate=1.0, schedule="linear"), step=5, total_steps=10)
    0.5
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, total_steps - config.warmup_steps)
    match config.schedule:
        case "constant":
            scale = 1.0
        case "linear":
            scale = 1.0 - progress
        case "cosine":
            scale = 0.5 * (1.0 + math.cos(math.pi * progress))
    return config.learning_rate * max(0.0, scale)


def _add_sampler_gap(tally: Tally, logprobs: torch.Tensor, pack: Pack) -> None:
    """How far the actor's log-probs are from the engine's, over the tokens that it sampled."""
    gap = (logprobs - pack.tokens.sampler_logprobs).abs()
    # Stored log-probs are those of another policy: their distance says nothing about the engine.
    known = gap[~gap.isnan() & ~pack.tokens.is_offline]
    if len(known):
        tally.add("policy/sampler_logprob_diff_mean", total=float(known.sum()), count=len(known))
        tally.add_max("policy/sampler_logprob_diff_max", float(known.max()))
