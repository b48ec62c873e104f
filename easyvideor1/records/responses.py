"""The responses to the validation questions of a run, one JSON line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from easyvideor1.records.jsonl import StepLines
from easyvideor1.types import Sample, Score, ScoredResponse


class ValidationLog:
    """One record per validation answer: `{"step", "id", "kind", "problem_type", "modality", "source", ...}`."""

    def __init__(self, path: str | Path) -> None:
        self._lines = StepLines(path)

    def log(self, step: int, scored: ScoredResponse) -> None:
        """Append one response; its kind is "greedy" or "sample k"."""
        kind = "greedy" if scored.index is None else f"sample {scored.index}"
        record = {**sample_fields(scored.sample), "kind": kind, **response_fields(scored.response, scored.score)}
        self._lines.append({"step": step, **record})

    def truncate_after(self, step: int) -> None:
        """Forget later validations: call it once when a run goes on from a checkpoint."""
        self._lines.truncate_after(step)

    def close(self) -> None:
        self._lines.close()


def sample_fields(sample: Sample) -> dict[str, Any]:
    return {
        "id": sample.id,
        "problem_type": sample.problem_type,
        "modality": sample.modality,
        "source": sample.source,
        "problem": sample.problem,
        "options": list(sample.options),
        "gold": sample.gold,
    }


def response_fields(response: str, score: Score) -> dict[str, Any]:
    return {
        "response": response,
        "parsed": score.parsed,
        "value": score.value,
        "parts": dict(score.parts),
        "status": score.status,
        "reason": score.reason,
    }
