"""A scripted engine for tests and dry runs: no model, no pixels, the text of every response given by a function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from easyvideor1.rollout.engine import Request
from easyvideor1.types import Example, Rollout, StopReason

Script = Callable[[Example, int, int], str | None]
"""(example, index of the rollout in its group, seed of the request) -> response text; None: the engine gives it up."""


class FakeEngine:
    """Answers by the script; token ids come from `encode`, log-probs are constant."""

    def __init__(self, script: Script, encode: Callable[[str], tuple[int, ...]], *, logprob: float = -1.0) -> None:
        self._script = script
        self._encode = encode
        self._logprob = logprob
        self._version = 0
        self.banned_hits, self.needs_still_actor = 0, False

    def awake(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        for place, request in enumerate(request for request in requests if request is not None):
            yield place, tuple(self._rollout(request, index) for index in range(request.sampling.n))

    def _rollout(self, request: Request, index: int) -> Rollout:
        text = self._script(request.example, index, request.seed)
        ids = self._encode(text or "")
        limit = request.sampling.max_response_tokens
        stop_reason = StopReason.LENGTH if len(ids) > limit else StopReason.EOS
        ids = ids[:limit]
        return Rollout(
            token_ids=ids,
            text=text or "",
            logprobs=(self._logprob,) * len(ids),
            stop_reason=StopReason.ABORT if text is None else stop_reason,
            weights_version=self._version,
        )

    def load_weights(self, tensors: object, *, version: int) -> None:
        self._version = version
