"""What the answers in a folder are worth: the result of a benchmark with its coverage and its alarms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from easyvideor1.evals.answers import official_outcome, read_answers, strict_outcome
from easyvideor1.evals.benchmark import Benchmark, Loaded
from easyvideor1.evals.protocol import Protocol
from easyvideor1.evals.repeats import repeat_metrics, repeats_of
from easyvideor1.evals.responses import Responses
from easyvideor1.evals.scoring import Scored, result

MOST_CUT_FRAC = 0.02
"""Share of answers ended by the token limit above which a score says little: reasoning is cut before its answer."""
SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """A benchmark's answers with their scores, one `Scored` per repeat."""

    repeats: tuple[Scored, ...]
    records: tuple[Mapping[str, Any], ...]
    num_items: int
    """Items that the run was to ask."""

    @property
    def first(self) -> Scored:
        return self.repeats[0]


def evaluated(benchmark: Benchmark, protocol: Protocol, loaded: Loaded, folder: Path) -> Evaluated:
    """The answers in a folder; items without one are left out, and counted in the coverage."""
    asked = {item.id for item in loaded.items}
    records = tuple(record for record in read_answers(folder) if record["id"] in asked)
    repeats = []
    for repeat in range(protocol.decoding.n):
        known = {record["id"]: record for record in records if record["repeat"] == repeat}
        items = tuple(item for item in loaded.items if item.id in known)
        said = {name: record["response"] for name, record in known.items() if record["response"] is not None}
        repeats.append(
            Scored(
                benchmark=benchmark,
                protocol=protocol,
                loaded=replace(loaded, items=items),
                responses=Responses(by_id=said, origin="easyvideor1"),
                strict=tuple(strict_outcome(known[item.id], item) for item in items),
                official=tuple(official_outcome(known[item.id], item) for item in items),
            )
        )
    return Evaluated(repeats=tuple(repeats), records=records, num_items=len(loaded.items))


def summary(found: Evaluated) -> dict[str, Any]:
    """The result over all repeats: scores are means over them; see `scoring.result` for the keys."""
    results = [result(scored) for scored in found.repeats]
    first = results[0] | {
        "score": _mean([each["score"] for each in results]),
        "official_score": _mean([each["official_score"] for each in results]),
        "metrics": {name: _mean([each["metrics"].get(name) for each in results]) for name in results[0]["metrics"]},
    }
    decoding = found.first.protocol.decoding
    coverage = coverage_of(found)
    extra: dict[str, Any] = {
        "num_items": found.num_items,
        "num_missing": coverage["num_missing"],
        "is_complete": coverage["num_missing"] == 0,
        "decoding": "greedy" if decoding.is_greedy else f"sampled at temperature {decoding.temperature:g}",
        "coverage": coverage,
        "alarms": alarms(coverage),
    }
    if decoding.n > 1:
        extra["repeats"] = repeat_metrics(repeats_of(found.records), decoding.n)
    return first | extra


def coverage_of(found: Evaluated) -> dict[str, Any]:
    """How many items were answered, and what became of the others."""
    records = found.records
    failed = [record for record in records if record["response"] is None]
    answered = [record for record in records if record["response"] is not None]
    cut = sum(record["stop"] == "length" for record in answered)
    num_records = Counter(record["id"] for record in records)
    num_complete = sum(num >= len(found.repeats) for num in num_records.values())
    unparsed = [record for record in answered if record["score"] == 0 and record["parsed"] is None and record["reason"]]
    return {
        "num_items": found.num_items,
        "num_answered": len({record["id"] for record in answered}),
        "num_missing": found.num_items - num_complete,
        "num_failed": len({record["id"] for record in failed}),
        "failed": [{"id": record["id"], "error": record["error"]} for record in failed[:SHOWN]],
        "num_unscored": sum(record["score"] is None for record in records),
        "num_unparsed": len(unparsed),
        "num_empty": sum(not record["response"].strip() for record in answered),
        "num_cut": cut,
        "cut_frac": cut / len(answered) if answered else 0.0,
        "mean_response_tokens": _mean([record["num_tokens"] for record in answered]),
    }


def alarms(coverage: Mapping[str, Any]) -> list[str]:
    """What makes a score hard to trust, in sentences."""
    found = []
    if coverage["cut_frac"] > MOST_CUT_FRAC:
        found.append(
            f"{coverage['num_cut']} answers ({100 * coverage['cut_frac']:.1f} %) were cut by the token limit: raise "
            "decoding.max_response_tokens of the protocol, or the score measures the limit"
        )
    if coverage["num_failed"]:
        found.append(
            f"{coverage['num_failed']} items could not be asked and count as wrong; --retry-failed asks them again"
        )
    if coverage["num_missing"]:
        found.append(f"{coverage['num_missing']} items have no answer yet and are outside of the score")
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
