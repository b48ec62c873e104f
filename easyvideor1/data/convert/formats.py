"""The public formats of rows, each made into the fields of a row of this project; media stay as they are given.

A converter takes what its format reads out of a copy of the row and leaves the rest, so that nothing is lost: unknown
keys come along as further fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from easyvideor1.data.convert.kinds import is_letter, known_type, options_in
from easyvideor1.data.tags import kinds_in
from easyvideor1.errors import DataError

Fields = dict[str, Any]
Converter = Callable[[Fields], Fields]
"""What is wrong with a row is raised as a DataError without a place."""

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:-|to|,)\s*(\d+(?:\.\d+)?)\s*")


def recognise(row: Mapping[str, Any]) -> str:
    """The name of a row's format.

    Raises:
        DataError: it has none of them.
    """
    if isinstance(row.get("messages"), list):
        return "messages"
    if isinstance(row.get("conversations"), list):
        return "conversations"
    if "problem" not in row and ("prompt" in row or isinstance(row.get("reward_model"), dict)):
        return "verl"
    if "sentence" in row and "timestamp" in row:
        return "time-r1"
    if "problem" not in row and "path" in row and "question" in row:
        return "time-r1"
    if "problem" not in row and "question" in row and ("video" in row or "image" in row):
        return "videochat-r1"
    if "problem" in row or "question" in row:
        return "rows"
    raise DataError(
        f"no known format has the keys {', '.join(list(row)[:8])}",
        remedy="say which columns are which: --map problem=COLUMN --map answer=COLUMN --map videos=COLUMN",
    )


def from_rows(row: Fields) -> Fields:
    """EasyVideoR1, OneThinker, Video-R1, EasyR1 and tables: `process` with `solution` is an offline trajectory."""
    for other, name in (("question", "problem"), ("video", "videos"), ("image", "images"), ("choices", "options")):
        if name not in row and other in row and not (name in ("videos", "images") and "path" in row):
            row[name] = row.pop(other)
    process = row.pop("process", None)
    if isinstance(process, str) and process.strip() and "offline_output" not in row:
        thought = process.strip() if "<think>" in process else f"<think>{process.strip()}</think>"
        answer = str(row.get("solution", row.get("answer", ""))).strip()
        answer = answer if "<answer>" in answer else f"<answer>{answer}</answer>"
        row |= {"offline_output": f"{thought}\n{answer}", "has_offline_trajectory": True}
    return row


def from_messages(row: Fields) -> Fields:
    """ms-swift: `messages` with their media in `images` and `videos` or in the parts of a message."""
    turns = [_message(item) for item in row.pop("messages")]
    return _with_turns(row, turns)


def from_conversations(row: Fields) -> Fields:
    """LLaVA-Video: `conversations` of human and gpt; `<image>` may stand for the video."""
    turns = [_message(item) for item in row.pop("conversations")]
    for name, other in (("videos", "video"), ("images", "image"), ("system", "system_prompt")):
        if other in row and name not in row:
            row[name] = row.pop(other)
    if row.get("videos") and not row.get("images"):
        turns = [(role, text.replace("<image>", "<video>"), media) for role, text, media in turns]
    return _with_turns(row, turns)


def from_verl(row: Fields) -> Fields:
    """verl: `prompt` as messages, the gold answer in `reward_model`, the number of the row in `extra_info`."""
    prompt = row.pop("prompt", None)
    turns = [("user", prompt, {})] if isinstance(prompt, str) else [_message(item) for item in prompt or ()]
    model = row.pop("reward_model", None) or {}
    if isinstance(model, dict) and "ground_truth" in model:
        row["answer"] = model["ground_truth"]
    extra = row.get("extra_info")
    if isinstance(extra, dict) and "index" in extra and not {"id", "problem_id"} & set(row):
        row["problem_id"] = "-".join(str(extra[name]) for name in ("split", "index") if name in extra)
    if kind := known_type(row.get("ability")):
        row.setdefault("problem_type", kind)
    return _with_turns(row, turns)


def from_videochat(row: Fields) -> Fields:
    """VideoChat-R1: question, options, answer, and in `glue` the spans or the box that an answer rests on."""
    row["problem"] = row.pop("question")
    for name, other in (("videos", "video"), ("images", "image")):
        if other in row:
            row[name] = row.pop(other)
    if row.get("answer") is None:
        glue = row.pop("glue", None)
        row["answer"], row["problem_type"] = _glue(glue, is_video=bool(row.get("videos")))
    return row


def from_time_r1(row: Fields) -> Fields:
    """Time-R1: an event, its span as text or as a pair, and the clip range of the file."""
    event = str(row.pop("question", None) or row.pop("sentence", "")).strip()
    is_question = event.endswith("?")
    row["problem"] = event if is_question else f'When in the video does this happen: "{event}"?'
    kind = str(row.pop("question_type", "temporal grounding"))
    if "grounding" not in kind:
        raise DataError(f"'{kind}' is no temporal grounding", field="question_type")
    if "timestamp" in row:
        start, end = _pair(row.pop("timestamp"), field="timestamp")
    else:
        span = _SPAN.fullmatch(str(row.pop("answer", "")))
        if span is None:
            raise DataError("is no span such as 13.4-28.1", field="answer")
        start, end = float(span[1]), float(span[2])
    row |= {"answer": {"time": [start, end]}, "problem_type": "temporal grounding", "data_type": "video"}
    for other in ("video", "path"):
        if other in row:
            row["videos"] = row.pop(other)
    if "qid" in row:
        row.setdefault("problem_id", row.pop("qid"))
    if "source" in row:
        row.setdefault("data_source", row.pop("source"))
    return row


FORMATS: Mapping[str, Converter] = {
    "rows": from_rows,
    "messages": from_messages,
    "conversations": from_conversations,
    "verl": from_verl,
    "videochat-r1": from_videochat,
    "time-r1": from_time_r1,
}


def _message(item: Any) -> tuple[str, str, dict[str, list[Any]]]:
    """(role, text with tags, media by field) of a message."""
    if not isinstance(item, dict):
        raise DataError(f"a message is an object, got {item!r:.60}")
    said = item.get("role", item.get("from"))
    role = ROLES.get(str(said))
    if role is None:
        raise DataError(f"a turn of '{said}' cannot be used: only system, user and assistant speak")
    content = item.get("content", item.get("value"))
    if isinstance(content, str):
        return role, content, {}
    if not isinstance(content, list):
        raise DataError(f"a message without content: {item!r:.60}")
    text, media = "", {"images": [], "videos": []}
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        kind = kind or next(
            (name for name in ("video", "image", "text") if isinstance(part, dict) and name in part), ""
        )
        if kind in ("image", "video"):
            text += f"<{kind}>"
            rest = {name: value for name, value in part.items() if name not in ("type", kind)}
            media[f"{kind}s"].append({"path": part.get(kind, part.get("path")), **rest})
        elif kind == "text":
            text += str(part["text"])
        else:
            raise DataError(f"a part of a message is text, image or video, got {part!r:.60}")
    return role, text, media


def _with_turns(row: Fields, turns: list[tuple[str, str, dict[str, list[Any]]]]) -> Fields:
    """The row with what was said as problem, earlier turns, system message and, where it has no other, gold answer."""
    for _, _, media in turns:
        for name, items in media.items():
            if items:
                row[name] = [*_as_list(row.get(name)), *items] if name in row else items
    if turns and turns[0][0] == "system":
        row.setdefault("system", turns.pop(0)[1])
    texts = [(role, text) for role, text, _ in turns]
    if texts and texts[-1][0] == "assistant":
        said = texts.pop()[1]
        if row.get("answer") is None and row.get("solution") is None:
            row["answer"] = said
        elif "<answer>" in said and "offline_output" not in row:
            row |= {"offline_output": said, "has_offline_trajectory": True}
        else:
            row.setdefault("response", said)
    if not texts or texts[-1][0] != "user":
        raise DataError("nobody asks anything: the last turn before the answer is not the user's")
    row["problem"] = texts.pop()[1]
    if texts:
        row["turns"] = [{"role": role, "content": text} for role, text in texts]
    listed = options_in(row["problem"])
    gold = row.get("answer", row.get("solution"))
    if listed and not row.get("options") and isinstance(gold, str) and is_letter(_untagged(gold)):
        row["options"] = listed
    return _put_first(row)


def _put_first(row: Fields) -> Fields:
    """Take the tags out of a row whose texts have too few of them: its media then stand before the problem."""
    texts = [*(turn["content"] for turn in row.get("turns", ())), row["problem"]]
    found = sum(len(kinds_in(text)) for text in texts)
    given = len(_as_list(row.get("images"))) + len(_as_list(row.get("videos")))
    if 0 < found < given:
        raise DataError(f"{found} tags for {given} media: nothing says where the others go", field="problem")
    return row


def _glue(glue: Any, *, is_video: bool) -> tuple[dict[str, Any], str]:
    """(gold answer, problem type) of a row whose answer is where something is."""
    if not is_video:
        if isinstance(glue, list) and len(glue) == 4:
            return {"boxes": glue}, "spatial grounding"
        raise DataError(f"neither an answer nor a box, got {glue!r:.60}", field="glue")
    if isinstance(glue, list) and len(glue) == 1:
        glue = glue[0]
    if isinstance(glue, list) and len(glue) > 1 and isinstance(glue[0], list):
        raise DataError(f"{len(glue)} spans, where a gold answer is one", field="glue")
    return {"time": list(_pair(glue, field="glue"))}, "temporal grounding"


def _pair(value: Any, *, field: str) -> tuple[float, float]:
    if (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(time, int | float) and not isinstance(time, bool) for time in value)
    ):
        return value[0], value[1]
    raise DataError(f"must be [start, end] in seconds, got {value!r:.60}", field=field)


def _untagged(text: str) -> str:
    return text.replace("<answer>", "").replace("</answer>", "").strip()


def _as_list(value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
