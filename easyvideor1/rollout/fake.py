"""A scripted engine for tests and dry runs: no model, no pixels, the text of every response given by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.types import Example, Rollout, StopReason

Script = Callable[[Example, int, int], str]
"""(example, index of the rollout in its group, seed) -> response text."""


class FakeEngine:
    """Answers by the script; token ids come from `encode`, log-probs are constant."""

    def __init__(self, script: Script, encode: Callable[[str], tuple[int, ...]], *, logprob: float = -1.0) -> None:
        self._script = script
        self._encode = encode
        self._logprob = logprob
        self._version = 0
        self.banned_hits = 0

    def generate(self, requests: Sequence[Request], *, seed: int) -> list[tuple[Rollout, ...]]:
        return [
            tuple(
                self._rollout(self._script(request.example, index, seed), request.sampling)
                for index in range(request.sampling.n)
            )
            for request in requests
        ]

    def _rollout(self, text: str, sampling: Sampling) -> Rollout:
        ids = self._encode(text)
        is_cut = len(ids) > sampling.max_response_tokens
        ids = ids[: sampling.max_response_tokens]
        return Rollout(
            token_ids=ids,
            text=text,
            logprobs=(self._logprob,) * len(ids),
            stop_reason=StopReason.LENGTH if is_cut else StopReason.EOS,
            weights_version=self._version,
        )

    def load_weights(self, model: object, *, version: int) -> None:
        self._version = version
