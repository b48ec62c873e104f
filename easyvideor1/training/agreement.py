"""Whether the engine samples from the actor's own weights and inputs: its log-probs beside the actor's, per modality.

Wrong weights, pixels, times or positions in an engine raise no error by themselves; the policy then learns from samples
of another one. So a few rollouts are computed again: of each modality the first ones of a run, and some later on.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from easyvideor1.errors import RunError
from easyvideor1.model import lora
from easyvideor1.model.vision import Media
from easyvideor1.rollout.engine import Engine, Request
from easyvideor1.training.forward import PackForward
from easyvideor1.training.logprobs import check_counts
from easyvideor1.training.pack import Pack, PackForm, blank_pack, pack_groups
from easyvideor1.training.ranks import Ranks
from easyvideor1.types import Group, Modality, Rollout, Sample

log = logging.getLogger(__name__)

LIMITS = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""Mean distance in nats per token above which the run stops. Two exact implementations in float32 differ by rounding,
about 1e-6; in bfloat16 by about 0.01, and wrong inputs by more than that."""
Kept = tuple[Request, tuple[Rollout, ...]]
"""A request with those of its rollouts that can be compared."""
MIN_ADAPTER_SHARE = 0.5
SIGMAS = 3.0


def mean_gap_limit(dtype: torch.dtype, limit: float | None) -> float:
    return LIMITS[dtype] if limit is None else limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """How far an engine's log-probs are from the actor's, over the tokens of some rollouts."""

    mean: float
    max: float
    num_tokens: int
    adapter_share: float | None
    """How much of what the adapters change is in the engine's log-probs: 1 all, 0 none; None: there are no adapters, or
    what they change is too small to tell."""


class AgreeingEngine:
    """An engine whose rollouts are compared now and then with the actor, when it is done with them.

    Of several ranks each compares what its own engine sampled, and all compute at once, for the actor may be sharded
    over them; so all wake it, load weights into it and let it sleep together.
    """

    def __init__(
        self,
        engine: Engine,
        model: Any,
        *,
        ranks: Ranks | None = None,
        max_mean_gap: float,
        check_every: int,
        tokens_per_pack: int,
        form: Callable[[], PackForm],
        overlaps: bool = False,
    ) -> None:
        """
        Args:
            overlaps: the actor may learn while the engine samples, unless a comparison is due beforehand; so a modality
                that comes for the first time is compared in the next round.
            model: the actor, after `shared_prefix.enable`; or its forward over packs, with several ranks after
                `sharded.shard`.
            ranks: None: one process.
            max_mean_gap: in nats per token.
            check_every: versions of the weights between comparisons of a modality; 0: only the first.
            form: how groups are packed for the model.
        """
        self._engine = engine
        self._forward = model if isinstance(model, PackForward) else PackForward(model)
        self._ranks = ranks or Ranks()
        self._max_mean_gap, self._check_every = max_mean_gap, check_every
        self._tokens_per_pack, self._form = tokens_per_pack, form
        self._overlaps, self._may_compare = overlaps, True
        self._unseen: set[Modality] = set()
        """Modalities that came while the actor was learning, and were never compared."""
        self._version = 0
        self._checked: dict[Modality, int] = {}
        """Modality -> version of the weights at its last comparison."""
        self._kept: dict[Modality, Kept] = {}
        self.gaps: dict[Modality, Gap] = {}
        """The last comparison of each modality."""

    @property
    def banned_hits(self) -> int:
        return self._engine.banned_hits

    @property
    def needs_still_actor(self) -> bool:
        is_due = not self._checked or self._unseen or any(map(self._is_due, self._checked))
        return bool(is_due) or self._engine.needs_still_actor

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """See Engine.awake.

        Raises:
            RunError: at its end, where the engine and the actor do not agree, on this rank or another.
        """
        self._kept.clear()
        self._may_compare = not self._overlaps or any(self._ranks.gather(self.needs_still_actor, of="comparisons due"))
        with contextlib.ExitStack() as sleeping:
            with self._ranks.agree("waking up of the engine"):
                sleeping.enter_context(self._engine.awake())
            yield
            with self._ranks.agree("end of sampling"):
                sleeping.close()
        kept, self._kept = self._kept, {}
        due: dict[Modality, None] = {}
        for of_rank in self._ranks.gather(dict.fromkeys(kept), of="modalities to compare"):
            due |= of_rank
        for modality in due:
            self._compare(modality, kept.get(modality))

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        asked: dict[int, Request] = {}
        places = itertools.count()

        def noted() -> Iterator[Request | None]:
            for request in requests:
                if request is not None:
                    asked[next(places)] = request
                yield request

        for place, rollouts in self._engine.generate(noted()):
            self._keep(asked.pop(place), rollouts)
            yield place, rollouts

    def load_weights(self, tensors: Iterable[tuple[str, torch.Tensor]], *, version: int) -> None:
        """See Engine.load_weights; the tensors may be gathered from all ranks as they are taken."""
        left = iter(tensors)
        with self._ranks.agree("weights for the engine"):
            try:
                self._engine.load_weights(left, version=version)
            finally:
                for _ in left:  # a rank that fails, or needs none, would leave the others alone in gathering them
                    pass
        self._version = version

    def _keep(self, request: Request, rollouts: tuple[Rollout, ...]) -> None:
        modality = request.example.sample.modality
        if not self._may_compare:
            if modality not in self._checked:
                self._unseen.add(modality)
            return
        usable = tuple(rollout for rollout in rollouts if rollout.token_ids and rollout.logprobs is not None)
        # A greedy response says little: its tokens are the ones that most models agree on.
        is_better = modality not in self._kept or self._kept[modality][0].sampling.is_greedy
        if self._is_due(modality) and usable and is_better:
            self._kept[modality] = (request, usable)

    def _is_due(self, modality: Modality) -> bool:
        last = self._checked.get(modality)
        return last is None or (self._check_every > 0 and self._version - last >= self._check_every)

    def _compare(self, modality: Modality, own: Kept | None) -> None:
        """Compare what this rank's engine sampled, if it did, while other ranks do the same; ranks that compute each
        pack together do so with that of one after another of them."""
        sequence = self._forward.sequence
        for turn in range(sequence.size):
            gap = self._gap(self._shared(own, turn))
            with self._ranks.agree("comparison of engine and actor"):
                if own is not None and sequence.rank == turn:
                    assert gap is not None
                    self._checked[modality], self.gaps[modality] = self._version, gap
                    self._unseen.discard(modality)
                    self._check_gap(modality, own[0].example.sample, gap)

    def _shared(self, own: Kept | None, turn: int) -> Kept | None:
        """What was kept by the rank whose turn it is, of those that compute packs with this one."""
        sequence = self._forward.sequence
        if sequence.size == 1:
            return own
        of_ranks = self._ranks.gather(own if sequence.rank == turn else None, of="rollouts to compare")
        return of_ranks[self._ranks.rank // sequence.size * sequence.size + turn]

    def _check_gap(self, modality: Modality, sample: Sample, gap: Gap) -> None:
        log.info(
            "log-probs of the engine and the actor, %s, weights %d: mean distance %.3g, largest %.3g, %d tokens",
            *(modality, self._version, gap.mean, gap.max, gap.num_tokens),
        )
        told = (
            f"sample {sample.id} ({modality}), weights {self._version}: the engine does not sample from the policy: "
            f"its log-probs of {gap.num_tokens} tokens"
        )
        if not gap.mean <= self._max_mean_gap:
            raise RunError(
                f"{told} are {gap.mean:.3g} nats from the actor's on average (at most {gap.max:.3g}), more than "
                f"{self._max_mean_gap:g}. It has other weights, or sees other pixels, times or positions. "
                "If the precision is to blame, raise rollout.vllm.max_logprob_gap"
            )
        if gap.adapter_share is not None and gap.adapter_share < MIN_ADAPTER_SHARE:
            raise RunError(
                f"{told} are those of the base model, without the adapters (share of their effect: "
                f"{gap.adapter_share:.2f}); the engine did not take over the last update"
            )

    @torch.no_grad()
    def _gap(self, kept: Kept | None) -> Gap | None:
        """None: nothing is kept, and this rank only computes beside the others."""
        packs, media, temperature = [], {}, 1.0
        with self._ranks.agree("packs to compare"):
            if kept is not None:
                packs, media, temperature = self._packs(*kept)
        num_packs = self._ranks.most(len(packs), of="packs to compare")
        blank = blank_pack(self._form(), num_tokens=max(2, self._forward.sequence.size))
        blanks = [blank] * (num_packs - len(packs))
        actor, base = [], []
        for pack in [*packs, *blanks]:
            pack = pack.to(self._forward.device)
            seen = media if len(actor) < len(packs) else {}
            actor.append(self._forward(pack, seen, temperature=temperature).logprobs)
            if lora.has_adapters(self._forward.model):
                with lora.adapters_off(self._forward.model):
                    base.append(self._forward(pack, seen, temperature=temperature).logprobs)
        self._forward.rest()
        if not packs:
            return None
        theirs = torch.cat([pack.tokens.sampler_logprobs for pack in packs]).to(self._forward.device).double()
        ours = torch.cat(actor[: len(packs)]).double()
        distance = (theirs - ours).abs()
        share = adapter_share(theirs, ours, torch.cat(base[: len(packs)]).double()) if base else None
        return Gap(
            mean=float(distance.mean()), max=float(distance.max()), num_tokens=len(distance), adapter_share=share
        )

    def _packs(self, request: Request, rollouts: tuple[Rollout, ...]) -> tuple[list[Pack], dict[int, Media], float]:
        """(packs of some rollouts, their media, the temperature of their log-probs)."""
        nothing = (0.0,) * len(rollouts)
        group = Group(prompt=request.example.prompt, rollouts=rollouts, advantages=nothing, weights=nothing)
        batch = pack_groups([group], tokens_per_pack=self._tokens_per_pack, form=self._form())
        media: dict[int, Media] = {0: request.example.features}
        for pack in batch.packs:
            check_counts(self._forward.model, pack, media)
        return list(batch.packs), media, 1.0 if request.sampling.is_greedy else request.sampling.temperature


def adapter_share(engine: torch.Tensor, actor: torch.Tensor, base: torch.Tensor) -> float | None:
    """Least-squares share of the adapters' effect (actor - base) in what the engine gives (engine - base), [N] each.

    None where it cannot be told from 0 by `SIGMAS` standard errors and from 1 neither.

    >>> base, moved = torch.zeros(4), torch.tensor([0.1, -0.2, 0.3, 0.1])
    >>> round(adapter_share(moved, moved, base), 6), round(adapter_share(base, moved, base), 6)
    (1.0, 0.0)
    """
    moved, seen = actor - base, engine - base
    size = float(moved.pow(2).sum())
    if size == 0.0:
        return None
    share = float((seen * moved).sum()) / size
    error = math.sqrt(float((seen - share * moved).pow(2).mean()) / size)
    return share if SIGMAS * error < MIN_ADAPTER_SHARE else None
