"""Items and responses -> the strict score, the official score, and how they differ; no model runs here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from easyvideor1.evals.benchmark import Benchmark, Item, Loaded, Outcome
from easyvideor1.evals.intervals import Interval, metric_interval
from easyvideor1.evals.metrics import accuracy, by_label
from easyvideor1.evals.protocol import Protocol
from easyvideor1.evals.readers import READERS
from easyvideor1.evals.responses import Responses
from easyvideor1.evals.strict import strict

Verdicts = Mapping[str, float]
"""Id of an item that needs the judge -> the grade of its response, in [0, 1]; an item without one is unscored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """The outcomes of all items of a benchmark, in order, by the strict and by the official reading."""

    benchmark: Benchmark
    protocol: Protocol
    loaded: Loaded
    responses: Responses
    strict: tuple[Outcome, ...]
    official: tuple[Outcome, ...]

    @property
    def metric(self) -> str:
        """Name of the headline metric: the first that the labels of these items allow."""
        found = self.metrics_of(self.official) or self.metrics_of(self.strict)
        return next((name for name in self.benchmark.metric if name in found), self.benchmark.metric[-1])

    @property
    def num_different(self) -> int:
        """Items that the two readings score differently."""
        pairs = zip(self.strict, self.official, strict=True)
        return sum(a.value is not None and b.value is not None and abs(a.value - b.value) > 1e-9 for a, b in pairs)

    def metrics_of(self, outcomes: Sequence[Outcome]) -> dict[str, float]:
        """All metrics over the scored outcomes; empty where nothing is scored."""
        scored = [outcome for outcome in outcomes if outcome.value is not None]
        return dict(self.benchmark.metrics(scored)) if scored else {}

    def score_of(self, outcomes: Sequence[Outcome]) -> float | None:
        """The headline metric; None where nothing is scored."""
        value = self.metrics_of(outcomes).get(self.metric, math.nan)
        return None if math.isnan(value) else value

    def interval(self) -> Interval | None:
        """95 % interval of the strict headline, clustered by video; None below two videos."""
        scored = [outcome for outcome in self.strict if outcome.value is not None]
        return metric_interval(scored, lambda outcomes: self.metrics_of(outcomes).get(self.metric, math.nan))


def score_responses(
    benchmark: Benchmark, loaded: Loaded, responses: Responses, protocol: Protocol, *, verdicts: Verdicts | None = None
) -> Scored:
    """Score every item; a missing response is worth 0 like an unreadable one."""
    verdicts = verdicts or {}
    strict_outcomes, official_outcomes = [], []
    for item in loaded.items:
        item = replace(item, fields={**item.fields, "box_units": protocol.box_units})
        text = responses.by_id.get(item.id)
        if item.judge and item.id in verdicts:
            judged = Outcome(item=item, value=verdicts[item.id], reason="judged")
            strict_outcomes.append(judged)
            official_outcomes.append(judged)
            continue
        strict_outcomes.append(strict(item, text or "", reading=protocol.reading))
        official_outcomes.append(official(item, text, protocol))
    return Scored(
        benchmark=benchmark,
        protocol=protocol,
        loaded=loaded,
        responses=responses,
        strict=tuple(strict_outcomes),
        official=tuple(official_outcomes),
    )


def official(item: Item, text: str | None, protocol: Protocol) -> Outcome:
    """The outcome by the reader of the protocol; an item that only a judge reads is unscored."""
    name = protocol.reader_of(item)
    if item.judge or not name:
        return Outcome(item=item, value=None, reason="needs a judge")
    worth = READERS[name](text or "", item)
    measures = dict(worth) if isinstance(worth, Mapping) else {"value": worth}
    value = measures.pop("value")
    has_answer = text is not None and (bool(item.sample.gold) or item.form == "plan")
    return Outcome(item=item, value=value if has_answer else 0.0, parts=measures)


def breakdown(scored: Scored) -> dict[str, dict[str, dict[str, Any]]]:
    """Breakdown -> value -> score in percent over the scored items, and the number of all items."""
    known = [outcome for outcome in scored.strict if outcome.value is not None]
    own = scored.benchmark.label_scores(known) if scored.benchmark.label_scores and known else None
    names = dict.fromkeys(name for outcome in scored.strict for name in outcome.item.labels)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in names:
        scored_groups = by_label(known, name)
        found[name] = {}
        for value, group in by_label(scored.strict, name).items():
            score = own.get(name, {}).get(value) if own is not None else accuracy(scored_groups.get(value, []))
            found[name][value] = {"score": _number(score), "num_items": len(group)}
    return found


def result(scored: Scored) -> dict[str, Any]:
    """The result as one JSON object, in percent and unrounded."""
    unscored = sum(outcome.value is None for outcome in scored.strict)
    return {
        "benchmark": scored.benchmark.name,
        "metric": scored.metric,
        "score": scored.score_of(scored.strict),
        "official_score": scored.score_of(scored.official),
        "metrics": {name: _number(value) for name, value in scored.metrics_of(scored.strict).items()},
        "num_items": len(scored.strict),
        "num_scored": len(scored.strict) - unscored,
        "num_unscored": unscored,
        "num_missing": sum(item.id not in scored.responses.by_id for item in scored.loaded.items),
        "breakdown": breakdown(scored),
    }


def details(scored: Scored) -> dict[str, Any]:
    """The details behind a result: protocol, readings, coverage, errata, and published scores of others."""
    interval = scored.interval()
    official = scored.metrics_of(scored.official)
    unparsed = [
        outcome for outcome in scored.strict if outcome.value == 0 and outcome.parsed is None and outcome.reason
    ]
    return {
        "benchmark": scored.benchmark.name,
        "formula": scored.benchmark.formula,
        "protocol": scored.protocol.family,
        "protocol_hash": scored.protocol.hash,
        "reading": scored.protocol.reading,
        "official_reader": dict(scored.protocol.readers),
        "official_metrics": {name: _number(value) for name, value in official.items()},
        "num_different": scored.num_different,
        "interval_95": None if interval is None else [interval.low, interval.high],
        "coverage": {
            "answered": len(scored.responses.by_id),
            "unparsed": len(unparsed),
            "unscored_reasons": dict(Counter(outcome.reason for outcome in scored.strict if outcome.value is None)),
            "unknown_responses": scored.responses.num_unknown,
            "repeated_responses": scored.responses.num_repeated,
            "broken_lines": scored.responses.num_broken,
        },
        "errata": scored.loaded.erratum_counts(),
        "counts": counts_beside_official(scored.benchmark, scored.loaded),
        "published": [
            {"model": known.model, "metric": known.metric, "score": known.score, "source": known.source,
             "is_verified": known.is_verified}
            for known in scored.benchmark.published
        ],
        "notes": list(scored.benchmark.notes),
    }  # fmt: skip


def counts_beside_official(benchmark: Benchmark, loaded: Loaded) -> dict[str, dict[str, list[int | None]]]:
    """Breakdown -> value -> [items here, items in the authors' files]; "" -> splits of the whole."""
    found: dict[str, dict[str, list[int | None]]] = {}
    for name, values in benchmark.official_counts.items():
        if not name:
            found[name] = {split: [len(loaded.items), count] for split, count in values.items()}
            continue
        here = Counter(value for item in loaded.items for value in item.labels.get(name, ()))
        found[name] = {value: [here.get(value, 0), values.get(value)] for value in dict.fromkeys([*values, *here])}
    return found


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
