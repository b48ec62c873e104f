"""`easyvideor1 eval --engine openai` and `--judge-url` against real HTTP servers in this process."""

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.judge_server import Server
from support.made_benchmarks import clip, make_data, make_model, words

from easyvideor1.cli import main
from easyvideor1.records.jsonl import read_objects

PROTOCOL = """\
like: official
video: {fps: 2.0, min_frames: 2, max_frames: 8, min_pixels: 4096, max_pixels: 4096}
decoding: {temperature: 0.7, top_k: 20, presence_penalty: 1.5, repetition_penalty: 1.1, max_response_tokens: 6}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def server() -> Iterator[Server]:
    def reply(*contents: Any) -> str | int:
        text = json.dumps(contents)
        if "VERDICT" in text:
            return "VERDICT: RIGHT" if "a paper plane" in text else "VERDICT: WRONG"
        return 400 if "colour 1" in text else "B"

    made = Server(reply)
    yield made
    made.close()


def by_prompt(server: Server, text: str) -> dict[str, Any]:
    return next(body for body in server.requests if text in json.dumps(body["messages"]))


def test_a_server_is_given_frames_with_their_times_and_all_of_the_decoding(
    model: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    make_data(data, num_videos=1, num_questions=2)
    (data / "tiny.yaml").write_text(PROTOCOL)
    more = ["--engine", "openai", "--url", server.url, "--processor", str(model)]
    assert main(words(Path("served"), data, out, *more)) == 1  # the broken and the missing video
    body = by_prompt(server, "Which colour 0?")
    assert (body["model"], body["temperature"], body["top_k"], body["max_tokens"]) == ("served", 0.7, 20, 6)
    assert (body["presence_penalty"], body["repetition_penalty"]) == (1.5, 1.1)
    video, text = body["messages"][0]["content"]
    pictures = video["video_url"]["url"].removeprefix("data:video/jpeg;base64,").split(",")
    assert Image.open(io.BytesIO(base64.b64decode(pictures[0]))).size == (64, 64)
    told = body["media_io_kwargs"]["video"]
    [seen] = list(read_objects(out / "videomme" / "frames.jsonl"))
    times_s = [number / told["fps"] for number in told["frames_indices"]]
    assert times_s == seen["media"][0]["times_s"]
    assert len(pictures) == len(times_s)
    assert text["text"].endswith("The best answer is:")
    answers = {record["id"]: record["response"] for record in read_objects(out / "videomme" / "answers.jsonl")}
    assert answers == {"v0-0": "B", "v0-1": None, "broken-0": None, "gone-0": None}
    assert capsys.readouterr().err.count("the server counts 11 tokens in the prompt") == 1  # whatever it is asked
    found = json.loads((out / "results.json").read_text())["benchmarks"]["videomme"]["coverage"]
    assert {item["id"]: item["error"] for item in found["failed"]}["v0-1"].startswith(
        "the engine gave the response up: the server says: Error code: 400"
    )


def test_open_answers_go_to_a_judge_over_http(model: Path, server: Server, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    rows = []
    for number, gold in enumerate(("a paper plane", "a stone")):
        clip(data / "MMVU" / "videos" / "Art" / f"{number}.mp4", number)
        rows.append(
            {"id": f"validation_{number}", "video": f"x/videos/Art/{number}.mp4", "question_type": "open-ended",
             "question": "What flies?", "choices": {}, "answer": gold}
        )  # fmt: skip
    (data / "MMVU" / "validation.json").write_text(json.dumps(rows))
    (data / "tiny.yaml").write_text(PROTOCOL)
    arguments = words(Path("served"), data, out, "--engine", "openai", "--url", server.url, "--processor", str(model))
    arguments[arguments.index("--benchmarks") + 1] = "mmvu"
    assert main(arguments) == 0
    found = json.loads((out / "results.json").read_text())["benchmarks"]["mmvu"]
    assert (found["score"], found["num_scored"], found["num_unscored"]) == (None, 0, 2)
    num_asked = len(server.requests)
    judge = ["--judge-url", server.url, "--judge-cache", str(tmp_path / "judge")]
    assert main([*arguments, *judge]) == 0  # the answers are there: only the judge is asked
    found = json.loads((out / "results.json").read_text())["benchmarks"]["mmvu"]
    assert (found["score"], found["num_scored"], found["num_unscored"]) == (50.0, 2, 0)
    assert all("VERDICT" in json.dumps(body) for body in server.requests[num_asked:])
    assert main([*arguments, *judge, "--out", str(tmp_path / "at once")]) == 0
    found = json.loads((tmp_path / "at once" / "results.json").read_text())["benchmarks"]["mmvu"]
    assert (found["score"], found["num_scored"], found["num_unscored"]) == (50.0, 2, 0)


def test_a_server_that_takes_no_clips_in_this_form_stops_the_run(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = b'{"error": {"message": "mm_processor_kwargs are disabled: --trust-request-mm-kwargs", "code": 400}}'
    server = Server(lambda *contents: refusal, status=400)
    make_data(tmp_path / "data", num_videos=1, num_questions=2)
    more = ["--engine", "openai", "--url", server.url, "--processor", str(model)]
    assert main(words(Path("served"), tmp_path / "data", tmp_path / "out", *more)) == 2
    server.close()
    assert "--trust-request-mm-kwargs" in capsys.readouterr().err
    asked = [
        path for path in tmp_path.glob("out/*/answers.jsonl") for record in read_objects(path) if "v0" in record["id"]
    ]
    assert not asked
