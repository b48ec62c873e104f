"""When something happens (Charades-STA), and when and where (STVG): golds in seconds and in pixels of the source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError
from easyvideor1.evals.annotations import Row, read_value, required, text_lines
from easyvideor1.evals.benchmark import Erratum, Item, Loaded
from easyvideor1.evals.loading import Place, Prepared, finished, load, make_item
from easyvideor1.evals.options import Asked

_LINE = re.compile(r"(?P<video>\S+) (?P<start>[\d.]+) (?P<end>[\d.]+)##(?P<text>.*)")
VIDSTG_FPS = 30.0
"""Taken where no VidSTG annotation tells the frame rate of a video."""


def load_charades(paths: Sequence[Path]) -> Loaded:
    """Charades-STA: the authors' text lines, JSON rows of lmms-eval, or prepared rows."""
    errata: list[Erratum] = []
    items: list[Item] = []
    for path in paths:
        if path.suffix.lower() != ".txt":
            found = load([path], charades, Prepared())
            items, errata = [*items, *found.items], [*errata, *found.errata]
            continue
        for number, line in enumerate(text_lines(path)):
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise DataError("no line 'VIDEO start end##sentence'", where=f"{path}:{number + 1}")
            row = {
                "video": match["video"],
                "caption": match["text"],
                "timestamp": [float(match["start"]), float(match["end"])],
            }
            items += charades(row, Place(path=path, number=number, where=f"{path}:{number + 1}", errata=errata))
    return finished(items, errata)


def charades(row: Row, place: Place) -> Iterable[Item]:
    video = required(row, "video", where=place.where)
    video = video if "." in video else f"{video}.mp4"
    start, end = (float(time) for time in required(row, "timestamp", where=place.where, kind=(list, tuple)))
    if end <= start:
        place.note("span that ends before it starts")
        start, end = end, start
    caption = required(row, "caption", where=place.where)
    yield make_item(
        "temporal grounding",
        Asked(caption, caption, {}, ()),
        json.dumps({"time": [start, end]}) if end > start else "",
        place,
        id=str(row.get("id", place.number)),
        video=f"Charades_v1_480/{video}",
        form="span",
        fields={"span": (start, end)},
    )


def load_stvg(paths: Sequence[Path]) -> Loaded:
    """STVG of ST-Align with the frame rates of VidSTG annotation files among the paths, or prepared rows.

    Prepared rows get the size of their frames from VidSTG too; without it no box of a model that answers on a grid of
    0 to 1000 can be compared.
    """
    facts: dict[str, Row] = {}
    files = []
    for path in paths:
        value = read_value(path)
        if isinstance(value, list) and value and isinstance(value[0], dict) and "vid" in value[0]:
            facts |= {str(row["vid"]): row for row in value}
        else:
            files.append(path)

    def official(row: Row, place: Place) -> Iterable[Item]:
        yield _stvg(row, place, facts)

    return load(files, official, Prepared(refine=lambda item, row: _with_size(item, facts)))


def _stvg(row: Row, place: Place, facts: Mapping[str, Row]) -> Item:
    meta = required(row, "meta", where=place.where, kind=dict)
    video = required(row, "video_path", where=place.where)
    known = facts.get(Path(video).stem, {})
    fps = float(known.get("fps") or VIDSTG_FPS)
    if not known:
        place.note("frame rate unknown, taken for 30")
    times = meta.get("time_token") or {}
    span = [times[name] / fps for name in ("<s>", "<e>")] if {"<s>", "<e>"} <= times.keys() else []
    boxes = {
        f"{float(frame) / fps:.6g}": [box[0], box[1], box[0] + box[2], box[1] + box[3]]
        for frame, box in next(iter((meta.get("spatial_token") or {}).values()), {}).items()
    }
    talk = row.get("conversations") or []
    question = next(
        (turn["value"] for turn in talk if turn.get("from") in ("human", "user")), row.get("question") or ""
    )
    question = re.sub(r"\s*<video>\s*", "", question)
    gold = {"time": span, "boxes": boxes}
    return make_item(
        "spatial-temporal grounding" if boxes else "temporal grounding",
        Asked(question, question, {}, ()),
        json.dumps(gold) if span and span[0] < span[1] else "",
        place,
        id=str(row.get("id", place.number)),
        video=video,
        form="tube",
        fields=_size(meta) | {"frames": meta.get("split"), "fps": fps},
    )


def _with_size(item: Item, facts: Mapping[str, Row]) -> Item:
    known = facts.get(Path(item.video).stem)
    return replace(item, form="tube", fields={**item.fields, **_size(known or {})})


def _size(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {"width": facts.get("width"), "height": facts.get("height")}
