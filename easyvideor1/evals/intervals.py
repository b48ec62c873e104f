"""95 % intervals for benchmark metrics: questions about one video are not independent, so videos are what varies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from easyvideor1.evals.benchmark import Outcome

Z95 = 1.959964
MAX_BLOCKS = 200
"""Blocks of videos that are left out in turn; with fewer videos each is a block of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An estimate with the interval that holds the true value 95 times in 100."""

    value: float
    low: float
    high: float
    num_clusters: int


def metric_interval(outcomes: Sequence[Outcome], metric: Callable[[Sequence[Outcome]], float]) -> Interval | None:
    """Any metric with its interval, by the delete-a-group jackknife over videos (Kott 2001, J. Official Statistics 17).

    For a mean over items it is the cluster-robust interval up to terms of 1 / videos. None below two videos.

    Args:
        metric: scored outcomes -> percent; NaN where they are too few for it.
    """
    videos = list(dict.fromkeys(outcome.item.video for outcome in outcomes))
    if len(videos) < 2:
        return None
    num_blocks = min(len(videos), MAX_BLOCKS)
    block_of = {video: number % num_blocks for number, video in enumerate(videos)}
    value = metric(outcomes)
    left_out = [
        metric([outcome for outcome in outcomes if block_of[outcome.item.video] != block])
        for block in range(num_blocks)
    ]
    left_out = [estimate for estimate in left_out if not math.isnan(estimate)]
    if math.isnan(value) or len(left_out) < 2:
        return None
    middle = math.fsum(left_out) / len(left_out)
    variance = (len(left_out) - 1) / len(left_out) * math.fsum((estimate - middle) ** 2 for estimate in left_out)
    half = Z95 * math.sqrt(variance)
    return Interval(value=value, low=max(0.0, value - half), high=min(100.0, value + half), num_clusters=len(videos))


def paired_change(
    before: Mapping[Any, float], after: Mapping[Any, float], cluster_of: Mapping[Any, str]
) -> Interval | None:
    """Mean of after - before over the items that both have, with the cluster-robust interval; None below two clusters.

    >>> change = paired_change({1: 0.0, 2: 1.0}, {1: 1.0, 2: 1.0}, {1: "a", 2: "b"})
    >>> change.value, change.num_clusters
    (0.5, 2)
    """
    shared = [name for name in before if name in after]
    differences = {name: after[name] - before[name] for name in shared}
    clusters: dict[str, list[float]] = {}
    for name in shared:
        clusters.setdefault(cluster_of[name], []).append(differences[name])
    if len(clusters) < 2:
        return None
    n, g = len(shared), len(clusters)
    value = math.fsum(differences.values()) / n
    squares = math.fsum(math.fsum(difference - value for difference in group) ** 2 for group in clusters.values())
    half = Z95 * math.sqrt(g / (g - 1) * squares) / n
    return Interval(value=value, low=value - half, high=value + half, num_clusters=g)
