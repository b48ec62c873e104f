"""`easyvideor1 ask`: one question, the frames that are seen, and the answer."""

from pathlib import Path

import pytest
from PIL import Image

from easyvideor1.cli import main
from easyvideor1.demo.clips import Scene, Thing, write_clip, write_image
from easyvideor1.demo.setup import MODEL

QUESTION = "What colour is the circle?\nA. red\nB. blue\nThink in <think> tags, then answer in <answer> tags."
SMALL = ["data.video.max_pixels=4096", "data.video.min_pixels=4096", "rollout.max_response_tokens=40"]


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    thing = Thing(colour="red", shape="circle", x=0.3, y=0.5, radius=0.2, dx_per_s=0.1)
    scene = Scene(things=(thing,), duration_s=2.0, background="plain", shade=60, texture_seed=0)
    write_clip(scene, tmp_path / "a.mp4", side_px=64)
    write_image(scene, tmp_path / "a.png", side_px=64)
    return tmp_path


def test_a_question_about_a_video_is_answered_and_its_frames_are_shown(scene: Path, capsys: pytest.CaptureFixture):
    words = ["ask", str(MODEL), str(scene / "a.mp4"), QUESTION, *SMALL, "--frames", str(scene / "deep" / "seen.png")]
    assert main(words) == 0
    output = capsys.readouterr()
    assert output.out.strip()
    assert "seen: 4 frames of 64x64 at 0.00, 0.62, 1.25, 1.88 s" in output.err
    assert "prompt: " in output.err
    with Image.open(scene / "deep" / "seen.png") as picture:
        assert picture.width >= 4 * 64
    assert main(words) == 0
    assert capsys.readouterr().out == output.out


def test_an_image_and_a_cut_answer(scene: Path, capsys: pytest.CaptureFixture):
    words = ["ask", str(MODEL), str(scene / "a.png"), QUESTION, "rollout.max_response_tokens=2"]
    assert main(words) == 0
    error = capsys.readouterr().err
    assert "seen: 1 frames" in error
    assert "the answer is cut at rollout.max_response_tokens" in error


@pytest.mark.parametrize(
    ("model", "file", "question", "code", "message"),
    [
        (str(MODEL), "gone.mp4", "What?", 1, "gone.mp4"),
        (str(MODEL), "a.mp4", " ", 2, "the question is empty"),
        ("Qwen/Qwen3-VL-8B-Instruct", "a.mp4", "What?", 2, "hf download Qwen/Qwen3-VL-8B-Instruct"),
        (".", "a.mp4", "What?", 2, "the folder has no config.json"),
    ],
)
def test_mistakes_are_named(scene, monkeypatch, capsys, model, file, question, code, message):
    monkeypatch.chdir(scene)
    assert main(["ask", model, file, question]) == code
    assert message in capsys.readouterr().err
