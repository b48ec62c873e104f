"""Several responses per item: what one of them is worth on average, what the best and what their majority is worth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

Repeat = tuple[float, str | None]
"""Value in [0, 1] of a scored response, and what was read out of it."""


def repeat_metrics(items: Sequence[Sequence[Repeat]], n: int) -> dict[str, float]:
    """mean@n, pass@k for k = 1, 2, 4 .. n, and majority@n over items, in percent.

    pass@k is the unbiased estimate of arXiv:2107.03374 (a response passes at value 1); the majority is the answer read
    most often, the first of equals, and worth what its first response is worth.

    >>> repeat_metrics([[(1.0, "A"), (0.0, "B"), (0.0, "B")], [(1.0, "C"), (1.0, "C"), (0.0, None)]], 3)
    {'mean@3': 50.0, 'pass@1': 50.0, 'pass@2': 83.33333333333334, 'pass@3': 100.0, 'majority@3': 50.0}
    """
    full = [repeats for repeats in items if len(repeats) == n]
    if not full:
        return {}
    found = {f"mean@{n}": _mean([math.fsum(value for value, _ in repeats) / n for repeats in full])}
    sizes = [2**power for power in range(n.bit_length()) if 2**power < n] + [n]
    for k in sizes:
        found[f"pass@{k}"] = _mean(
            [pass_at(k, n=n, passed=sum(value >= 1.0 for value, _ in repeats)) for repeats in full]
        )
    return found | {f"majority@{n}": _mean([majority(repeats) for repeats in full])}


def pass_at(k: int, *, n: int, passed: int) -> float:
    """Chance that at least one of k responses, chosen from n of which some passed, passes.

    >>> pass_at(2, n=3, passed=1)
    0.6666666666666667
    """
    return 1.0 - math.comb(n - passed, k) / math.comb(n, k)


def majority(repeats: Sequence[Repeat]) -> float:
    """What the answer that was read most often is worth; 0 where none was read."""
    counts = Counter(parsed for _, parsed in repeats if parsed is not None)
    if not counts:
        return 0.0
    answer = counts.most_common(1)[0][0]
    return next(value for value, parsed in repeats if parsed == answer)


def repeats_of(records: Sequence[Mapping[str, object]]) -> list[list[Repeat]]:
    """The scored repeats of each item, from the records of answers."""
    items: dict[object, list[Repeat]] = {}
    for record in records:
        value, parsed = record["score"], record["parsed"]
        if isinstance(value, (int, float)):
            items.setdefault(record["id"], []).append((float(value), None if parsed is None else str(parsed)))
    return list(items.values())


def _mean(values: Sequence[float]) -> float:
    return 100 * math.fsum(values) / len(values)
