"""Sums of metrics that stay on the device until they are read, all at once."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from easyvideor1.algo.losses import Sum
from easyvideor1.records.tally import Tally


class Meter:
    """Sums with their counts, and maxima, of tensors on one device.

    Reading a number from a GPU waits for everything before it; here a whole update waits once.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Sum] = {}
        self._maxima: dict[str, torch.Tensor] = {}

    def add(self, name: str, part: Sum) -> None:
        part = Sum(part.total.detach().double(), part.count.detach().double())
        self._sums[name] = self._sums[name] + part if name in self._sums else part

    def add_sums(self, parts: Mapping[str, Sum]) -> None:
        for name, part in parts.items():
            self.add(name, part)

    def add_max(self, name: str, value: torch.Tensor) -> None:
        """Keep the largest value seen; -inf: there was nothing to see."""
        value = value.detach().double()
        self._maxima[name] = torch.maximum(self._maxima[name], value) if name in self._maxima else value

    def read(self) -> Tally:
        """All of it, in one transfer."""
        sums = [value for part in self._sums.values() for value in (part.total, part.count)]
        values = iter(torch.stack([*sums, *self._maxima.values()]).tolist() if sums or self._maxima else [])
        tally = Tally()
        for name in self._sums:
            tally.add(name, total=next(values), count=next(values))
        for name in self._maxima:
            if (largest := next(values)) != -torch.inf:
                tally.add_max(name, largest)
        return tally
