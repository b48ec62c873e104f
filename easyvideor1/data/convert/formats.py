"""The public formats of rows, each made into the fields of a row of this project; media stay as they are given.

A converter takes what its format reads out of a copy of the row and leaves the rest, so that nothing is lost: unknown
keys come along as further fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from easyvideor1.data.convert.columns import MEDIA_NAMES, list_in, under_own_names, with_options
from easyvideor1.data.convert.kinds import is_letter, known_type, options_in
from easyvideor1.data.tags import escaped, kinds_in
from easyvideor1.errors import DataError

Fields = dict[str, Any]
Turn = tuple[str, str, dict[str, list[Any]]]
"""(role, text with tags, media by field) of a message."""
Converter = Callable[[Fields], Fields]
"""What is wrong with a row is raised as a DataError without a place."""

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
MARKS = ("<ref-object>", "<bbox>")
"""Marks of ms-swift in whose place goes what `objects` of a row holds."""
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:-|to|,)\s*(\d+(?:\.\d+)?)\s*")


def recognise(row: Mapping[str, Any]) -> str:
    """The name of a row's format.

    Raises:
        DataError: it has none of them.
    """
    if _is_said(row.get("messages")):
        return "messages"
    if _is_said(row.get("conversations")) or _is_said(row.get("conversation")):
        return "conversations"
    if _is_said(row.get("prompt")) or ("problem" not in row and ("prompt" in row or "reward_model" in row)):
        return "verl"
    if "problem" not in row and "query" in row:
        return "query-response"
    if "problem" not in row and "instruction" in row and "output" in row:
        return "alpaca"
    if "timestamp" in row and ("sentence" in row or ("caption" in row and "problem" not in row)):
        return "time-r1"
    if "problem" not in row and "path" in row and "question" in row and "grounding" in str(row.get("question_type")):
        return "time-r1"
    if "problem" not in row and "question" in row and "glue" in row:
        return "videochat-r1"
    if "problem" in row or "question" in row:
        return "rows"
    raise DataError(
        f"no known format has the keys {', '.join(list(row)[:8])}",
        remedy="say which columns are which: --map problem=COLUMN --map answer=COLUMN --map videos=COLUMN",
    )


def from_rows(row: Fields) -> Fields:
    """EasyVideoR1, OneThinker, Video-R1, EasyR1 and tables: `process` with `solution` is an offline trajectory."""
    row = with_options(under_own_names(row))
    if isinstance(row.get("fps"), str):  # a cell of a table
        row["fps"] = _number(row["fps"])
    process = row.pop("process", None)
    if isinstance(process, str) and process.strip() and "offline_output" not in row:
        thought = process.strip() if "<think>" in process else f"<think>{process.strip()}</think>"
        answer = str(row.get("solution", row.get("answer", ""))).strip()
        answer = answer if "<answer>" in answer else f"<answer>{answer}</answer>"
        row |= {"offline_output": f"{thought}\n{answer}", "has_offline_trajectory": True}
    return row


def from_messages(row: Fields) -> Fields:
    """ms-swift: `messages` with their media in `images` and `videos` or in the parts of a message."""
    return _with_turns(row, _said(row.pop("messages")))


def from_query(row: Fields) -> Fields:
    """ms-swift's older form: `query`, `response`, and pairs of both in `history`."""
    pairs = row.pop("history", None) or []
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise DataError("must be pairs of what user and assistant said", field="history")
    turns = [turn for asked, said in pairs for turn in (("user", str(asked), {}), ("assistant", str(said), {}))]
    turns.append(("user", str(row.pop("query")), {}))
    if row.get("response") is not None:
        turns.append(("assistant", str(row.pop("response")), {}))
    return _with_turns(row, turns)


def from_alpaca(row: Fields) -> Fields:
    """LLaMA-Factory's alpaca form: `instruction` and `input` make the question, `output` the answer."""
    row["query"] = "\n".join(str(text) for text in (row.pop("instruction"), row.pop("input", None)) if text)
    row["response"] = row.pop("output")
    return from_query(row)


def from_conversations(row: Fields) -> Fields:
    """LLaVA-Video: `conversations` of human and gpt; `<image>` may stand for the video."""
    turns = _said(row.pop("conversations" if "conversations" in row else "conversation"))
    row = under_own_names(row, (*MEDIA_NAMES, "system"))
    if row.get("videos") and not row.get("images"):
        turns = [(role, text.replace("<image>", "<video>"), media) for role, text, media in turns]
    return _with_turns(row, turns)


def from_verl(row: Fields) -> Fields:
    """verl: `prompt` as messages, the gold answer in `reward_model`, the number of the row in `extra_info`."""
    prompt = row.pop("prompt", None)
    if prompt is None:
        raise DataError("missing", field="prompt", remedy="it was lost when the table was written; get the file again")
    turns = _said(prompt) if _is_said(prompt) else [("user", str(prompt), {})]
    model = _loaded(row.pop("reward_model", None))
    if isinstance(model, dict) and "ground_truth" in model:
        row["answer"] = _one_gold(model["ground_truth"])
    extra = row.get("extra_info")
    if isinstance(extra, dict) and "index" in extra and not {"id", "problem_id"} & set(row):
        row["problem_id"] = "-".join(str(extra[name]) for name in ("split", "index") if name in extra)
    if kind := known_type(row.get("ability")):
        row.setdefault("problem_type", kind)
    return _with_turns(row, turns)


def from_videochat(row: Fields) -> Fields:
    """VideoChat-R1: question, options, answer, and in `glue` the spans or the box that an answer rests on."""
    row = with_options(under_own_names(row))
    if row.get("answer") is None:
        glue = _loaded(row.pop("glue", None))
        row["answer"], row["problem_type"] = _glue(glue, is_video=bool(row.get("videos")))
    return row


def from_time_r1(row: Fields) -> Fields:
    """Time-R1: an event, its span as text or as a pair, and the clip range of the file."""
    event = next(str(row.pop(name)).strip() for name in ("question", "sentence", "caption") if row.get(name))
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
    "query-response": from_query,
    "alpaca": from_alpaca,
    "videochat-r1": from_videochat,
    "time-r1": from_time_r1,
}


def _is_said(value: Any) -> bool:
    """Whether a value is a conversation, or one written as JSON."""
    return isinstance(value, list) or (isinstance(value, str) and value.lstrip().startswith("[{"))


def _loaded(value: Any) -> Any:
    """A value, read where it is JSON written in a text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _said(value: Any) -> list[Turn]:
    """The turns of a conversation."""
    messages = _loaded(value)
    if not isinstance(messages, list):
        raise DataError(f"a conversation is a list of messages, got {messages!r:.60}")
    turns = []
    for item in messages:
        if isinstance(item, dict) and {"human", "assistant"} <= set(item):  # a pair per item
            turns += [_message({"role": role, "content": item[role]}) for role in ("human", "assistant")]
        else:
            turns.append(_message(item))
    return turns


def _one_gold(value: Any) -> Any:
    """The one gold answer in a list of them.

    Raises:
        DataError: there are several.
    """
    value = value["target"] if isinstance(value, dict) and set(value) == {"target"} else value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return value
    if len(value) != 1:
        raise DataError(f"{len(value)} gold answers, where one is needed", field="ground_truth", remedy="keep one")
    return value[0]


def _message(item: Any) -> Turn:
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
        if kind in ("image_url", "video_url"):  # OpenAI's
            address = part.get(kind)
            kind, part = kind[:5], {kind[:5]: address.get("url") if isinstance(address, dict) else address}
        if kind in ("image", "video"):
            text += f"<{kind}>"
            rest = {name: value for name, value in part.items() if name not in ("type", kind)}
            media[f"{kind}s"].append({"path": part.get(kind, part.get("path")), **rest})
        elif kind == "text":
            text += str(part["text"])
        else:
            raise DataError(f"a part of a message is text, image or video, got {part!r:.60}")
    return role, text, media


def _with_turns(row: Fields, turns: list[Turn]) -> Fields:
    """The row with what was said as problem, earlier turns, system message and, where it has no other, gold answer."""
    row = _with_media(under_own_names(row, MEDIA_NAMES), turns)
    if turns and turns[0][0] == "system":
        system = turns.pop(0)[1]
        if row.setdefault("system", system) != system:
            raise DataError("another system message stands in the messages", field="system", remedy="keep one")
    texts = [(role, text) for role, text, _ in turns]
    if texts and texts[-1][0] == "assistant":
        row = _with_response(row, texts.pop()[1])
    if not texts or texts[-1][0] != "user":
        raise DataError("there is no question: the last turn before the answer must be the user's, and is not")
    row["problem"] = texts.pop()[1]
    if texts:
        row["turns"] = [{"role": role, "content": text} for role, text in texts]
    listed = options_in(row["problem"])
    gold = row.get("answer", row.get("solution"))
    if listed and not row.get("options") and isinstance(gold, str) and is_letter(_untagged(gold)):
        row["options"] = listed
    return _with_own_tags(row)


def _with_media(row: Fields, turns: list[Turn]) -> Fields:
    """The row with the media that stand in its messages."""
    if isinstance(row.get("objects"), dict) and any(mark in text for _, text, _ in turns for mark in MARKS):
        raise DataError(
            f"{' and '.join(MARKS)} stand for what each model writes in its own way", field="objects",
            remedy="write the names and boxes into the messages",
        )  # fmt: skip
    for _, _, media in turns:
        for name, items in media.items():
            if items:
                row[name] = [*_as_list(row.get(name)), *items] if name in row else items
    return row


def _with_response(row: Fields, said: str) -> Fields:
    """The row with what the assistant says last: its gold answer, or beside one an offline trajectory."""
    if row.get("answer") is None and row.get("solution") is None:
        return row | {"answer": said}
    if "<answer>" in said and "offline_output" not in row:
        return row | {"offline_output": said, "has_offline_trajectory": True}
    row.setdefault("response", said)
    return row


def _with_own_tags(row: Fields) -> Fields:
    """A row whose tags are those of its media: what an assistant says shows none, so that tags there are words.

    Raises:
        DataError: there are some tags, but too few.
    """
    for turn in row.get("turns", ()):
        if turn["role"] == "assistant":
            turn["content"] = escaped(turn["content"])
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
    items = list_in(value) if isinstance(value, str) else value
    try:
        start, end = (float(item) for item in items or () if not isinstance(item, bool))
    except (TypeError, ValueError):
        raise DataError(f"must be [start, end] in seconds, got {value!r:.60}", field=field) from None
    return start, end


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _untagged(text: str) -> str:
    return text.replace("<answer>", "").replace("</answer>", "").strip()


def _as_list(value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
