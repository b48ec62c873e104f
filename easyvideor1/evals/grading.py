"""What one response is worth by both readings; picklable, so that hostile text can only harm a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from easyvideor1.evals.benchmark import Item, Outcome
from easyvideor1.evals.protocol import Protocol
from easyvideor1.evals.scoring import official
from easyvideor1.evals.strict import strict


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """A response to an item that is asked by a protocol."""

    item: Item
    protocol: Protocol
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Worth:
    """What a response is worth: value (None: unscored), parts, parsed and reason by the strict and official reading."""

    strict: Mapping[str, Any] = field(default_factory=dict)
    official: Mapping[str, Any] = field(default_factory=dict)


def grade(response: Response) -> Worth:
    """Score a response without a language model."""
    rules = response.protocol
    item = replace(response.item, fields={**response.item.fields, "box_units": rules.box_units})
    return Worth(
        strict=as_fields(strict(item, response.text, reading=rules.reading)),
        official=as_fields(official(item, response.text, rules)),
    )


def as_fields(outcome: Outcome) -> dict[str, Any]:
    return {
        "value": outcome.value,
        "parts": dict(outcome.parts),
        "parsed": outcome.parsed,
        "reason": outcome.reason,
    }


def worthless(item: Item, protocol: Protocol, reason: str) -> Worth:
    """Worth of an item without a response: 0 where it would have been scored, so that it stays in the denominator."""
    found = grade(Response(item=item, protocol=protocol, text=""))
    return Worth(strict={**found.strict, "reason": reason}, official={**found.official, "reason": reason})


def judged(value: float) -> Worth:
    """By the verdict of a language model."""
    fields = {"value": value, "parts": {}, "parsed": None, "reason": "judged"}
    return Worth(strict=fields, official=fields)
