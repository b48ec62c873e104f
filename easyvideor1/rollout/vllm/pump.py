"""Requests under way in an engine core: asked response by response, cut and asked again, given up at a deadline."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from easyvideor1.rollout.engine import Request
from easyvideor1.rollout.vllm.contract import Answer, Asked, Kind, Terms, terms
from easyvideor1.rollout.vllm.media import Reading, check_positions, check_reading
from easyvideor1.seeds import mix_seed, number_of
from easyvideor1.types import Example, Rollout, StopReason

log = logging.getLogger(__name__)

MAX_REDRAWS = 100
"""How often a response may come to a banned token before it is given up."""
READINGS_PER_KIND = 2
"""Prompts of each combination of media whose own reading by the engine is compared, after a start."""
PIXEL_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-7}
"""Normalised pixels are at most about 3; bfloat16 keeps 8 bits of them."""


class Core(Protocol):
    """What is asked of vLLM's engine; `core.VLLMCore` does it, tests have a stand-in."""

    def prepare(self, example: Example) -> tuple[Any, np.ndarray]:
        """(the prompt as the engine takes it, the positions int64 [3, L] that the engine will use)."""
        ...

    def own_reading(self, example: Example) -> Reading:
        """What the engine makes of the prompt's text and uint8 frames by itself."""
        ...

    def submit(self, key: str, prepared: Any, asked: Asked) -> None: ...

    def step(self) -> list[Answer]:
        """One step of all requests; the answers that are complete."""
        ...

    def abort(self, keys: Sequence[str]) -> None: ...

    def load(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take over weights, and forget everything that was computed with the ones before."""
        ...

    def load_folder(self, path: str) -> None:
        """The same from the safetensors files of a folder."""
        ...

    def sleep(self) -> None: ...

    def wake(self) -> None: ...


@dataclass
class _Part:
    """One response of a request."""

    index: int
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    num_redraws: int = 0
    stop_reason: StopReason | None = None


@dataclass(kw_only=True, eq=False)
class _Work:
    """A request under way."""

    place: int
    request: Request
    prepared: Any
    terms: Terms
    deadline: float
    parts: list[_Part]

    @property
    def num_tokens(self) -> int:
        return request_tokens(self.request)


def request_tokens(request: Request) -> int:
    """Most tokens whose keys and values a request needs at once: its prompt, and its responses at full length."""
    return len(request.example.prompt) + request.sampling.n * request.sampling.max_response_tokens


class Queue:
    """Requests in order, the next one at hand; it may not be ready yet.

    Attributes:
        head: the next request; None: there is none, or it is not ready.
        is_over: whether there is none.
    """

    def __init__(self, requests: Iterable[Request | None]) -> None:
        self._requests = iter(requests)
        self._num_taken = 0
        self.head: Request | None = None
        self.is_over = False
        self.ask_again()

    def take(self) -> tuple[int, Request]:
        """(place, request) of the head."""
        assert self.head is not None
        taken = self._num_taken, self.head
        self._num_taken += 1
        self.head = None
        self.ask_again()
        return taken

    def ask_again(self) -> None:
        """Have the next request at hand, if it is ready by now."""
        if self.head is None and not self.is_over:
            try:
                self.head = next(self._requests)
            except StopIteration:
                self.is_over = True


class Pump:
    """Turns requests into rollouts by stepping a core.

    Attributes:
        version: of the weights, written into the rollouts.
        banned_hits: how often a banned token was the most likely one at a place of a response.
    """

    def __init__(
        self,
        core: Core,
        *,
        kind: Kind,
        end_ids: Sequence[int],
        banned_ids: Sequence[int],
        text_of: Callable[[Sequence[int]], str],
        seeded: bool,
        deadline_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.version = 0
        self.banned_hits = 0
        self._core, self._clock = core, clock
        self._kind: Kind = kind
        self._end_ids, self._banned_ids, self._text_of = tuple(end_ids), tuple(banned_ids), text_of
        self._banned = frozenset(banned_ids)
        self._seeded, self._deadline_s = seeded, deadline_s
        self._under_way: dict[str, tuple[_Work, _Part]] = {}
        self._works: dict[int, _Work] = {}
        self._num_read: dict[tuple[str, ...], int] = {}
        self._num_asked = 0

    @property
    def num_tokens(self) -> int:
        """Tokens of all requests under way, see `request_tokens`."""
        return sum(work.num_tokens for work in self._works.values())

    def __len__(self) -> int:
        """Requests under way."""
        return len(self._works)

    def add(self, place: int, request: Request) -> None:
        """Ask for all responses of a request; `place` is handed back with them.

        Raises:
            MismatchError: the engine reads the prompt differently.
        """
        assert request.sampling.n >= 1, request.sampling
        assert place not in self._works, place
        example = request.example
        prepared, positions = self._core.prepare(example)
        check_positions(example, positions)
        self._compare_reading(example)
        work = _Work(
            place=place,
            request=request,
            prepared=prepared,
            terms=terms(request.sampling, self._kind),
            deadline=self._clock() + self._deadline_s,
            parts=[_Part(index) for index in range(request.sampling.n)],
        )
        self._works[place] = work
        for part in work.parts:
            self._ask(work, part)

    def turn(self) -> list[tuple[int, tuple[Rollout, ...]]]:
        """One step of the engine; (place, rollouts) of the requests that are complete by it."""
        for answer in self._core.step():
            if answer.key in self._under_way:  # else it was given up
                self._take(answer)
        self._give_up_late_ones()
        done = [work for work in self._works.values() if all(part.stop_reason for part in work.parts)]
        for work in done:
            del self._works[work.place]
        return [(work.place, tuple(self._rollout(work, part) for part in work.parts)) for work in done]

    def drop_all(self) -> None:
        """Give up what is under way; none of it comes back."""
        self._core.abort(list(self._under_way))
        self._under_way.clear()
        self._works.clear()

    def _compare_reading(self, example: Example) -> None:
        kinds = tuple(sorted({plan.media.kind for plan in example.prompt.plans}))
        if self._num_read.get(kinds, 0) < READINGS_PER_KIND:
            dtype = next((t.dtype for t in example.features.values() if t.is_floating_point()), torch.float32)
            check_reading(example, self._core.own_reading(example), pixel_tolerance=PIXEL_TOLERANCE[dtype])
            self._num_read[kinds] = self._num_read.get(kinds, 0) + 1

    def _ask(self, work: _Work, part: _Part) -> None:
        request = work.request
        seed = None
        if self._seeded:
            seed = mix_seed(request.seed, number_of(request.example.sample.id), part.index, part.num_redraws)
        asked = Asked(
            sampling=request.sampling,
            terms=work.terms,
            written=tuple(part.token_ids),
            seed=seed,
            end_ids=self._end_ids,
            banned_ids=self._banned_ids,
        )
        key = str(self._num_asked)
        self._num_asked += 1
        self._under_way[key] = (work, part)
        self._core.submit(key, work.prepared, asked)

    def _take(self, answer: Answer) -> None:
        work, part = self._under_way.pop(answer.key)
        count = len(answer.token_ids)
        comes_to_banned = count > 0 and answer.token_ids[-1] in self._banned
        if comes_to_banned:
            count -= 1
        part.token_ids += answer.token_ids[:count]
        part.logprobs += answer.logprobs[:count]
        self.banned_hits += sum(token in self._banned for token in answer.likeliest_ids[:count])
        if part.token_ids and part.token_ids[-1] in self._end_ids:
            part.stop_reason = StopReason.EOS
        elif len(part.token_ids) == work.request.sampling.max_response_tokens:
            part.stop_reason = StopReason.LENGTH
        elif comes_to_banned and part.num_redraws < MAX_REDRAWS:
            part.num_redraws += 1
            self._ask(work, part)
        else:
            self._give_up(work, part, "came to a vision token again and again" if comes_to_banned else "broke off")

    def _give_up_late_ones(self) -> None:
        now = self._clock()
        late = [key for key, (work, _) in self._under_way.items() if work.deadline <= now]
        self._core.abort(late)
        for key in late:
            work, part = self._under_way.pop(key)
            self._give_up(work, part, f"was not done after {self._deadline_s:g} s (rollout.vllm.deadline_s)")

    def _give_up(self, work: _Work, part: _Part, why: str) -> None:
        part.stop_reason = StopReason.ABORT
        log.warning("sample %s: response %d %s; it does not train", work.request.example.sample.id, part.index, why)

    def _rollout(self, work: _Work, part: _Part) -> Rollout:
        assert part.stop_reason is not None
        return Rollout(
            token_ids=tuple(part.token_ids),
            text=self._text_of(part.token_ids),
            logprobs=tuple(part.logprobs) if work.terms.knows_logprobs else None,
            stop_reason=part.stop_reason,
            weights_version=self.version,
        )
