"""An engine over a Transformers model in this process: every prompt is read once, whatever comes after it, and so is
what several prompts begin with where their requests say so.

Responses are sampled in one batch without finished ones: when a response ends, its slot is given up, and when enough
room is free the next prompts are read. What is sampled does not depend on any of it (see noise), and a response changes
with the batch only as far as sums are rounded in another order.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from easyvideor1.data.encode import Encoder
from easyvideor1.model.families import language_model, layer_kinds, shares_prefix
from easyvideor1.model.vision import Tower
from easyvideor1.rollout.engine import Request
from easyvideor1.rollout.hf.attention import Ends, Prompts, switched_on
from easyvideor1.rollout.hf.batch import Batch, Slot, Wanted
from easyvideor1.rollout.hf.beginning import Beginning, beginning_of
from easyvideor1.rollout.hf.decoding import Decoding
from easyvideor1.rollout.hf.sampler import Sampler, ways
from easyvideor1.rollout.hf.stacks import ReadPrompt
from easyvideor1.rollout.hf.states import States, linear_cache, linear_states
from easyvideor1.types import Example, Prompt, Rollout, StopReason

REFILL_FRAC = 0.25
"""Share of the budget that must be free before further prompts are read: few at a time would be slow."""
READ_TOKENS = 8192
"""Prompts are read together up to this many tokens; a longer one by itself."""


@dataclass(kw_only=True)
class EngineCounts:
    """What an engine did since it was made."""

    tower_runs: int = 0
    """Prompts, or beginnings of prompts, whose pixels went through the vision tower."""
    beginnings_read: int = 0
    """Beginnings that several prompts share, each counted once."""
    prompt_tokens_read: int = 0


class HFEngine:
    """Samples from a model in this process: the actor itself, so that weights are never copied, or a copy of it."""

    def __init__(
        self,
        model: Any,
        encoder: Encoder,
        *,
        tokens_per_batch: int,
        tower: Tower | None = None,
        take_over: Callable[[], None] | None = None,
    ) -> None:
        """
        Args:
            model: a Transformers `ForConditionalGeneration` of a known family.
            tokens_per_batch: tokens whose keys and values are in memory at once: each prompt under way once, and for
                each response under way the most tokens it may have. One response is always under way, however large.
            tower: the model's vision tower, which may have seen an example before; None: one of the engine's own.
            take_over: puts the actor's weights into the model, where that is a copy; None: it is the actor itself.

        Raises:
            UsageError: the model has layers with sliding-window attention.
        """
        self._model, self._encoder = model, encoder
        self._tokens_per_batch = tokens_per_batch
        self._tower = tower or Tower(model)
        self._take_over = take_over
        self._kinds, self._shares_prefix = layer_kinds(model), shares_prefix(model)
        self._sampler = Sampler(encoder.banned_ids, device=model.device)
        self._end_ids = torch.tensor(encoder.end_ids, device=model.device)
        self._head_weight: torch.Tensor | None = None
        self._decoding: Decoding | None = None
        """While awake; None too where layers keep a state along the sequence."""
        self._version = 0
        self._is_awake = False
        self._beginning: Beginning | None = None
        """Of the newest request, where it shares one: the next requests may begin with it."""
        self.counts = EngineCounts()
        # Transformers 5.24 renamed the argument; both names are within the supported range.
        names = inspect.signature(language_model(model).forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    @property
    def banned_hits(self) -> int:
        return self._sampler.banned_hits

    @property
    def needs_still_actor(self) -> bool:
        return self._take_over is None

    def load_weights(self, tensors: object, *, version: int) -> None:
        """None of the tensors is made: the weights are shared already, or copied directly."""
        if self._take_over is not None:
            self._take_over()
        self._version = version

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """See Engine.awake. Weights must not change within the block."""
        was_training = self._model.training
        self._model.eval()
        head = self._model.lm_head
        # Rounded to bfloat16, a log-prob over a vocabulary of 150,000 tokens would be off by 0.01 nats on average.
        self._head_weight = None if head.weight.dtype == torch.float32 else head.weight.detach().float()
        if self._shares_prefix:
            self._decoding = Decoding(language_model(self._model))
        self._is_awake = True
        try:
            with switched_on(self._model):
                yield
        finally:
            self._is_awake, self._head_weight, self._beginning, self._decoding = False, None, None, None
            self._model.train(was_training)

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        """See Engine.generate."""
        assert self._is_awake, "generate within `with engine.awake():`"
        queue = _Queue(requests)
        batch: Batch | None = None
        self._beginning = None
        while True:
            batch = self._batch_to_go_on_with(batch, queue)
            if batch is None:
                if queue.is_over:
                    return
                continue  # the next request is waited for
            if self._admit(batch, queue):
                yield from self._completed(batch)
            if len(batch):
                self._advance(batch)
                yield from self._completed(batch)

    def _batch_to_go_on_with(self, batch: Batch | None, queue: _Queue) -> Batch | None:
        """The batch, or a new one where the next response may be too long for its columns; None: there is nothing to
        do, now or ever."""
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
        if queue.head is None:
            return False
        reads = {read.prompt: read for read in batch.reads}
        unread: dict[Prompt, _Unread] = {}
        chosen: list[tuple[Wanted, int, Prompt]] = []
        room = self._tokens_per_batch - batch.num_tokens - self._num_waiting_tokens(batch)
        if len(batch) and room < REFILL_FRAC * self._tokens_per_batch:
            return False
        while (head := queue.head) is not None and head.columns <= batch.columns:
            prompt = head.example.prompt
            new = None if prompt in reads or prompt in unread else self._unread(head)
            num_new = 0 if new is None else new.num_tokens
            fitting = (room - num_new) // batch.columns
            if fitting < 1 and (len(batch) or chosen):
                break
            if new is not None:
                if unread and not self._can_read_together([*unread.values(), new]):
                    reads |= self._read(unread)
                    unread = {}
                unread[prompt], self._beginning = new, new.beginning
            taken = head.take(max(1, min(fitting, batch.capacity - len(batch) - len(chosen))))
            chosen += [(head.wanted, index, prompt) for index in taken]
            room -= num_new + len(taken) * batch.columns
        if not chosen:
            return False
        reads |= self._read(unread)
        held = [reads[head.example.prompt]] if (head := queue.begun) is not None else []
        slots = [
            Slot(wanted=wanted, index=index, read=reads[prompt], start=batch.step) for wanted, index, prompt in chosen
        ]
        self._sample_first(batch, batch.add(slots, held=held))
        return True

    def _num_waiting_tokens(self, batch: Batch) -> int:
        """Of a beginning that is kept for requests to come, though no response under way needs it."""
        read = None if self._beginning is None else self._beginning.read
        return 0 if read is None or any(slot.read.beginning is read for slot in batch.slots) else len(read)

    def _unread(self, head: _Head) -> _Unread:
        """The prompt of a request, with the beginning that it shares with those before it."""
        example = head.example
        if not head.shares_beginning:
            return _Unread(example=example, beginning=None, num_tokens=len(example.prompt))
        beginning = beginning_of(example)
        known = self._beginning
        if beginning is None or known is None or beginning.key != known.key:
            return _Unread(example=example, beginning=beginning, num_tokens=len(example.prompt))
        return _Unread(example=example, beginning=known, num_tokens=len(example.prompt) - len(known.prompt))

    def _can_read_together(self, unread: list[_Unread]) -> bool:
        return self._shares_prefix and sum(prompt.num_tokens for prompt in unread) <= READ_TOKENS

    def _read(self, unread: Mapping[Prompt, _Unread]) -> dict[Prompt, ReadPrompt]:
        """Run prompts through the model: whole ones and new beginnings, then what comes after beginnings."""
        new = {item.beginning: None for item in unread.values() if item.beginning and item.beginning.read is None}
        whole = {item.example.prompt: item.example for item in unread.values() if item.beginning is None}
        with_pixels = {beginning.prompt: beginning.example for beginning in new if beginning.example is not None}
        read = self._read_whole(whole | with_pixels)
        for beginning in new:
            beginning.read, beginning.example = read.pop(beginning.prompt), None
        self.counts.beginnings_read += len(new)
        ends: dict[Beginning, list[Prompt]] = {}
        for prompt, item in unread.items():
            if item.beginning is not None:
                ends.setdefault(item.beginning, []).append(prompt)
        for beginning, prompts in ends.items():
            assert beginning.read is not None
            read |= self._read_ends(beginning.read, prompts)
        return read

    def _read_whole(self, unread: Mapping[Prompt, Example]) -> dict[Prompt, ReadPrompt]:
        """Run prompts through the model, one after another in one sequence; the vision tower once for each."""
        if not unread:
            return {}
        prompts, device = list(unread), self._model.device
        attend = Prompts([len(prompt) for prompt in prompts])
        cache = linear_cache(self._kinds)
        hidden = self._model.model(
            input_ids=_on(device, [prompt.input_ids for prompt in prompts])[None],
            position_ids=_on(device, [prompt.position_ids for prompt in prompts])[:, None],
            use_cache=False,
            attend=attend,
            **{self._cache_name: cache},
            **self._tower.inputs(list(unread.values())),
        ).last_hidden_state[0]
        self.counts.tower_runs += sum(bool(example.features) for example in unread.values())
        self.counts.prompt_tokens_read += len(hidden)
        ends = np.cumsum([len(prompt) for prompt in prompts]) - 1
        return {
            prompt: ReadPrompt(
                prompt=prompt, hidden=hidden[end].clone(), kept=attend.kept_of(place), states=linear_states(cache)
            )
            for place, (prompt, end) in enumerate(zip(prompts, ends.tolist(), strict=True))
        }

    def _read_ends(self, beginning: ReadPrompt, prompts: list[Prompt]) -> dict[Prompt, ReadPrompt]:
        """Run through the model what prompts have after a beginning that it has read; no pixels are among it."""
        device, start = self._model.device, len(beginning)
        lengths = [len(prompt) - start for prompt in prompts]
        attend = Ends(beginning.kept, lengths)
        cache = linear_cache(self._kinds, _copied(beginning.states))
        hidden = language_model(self._model)(
            input_ids=_on(device, [prompt.input_ids[start:] for prompt in prompts])[None],
            position_ids=_on(device, [prompt.position_ids[:, start:] for prompt in prompts])[:, None],
            use_cache=False,
            attend=attend,
            **{self._cache_name: cache},
        ).last_hidden_state[0]
        self.counts.prompt_tokens_read += len(hidden)
        ends = np.cumsum(lengths) - 1
        return {
            prompt: ReadPrompt(
                prompt=prompt,
                hidden=hidden[end].clone(),
                kept=attend.kept_of(place),
                states=linear_states(cache),
                beginning=beginning,
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
        if self._decoding is not None:
            hidden = self._decoding(batch.newest_tokens(), batch.positions(), batch.attend_newest)
        else:
            hidden = language_model(self._model)(
                input_ids=batch.newest_tokens()[:, None],
                position_ids=batch.positions()[:, None].expand(3, -1, -1),
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


def _on(device: torch.device, parts: list[np.ndarray]) -> torch.Tensor:
    """Integer arrays joined along their last axis, on a device."""
    return torch.from_numpy(np.concatenate(parts, -1)).to(device)


def _copied(states: States) -> States:
    """States that the model may write to."""
    return {layer: (convolution.clone(), recurrence.clone()) for layer, (convolution, recurrence) in states.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Unread:
    """A prompt that the model has not read."""

    example: Example
    beginning: Beginning | None
    num_tokens: int
    """That have to be read for it, and kept."""


class _Head:
    """A request of which not all responses are under way yet."""

    def __init__(self, place: int, request: Request) -> None:
        assert request.sampling.n >= 1, request.sampling
        self.wanted = Wanted(place=place, sampling=request.sampling, seed=request.seed)
        self.example, self.shares_beginning = request.example, request.shares_beginning
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

    def __init__(self, requests: Iterable[Request | None]) -> None:
        self._requests = iter(requests)
        self._num_taken = 0
        self._head: _Head | None = None
        self.is_over = False

    @property
    def head(self) -> _Head | None:
        """The request whose responses come next; None: there is none, or none yet."""
        if self._head is None or self._head.num_taken == self._head.wanted.sampling.n:
            self._head = self._next()
        return self._head

    def _next(self) -> _Head | None:
        if self.is_over:
            return None
        try:
            request = next(self._requests)
        except StopIteration:
            self.is_over = True
            return None
        if request is None:
            return None
        self._num_taken += 1
        return _Head(self._num_taken - 1, request)

    @property
    def begun(self) -> _Head | None:
        """The request of which some responses, but not all, were taken."""
        head = self._head
        return head if head is not None and 0 < head.num_taken < head.wanted.sampling.n else None
