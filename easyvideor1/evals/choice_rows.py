"""The authors' rows of the multiple-choice benchmarks -> items: one short function each."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from easyvideor1.evals.annotations import Row, as_list, required
from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.loading import Place, choice_item, make_item
from easyvideor1.evals.options import LETTERS, from_list, from_mapping, from_text, gold_letter

TEXT_OR_NUMBER = (str, int)


def videomme(row: Row, place: Place) -> Iterable[Item]:
    """Video-MME, one row per question, or the authors' submission form, one object per video."""
    if "questions" in row:
        shared = {name: value for name, value in row.items() if name != "questions"}
        for question in required(row, "questions", where=place.where, kind=list):
            yield from videomme(shared | question, place)
        return
    asked = from_list(row["question"], as_list(required(row, "options", where=place.where, kind=(list, tuple))))
    name = row.get("videoID") or required(row, "video_id", where=place.where)
    labels = {key: row.get(key) for key in ("duration", "domain", "sub_category", "task_type")}
    yield choice_item(
        asked,
        required(row, "answer", where=place.where).strip(),
        place,
        id=required(row, "question_id", where=place.where),
        video=f"data/{name}.mp4",
        subtitles=f"subtitle/{name}.srt",
        labels=labels,
        fields={"video_id": row.get("video_id"), "row": {key: row.get(key) for key in ("video_id", "url", *labels)}},
    )


def videomme_v2(row: Row, place: Place) -> Iterable[Item]:
    options = from_text("\n" + required(row, "options", where=place.where))
    question = required(row, "question", where=place.where)
    asked = from_mapping(question, options.options)
    name, question_id = required(row, "video_id", where=place.where), required(row, "question_id", where=place.where)
    number = re.search(r"(\d+)\s*$", question_id)
    kinds = {key: row.get(key) for key in ("group_type", "level", "second_head", "third_head")}
    yield choice_item(
        asked,
        required(row, "answer", where=place.where).strip(),
        place,
        id=question_id,
        video=f"videos/{name}.mp4",
        subtitles=f"subtitle/{name}.jsonl",
        labels=kinds,
        group=name,
        fields={
            "options_text": row["options"],
            "place": int(number[1]) if number else 0,
            "group_type": str(row.get("group_type")),
            "group_structure": str(row.get("group_structure")),
        },
    )


_MVBENCH_FOLDERS = {
    "action_sequence": "star/Charades_v1_480", "action_prediction": "star/Charades_v1_480",
    "object_interaction": "star/Charades_v1_480", "action_localization": "sta/sta_video",
    "episodic_reasoning": "tvqa/frames_fps3_hq", "moving_direction": "clevrer/video_validation",
    "moving_count": "clevrer/video_validation", "moving_attribute": "clevrer/video_validation",
    "object_existence": "clevrer/video_validation", "counterfactual_inference": "clevrer/video_validation",
    "object_shuffle": "perception/videos", "state_change": "perception/videos",
    "character_order": "perception/videos", "action_count": "perception/videos",
    "action_antonym": "ssv2_video", "fine_grained_action": "Moments_in_Time_Raw/videos",
    "unexpected_action": "FunQA_test/test", "scene_transition": "scene_qa/video",
    "egocentric_navigation": "vlnqa", "fine_grained_pose": "nturgbd",
}  # fmt: skip
MVBENCH_TASKS = tuple(_MVBENCH_FOLDERS)


def mvbench(row: Row, place: Place) -> Iterable[Item]:
    """MVBench; the name of the file is the task."""
    task = next((task for task in MVBENCH_TASKS if place.path.stem.endswith(task)), place.path.stem)
    asked = from_list(
        required(row, "question", where=place.where), _texts(required(row, "candidates", where=place.where, kind=list))
    )
    folder = _MVBENCH_FOLDERS.get(task, task)
    yield choice_item(
        asked,
        _gold_by_text(row, asked.options, place),
        place,
        id=f"{task}_{place.number}",
        video=f"{folder}/{required(row, 'video', where=place.where)}",
        labels={"task": task},
        start_s=row.get("start"),
        end_s=row.get("end"),
        # A folder of pictures at 3 frames a second, whatever the row forgets to say.
        fps=row.get("fps") or (3.0 if task == "episodic_reasoning" else None),
    )


def motionbench(row: Row, place: Place) -> Iterable[Item]:
    """MotionBench: a video with its questions; those of the hidden test split have the answer "NA"."""
    folder = {"self-collected": "self-collected", "public-dataset": "public-dataset"}.get(
        str(row.get("video_type")), ""
    )
    video = "/".join(part for part in (folder, required(row, "video_path", where=place.where)) if part)
    for question in row.get("qa") or [row]:
        if str(question.get("answer")) == "NA":
            place.note("without a public gold answer (test split)")
            continue
        asked = _asked(question, place)
        yield choice_item(
            asked,
            _letter(question, place),
            place,
            id=str(question.get("uid") or row.get("key")),
            video=video,
            labels={"question_type": row.get("question_type"), "video_type": row.get("video_type")},
        )


def lvbench(row: Row, place: Place) -> Iterable[Item]:
    """LVBench: a video with its questions; a question counts for every capability that it lists."""
    key = required(row, "key", where=place.where)
    for question in row.get("qa") or [row]:
        yield choice_item(
            _asked(question, place),
            _letter(question, place),
            place,
            id=str(required(question, "uid", where=place.where, kind=TEXT_OR_NUMBER)),
            video=f"videos/{key}.mp4",
            labels={"question_type": as_list(question.get("question_type")), "type": row.get("type")},
        )


_DURATION_GROUPS = {"15": "8-15 s", "60": "15-60 s", "600": "3-10 min", "3600": "15-60 min"}


def longvideobench(row: Row, place: Place) -> Iterable[Item]:
    """LongVideoBench, the authors' JSON or the table with the columns option0 .. option4."""
    candidates = row.get("candidates")
    if candidates is None:
        columns = [row.get(f"option{number}") for number in range(5)]
        candidates = [option for option in columns if option not in (None, "N/A", "")]
    asked = from_list(required(row, "question", where=place.where), _texts(candidates))
    choice = row.get("correct_choice")
    group = str(row.get("duration_group"))
    common: dict[str, Any] = {
        "id": str(row.get("id") or f"{row.get('video_id')}_{place.number}"),
        "video": f"videos/{row.get('video_path') or str(row.get('video_id')) + '.mp4'}",
        "subtitles": f"subtitles/{row['subtitle_path']}" if row.get("subtitle_path") else "",
        "labels": {
            "duration_group": _DURATION_GROUPS.get(group, group),
            "question_category": row.get("question_category"),
            "level": row.get("level"),
            "topic_category": row.get("topic_category"),
        },
        "fields": {"subtitles_start_s": float(row.get("starting_timestamp_for_subtitles") or 0.0)},
        "extra": {"duration_s": row.get("duration")},
    }
    if choice is None:
        yield hidden(asked, place, **common)
    else:
        yield choice_item(asked, LETTERS[int(choice)], place, **common)


def video_holmes(row: Row, place: Place) -> Iterable[Item]:
    options = required(row, "Options", where=place.where, kind=(dict, str))
    options = ast.literal_eval(options) if isinstance(options, str) else options
    options = {letter: text for letter, text in options.items() if text is not None}
    yield choice_item(
        from_mapping(required(row, "Question", where=place.where), options),
        str(row.get("Answer")).strip(),
        place,
        id=str(required(row, "Question ID", where=place.where, kind=TEXT_OR_NUMBER)),
        video=f"videos_cropped/{required(row, 'video ID', where=place.where)}.mp4",
        labels={"question_type": row.get("Question Type")},
        fields={"options_object": dict(options)},
    )


def minerva(row: Row, place: Place) -> Iterable[Item]:
    """MINERVA: five answers in columns; a question may list several skills, separated by commas."""
    options = [row.get(f"answer_choice_{number}") for number in range(len(LETTERS))]
    texts = [str(option) for option in options if option is not None]
    skills = row.get("question_type") or row.get("question type") or ""
    yield choice_item(
        from_list(required(row, "question", where=place.where), texts),
        LETTERS[int(required(row, "answer_id", where=place.where, kind=(int, str)))],
        place,
        id=str(row.get("key") or place.number),
        video=f"videos/{required(row, 'video_id', where=place.where)}.mp4",
        labels={
            "skill": [skill.strip() for skill in str(skills).split(",") if skill.strip()],
            "split": row.get("split"),
            "category": row.get("category"),
        },
    )


def longvideo_reason(row: Row, place: Place) -> Iterable[Item]:
    asked = from_text(required(row, "problem", where=place.where))
    yield choice_item(
        asked,
        _letter(row, place),
        place,
        id=str(row.get("id") or place.number),
        video=required(row, "videos", where=place.where),
        labels={"type": row.get("type") or row.get("question_type")},
    )


def videomathqa(row: Row, place: Place) -> Iterable[Item]:
    """VideoMathQA: questions with five options, and the same questions as four pairs each."""
    question_id = str(required(row, "question_id", where=place.where, kind=TEXT_OR_NUMBER))
    is_pair = row.get("mbinary_id") is not None
    video = required(row, "videoID", where=place.where)
    yield choice_item(
        from_list(
            required(row, "question", where=place.where), _texts(required(row, "options", where=place.where, kind=list))
        ),
        _letter(row, place),
        place,
        id=question_id,
        video=f"videos/{video}.mp4",
        subtitles=f"subtitles/{video}.srt",
        labels={"split": "mbin" if is_pair else "mcq", "length": row.get("length"), "category": row.get("category")},
        group=question_id if is_pair else "",
        form="pair" if is_pair else "choice",
        fields={"steps": row.get("steps"), "mbinary_id": row.get("mbinary_id")},
    )


def hidden(asked: Any, place: Place, **common: Any) -> Item:
    """An item whose gold answer the authors keep: it is asked and exported, but not scored."""
    place.note("without a public gold answer")
    return make_item("multiple choice", asked, "", place, form="choice", judge="hidden", **common)


def _texts(values: Iterable[Any]) -> list[str]:
    return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]


def _asked(row: Row, place: Place) -> Any:
    """A question with its options in the text or in a list beside it."""
    question = required(row, "question", where=place.where)
    if row.get("options"):
        return from_list(question, _texts(as_list(row["options"])))
    return from_text(question)


def _letter(row: Row, place: Place) -> str:
    answer = required(row, "answer", where=place.where).strip()
    match = re.match(r"\(?([A-Z])(?:[).:\s]|$)", answer)
    return match[1] if match else answer


def _gold_by_text(row: Row, options: dict[str, str], place: Place) -> str | None:
    """The letter of a gold answer given as text; of equal candidates the last, as the authors do."""
    answer = row.get("answer")
    answer = answer if isinstance(answer, str) else json.dumps(answer)
    texts = list(options.values())
    if len(set(texts)) < len(texts):
        place.note("repeated candidate" + (", which is the gold answer" if texts.count(answer) > 1 else ""))
    return gold_letter(answer, options, take_last=True)


def videomathqa_prepared(item: Item, row: Row) -> Item:
    """A prepared row: those with an `mbinary_id` are pairs, grouped by their question."""
    split = "mcq" if row.get("mbinary_id") is None else "mbin"
    labels = {**item.labels, "split": (split,)}
    is_pair = split == "mbin"
    group = str(row.get("problem_id")) if is_pair else ""
    return replace(item, labels=labels, group=group, form="pair" if is_pair else item.form)
