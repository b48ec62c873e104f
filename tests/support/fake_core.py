"""A stand-in for vLLM's engine core: answers by a script, one request per step."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from easyvideor1.rollout.vllm.contract import Answer, Asked
from easyvideor1.rollout.vllm.media import Reading
from easyvideor1.types import Example

Script = Callable[[Example, Asked], Sequence[int] | None]
"""(example, what is asked) -> the tokens of the answer; None: it never comes."""
LOGPROB = -0.5


class FakeCore:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._open: dict[str, list[int]] = {}
        self.asked: list[Asked] = []
        self.calls: list[str] = []
        self.most_open = 0
        self.shift = 0
        self.changed: dict[str, Any] = {}
        """What the engine's own reading has other than the example: "input_ids", or a name of a feature."""
        self.likeliest = 1
        self.error: Exception | None = None

    def prepare(self, example: Example) -> tuple[Example, np.ndarray]:
        return example, example.prompt.position_ids + self.shift

    def own_reading(self, example: Example) -> Reading:
        ids = self.changed.get("input_ids", example.prompt.input_ids.tolist())
        return Reading(
            input_ids=ids, tensors={name: self.changed.get(name, each) for name, each in example.features.items()}
        )

    def submit(self, key: str, prepared: Example, asked: Asked) -> None:
        self.asked.append(asked)
        self._open[key] = list(self._script(prepared, asked) or [])
        self.most_open = max(self.most_open, len(self._open))

    def step(self) -> list[Answer]:
        if self.error is not None:
            raise self.error
        key = next((key for key, tokens in self._open.items() if tokens), None)
        if key is None:
            return []
        ids = self._open.pop(key)
        likeliest = [self.likeliest] * len(ids)
        return [Answer(key=key, token_ids=ids, logprobs=[LOGPROB] * len(ids), likeliest_ids=likeliest)]

    def abort(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._open.pop(key)

    def load(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.calls.append(f"load {len(list(tensors))}")

    def load_folder(self, path: str) -> None:
        self.calls.append(f"load {path}")

    def sleep(self) -> None:
        self.calls.append("sleep")

    def wake(self) -> None:
        self.calls.append("wake")
