"""What was answered: a line per item and repeat, appended at once, so that a killed run goes on from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from easyvideor1.errors import UsageError
from easyvideor1.evals.benchmark import Item, Outcome
from easyvideor1.records.jsonl import Lines, read_objects

WHOLE = "1/1"
FILE = re.compile(r"answers(-\d+-of-\d+)?\.jsonl")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A response to an item, or why there is none, with what it is worth."""

    id: str
    repeat: int
    prompt_hash: str
    response: str | None
    """None: the item could not be asked."""
    stop: str
    """eos, length, or failed."""
    num_tokens: int
    num_prompt_tokens: int
    strict: Mapping[str, Any]
    """value, parts, parsed and reason by the strict reading."""
    official: Mapping[str, Any]
    error: str = ""
    frames: str = ""
    """Key of its frames in frames.jsonl."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds: load_s of its group, answer_s from when the engine was given it."""

    @property
    def is_failed(self) -> bool:
        return self.response is None

    def record(self, prompt: Mapping[str, str]) -> dict[str, Any]:
        return {
            "id": self.id,
            "repeat": self.repeat,
            "prompt_hash": self.prompt_hash,
            "prompt": dict(prompt),
            "response": self.response,
            "stop": self.stop,
            "num_tokens": self.num_tokens,
            "num_prompt_tokens": self.num_prompt_tokens,
            **scores_of(self.strict, self.official),
            "error": self.error,
            "frames": self.frames,
            "times": {name: round(value, 4) for name, value in self.times.items()},
        }


def scores_of(strict: Mapping[str, Any], official: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of the worth of its response."""
    return {
        "parsed": strict.get("parsed"),
        "score": strict.get("value"),
        "official_score": official.get("value"),
        "parts": dict(strict.get("parts", {})),
        "official_parts": dict(official.get("parts", {})),
        "reason": strict.get("reason", ""),
        "official_reason": official.get("reason", ""),
    }


class AnswerFiles:
    """The answers to one benchmark in a folder: one file, or one per shard of the run.

    Args:
        kind: answers, or the frames that were seen.
    """

    def __init__(
        self, folder: Path, *, shard: str | None = None, kind: Literal["answers", "frames"] = "answers"
    ) -> None:
        self.folder = folder
        index, _, count = (shard or WHOLE).partition("/")
        self.path = folder / (f"{kind}.jsonl" if count == "1" else f"{kind}-{index}-of-{count}.jsonl")
        self._lines: Lines | None = None

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a line; it is on disk when this returns."""
        if self._lines is None:
            self._lines = Lines(self.path)
        self._lines.append(record)

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def done(self, hashes: Mapping[str, str], *, retry_failed: bool) -> dict[str, set[int]]:
        """Id -> repeats that are there, in any file of the folder.

        Args:
            hashes: id -> hash of the prompt as it is asked now.
            retry_failed: what failed is as good as not there.

        Raises:
            UsageError: an answer to another prompt.
        """
        found: dict[str, set[int]] = {}
        for record in read_answers(self.folder):
            name = record["id"]
            if name in hashes and record["prompt_hash"] != hashes[name]:
                raise UsageError(
                    f"{self.folder} holds an answer to item {name} that was asked otherwise (prompt "
                    f"{record['prompt_hash']}, now {hashes[name]}); choose another --out"
                )
            if not (retry_failed and record["response"] is None):
                found.setdefault(name, set()).add(record["repeat"])
        return found


def read_answers(folder: Path) -> Iterator[dict[str, Any]]:
    """The newest answer for every item and repeat of a benchmark, in the order of the first."""
    places: dict[tuple[str, int], tuple[Path, int]] = {}
    files = sorted(path for path in folder.glob("answers*.jsonl") if FILE.fullmatch(path.name))
    for path in files:
        for number, record in enumerate(read_objects(path)):
            key = record["id"], record["repeat"]
            # An answer is never displaced by a failure, whichever file is read first.
            if key not in places or record["response"] is not None:
                places[key] = path, number
    kept = set(places.values())
    for path in files:
        for number, record in enumerate(read_objects(path)):
            if (path, number) in kept:
                yield record


def strict_outcome(record: Mapping[str, Any], item: Item) -> Outcome:
    return Outcome(
        item=item,
        value=record["score"],
        parts=record["parts"],
        parsed=record["parsed"],
        reason=record["reason"] or record["error"],
    )


def official_outcome(record: Mapping[str, Any], item: Item) -> Outcome:
    return Outcome(
        item=item, value=record["official_score"], parts=record["official_parts"], reason=record["official_reason"]
    )


def check_settings(folder: Path, name: str, settings: Mapping[str, Any]) -> None:
    """Write what decides over answers beside them, or make sure that it is what was written there.

    Raises:
        UsageError: the folder holds answers that were made otherwise.
    """
    path = folder / name
    now = json.loads(json.dumps(settings))
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    if changed:
        raise UsageError(
            f"{path} says that the answers there were made with other settings ({', '.join(changed[:5])}); choose "
            "another --out, or give the same settings to go on"
        )
