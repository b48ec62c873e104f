"""Made-up rows in the exact forms of public data sets, over two clips and a picture."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from easyvideor1.demo.clips import Scene, Thing, write_clip, write_image

LLAVA_QUESTION = (
    "<image>\nWhich colour is the ball?\nA. green.\nB. red.\nC. blue.\n"
    "Please provide your answer by stating the letter followed by the full option."
)


def write_media(folder: Path) -> None:
    """a.mp4 and b.mp4 of four seconds, c.png."""
    for name, colour in (("a.mp4", "red"), ("b.mp4", "blue"), ("c.png", "red")):
        ball = Thing(colour=colour, shape="circle", x=0.3, y=0.5, radius=0.2, dx_per_s=0.1)
        scene = Scene(things=(ball,), duration_s=4.0, background="plain", shade=60, texture_seed=0)
        write = write_image if name.endswith(".png") else write_clip
        write(scene, folder / name, side_px=64)


def llava_video(folder: Path) -> Path:
    rows = [
        {
            "id": "1006-8968804598",
            "conversations": [
                {"from": "human", "value": LLAVA_QUESTION},
                {"from": "gpt", "value": "B. red."},
            ],
            "data_source": "0_30_s_nextqa",
            "video": "a.mp4",
        },
        {
            "id": "1007-1",
            "conversations": [
                {"from": "human", "value": "<image>\nWho is seen?"},
                {"from": "gpt", "value": "Nobody, only a ball."},
                {"from": "human", "value": "Where does it go?"},
                {"from": "gpt", "value": "The ball moves slowly to the right."},
            ],
            "data_source": "0_30_s_academic_v0_1",
            "video": "b.mp4",
        },
    ]
    return _json(folder / "llava.json", rows)


def ms_swift(folder: Path) -> Path:
    rows = [
        {
            "messages": [
                {"role": "system", "content": "You look closely."},
                {"role": "user", "content": "<video>How many balls are there?"},
            ],
            "videos": ["a.mp4"],
            "solution": "<answer>1</answer>",
        },
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image", "image": "c.png"}, {"type": "text", "text": "Is it red?"}],
                },
                {"role": "assistant", "content": "Yes"},
            ],
        },
    ]
    return _jsonl(folder / "swift.jsonl", rows)


def verl(folder: Path) -> Path:
    """Parquet as verl's examples/data_preprocess/geo3k.py writes it, with a second row that has a video."""
    schema = pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
            ("images", pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))),
            (
                "videos",
                pa.list_(pa.struct([("video", pa.string()), ("fps", pa.float64()), ("max_pixels", pa.int64())])),
            ),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
            ("extra_info", pa.struct([("answer", pa.string()), ("index", pa.int64()), ("split", pa.string())])),
        ]
    )
    rows = [
        {
            "data_source": "hiyouga/geometry3k",
            "prompt": [{"content": "<image>Find x. The final answer MUST BE put in \\boxed{}.", "role": "user"}],
            "images": [{"bytes": (folder / "c.png").read_bytes(), "path": None}],
            "videos": None,
            "ability": "math",
            "reward_model": {"ground_truth": "3", "style": "rule"},
            "extra_info": {"answer": "3", "index": 0, "split": "train"},
        },
        {
            "data_source": "made/clips",
            "prompt": [
                {"content": "You look closely.", "role": "system"},
                {"content": "<video>How many balls?", "role": "user"},
            ],
            "images": None,
            "videos": [{"video": "a.mp4", "fps": 1.0, "max_pixels": 50176}],
            "ability": "counting",
            "reward_model": {"ground_truth": "1", "style": "rule"},
            "extra_info": {"answer": "1", "index": 1, "split": "train"},
        },
    ]
    path = folder / "verl.parquet"
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def onethinker(folder: Path) -> Path:
    rows = [
        {
            "problem_id": 7,
            "problem": "<video>When is the ball in the right half?",
            "data_type": "video",
            "problem_type": "temporal grounding",
            "options": None,
            "solution": '<answer>{"time": [1.0, 3.5]}</answer>',
            "path": None,
            "videos": ["a.mp4"],
            "images": None,
            "data_source": "made",
        },
        {
            "problem_id": 8,
            "problem": "<image>Give the box of the ball.",
            "data_type": "image",
            "problem_type": "spatial grounding",
            "options": [],
            "solution": '<answer>{"boxes": [10, 20, 40, 50]}</answer>',
            "images": ["c.png"],
            "data_source": "made",
        },
    ]
    return _json(folder / "onethinker.json", rows)


def easyvideor1(folder: Path) -> Path:
    """Rows of EasyVideoR1, with an offline trajectory that counts and one that does not."""
    row = {
        "problem_id": "1",
        "problem": "<video>\nWhich colour is the ball?",
        "problem_type": "multiple choice",
        "data_type": "video",
        "options": ["A. green", "B. red"],
        "answer": "<answer>B</answer>",
        "images": [],
        "videos": ["a.mp4"],
        "preprocessed_video": "0123456789abcdef.pt",
        "data_source": "made",
        "has_offline_trajectory": True,
        "offline_output": "<think>It looks red.</think><answer>B</answer>",
    }
    other = row | {
        "problem_id": "2",
        "problem": "How many?",
        "problem_type": "numerical",
        "options": None,
        "answer": "<answer>1</answer>",
        "videos": ["b.mp4"],
        "has_offline_trajectory": False,
        "offline_output": "cut",
    }
    return _json(folder / "easyvideor1.json", [row, other])


def hub_folder(folder: Path) -> Path:
    """A folder as `huggingface-cli download` leaves it, of one split in two Parquet files."""
    data = folder / "hub" / "data"
    data.mkdir(parents=True)
    shutil.copy(folder / "a.mp4", folder / "hub")
    table = pyarrow.parquet.read_table(verl(folder))
    for number in range(2):
        path = data / f"train-0000{number}-of-00002.parquet"
        pyarrow.parquet.write_table(table.slice(number, 1), path)
    return folder / "hub"


def video_r1(folder: Path) -> Path:
    rows = [
        {
            "problem_id": 2,
            "problem": "Which colour is the ball?",
            "data_type": "video",
            "problem_type": "multiple choice",
            "options": ["A. green", "B. red"],
            "process": "<think>It looks red.</think>",
            "solution": "<answer>B</answer>",
            "path": "./a.mp4",
            "data_source": "LLaVA-Video-178K/30_60_s_youtube_v0_1",
        },
        {
            "problem_id": 3,
            "problem": "What is on the picture?",
            "data_type": "image",
            "problem_type": "free-form",
            "options": [],
            "process": "",
            "solution": "<answer>a red ball</answer>",
            "path": "./c.png",
            "data_source": "",
        },
    ]
    path = folder / "video_r1.json.gz"
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))
    return path


def time_r1(folder: Path) -> Path:
    rows = [
        {
            "path": "a.mp4",
            "question": "The ball crosses the middle",
            "answer": "1.0-2.5",
            "start": None,
            "end": None,
            "duration": 4.0,
            "question_type": "video temporal grounding",
            "source": "./charades_sta.json",
        },
        {
            "video": "b.mp4",
            "duration": 3.0,
            "timestamp": [0.5, 2.0],
            "sentence": "a ball moves",
            "qid": "my|didemo|b|a ball moves",
            "video_start": 0.5,
            "video_end": 3.5,
            "difficulty": 34.09,
            "pred": [0.0, 3.0],
        },
    ]
    return _json(folder / "time_r1.json", rows)


def videochat_r1(folder: Path) -> Path:
    rows = [
        {
            "video": "a.mp4",
            "question": "Which colour is the ball?",
            "options": ["A. green", "B. red"],
            "answer": "B",
            "glue": [[0.0, 2.0]],
            "duration": 4.0,
        },
        {"video": "b.mp4", "question": "When does the ball move?", "glue": [0.5, 3.0], "duration": 4.0},
        {"image": "c.png", "question": "Where is the ball?", "glue": [10, 20, 40, 50]},
    ]
    return _json(folder / "videochat.json", rows)


def saved_dataset(folder: Path) -> Path:
    """A folder as `datasets.Dataset.save_to_disk` writes it, of rows with pictures inside (EasyR1)."""
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("images", pa.list_(picture)), ("problem", pa.string()), ("answer", pa.string())])
    rows = [
        {
            "images": [{"bytes": (folder / "c.png").read_bytes(), "path": "c.png"}],
            "problem": "<image>How many balls?",
            "answer": "1",
        },
        {"images": [], "problem": "What is \\frac{1}{2} + 1?", "answer": "\\frac{3}{2}"},
    ]
    path = folder / "saved"
    path.mkdir()
    with pyarrow.ipc.new_stream(str(path / "data-00000-of-00001.arrow"), schema) as stream:
        stream.write_table(pa.Table.from_pylist(rows, schema=schema))
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "train"}
    (path / "state.json").write_text(json.dumps(state))
    (path / "dataset_info.json").write_text(json.dumps({"features": {}}))
    (path / "cache-1234.arrow").write_bytes(b"left by a map")
    return path


def table(folder: Path) -> Path:
    path = folder / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["uid", "text", "a", "b", "right", "clip", "from", "to"])
        writer.writerow(["1", "Which colour,\nplease?", "green", "red", "B", "a.mp4", "0:00:01", "3.5"])
        writer.writerow(["2", "Who?", "nobody", "a cook", "A", "b.mp4", "", ""])
    return path


TABLE_MAP = ("problem_id=uid", "problem=text", "options=a,b", "answer=right", "videos=clip", "start=from", "end=to")

FORMATS: dict[str, Callable[[Path], Path]] = {
    "easyvideor1": easyvideor1, "onethinker": onethinker, "video-r1": video_r1, "llava-video": llava_video,
    "ms-swift": ms_swift, "verl": verl, "hub folder": hub_folder, "saved dataset": saved_dataset, "time-r1": time_r1,
    "videochat-r1": videochat_r1, "table": table,
}  # fmt: skip


def _json(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return path


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
