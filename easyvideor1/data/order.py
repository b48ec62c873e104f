"""Which sample comes next: shares of files and modalities, in an order that is a pure function of (seed, place).

The samples are cut into strata (file, modality), or into one stratum where no shares are asked for. A *round* of places
holds every stratum as often as its share says (largest remainder), spread evenly, so that any stretch of places, a
training step for instance, has about the shares too. Each stratum goes through its own samples epoch by epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from easyvideor1.config_data import DataConfig
from easyvideor1.data.samples import labels_of
from easyvideor1.errors import UsageError
from easyvideor1.problem_types import canonical
from easyvideor1.types import Sample

MIN_ROUND = 1000
"""Places of a round at least: a share is met to within one in a thousand even by a handful of samples."""
MAX_FITS = 10_000
FIT_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Stratum:
    """Samples of one kind, which the order treats alike."""

    indices: np.ndarray
    """int64 [samples]: their places in the list of all samples."""
    share: float
    """Part of all places; the shares of all strata sum to 1."""


def strata(samples: Sequence[Sample], config: DataConfig) -> list[Stratum]:
    """The strata of the training samples, in order of first appearance.

    Without weights and ratios it is one stratum: plain epochs over everything. Ratios are of modalities, or of problem
    types in their place. With weights, the modalities of a file
    come as they come, and with ratios the files of a modality; with both, the shares of (file, modality) are those
    closest to the numbers of samples that have the asked margins (iterative proportional fitting, Deming and Stephan
    1940).

    Raises:
        UsageError: a weighted file or a modality with a ratio has no samples, a modality of the samples has no ratio,
            or weights and ratios contradict each other.
    """
    weights = {source.label: source.weight for source in config.train if source.weight is not None}
    ratios, field = config.modality_ratios or {}, "data.modality_ratios"
    if config.problem_type_ratios is not None:
        ratios = {canonical(name): ratio for name, ratio in config.problem_type_ratios.items()}
        field = "data.problem_type_ratios"
    by_type = config.problem_type_ratios is not None
    members: dict[tuple[str, str], list[int]] = {}
    for index, label in enumerate(labels_of(samples)):
        kind = label.problem_type if by_type else label.modality
        key = (label.source if weights else "", kind if ratios else "")
        members.setdefault(key, []).append(index)
    file_shares = _shares(weights, {file for file, _ in members}, field="data.train weight", noun="file")
    noun = "problem type" if by_type else "modality"
    kind_shares = _shares(ratios, {kind for _, kind in members}, field=field, noun=noun)
    sizes = {key: len(indices) for key, indices in members.items()}
    fitted = _fit(sizes, file_shares, kind_shares, field=field)
    return [Stratum(indices=np.array(indices), share=fitted[key]) for key, indices in members.items()]


def order(strata: Sequence[Stratum], *, seed: int, start: int, shuffle: bool = True) -> Iterator[int]:
    """Indices of samples from place `start` on, without end.

    The order is a pure function of (seed, place), so a resumed run needs the place only. Within a stratum no sample
    comes twice before all have come; a single stratum gives exactly one visit per sample and epoch.

    Args:
        shuffle: False: the samples of a stratum come in the order of their indices, every epoch.

    >>> from itertools import islice
    >>> plain = [Stratum(indices=np.arange(4), share=1.0)]
    >>> once = list(islice(order(plain, seed=1, start=0), 8))
    >>> sorted(once[:4]), once[5:] == list(islice(order(plain, seed=1, start=5), 3))
    ([0, 1, 2, 3], True)
    """
    length = max(MIN_ROUND, sum(len(stratum.indices) for stratum in strata))
    counts = apportion([stratum.share for stratum in strata], length)
    visits = [
        _Visits(stratum.indices, seed=seed, number=number, shuffle=shuffle) for number, stratum in enumerate(strata)
    ]
    place = start
    while True:
        number_of_round, offset = divmod(place, length)
        schedule = _schedule(counts, seed=seed, number_of_round=number_of_round)
        done = np.bincount(schedule[:offset], minlength=len(counts)) + number_of_round * np.array(counts)
        for number in schedule[offset:].tolist():
            yield visits[number].at(int(done[number]))
            done[number] += 1
        place = (number_of_round + 1) * length


def apportion(shares: Sequence[float], total: int) -> list[int]:
    """Whole numbers that sum to `total`, in proportion to the shares by largest remainder, each at least 1.

    >>> apportion([0.5, 0.3, 0.2], 7), apportion([0.999, 0.001], 10)
    ([4, 2, 1], [9, 1])
    """
    assert total >= len(shares), (total, len(shares))
    quotas = np.array(shares) * total
    counts = np.maximum(np.floor(quotas + FIT_TOLERANCE), 1.0)  # 0.3 * 1000 is a little less than 300
    while counts.sum() != total:
        behind = quotas - counts
        if counts.sum() < total:
            counts[behind.argmax()] += 1
        else:
            counts[np.where(counts > 1, behind, np.inf).argmin()] -= 1
    return counts.astype(int).tolist()


class _Visits:
    """The samples of one stratum, visit after visit."""

    def __init__(self, indices: np.ndarray, *, seed: int, number: int, shuffle: bool) -> None:
        self._indices, self._seed, self._number, self._shuffle = indices, seed, number, shuffle
        self._epoch, self._permuted = -1, indices

    def at(self, visit: int) -> int:
        epoch, offset = divmod(visit, len(self._indices))
        if epoch != self._epoch and self._shuffle:
            self._permuted = np.random.default_rng([self._seed, epoch, self._number]).permutation(self._indices)
            self._epoch = epoch
        return int(self._permuted[offset])


def _schedule(counts: Sequence[int], *, seed: int, number_of_round: int) -> np.ndarray:
    """int64 [places of a round]: the number of the stratum at each place.

    The places of a stratum with c places are c equal steps apart, from a random start of its own.
    """
    starts = np.random.default_rng([seed, number_of_round, len(counts)]).random(len(counts))
    ideal = [(np.arange(count) + start) / count for count, start in zip(counts, starts, strict=True)]
    return np.repeat(np.arange(len(counts)), counts)[np.argsort(np.concatenate(ideal), kind="stable")]


def _shares(asked: Mapping[str, float], present: set[str], *, field: str, noun: str) -> dict[str, float]:
    """The asked weights scaled to sum to 1; the whole for the one unnamed class where nothing is asked."""
    if not asked:
        return {"": 1.0}
    if empty := sorted(set(asked) - present):
        raise UsageError(f"{field}: no usable sample is of {noun} '{empty[0]}'; remove this entry, or correct the data")
    if unasked := sorted(present - set(asked)):
        raise UsageError(f"{field}: samples are of {noun} '{unasked[0]}', which has no value; give it one")
    total = sum(asked.values())
    return {name: value / total for name, value in asked.items()}


def _fit(
    sizes: Mapping[tuple[str, str], int], files: Mapping[str, float], kinds: Mapping[str, float], *, field: str
) -> dict[tuple[str, str], float]:
    """Shares of (file, kind) with the given margins, started from the sizes; `field` holds those of the kinds."""
    rows, columns = list(files), list(kinds)
    table = np.array([[sizes.get((row, column), 0) for column in columns] for row in rows], float)
    wanted = np.array(list(files.values()))
    for _ in range(MAX_FITS):
        table *= (wanted / table.sum(1))[:, None]
        table *= np.array(list(kinds.values())) / table.sum(0)
        if np.abs(table.sum(1) - wanted).max() < FIT_TOLERANCE:
            return {key: float(table[rows.index(key[0]), columns.index(key[1])]) for key in sizes}
    worst = int(np.abs(table.sum(1) - wanted).argmax())
    raise UsageError(
        f"data.train weight and {field} contradict each other: with these ratios, file '{rows[worst]}' "
        f"cannot have {wanted[worst]:.3g} of the samples without leaving others out; change its weight, the ratios, or "
        "the modalities in its rows"
    )
