"""The model that learns: forward, loss, backward and optimizer step over packed batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.kl import token_kl
from easyvideor1.algo.losses import Sum, Tokens, idle_sums, policy_loss
from easyvideor1.config_train import OptimizerConfig
from easyvideor1.errors import RunError, UsageError
from easyvideor1.model.vision import Media, Tower
from easyvideor1.records.tally import Tally, merged
from easyvideor1.training.costs import Share, costs_of
from easyvideor1.training.forward import PackForward
from easyvideor1.training.full_kl import Words
from easyvideor1.training.logprobs import Outputs, check_counts
from easyvideor1.training.masters import MasterWeights, clip_gradients
from easyvideor1.training.meter import Meter
from easyvideor1.training.minibatch import Minibatch
from easyvideor1.training.optimizers import IS_OF_VALUES, make_optimizer, set_learning_rate
from easyvideor1.training.pack import Batch, Pack, PackForm, blank_pack, pack_groups
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.reference import Reference
from easyvideor1.training.shared_prefix import pack_form
from easyvideor1.training.token_facts import OfRollouts, TokenFacts, by_rollout, per_token
from easyvideor1.types import Group


class Policy:
    """A model with its optimizer; of several ranks each computes its part of a batch, and all make the same steps."""

    def __init__(
        self,
        model: PreTrainedModel | PackForward,
        *,
        algorithm: Algorithm,
        optimizer: OptimizerConfig,
        total_steps: int,
        temperature: float,
        reference: Reference | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """
        Args:
            model: with several ranks, its forward after `sharded.shard`.
            total_steps: length of the run, for learning-rate schedules that end with it.
            temperature: of the sampler; log-probs are those of the distribution that was sampled from.
            reference: for algorithms with a KL term.
            ranks: None: one process.
        """
        assert reference is not None or not algorithm.needs_reference, "this algorithm needs a reference model"
        self._forward_of = model if isinstance(model, PackForward) else PackForward(model)
        self.model = self._forward_of.model
        self.ranks = ranks or Ranks()
        assert (self._forward_of.value_head is not None) == algorithm.needs_values, "values need a value head"
        sequence = self.sequence = self._forward_of.sequence
        self.tower = Tower(self.model, rank=sequence.rank, size=sequence.size)
        self.share = Share(ranks=self.ranks, costs=costs_of(self.model), ranks_per_pack=sequence.size)
        self._reference = reference if algorithm.needs_reference else None
        self.num_old_forwards = 0
        self._algorithm = algorithm
        self._config = optimizer
        self._total_steps = total_steps
        self._temperature = temperature
        self.masters = MasterWeights(self.model, value_head=self._forward_of.value_head)
        self.optimizer = make_optimizer(
            optimizer,
            _decayed_apart(self.masters, weight_decay=optimizer.weight_decay),
            is_gpu=self.model.device.type == "cuda",
        )

    def weigh_kl(self, coef: float) -> None:
        """Set the KL coefficient of the updates to come, for algorithms that adapt it."""
        self._algorithm = replace(self._algorithm, kl_coef=coef)

    def update(self, minibatches: Sequence[Minibatch], *, step: int, passes: int = 1) -> Tally:
        """One optimizer step per minibatch and pass; where nothing trains (normalizer 0) there is none.

        Old log-probs are computed once, before the first, and only for several optimizer steps: with one, they equal
        the current ones.

        Raises:
            RunError: the loss or the gradient is not finite; the optimizer step is not made.
        """
        tally = Tally()
        learning_rate = scheduled_rate(self._config, step=step, total_steps=self._total_steps)
        if step < self._algorithm.value_warmup_steps:
            learning_rate = 0.0
        of_values = replace(self._config, learning_rate=self._algorithm.value_learning_rate)
        value_rate = scheduled_rate(of_values, step=step, total_steps=self._total_steps)
        set_learning_rate(self.optimizer, learning_rate, of_values=value_rate)
        self.model.train()
        with self.ranks.agree("packs"):
            for work in minibatches:
                self._check(work.batch, work.media)
        is_only = len(minibatches) * passes == 1
        old_logprobs = [None if is_only else self._old_logprobs(work) for work in minibatches]
        for work, old in list(zip(minibatches, old_logprobs, strict=True)) * passes:
            if work.normalizer > 0:
                tally.merge(self._optimizer_step(work, old))
                idle = work.idle
                tally.add_sums(
                    idle_sums(
                        num_sampled=idle.num_sampled_tokens,
                        num_offline=idle.num_offline_tokens,
                        is_only_update=is_only,
                    )
                )
            tally.add("update/idle_groups_frac", total=work.idle.num_groups, count=work.batch.num_groups)
        tally.add("update/learning_rate", total=learning_rate)
        num_tokens = sum(work.batch.num_tokens for work in minibatches) * passes
        tokens_of_all = self.ranks.gather(num_tokens, of="model tokens")
        tally.add("update/model_tokens", total=sum(self.sequence.one_each(tokens_of_all)))
        return tally

    def _optimizer_step(self, work: Minibatch, old: list[torch.Tensor] | None) -> Tally:
        self.masters.zero_gradients()
        blanks = self._blanks(work.batch)
        meter, total = Meter(), torch.zeros((), device=self._device)
        for index, pack in enumerate(work.batch.packs):
            pack = pack.to(self._device)
            # Before the policy's forward, whose activations need the memory.
            with self._referred(pack, work.media) as (ref_logprobs, words):
                found = self._forward(pack, work.media, with_entropy=True, reference=words)
                loss = policy_loss(
                    Tokens(
                        logprobs=found.logprobs,
                        advantages=pack.tokens.advantages,
                        weights=pack.tokens.weights,
                        sequence=pack.tokens.sequence,
                        num_sequences=work.batch.num_sequences,
                        is_offline=pack.tokens.is_offline,
                        old_logprobs=None if old is None else old[index],
                        ref_logprobs=ref_logprobs,
                        sampler_logprobs=pack.tokens.sampler_logprobs,
                        entropy=found.entropy,
                        full_kl=found.kl,
                        values=found.values,
                        returns=pack.tokens.returns,
                        old_values=pack.tokens.old_values,
                    ),
                    self._algorithm,
                    # Gradients are averaged over ranks; those that share a pack all have its loss, and the log-probs in
                    # it add up the gradients of theirs.
                    normalizer=work.normalizer / (self.ranks.size // self.sequence.size),
                )
                loss.value.backward()
            self.masters.collect_gradients()
            total += loss.value.detach()
            meter.add_sums(loss.metrics)
            _add_sampler_gap(meter, found.logprobs.detach() if old is None else old[index], pack)
        for pack in blanks:
            with self._referred(pack, {}):
                found = self._forward(pack, {})
                unmoved = found.logprobs if found.values is None else torch.stack([found.logprobs, found.values])
                (0.0 * unmoved.sum()).backward()
        # Each by itself: a value head's gradient is the longer one early on, and would shorten the policy's.
        norms = {"update/grad_norm": self.masters.of_model, "update/value_grad_norm": self.masters.of_values}
        once = torch.ones_like(total)
        meter.add("loss/total", Sum(total, once))
        for name, weights in norms.items():
            if weights:
                norm = clip_gradients(weights.values(), max_norm=self._config.max_grad_norm)
                meter.add(name, Sum(norm, once))
        tally = merged(self.sequence.one_each(self.ranks.gather(meter.read(), of="loss")))
        values = tally.values()
        if not all(math.isfinite(values[name]) for name in ("loss/total", *norms) if name in values):
            raise RunError(
                f"the loss is {values['loss/total']} and the gradient norm {values['update/grad_norm']}; the weights "
                "were not touched. Lower optimizer.learning_rate, or look for the samples in rollouts/ of this step"
            )
        self.optimizer.step()
        self.masters.write_back()
        is_clipped = values["update/grad_norm"] > self._config.max_grad_norm
        tally.add("update/clipped_steps_frac", total=float(is_clipped))
        return tally

    def _old_logprobs(self, work: Minibatch) -> list[torch.Tensor]:
        """Log-probs of each pack's tokens before the first optimizer step."""
        blanks = self._blanks(work.batch)
        with torch.no_grad():
            self.num_old_forwards += len(work.batch.packs)
            old = [self._forward(pack.to(self._device), work.media).logprobs for pack in work.batch.packs]
            for pack in blanks:
                self._forward(pack, {})
        self._forward_of.rest()
        return old

    def token_facts(
        self, groups: Sequence[Group], media: Callable[[int], Media], *, tokens_per_pack: int, form: PackForm
    ) -> TokenFacts:
        """What the algorithm asks of each token before the update, by one forward of all rollouts.

        Args:
            groups: scored groups of all ranks; advantages are not needed yet.
            media: index of a group -> what the vision tower is to look at, or saw; asked for what this rank computes.
        """
        blank = [
            replace(group, advantages=(0.0,) * len(group.rollouts), weights=(0.0,) * len(group.rollouts))
            for group in groups
        ]
        chosen = [[i for i, rollout in enumerate(group.rollouts) if rollout.token_ids] for group in groups]
        with self.ranks.agree("packs before the update"):
            own = self.share.of(groups, chosen, form=form)
            batch = pack_groups(blank, tokens_per_pack=tokens_per_pack, form=form, chosen=own)
            seen = {index: media(index) for index, of_group in enumerate(own) if of_group}
            self._check(batch, seen)
        blanks = self._blanks(batch)
        wants_kl = self._reference is not None and self._algorithm.kl_in == "reward"
        kl: OfRollouts = {}
        values: OfRollouts = {}
        with torch.no_grad():
            for pack in batch.packs:
                pack = pack.to(self._device)
                with self._referred(pack, seen) if wants_kl else nullcontext((None, None)) as (ref_logprobs, words):
                    found = self._forward(pack, seen, reference=words)
                if found.values is not None:
                    values |= by_rollout(found.values, pack, groups)
                kl_N, kind = found.kl, self._algorithm.kl_kind
                if ref_logprobs is not None and kind != "full":
                    kl_N = token_kl(found.logprobs, ref_logprobs, kind=kind)
                if kl_N is not None:
                    kl |= by_rollout(kl_N, pack, groups)
            for pack in blanks:
                with self._referred(pack, {}) if wants_kl else nullcontext():
                    self._forward(pack, {})
        self._forward_of.rest()
        # A rollout is computed by one sequence group.
        of_groups = self.sequence.one_each(self.ranks.gather((kl, values), of="what is known of tokens"))
        return TokenFacts(
            kl=per_token([part for part, _ in of_groups], groups) if wants_kl else None,
            values=per_token([part for _, part in of_groups], groups) if self.masters.of_values else None,
        )

    def _check(self, batch: Batch, media: Mapping[int, Media]) -> None:
        """Raise what is wrong with the packs of this rank before any is computed, when others would wait for it."""
        for pack in batch.packs:
            if pack.num_tokens < self.sequence.size:
                raise UsageError(
                    f"sample {pack.segments[0].sample_id}: a prompt with its responses has {pack.num_tokens} tokens, "
                    f"fewer than parallel.sequence={self.sequence.size}; set that to 1"
                )
            check_counts(self.model, pack, media)

    def _blanks(self, batch: Batch) -> list[Pack]:
        """Packs that bring this rank to the number of the others; asked for before any pack is computed."""
        num_packs = self.ranks.most(len(batch.packs), of="number of packs")
        if num_packs == len(batch.packs):
            return []
        form = pack_form(self.model, shared=True)
        blank = blank_pack(form, num_tokens=max(2, self.sequence.size)).to(self._device)
        return [blank] * (num_packs - len(batch.packs))

    @property
    def _device(self) -> torch.device:
        return self._forward_of.device

    @contextmanager
    def _referred(self, pack: Pack, media: Mapping[int, Media]) -> Iterator[tuple[torch.Tensor | None, Words | None]]:
        """What the KL term needs of the reference, for the time of a block: its log-probs of the tokens, or, for the
        exact divergence, what those of all words are made of."""
        if self._reference is None:
            yield None, None
        elif self._algorithm.kl_kind == "full":
            with self._reference.words(pack, media) as words:
                yield None, words
        else:
            yield self._reference.logprobs(pack, media, temperature=self._temperature), None

    def _forward(
        self,
        pack: Pack,
        media: Mapping[int, Media],
        *,
        with_entropy: bool = False,
        reference: Words | None = None,
    ) -> Outputs:
        return self._forward_of(
            pack, media, temperature=self._temperature, with_entropy=with_entropy, reference=reference
        )


def _decayed_apart(masters: MasterWeights, *, weight_decay: float) -> list[dict]:
    """Parameter groups of the optimizer: matrices and embeddings decay, norms, biases and a value head do not.

    Pulling the scale of a norm towards 0 makes nothing simpler; the rule is that of most training code (minGPT's, for
    one).
    """
    decayed = [weight for weight in masters.of_model.values() if weight.ndim >= 2]
    others = [weight for weight in masters.of_model.values() if weight.ndim < 2]
    groups = [
        {"params": decayed, "weight_decay": weight_decay, IS_OF_VALUES: False},
        {"params": others, "weight_decay": 0.0, IS_OF_VALUES: False},
        {"params": list(masters.of_values.values()), "weight_decay": 0.0, IS_OF_VALUES: True},
    ]
    return [group for group in groups if group["params"]]


def scheduled_rate(config: OptimizerConfig, *, step: int, total_steps: int) -> float:
    """Learning rate of an update.

    Args:
        step: updates done before it, from 0.
        total_steps: updates of the whole run; "linear" and "cosine" reach their least value there.

    >>> scheduled_rate(OptimizerConfig(learning_rate=1.0, warmup_steps=4), step=0, total_steps=10)
    0.25
    >>> scheduled_rate(OptimizerConfig(learning_rate=1.0, schedule="linear"), step=5, total_steps=10)
    0.5
    """
    warmup_steps = config.warmup_steps or math.floor(config.warmup_frac * total_steps + 1e-9)
    if step < warmup_steps:
        return config.learning_rate * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    match config.schedule:
        case "constant":
            scale = 1.0
        case "linear":
            scale = 1.0 - progress
        case "cosine":
            scale = 0.5 * (1.0 + math.cos(math.pi * progress))
    least = config.min_learning_rate_frac
    return config.learning_rate * (least + (1.0 - least) * max(0.0, scale))


def _add_sampler_gap(meter: Meter, logprobs: torch.Tensor, pack: Pack) -> None:
    """How far the actor's log-probs are from the engine's, over the tokens that it sampled."""
    gap = (logprobs - pack.tokens.sampler_logprobs).abs()
    # Log-probs of offline trajectories are those of another policy: their distance says nothing about the engine.
    is_known = ~gap.isnan() & ~pack.tokens.is_offline
    meter.add("policy/sampler_logprob_diff_mean", Sum(torch.where(is_known, gap, 0.0).sum(), is_known.sum()))
    meter.add_max("policy/sampler_logprob_diff_max", torch.where(is_known, gap, -torch.inf).max())
