"""Benchmarks with questions that need a judge: TempCompass, MLVU, MMVU, Video-MMMU, VCR-Bench.

Without a judge those items are unscored; all others are read and compared like everywhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError
from easyvideor1.evals.annotations import Row, as_list, number_in, read_value, required
from easyvideor1.evals.benchmark import Erratum, Item, Loaded
from easyvideor1.evals.choice_rows import hidden
from easyvideor1.evals.loading import (
    Place,
    Prepared,
    as_text,
    choice_item,
    finished,
    is_prepared,
    load,
    make_item,
    with_lines,
)
from easyvideor1.evals.options import Asked, from_list, from_mapping, from_text, gold_letter

TEMPCOMPASS_FORMS = ("multi-choice", "yes_no", "caption_matching", "captioning")


def load_tempcompass(paths: Sequence[Path]) -> Loaded:
    """TempCompass: the authors' files by form, their flat rows, or prepared rows.

    Of several files `meta_info.json` gives the fine-grained types, and `multi-choice.json` the question that a caption
    must answer.
    """
    values = {path: read_value(path) for path in paths}
    types = next((value for path, value in values.items() if "meta_info" in path.stem), {})
    asked = next((value for path, value in values.items() if "multi-choice" in path.stem), None)
    errata: list[Erratum] = []
    items: list[Item] = []
    for path, value in values.items():
        if "meta_info" in path.stem:
            continue
        for number, (video, aspect, row) in enumerate(_tempcompass_rows(value, path)):
            place = Place(path=path, number=number, where=f"{path}[{number}]", errata=errata)
            with place.read():
                if is_prepared(row):
                    items += TEMPCOMPASS_PREPARED(row, place)
                    continue
                form = _tempcompass_form(row, path)
                question = _caption_question(row, asked, video, aspect) if form == "captioning" else None
                label = ((types.get(video) or {}).get("eval_dim") or {}).get(aspect) or {}
                items.append(_tempcompass_item(row, place, video, aspect, form, label.get("type"), question))
    return finished(items, errata)


def _tempcompass_rows(value: Any, path: Path) -> Iterable[tuple[str, str, Row]]:
    if isinstance(value, dict):
        for video, aspects in value.items():
            for aspect, rows in aspects.items():
                for row in rows:
                    yield str(video), str(aspect), row
        return
    for row in value:
        if not isinstance(row, dict):
            raise DataError(f"a row is an object, got {type(row).__name__}", where=str(path))
        yield str(row.get("video_id")), str(row.get("dim")), row


def _tempcompass_form(row: Row, path: Path) -> str:
    """The form of a question, from its file's name or else from the question."""
    named = next((form for form in TEMPCOMPASS_FORMS if form in path.stem), None)
    if named:
        return named
    question, answer = str(row.get("question")), str(row.get("answer"))
    if "mc_question" in row or question.rstrip().endswith("Generated Caption:"):
        return "captioning"
    if answer.lower() in ("yes", "no"):
        return "yes_no"
    return "multi-choice" if re.match(r"[A-Z]\.", answer) else "caption_matching"


def _caption_question(row: Row, asked: Any, video: str, aspect: str) -> tuple[str, str]:
    """The question that the judge answers from a caption, and its answer."""
    if row.get("mc_question"):
        return str(row["mc_question"]), str(row.get("mc_answer"))
    first = next(iter(((asked or {}).get(video) or {}).get(aspect) or ()), None)
    return (first["question"], first["answer"]) if first else ("", str(row.get("answer")))


def _tempcompass_item(
    row: Row, place: Place, video: str, aspect: str, form: str, kind: str | None, caption: tuple[str, str] | None
) -> Item:
    question, answer = required(row, "question", where=place.where), required(row, "answer", where=place.where)
    labels = {"form": form, "aspect": aspect, f"{form}/aspect": aspect, "type": kind}
    common: dict[str, Any] = {
        "id": f"{form}/{video}/{aspect}/{place.number}",
        "video": f"videos/{video}.mp4",
        "labels": labels,
        "fields": {"answer": answer},
        "form": form,
    }
    if form == "yes_no":
        return make_item("boolean", Asked(question, question, {}, ()), answer, place, **common)
    if form == "captioning":
        assert caption is not None
        common["fields"] = {"answer": answer, "mc_question": caption[0], "mc_answer": caption[1]}
        return make_item(
            "open-ended", Asked(question, question, {}, ()), answer, place, judge="caption answers question", **common
        )
    asked = from_text(question)
    whole = {line.strip(): letter for letter, line in zip(asked.options, asked.lines, strict=True)}
    return choice_item(asked, whole.get(answer.strip()) or gold_letter(answer[:1], asked.options), place, **common)


TEMPCOMPASS_PREPARED = Prepared(labels={"form": "original_question_type", "aspect": "dim"})

_MLVU_TASKS = {"findNeedle": "needle", "subPlot": "sub_scene"}
_MLVU_FOLDERS = {
    "plotQA": "1_plotQA", "needle": "2_needle", "ego": "3_ego", "count": "4_count", "order": "5_order",
    "anomaly_reco": "6_anomaly_reco", "topic_reasoning": "7_topic_reasoning", "sub_scene": "8_sub_scene",
    "summary": "9_summary",
}  # fmt: skip
MLVU_GENERATION = ("sub_scene", "summary")


def mlvu_dev(row: Row, place: Place) -> Iterable[Item]:
    """MLVU dev: tasks with candidates, and the two tasks of written answers; or the flat rows of lmms-eval's copies."""
    if "video_name" in row:
        yield _mlvu_flat(row, place)
        return
    task = _MLVU_TASKS.get(str(row.get("question_type")), str(row.get("question_type")))
    question = required(row, "question", where=place.where)
    common: dict[str, Any] = {
        "id": f"{task}_{place.number}",
        "video": f"video/{_MLVU_FOLDERS.get(task, task)}/{required(row, 'video', where=place.where)}",
        "labels": {"task": task},
        "extra": {"duration_s": row.get("duration")},
    }
    if task in MLVU_GENERATION or "candidates" not in row:
        fields = {"scoring_points": row.get("scoring_points") or []}
        answer = required(row, "answer", where=place.where)
        yield make_item(
            "open-ended", Asked(question, question, {}, ()), answer, place,
            form="open", judge=f"mlvu {task}", fields=fields, **common,
        )  # fmt: skip
        return
    yield _mlvu_choice(row, place, question, common)


def _mlvu_flat(row: Row, place: Place) -> Item:
    """A row of sy1998/MLVU_dev or MLVU_Test: options in the question, a letter as answer, `task_type`."""
    task = str(row.get("task_type"))
    task = _MLVU_TASKS.get(task, task)
    return choice_item(
        from_text(required(row, "question", where=place.where)),
        required(row, "answer", where=place.where).strip().strip("().")[:1],
        place,
        id=str(row.get("question_id") or f"{task}_{place.number}"),
        video=f"video/{required(row, 'video_name', where=place.where)}",
        labels={"task": task},
    )


def _mlvu_choice(row: Row, place: Place, question: str, common: dict[str, Any]) -> Item:
    candidates = [as_text(option) for option in required(row, "candidates", where=place.where, kind=list)]
    if not question.strip():
        place.note("empty row")
    elif len(set(candidates)) < len(candidates):
        is_gold = candidates.count(as_text(row.get("answer"))) > 1
        place.note("repeated candidate" + (", which is the gold answer" if is_gold else ""))
    asked = from_list(question, candidates)
    return choice_item(asked, gold_letter(as_text(row.get("answer")), asked.options, take_last=True), place, **common)


def load_mlvu_test(paths: Sequence[Path]) -> Loaded:
    """MLVU test: the questions, with the gold letters of a ground-truth file where one is given."""
    golds: dict[str, str] = {}
    question_files = []
    for path in paths:
        rows = as_list(read_value(path))
        if rows and isinstance(rows[0], dict) and "question_id" in rows[0] and "question" not in rows[0]:
            golds |= {str(row["question_id"]): str(row.get("answer") or row.get("option") or "") for row in rows}
        else:
            question_files.append(path)

    def official(row: Row, place: Place) -> Iterable[Item]:
        if "video_name" in row:
            yield _mlvu_flat(row, place)
            return
        question_id = required(row, "question_id", where=place.where)
        candidates = [as_text(option) for option in required(row, "candidates", where=place.where, kind=list)]
        asked = from_list(required(row, "question", where=place.where), candidates)
        common: dict[str, Any] = {
            "id": question_id,
            "video": f"video/{required(row, 'video', where=place.where)}",
            "labels": {"task": row.get("question_type")},
            "extra": {"duration_s": row.get("duration")},
        }
        answer = golds.get(question_id) or as_text(row.get("answer") or "")
        if not answer:
            yield hidden(asked, place, **common)
        else:
            yield choice_item(asked, gold_letter(answer, asked.options, take_last=True), place, **common)

    return load(question_files, official, MLVU_PREPARED)


MLVU_PREPARED = Prepared()

_DISCIPLINES = {
    "Science": ("Astronomy", "Biology", "Chemistry", "Geography", "Materials_Science", "Neurobiology",
                "Electromagnetism", "Mechanics", "Modern_Physics", "Thermodynamics"),
    "Healthcare": ("Basic_Medicine", "Clinical_Medicine", "Dentistry", "Pharmacy", "Preventive_Medicine"),
    "Humanities and Social Science": ("Art", "Economics", "History", "Law", "Literature", "Management"),
    "Engineering": ("Biomedical_Engineering", "Civil_Engineering", "Computer_Science", "Electrical_Engineering",
                    "Electronics_and_Communication", "Mechanical_Engineering"),
}  # fmt: skip


def mmvu(row: Row, place: Place) -> Iterable[Item]:
    """MMVU: multiple choice and open questions, the subject in the path of the video."""
    question = required(row, "question", where=place.where)
    path = str(row.get("video_path") or required(row, "video", where=place.where))
    video = "videos/" + path.rpartition("videos/")[2].lstrip("/")
    subject = video.split("/")[1] if video.count("/") > 1 else str((row.get("metadata") or {}).get("subject") or "")
    discipline = next((name for name, subjects in _DISCIPLINES.items() if subject in subjects), None)
    kind = str(row.get("question_type"))
    common: dict[str, Any] = {
        "id": str(row.get("id", place.number)),
        "video": video,
        "labels": {"question_type": kind, "subject": subject, "discipline": discipline},
    }
    answer = str(row.get("answer") or "")
    if kind == "multiple-choice":
        asked = from_mapping(question, required(row, "choices", where=place.where, kind=dict))
        yield choice_item(asked, answer.strip(), place, **common) if answer else hidden(asked, place, **common)
    else:
        asked = Asked(question, question, {}, ())
        yield make_item("open-ended", asked, answer, place, form="open", judge="equivalence", **common)


_TRACKS = ("perception", "comprehension", "adaptation")
_VIDEOMMMU_DISCIPLINES = {
    "Art": ("Art", "Art_Theory", "Design", "Music"),
    "Business": ("Accounting", "Economics", "Finance", "Manage", "Marketing"),
    "Humanities": ("History", "Literature", "Psychology", "Sociology"),
    "Medicine": ("Basic_Medical_Science", "Clinical_Medicine", "Diagnostics_and_Laboratory_Medicine", "Pharmacy",
                 "Public_Health"),
    "Science": ("Biology", "Chemistry", "Geography", "Math", "Physics"),
    "Engineering": ("Agriculture", "Architecture_and_Engineering", "Computer_Science", "Electronics",
                    "Energy_and_Power", "Materials", "Mechanical_Engineering"),
}  # fmt: skip


def load_videommmu(paths: Sequence[Path]) -> Loaded:
    """Video-MMMU: a file per track, the repository's objects by track, or prepared rows."""
    errata: list[Erratum] = []
    items: list[Item] = []
    for path in paths:
        tracks = _track_rows(read_value(path), path)
        num_rows = sum(len(rows) for _, rows in tracks)
        for track, rows in tracks:
            for number, row in enumerate(rows):
                place = Place(path=path, number=number, where=f"{path}[{number}]", errata=errata)
                with place.read():
                    if is_prepared(row):
                        # Prepared files hold the three tracks one after the other, without naming them.
                        known = _TRACKS[::-1][number // 300] if num_rows == 900 else None
                        items += Prepared(labels={"track": "track"})(dict(row) | {"track": known}, place)
                    else:
                        items.append(_videommmu_item(row, place, track))
    return finished(items, errata)


def _track_rows(value: Any, path: Path) -> list[tuple[str, list[Row]]]:
    if isinstance(value, dict) and any(str(key).lower() in _TRACKS for key in value):
        return [
            (str(key).lower(), list(rows.values() if isinstance(rows, dict) else rows)) for key, rows in value.items()
        ]
    if isinstance(value, dict):
        value = list(value.values()) if all(isinstance(row, dict) for row in value.values()) else [value]
    rows = value
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError("no rows", where=str(path), remedy="give the files of the three tracks")
    return [(next((track for track in _TRACKS if track in path.stem.lower()), ""), rows)]


def _videommmu_item(row: Row, place: Place, track: str) -> Item:
    name = str(required(row, "id", where=place.where))
    question = required(row, "question", where=place.where)
    options = as_list(row.get("options"))
    subject = re.sub(r"^[a-z]+_|_\d+$", "", name)
    image = next((value for key, value in row.items() if re.fullmatch(r"image[ _]?1?", key)), None)
    common: dict[str, Any] = {
        "id": f"{track}/{name}" if track else name,
        "video": f"{subject_folder(subject)}/{name}.mp4" if track else f"{name}.mp4",
        "labels": {
            "track": track,
            "discipline": next((key for key, subjects in _VIDEOMMMU_DISCIPLINES.items() if subject in subjects), None),
            "subject": subject,
        },
        "image": image if isinstance(image, str) else "",
        "fields": {"track": track},
    }
    answer = as_text(row.get("answer") or "")
    if options:
        asked = from_list(question, [as_text(option) for option in options])
        return choice_item(asked, answer.strip(), place, form=f"{track or 'adaptation'} choice", **common)
    golds = accepted_answers(answer, place)
    common["fields"] = {"track": track, "golds": golds}
    number = next((text for text in golds if _is_number(text)), None)
    kind = "numerical" if number else "open-ended"
    asked = Asked(question, question, {}, ())
    return make_item(kind, asked, number or golds[0], place, form=f"{track or 'adaptation'} open", **common)


def subject_folder(subject: str) -> str:
    """The folder of the authors' download that holds the videos of a subject: its discipline."""
    return next((key for key, subjects in _VIDEOMMMU_DISCIPLINES.items() if subject in subjects), subject)


def accepted_answers(answer: str, place: Place) -> list[str]:
    """The accepted forms of an open answer: one text, or a list written as Python; a broken list is read leniently."""
    if not answer.strip().startswith("["):
        return [answer]
    try:
        golds = ast.literal_eval(answer.strip())
    except (ValueError, SyntaxError):
        place.note("broken list of gold answers")
        golds = [part.strip(" '\"[]") for part in answer.split(",")]
    found = [str(gold) for gold in golds if str(gold)] if isinstance(golds, (list, tuple)) else [str(golds)]
    return found or [answer]


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\$?\d[\d,]*(?:\.\d+)?%?", text.strip()) is not None


def vcrbench(row: Row, place: Place) -> Iterable[Item]:
    """VCR-Bench: letters where the question has choices; all others a judge compares with the answer."""
    question = required(row, "question", where=place.where)
    duration = number_in(row.get("duration"))
    is_choice = str(row.get("multiple-choice")).lower() in ("true", "1")  # a table holds it as text
    bound = None if duration is None else "<=60 s" if duration <= 60 else "<=300 s" if duration <= 300 else ">300 s"
    common: dict[str, Any] = {
        "id": str(row.get("id", place.number)),
        "video": required(row, "video_path", where=place.where),
        "labels": {
            "dimension": row.get("dimension"),
            "duration": bound,
            "kind": "multiple choice" if is_choice else "open",
        },
        "fields": {"reasoning": row.get("reasoning") or []},
        "extra": {"duration_s": duration},
    }
    choices: Mapping[str, Any] = row.get("choices") or {}
    if is_choice:
        asked, beside = from_text(question), from_mapping(question, choices)
        if not asked.options.keys() >= beside.options.keys():  # the question does not list what it asks about
            asked = with_lines(beside, "{letter}. {text}")
        yield choice_item(asked, str(row.get("answer")).strip()[:1], place, **common)
    else:
        asked = Asked(question, question, {}, ())
        yield make_item(
            "open-ended", asked, as_text(row.get("answer") or ""), place, form="open", judge="equivalence", **common
        )
