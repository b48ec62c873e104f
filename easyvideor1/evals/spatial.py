"""VSI-Bench: sizes, distances and counts as numbers, directions, routes and orders as choices."""

from __future__ import annotations

from collections.abc import Iterable

from easyvideor1.evals.annotations import Row, as_list, required
from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.loading import Place, Prepared, choice_item, make_item
from easyvideor1.evals.options import Asked, from_list

NUMERIC_TYPES = ("object_counting", "object_abs_distance", "object_size_estimation", "room_size_estimation")


def vsibench(row: Row, place: Place) -> Iterable[Item]:
    question, kind = required(row, "question", where=place.where), required(row, "question_type", where=place.where)
    dataset, scene = required(row, "dataset", where=place.where), required(row, "scene_name", where=place.where)
    common = {
        "id": str(row.get("id", place.number)),
        "video": f"{dataset}/{scene}.mp4",
        "labels": {"question_type": kind, "dataset": dataset},
    }
    gold = str(required(row, "ground_truth", where=place.where, kind=(str, int, float)))
    options = as_list(row.get("options"))
    if kind in NUMERIC_TYPES or not options:
        yield make_item("regression", Asked(question, question, {}, ()), gold, place, form="number", **common)
    else:
        yield choice_item(from_list(question, options), gold.strip(), place, **common)


PREPARED = Prepared(labels={"question_type": "original_question_type"})
