"""Benchmarks that ask while a video runs: only the part up to the question, or a stretch of it, is seen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from easyvideor1.evals.annotations import Row, as_list, required
from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.loading import Place, Prepared, choice_item, make_item
from easyvideor1.evals.metrics import track_of
from easyvideor1.evals.options import LETTERS, Asked, from_list, gold_letter

NUMBER = (int, float)


def ovobench(row: Row, place: Place) -> Iterable[Item]:
    """OVO-Bench: choices, and the probes of the forward tasks, a row each; a query sees the video up to its time."""
    task = required(row, "task", where=place.where)
    row_id = str(required(row, "id", where=place.where, kind=(int, str)))
    common: dict[str, Any] = {
        "video": required(row, "video", where=place.where),
        "labels": {"task": task, "category": track_of(task)},
        "start_s": 0.0,
        "group": row_id,
    }
    if not row.get("test_info"):
        asked = from_list(
            required(row, "question", where=place.where), [str(option) for option in as_list(row.get("options"))]
        )
        end_s = seen_until(required(row, "realtime", where=place.where, kind=NUMBER))
        gold = LETTERS[int(required(row, "gt", where=place.where, kind=NUMBER))]
        yield choice_item(asked, gold, place, id=row_id, end_s=end_s, **common)
        return
    for number, probe in enumerate(required(row, "test_info", where=place.where, kind=list)):
        end_s = seen_until(required(probe, "realtime", where=place.where, kind=NUMBER))
        yield _probe(row, probe, place, task, id=f"{row_id}_{number}", end_s=end_s, common=common)


def _probe(row: Row, probe: Row, place: Place, task: str, *, id: str, end_s: float, common: dict[str, Any]) -> Item:
    if task == "REC":
        activity = required(row, "activity", where=place.where)
        question = f"How many times did they {activity}?"
        gold = str(int(required(probe, "count", where=place.where, kind=NUMBER)))
        kind, fields = "numerical", {"activity": activity}
    else:
        step = required(probe, "step", where=place.where) if task == "SSR" else None
        question = step or required(row, "question", where=place.where)
        gold = "Yes" if int(required(probe, "type", where=place.where, kind=NUMBER)) else "No"
        kind, fields = "boolean", {"step": question}
    asked = Asked(question, question, {}, ())
    return make_item(kind, asked, gold, place, id=id, form=task, end_s=end_s, fields=fields, **common)


def seen_until(time_s: float) -> float:
    """The end of what a query sees: whole seconds, rounded up, as the authors' clips are cut; at least one."""
    return float(max(1, math.ceil(time_s)))


def _ovo_prepared(item: Item, row: Row) -> Item:
    task = str(row.get("ovo_task") or "")
    activity = re.sub(r"^\s*How many times did they\s+|\?\s*$", "", item.sample.problem)
    fields = {**item.fields, "activity": activity, "step": item.sample.problem}
    form = task if task in ("REC", "SSR", "CRR") else item.form
    group = str(row.get("ovo_id") or "")
    return replace(item, form=form, fields=fields, group=group)


OVO_PREPARED = Prepared(
    labels={"task": "ovo_task", "category": "ovo_category"},
    forms={"REC": "REC", "SSR": "SSR", "CRR": "CRR"},
    refine=_ovo_prepared,
)


def odvbench(row: Row, place: Place) -> Iterable[Item]:
    """ODV-Bench: the stretch [start, end] of a drive; some drives are folders of pictures with a frame rate."""
    candidates = [str(option) for option in required(row, "candidates", where=place.where, kind=list)]
    asked = from_list(required(row, "question", where=place.where), candidates)
    yield choice_item(
        asked,
        gold_letter(str(row.get("answer")), asked.options),
        place,
        id=f"{place.path.stem.removeprefix('odvbench_')}_{place.number}",
        video=required(row, "video", where=place.where),
        labels={
            "task": row.get("task"),
            "subtask": row.get("subtask"),
            "subsubtask": row.get("subsubtask"),
            "file": place.path.stem.removeprefix("odvbench_"),
        },
        start_s=row.get("start"),
        end_s=row.get("end"),
        fps=row.get("fps"),
    )


ODV_PREPARED = Prepared(labels={"task": "odv_task", "subtask": "odv_subtask"})


def livesports(row: Row, place: Place) -> Iterable[Item]:
    """LiveSports-3K: a stretch of a broadcast, and a question of when, what or who."""
    options = [str(option) for option in required(row, "options", where=place.where, kind=list)]
    asked = from_list(required(row, "question", where=place.where), options)
    yield choice_item(
        asked,
        required(row, "answer", where=place.where).strip()[:1],
        place,
        id=str(row.get("question_id") or place.number),
        video=str(row.get("video") or f"videos/{row.get('video_id')}.mp4"),
        labels={"q_type": row.get("q_type"), "OCR": row.get("OCR")},
        start_s=row.get("video_start", row.get("begin")),
        end_s=row.get("video_end", row.get("end")),
    )


LIVESPORTS_PREPARED = Prepared(labels={"q_type": "q_type_livesports", "OCR": "ocr_livesports"})
