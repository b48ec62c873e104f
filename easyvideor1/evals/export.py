"""Responses in the formats that the authors of benchmarks take, and outcomes as a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from easyvideor1.errors import UsageError
from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.scoring import Scored
from easyvideor1.evals.strict import letter_of


def submission(scored: Scored) -> Any:
    """Responses in the form that the authors take: Video-MME's objects by video, MLVU's options, else letters by id.

    Raises:
        UsageError: the authors of this benchmark take no file of answers.
    """
    name = scored.benchmark.name

    def letter(item: Item) -> str:
        return letter_of(item, scored.responses.by_id.get(item.id, ""), reading=scored.protocol.reading)

    if name == "videomme":
        return _by_video(scored)
    if name == "mlvu_test":
        return [
            {
                "question_id": outcome.item.id,
                "question_type": next(iter(outcome.item.labels.get("task", ())), ""),
                "option": letter(outcome.item),
            }
            for outcome in scored.strict
        ]
    if all(outcome.item.sample.options for outcome in scored.strict):
        return {outcome.item.id: letter(outcome.item) for outcome in scored.strict}
    if name in ("videoreasonbench", "charades_sta", "stvg"):
        raise UsageError(
            f"{scored.benchmark.title} is scored locally: its authors take no submission file; use --to csv"
        )
    return {outcome.item.id: scored.responses.by_id.get(outcome.item.id, "") for outcome in scored.strict}


def _by_video(scored: Scored) -> list[dict[str, Any]]:
    """Video-MME's evaluation file: a video with its questions, each with the raw response."""
    videos: dict[str, dict[str, Any]] = {}
    for item in scored.loaded.items:
        facts = item.fields.get("row", {})
        known = {label: next(iter(item.labels.get(label, ())), "") for label in ("duration", "domain", "sub_category")}
        video = videos.setdefault(
            str(facts.get("video_id") or item.video), {"video_id": facts.get("video_id"), **known, "questions": []}
        )
        video["questions"].append(_question(item, scored.responses.by_id.get(item.id, "")))
    return list(videos.values())


def _question(item: Item, response: str) -> dict[str, Any]:
    return {
        "question_id": item.id,
        "task_type": next(iter(item.labels.get("task_type", ())), ""),
        "question": item.fields["stem"],
        "options": list(item.fields["lines"]),
        "answer": item.sample.gold,
        "response": response,
    }


def write_submission(scored: Scored, path: Path) -> None:
    """Write the authors' format as JSON."""
    path.write_text(json.dumps(submission(scored), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_table(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the outcomes of items as CSV, a column per breakdown."""
    labels = list(dict.fromkeys(name for record in records for name in record["labels"]))
    columns = ["id", "video", "gold", "parsed", "value", "official_value", "reason", "response"]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow([*columns, *labels])
        for record in records:
            values = [";".join(record["labels"].get(name, ())) for name in labels]
            table.writerow([*("" if record[name] is None else record[name] for name in columns), *values])
