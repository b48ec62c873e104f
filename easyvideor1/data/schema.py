"""The fields of a row become a Sample, or an error that names line and field.

The rows of EasyVideoR1, OneThinker and Video-R1 load unchanged: `problem`, `answer` or `solution` (with or without
`<answer>` tags), `videos`, `images` or `path`, `options`, `data_type`, `problem_type`, `problem_id`, `offline_output`.
docs/data.md describes every field with an example.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from easyvideor1.data.media_fields import ROW_NAMES, STORED_FRAMES, media_of
from easyvideor1.data.options import unlisted_options
from easyvideor1.data.shapes import convert_command, foreign_row
from easyvideor1.data.tags import kinds_in
from easyvideor1.errors import DataError
from easyvideor1.problem_types import canonical, option_named_by_text
from easyvideor1.types import Media, Sample, Turn

ANSWER = re.compile(r"\s*<answer>(.*)</answer>\s*", re.DOTALL)
SPAN_IN_THOUGHT = re.compile(r"\s*<think>\s*(\{.*\})\s*</think>(?!.*<answer>).*", re.DOTALL)
"""Charades-STA rows of EasyVideoR1: the span in the think tag, and a broken token where the answer tag should be."""
READ_FIELDS = ROW_NAMES | {
    "id", "problem_id", "problem", "problem_type", "answer", "solution", "options", "system", "turns",
    "offline_output", "has_offline_trajectory",
}  # fmt: skip
USED_FIELDS = READ_FIELDS | {
    "duration",
    "duration_s",
    "data_source",
    "pass_rate",
    "tests",
    "entry_point",
    "fn_name",
    STORED_FRAMES,
}
"""Keys that something in this project reads or writes; others are kept for rewards of the user, and counted."""
MAX_OPTIONS = 26
ANY_TEXT = ("open-ended", "ocr", "math")
"""Types whose gold answer may be any text, also one that looks like a list."""
ONE_TEXT = (*ANY_TEXT, "numerical", "regression", "boolean", "multiple choice")
SHOWN_KEYS = 8

LIKELY = {
    "video": "videos", "video_path": "videos", "video_paths": "videos", "video_file": "videos", "frames": "videos",
    "image": "images", "image_path": "images", "image_paths": "images", "image_file": "images", "img": "images",
    "option": "options", "choices": "options", "choice": "options", "candidates": "options",
    "answers": "answer", "ground_truth": "answer", "groundtruth": "answer", "gold": "answer", "label": "answer",
    "gt": "answer", "gt_answer": "answer", "gold_answer": "answer", "correct_answer": "answer", "answerKey": "answer",
    "target": "answer", "output": "answer", "response": "answer",
    "question": "problem", "query": "problem", "prompt": "problem", "instruction": "problem",
    "type": "problem_type", "question_type": "problem_type", "task_type": "problem_type",
    "system_prompt": "system", "history": "turns",
}  # fmt: skip
"""Keys of other data sets -> the field that they mean here."""
SAME_FIELD = ({"videos", "images", "path"}, {"answer", "solution"})
"""Fields of which one is enough."""
NEAR = ("problem", "problem_type", "answer", "solution", "options", "images", "videos", "path", "data_type", "system",
        "turns", "offline_output", "has_offline_trajectory")  # fmt: skip
NEAR_RATIO = 0.81
"""Likeness (difflib) from which on a key is taken for a misspelt field; an `image_id` or `answer_id` is none."""


def parse_row(row: Mapping[str, Any], *, where: str, media_root: Path, source: str = "") -> Sample:
    """One checked Sample.

    Raises:
        DataError: missing or empty problem, answer or problem_type; a key that means a field but does not bear its
            name; media that are no paths or a clip range that is none; `<image>`/`<video>` tags that do not match the
            media in number and kind; earlier turns that are no conversation.
    """
    row = {name: value for name, value in row.items() if value is not None and not is_nan(value)}
    _check_names(row, where=where)
    problem, problem_type = _text(row, "problem", where=where), _type(row, where=where)
    options, turns = _options(row, where=where), _turns(row, where=where)
    media = media_of(row, where=where, media_root=media_root)
    texts = (*(turn.content for turn in turns), problem, *unlisted_options(problem, options).values())
    return Sample(
        id=_id(row, where=where),
        problem_type=problem_type,
        problem=problem,
        gold=_gold(row, problem_type, options, where=where),
        options=options,
        media=_in_tag_order(texts, media, where=where),
        system=_text(row, "system", where=where) if "system" in row else None,
        turns=turns,
        trajectories=_trajectories(row, where=where),
        source=source,
        where=where,
        extra={key: value for key, value in row.items() if key not in READ_FIELDS},
        given=_given(row),
    )


def _given(row: Mapping[str, Any]) -> dict[str, Any]:
    """What other projects hand to templates and rewards as it stands in the row; a solution is an answer there."""
    answer = row["answer"] if "answer" in row else row.get("solution")
    found = {"answer": answer} | {name: row[name] for name in ("problem_type", "data_type") if name in row}
    id_ = next((row[name] for name in ("problem_id", "id") if name in row), None)
    return found | ({} if id_ is None else {"problem_id": id_})


def unknown_keys(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of a row that nothing here reads."""
    return tuple(name for name in row if name not in USED_FIELDS)


def is_nan(value: Any) -> bool:
    """Tables write a missing value as NaN."""
    return isinstance(value, float) and value != value


def _check_names(row: Mapping[str, Any], *, where: str) -> None:
    """Refuse a key that stands for a field of another name, where the row does not have that field."""
    if kind := foreign_row(row):
        raise DataError(
            f"this looks like {kind}", where=where, remedy=f"convert it: {convert_command(_file_of(where))}"
        )
    present = set(row)
    for one_is_enough in SAME_FIELD:
        if present & one_is_enough:
            present |= one_is_enough
    for name, value in row.items():
        if name in READ_FIELDS or value in ("", []):
            continue
        meant = _meant(name)
        if meant and meant not in present:
            raise DataError(
                "no field of a row",
                where=where,
                field=name,
                remedy=f"did you mean '{meant}'? `data convert --map {meant}={name}` renames it in every row",
            )


@functools.lru_cache(maxsize=1024)
def _meant(name: str) -> str:
    """The field that a key of another name stands for; "" for none."""
    return LIKELY.get(name) or next(iter(difflib.get_close_matches(name, NEAR, n=1, cutoff=NEAR_RATIO)), "")


def _file_of(where: str) -> str:
    """The file in "file:line" or "file[place]"."""
    return re.sub(r":\d+$|\[\d+\]$", "", where)


def _text(row: Mapping[str, Any], name: str, *, where: str) -> str:
    value = row.get(name)
    if value is None:
        raise _missing(name, row, where=where, remedy=f"every row needs a text '{name}'")
    if not isinstance(value, str) or not value.strip():
        raise DataError(
            f"must be a non-empty text, got {value!r:.60}", where=where, field=name, remedy=f"give '{name}' a text"
        )
    return value


def _missing(name: str, row: Mapping[str, Any], *, where: str, remedy: str) -> DataError:
    """The error of a row without a field that every row needs, with the way to make it of another column."""
    command = convert_command(_file_of(where))
    if name != "problem_type":
        remedy += f"; where a column has it: {command} --map {name}=COLUMN"
    else:
        remedy += f"; {command} tells it by the gold answers"
    have = ", ".join(list(row)[:SHOWN_KEYS]) or "nothing"
    return DataError(f"missing; the row has {have}", where=where, field=name, remedy=remedy)


def _id(row: Mapping[str, Any], *, where: str) -> str:
    for name in ("problem_id", "id"):
        value = row.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return str(value)
        if value not in (None, ""):
            raise DataError(
                f"must be a text or an integer, got {value!r:.60}", where=where, field=name,
                remedy="leave it out to have the rows numbered",
            )  # fmt: skip
    return where.rpartition("/")[2]


def _answer(row: Mapping[str, Any], *, where: str) -> str:
    name = "answer" if row.get("answer") is not None else "solution"
    value = row.get(name)
    if value is None:
        raise _missing("answer", row, where=where, remedy="give the gold answer in 'answer' or 'solution'")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    wrapped = ANSWER.fullmatch(text) or SPAN_IN_THOUGHT.fullmatch(text)
    text = wrapped.group(1).strip() if wrapped else text
    if not text.strip():
        raise DataError("empty gold answer", where=where, field=name, remedy="give the gold answer of the question")
    return text


def _gold(row: Mapping[str, Any], problem_type: str, options: Sequence[str], *, where: str) -> str:
    """The gold answer; the letter of the option where an `answer` is the text of exactly one."""
    text = _answer(_with_one_gold(row, problem_type, where=where), where=where)
    if canonical(problem_type) != "multiple choice" or row.get("answer") is None:
        return text
    return option_named_by_text(text, options) or text


def _with_one_gold(row: Mapping[str, Any], problem_type: str, *, where: str) -> Mapping[str, Any]:
    """The row with the one text that stands in a list as its gold answer; of the types that have one text."""
    name, kind = "answer" if row.get("answer") is not None else "solution", canonical(problem_type)
    value = row.get(name)
    if kind not in ONE_TEXT or not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return row
    if len(value) > 1 and kind in ANY_TEXT:
        raise DataError(
            f"{len(value)} gold answers, where one is needed", where=where, field=name, remedy="keep the best one"
        )
    return {**row, name: value[0]} if len(value) == 1 else row


def _type(row: Mapping[str, Any], *, where: str) -> str:
    """The problem type; where and when something happens is a question of time alone if the gold has no boxes."""
    name = _text(row, "problem_type", where=where)
    if canonical(name) != "spatial-temporal grounding":
        return name
    try:
        gold = json.loads(_answer(row, where=where))
    except (ValueError, RecursionError):
        return name  # the reward says what is wrong with it
    return "temporal grounding" if isinstance(gold, dict) and "time" in gold and not gold.get("boxes") else name


def _options(row: Mapping[str, Any], *, where: str) -> tuple[str, ...]:
    options = row.get("options") or ()
    if isinstance(options, dict) and not any(isinstance(text, list | dict) for text in options.values()):
        # A table gives every row the labels of the longest one.
        options = [f"{key}. {text}" for key, text in options.items() if text is not None]
    if isinstance(options, list):
        while options and options[-1] is None:
            options = options[:-1]
    if not isinstance(options, (list, tuple)) or not all(isinstance(option, (str, int, float)) for option in options):
        raise DataError(
            f"must be a list of texts, got {options!r:.60}", where=where, field="options",
            remedy='such as ["A. red", "B. blue"]',
        )  # fmt: skip
    if len(options) > MAX_OPTIONS:
        raise DataError(
            f"{len(options)} options, but there are {MAX_OPTIONS} letters to name them", where=where, field="options",
            remedy="give fewer, or make it an open question",
        )  # fmt: skip
    return tuple(str(option) for option in options)


def _turns(row: Mapping[str, Any], *, where: str) -> tuple[Turn, ...]:
    """The conversation before the problem: what the user and the assistant said, in turn, the user first."""
    value = row.get("turns") or ()
    roles = ("user", "assistant")
    if not isinstance(value, list | tuple) or not all(
        isinstance(turn, dict)
        and turn.get("role") == roles[place % 2]
        and isinstance(turn.get("content"), str)
        and turn["content"].strip()
        for place, turn in enumerate(value)
    ):
        raise DataError(
            f"must be what user and assistant said in turn, got {value!r:.60}", where=where, field="turns",
            remedy='such as [{"role": "user", "content": "Who is it?"}, {"role": "assistant", "content": "A cook."}]',
        )  # fmt: skip
    if len(value) % 2:
        raise DataError(
            "the last turn is the user's, but the problem is what the user says next", where=where, field="turns",
            remedy="end with a turn of the assistant",
        )  # fmt: skip
    return tuple(Turn(role=turn["role"], content=turn["content"]) for turn in value)


def _trajectories(row: Mapping[str, Any], *, where: str) -> tuple[str, ...]:
    """The offline trajectories of a row; none where the row says that it has none."""
    flag = row.get("has_offline_trajectory", True)
    if flag not in (True, False):
        raise DataError(
            f"must be true or false, got {flag!r:.60}", where=where, field="has_offline_trajectory",
            remedy="false leaves the offline trajectories out",
        )  # fmt: skip
    given = row.get("offline_output") or ()
    given = (given,) if isinstance(given, str) else given
    if not isinstance(given, (list, tuple)) or not all(isinstance(text, str) for text in given):
        raise DataError(
            "must be a text or a list of texts", where=where, field="offline_output",
            remedy="lists within the list are no responses",
        )  # fmt: skip
    return tuple(text for text in given if text.strip()) if flag else ()


def _in_tag_order(texts: Sequence[str], media: list[Media], *, where: str) -> tuple[Media, ...]:
    """The media in the order of their tags; without any tag in the order given (they then stand before the problem)."""
    tags = [kind for text in texts for kind in kinds_in(text)]
    if not tags:
        return tuple(media)
    have = {kind: [medium for medium in media if medium.kind == kind] for kind in ("image", "video")}
    for kind, items in have.items():
        if tags.count(kind) != len(items):
            raise DataError(
                f"{tags.count(kind)} <{kind}> tags but {len(items)} {kind}s",
                where=where,
                field="problem",
                remedy=f"write one <{kind}> tag per {kind}, or no tag at all to put the media first; "
                f"\\<{kind}> is the word itself",
            )
    return tuple(have[tag].pop(0) for tag in tags)
