"""Rows -> items: the frame that all adapters share, and the prepared rows of EasyVideoR1, which any benchmark reads."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from easyvideor1.data.samples import unique_ids
from easyvideor1.data.schema import parse_row
from easyvideor1.errors import DataError
from easyvideor1.evals.annotations import Row, read_rows
from easyvideor1.evals.benchmark import Erratum, Item, Labels, Loaded, video_media
from easyvideor1.evals.options import Asked, from_lettered, from_list, gold_letter
from easyvideor1.types import Sample

QUESTION_FIELDS = ("id", "problem_id", "problem_type", "answer", "solution", "options")
"""What of a prepared row training reads in the same way."""


@dataclass(kw_only=True)
class Place:
    """The place of a row in its file, and the notes about it."""

    path: Path
    number: int
    where: str
    errata: list[Erratum] = field(default_factory=list)

    def note(self, kind: str) -> None:
        self.errata.append(Erratum(kind=kind, where=self.where))

    @contextmanager
    def read(self) -> Iterator[None]:
        """Name the row in whatever its values lead to.

        Raises:
            DataError: the row is not of the shape that the block takes for granted.
        """
        try:
            yield
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            fault = f"it has no {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
            raise DataError(f"not a row of this benchmark: {fault}", where=self.where) from error


RowReader = Callable[[Row, Place], Iterable[Item]]


def load(paths: Sequence[Path], official: RowReader, prepared: RowReader) -> Loaded:
    """The items of files of rows, official or prepared ones, in file order.

    Raises:
        DataError: a file cannot be read, or a row is not of the benchmark's shape.
    """
    items: list[Item] = []
    errata: list[Erratum] = []
    for path in paths:
        for number, (where, row) in enumerate(read_rows(path)):
            place = Place(path=path, number=number, where=where, errata=errata)
            with place.read():
                items += (prepared if is_prepared(row) else official)(row, place)
    return finished(items, errata)


def finished(items: Sequence[Item], errata: Sequence[Erratum]) -> Loaded:
    """The items with unique ids; what is wrong with them."""
    ids = unique_ids([item.id for item in items], quiet=True)
    unique = [
        item if item.id == name else replace(item, sample=replace(item.sample, id=name))
        for item, name in zip(items, ids, strict=True)
    ]
    return Loaded(items=tuple(unique), errata=tuple(errata))


def is_prepared(row: Row) -> bool:
    """True for the rows that EasyVideoR1 prepares of every benchmark."""
    return "problem" in row and "problem_type" in row and ("solution" in row or "answer" in row)


def choice_item(
    asked: Asked,
    gold: str | None,
    place: Place,
    *,
    id: str,
    video: str,
    form: str = "choice",
    labels: Mapping[str, Any] | None = None,
    fields: Mapping[str, Any] | None = None,
    **rest: Any,
) -> Item:
    """A multiple-choice item; a gold answer that is none of its options is noted, and no response can be right."""
    if gold is None or gold not in asked.options:
        place.note("gold answer is no option")
        gold = ""
    return make_item(
        "multiple choice", asked, gold, place, id=id, video=video, form=form, labels=labels, fields=fields, **rest
    )


def make_item(
    problem_type: str,
    asked: Asked,
    gold: str,
    place: Place,
    *,
    id: str,
    video: str,
    form: str,
    labels: Mapping[str, Any] | None = None,
    fields: Mapping[str, Any] | None = None,
    group: str = "",
    judge: str = "",
    subtitles: str = "",
    image: str = "",
    start_s: float | None = None,
    end_s: float | None = None,
    fps: float | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Item:
    """An item of any form; its clip range and frame rate go to its video."""
    sample = Sample(
        id=id,
        problem_type=problem_type,
        problem=asked.question,
        gold=gold,
        options=asked.for_grader,
        media=video_media(video, start_s=start_s, end_s=end_s, fps=fps, image=image),
        where=place.where,
        extra=extra or {},
    )
    known = {
        "question": asked.question,
        "stem": asked.stem,
        "options": asked.options,
        "lines": list(asked.lines),
        "gold": gold,
    }
    return Item(
        sample=sample,
        form=form,
        video=video,
        fields=known | dict(fields or {}),
        labels=label_values(labels or {}),
        group=group,
        judge=judge,
        subtitles=subtitles,
        image=image,
    )


def label_values(labels: Mapping[str, Any]) -> Labels:
    """Labels as texts; missing ones are left out."""
    found = {}
    for name, value in labels.items():
        values = tuple(str(part) for part in (value if isinstance(value, (list, tuple)) else [value]))
        values = tuple(text for text in values if text not in ("", "None", "nan"))
        if values:
            found[name] = values
    return found


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """How the prepared rows of a benchmark are read."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Breakdown -> field of the row."""
    label_style: str = ""
    """How the lines of options are labelled where the official question holds them, such as "({letter}) {text}"."""
    judge: str = "equivalence"
    """What a judge decides of open-ended rows."""
    forms: Mapping[str, str] = field(default_factory=dict)
    """Problem type, as the row spells it -> form, where that is another than the usual one."""
    refine: Callable[[Item, Row], Item] = lambda item, row: item
    """What else a benchmark reads out of its prepared rows."""

    def __call__(self, row: Row, place: Place) -> list[Item]:
        return [self.refine(self._item(row, place), row)]

    def _item(self, row: Row, place: Place) -> Item:
        sample = _sample(row, place)
        image = _path(row.get("image_path"))
        asked = from_list(sample.problem, [str(option) for option in row.get("options") or ()])
        kind = sample.problem_type
        if kind == "multiple choice":
            lettered = from_lettered(sample.problem, [str(option) for option in row.get("options") or ()])
            if lettered is not None and [line.strip()[:1] for line in lettered.lines] != list(lettered.options):
                place.note("damaged options: letters out of order or repeated")
                asked = lettered
            asked = with_lines(asked, self.label_style)
        form = self.forms.get(str(row["problem_type"]), FORMS.get(kind, "open"))
        common: dict[str, Any] = {
            "id": sample.id,
            "video": _path(row.get("path")),
            "form": form,
            "labels": {name: row.get(field_name) for name, field_name in self.labels.items()},
            "image": image,
            "fields": {"row": dict(row)},
        }
        if kind == "multiple choice":
            gold = sample.gold.strip()
            return choice_item(asked, gold_letter(gold, asked.options) if len(gold) > 1 else gold, place, **common)
        judge = self.judge if kind == "open-ended" else ""
        return make_item(kind, asked, sample.gold, place, judge=judge, **common)


def with_lines(asked: Asked, label_style: str) -> Asked:
    """The question with its options written into it, for benchmarks whose prompt is the question; "": as it is."""
    if not label_style:
        return asked
    lines = [label_style.format(letter=letter, text=text) for letter, text in asked.options.items()]
    return replace(asked, question="\n".join([asked.question, *lines]))


FORMS = {
    "multiple choice": "choice",
    "numerical": "number",
    "regression": "number",
    "boolean": "yes_no",
    "temporal grounding": "span",
    "spatial-temporal grounding": "tube",
    "open-ended": "open",
}
"""Problem type -> form of an item."""


def _sample(row: Row, place: Place) -> Sample:
    """The row as training reads it, without its media; an empty question or gold answer is noted, not refused."""
    text = row["problem"] if isinstance(row["problem"], str) else ""
    if not text.strip():
        place.note("empty question")
    known = {name: row[name] for name in QUESTION_FIELDS if name in row}
    known["problem"] = "-"  # its tags, if it has any, are text here
    try:
        sample = parse_row(known, where=place.where, media_root=Path())
    except DataError as error:
        if error.field not in ("answer", "solution"):
            raise
        place.note("no gold answer")
        sample = replace(parse_row(known | {"answer": "-"}, where=place.where, media_root=Path()), gold="")
    return replace(sample, problem=text)


def _path(value: Any) -> str:
    """A path of a prepared row, without the dots in front."""
    return posixpath.normpath(value) if isinstance(value, str) and value else ""


def as_text(value: Any) -> str:
    """A gold answer as text; other JSON values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
