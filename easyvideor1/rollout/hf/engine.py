"""An engine over a Transformers model in this process: every prompt is read once, whatever comes after it.

Responses are sampled in one batch without finished ones: when a response ends, its slot is given up, and when enough
room is free the next prompts are read. What is sampled does not depend on any of it (see noise), and a response changes
with the batch only as far as sums are rounded in another order.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from easyvideor1.data.encode import Encoder
from easyvideor1.model.families import language_model, layer_kinds, shares_prefix
from easyvideor1.model.vision import Tower
from easyvideor1.rollout.engine import Request
from easyvideor1.rollout.hf.attention import Prompts, switched_on
from easyvideor1.rollout.hf.batch import Batch, ReadPrompt, Slot, Wanted
from easyvideor1.rollout.hf.sampler import Sampler, ways
from easyvideor1.rollout.hf.states import linear_cache, linear_states
from easyvideor1.types import Example, Prompt, Rollout, StopReason

REFILL_FRAC = 0.25
"""Share of the budget that must be free before further prompts are read: few at a time would be slow."""
READ_TOKENS = 8192
"""Prompts are read together up to this many tokens; a longer one by itself."""


class HFEngine:
    """Samples from a model that lives in this process: the actor itself, so that weights are never copied."""

    def __init__(self, model: Any, encoder: Encoder, *, tokens_per_batch: int, tower: Tower | None = None) -> None:
        """
        Args:
            model: a Transformers `ForConditionalGeneration` of a known family.
            tokens_per_batch: tokens whose keys and values are in memory at once: each prompt under way once, and for
                each response under way the most tokens it may have. One response is always under way, however large.
            tower: the model's vision tower, which may have seen an example before; None: one of the engine's own.

        Raises:
            UsageError: the model has layers with sliding-window attention.
        """
        self._model, self._encoder = model, encoder
        self._tokens_per_batch = tokens_per_batch
        self._tower = tower or Tower(model)
        self._kinds, self._shares_prefix = layer_kinds(model), shares_prefix(model)
        self._sampler = Sampler(encoder.banned_ids, device=model.device)
        self._end_ids = torch.tensor(encoder.end_ids, device=model.device)
        self._head_weight: torch.Tensor | None = None
        self._version = 0
        self._is_awake = False
        # Transformers 5.24 renamed the argument; both names are within the supported range.
        names = inspect.signature(language_model(model).forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    @property
    def banned_hits(self) -> int:
        return self._sampler.banned_hits

    def load_weights(self, tensors: object, *, version: int) -> None:
        """The weights are shared already: none of the tensors is made."""
        self._version = version

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """See Engine.awake. Weights must not change within the block."""
        was_training = self._model.training
        self._model.eval()
        head = self._model.lm_head
        # Rounded to bfloat16, a log-prob over a vocabulary of 150,000 tokens would be off by 0.01 nats on average.
        self._head_weight = None if head.weight.dtype == torch.float32 else head.weight.detach().float()
        self._is_awake = True
        try:
            with switched_on(self._model):
                yield
        finally:
            self._is_awake, self._head_weight = False, None
            self._model.train(was_training)

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        """See Engine.generate."""
        assert self._is_awake, "generate within `with engine.awake():`"
        queue = _Queue(requests)
        batch: Batch | None = None
        while (batch := self._batch_to_go_on_with(batch, queue)) is not None:
            if self._admit(batch, queue):
                yield from self._completed(batch)
            if len(batch):
                self._advance(batch)
                yield from self._completed(batch)

    def _batch_to_go_on_with(self, batch: Batch | None, queue: _Queue) -> Batch | None:
        """The batch, or a new one where the next response may be too long for its columns; None: all is done."""
        head = queue.head
        if batch is not None and (len(batch) or (head is not None and head.columns <= batch.columns)):
            return batch
        if head is None:
            return None
        return Batch(
            capacity=max(1, self._tokens_per_batch // head.columns),
            columns=head.columns,
            vocab_size=self._model.lm_head.weight.shape[0],
            device=self._model.device,
            dtype=self._model.dtype,
        )

    @torch.no_grad()
    def _admit(self, batch: Batch, queue: _Queue) -> bool:
        """Take in responses as far as there is room, and sample their first tokens; whether there were any."""
        reads = {read.prompt: read for read in batch.reads}
        unread: dict[Prompt, Example] = {}
        chosen: list[tuple[Wanted, int, Prompt]] = []
        room = self._tokens_per_batch - batch.num_tokens
        if len(batch) and room < REFILL_FRAC * self._tokens_per_batch:
            return False
        while (head := queue.head) is not None and head.columns <= batch.columns:
            prompt = head.example.prompt
            is_new = prompt not in reads and prompt not in unread
            fitting = (room - is_new * len(prompt)) // batch.columns
            if fitting < 1 and (len(batch) or chosen):
                break
            if is_new:
                if unread and not self._can_read_together([*unread, prompt]):
                    reads |= self._read(unread)
                    unread = {}
                unread[prompt] = head.example
            taken = head.take(max(1, min(fitting, batch.capacity - len(batch) - len(chosen))))
            chosen += [(head.wanted, index, prompt) for index in taken]
            room -= is_new * len(prompt) + len(taken) * batch.columns
        if not chosen:
            return False
        reads |= self._read(unread)
        held = [reads[head.example.prompt]] if (head := queue.begun) is not None else []
        slots = [
            Slot(wanted=wanted, index=index, read=reads[prompt], start=batch.step) for wanted, index, prompt in chosen
        ]
        self._sample_first(batch, batch.add(slots, held=held))
        return True

    def _can_read_together(self, prompts: Collection[Prompt]) -> bool:
        return self._shares_prefix and sum(map(len, prompts)) <= READ_TOKENS

    def _read(self, unread: Mapping[Prompt, Example]) -> dict[Prompt, ReadPrompt]:
        """Run prompts through the model, one after another in one sequence; the vision tower once for each."""
        if not unread:
            return {}
        prompts, device = list(unread), self._model.device
        attend = Prompts([len(prompt) for prompt in prompts])
        cache = linear_cache(self._kinds)
        hidden = self._model.model(
            input_ids=torch.from_numpy(np.concatenate([prompt.input_ids for prompt in prompts]))[None].to(device),
            position_ids=torch.from_numpy(np.concatenate([prompt.position_ids for prompt in prompts], 1))[:, None].to(
                device
            ),
            use_cache=False,
            attend=attend,
            **{self._cache_name: cache},
            **self._tower.inputs(list(unread.values())),
        ).last_hidden_state[0]
        ends = np.cumsum([len(prompt) for prompt in prompts]) - 1
        return {
            prompt: ReadPrompt(
                prompt=prompt, hidden=hidden[end].clone(), kept=attend.kept_of(place), states=linear_states(cache)
            )
            for place, (prompt, end) in enumerate(zip(prompts, ends.tolist(), strict=True))
        }

    def _sample_first(self, batch: Batch, places: slice) -> None:
        """The first token of new responses, from what their prompts gave."""
        slots = batch.slots[places]
        numbers = {read: number for number, read in enumerate(dict.fromkeys(slot.read for slot in slots))}
        logits = self._logits(torch.stack([read.hidden for read in numbers]))
        logits = logits[[numbers[slot.read] for slot in slots]]
        how = ways([slot.wanted.sampling for slot in slots], vocab_size=logits.shape[1], device=logits.device)
        batch.put(places, *self._sampler.sample(logits, how=how, uniforms=batch.uniforms(places)))

    @torch.no_grad()
    def _advance(self, batch: Batch) -> None:
        """One more token for every response."""
        batch.begin_step()
        hidden = language_model(self._model)(
            input_ids=batch.newest_tokens()[:, None],
            position_ids=batch.positions(),
            use_cache=False,
            attend=batch.attend,
            **{self._cache_name: linear_cache(self._kinds, batch.states)},
        ).last_hidden_state[:, 0]
        everything = slice(0, len(batch))
        batch.step += 1
        sampled = self._sampler.sample(self._logits(hidden), how=batch.ways, uniforms=batch.uniforms(everything))
        batch.put(everything, *sampled)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        if self._head_weight is None:
            return self._model.lm_head(hidden)
        return F.linear(hidden.float(), self._head_weight)

    def _completed(self, batch: Batch) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        """Take responses that are over out of the batch; the requests that have all of theirs."""
        finished = batch.finished(self._end_ids)
        if not finished:
            return
        written = batch.written(finished)
        slots = [batch.slots[place] for place in finished]
        batch.drop(finished)
        for slot, (ids, logprobs) in zip(slots, written, strict=True):
            wanted = slot.wanted
            wanted.rollouts[slot.index] = self._rollout(ids, logprobs)
            if len(wanted.rollouts) == wanted.sampling.n:
                yield wanted.place, tuple(wanted.rollouts[index] for index in range(wanted.sampling.n))

    def _rollout(self, ids: list[int], logprobs: list[float]) -> Rollout:
        return Rollout(
            token_ids=tuple(ids),
            text=self._encoder.response_text(ids),
            logprobs=tuple(logprobs),
            stop_reason=StopReason.EOS if ids[-1] in self._encoder.end_ids else StopReason.LENGTH,
            weights_version=self._version,
        )


class _Head:
    """A request of which not all responses are under way yet."""

    def __init__(self, place: int, request: Request) -> None:
        assert request.sampling.n >= 1, request.sampling
        self.wanted = Wanted(place=place, sampling=request.sampling, seed=request.seed)
        self.example = request.example
        self.num_taken = 0

    @property
    def columns(self) -> int:
        return self.wanted.sampling.max_response_tokens

    def take(self, count: int) -> range:
        """The indices of the next responses, at most `count`."""
        taken = range(self.num_taken, min(self.num_taken + count, self.wanted.sampling.n))
        self.num_taken = taken.stop
        return taken


class _Queue:
    """Requests, each taken from its iterable when the one before has all its responses under way."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._requests = enumerate(requests)
        self._head: _Head | None = None

    @property
    def head(self) -> _Head | None:
        """The request whose responses come next; None: there is none."""
        if self._head is None or self._head.num_taken == self._head.wanted.sampling.n:
            self._head = next((_Head(*item) for item in self._requests), None)
        return self._head

    @property
    def begun(self) -> _Head | None:
        """The request of which some responses, but not all, were taken."""
        head = self._head
        return head if head is not None and 0 < head.num_taken < head.wanted.sampling.n else None
