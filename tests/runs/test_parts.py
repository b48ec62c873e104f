"""The parts of a configuration: each of its settings reaches the prompts and pixels that they make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import small_run

from easyvideor1.config import RunConfig
from easyvideor1.data.samples import read_samples
from easyvideor1.errors import MediaError, UsageError
from easyvideor1.recipe import load_config
from easyvideor1.runs.parts import opened
from easyvideor1.runs.samples import load_questions
from easyvideor1.types import Sample
from easyvideor1.video.cache import FrameCache


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run.write_inputs(tmp_path_factory.mktemp("inputs"))


def made(small: Path, folder: Path, *words: str) -> tuple[RunConfig, list[Sample]]:
    folder.mkdir(exist_ok=True)
    words = (f"cache.dir={folder / 'cache'}", "model.freeze_vision_tower=true", *words)
    config = load_config(small_run.recipe(small, folder / "run"), words)
    return config, list(read_samples(config.data.train[0].path))


def test_validation_uses_the_cache_in_a_mode_of_its_own(small: Path, tmp_path: Path) -> None:
    config, samples = made(small, tmp_path, "cache.mode=realtime_only", "validation.cache_mode=prefer_preprocessed")
    with opened(config) as parts:
        prompt = parts.prepare.prompt(samples[0])
        first = parts.prepare.clips(prompt)
        assert not list(tmp_path.rglob("*.safetensors"))
        second = parts.prepare_question.clips(prompt)
        assert len(list(tmp_path.rglob("*.safetensors"))) == 1
        assert (first[0].frames == second[0].frames).all()
        parts.prepare.check_plan = lambda plan: 1 / 0  # the check of plans goes with it
        with pytest.raises(ZeroDivisionError):
            parts.prepare_question.prompt(samples[0])
        only, _ = made(small, tmp_path / "other", "validation.cache_mode=preprocessed_only")
        frames = FrameCache.open(only.question_cache)
        with pytest.raises(MediaError, match=r"no stored frames .*validation\.cache_mode"):
            parts.prepare.reading(frames).clips(prompt)


def test_the_chat_template_and_the_system_message_are_those_of_the_recipe(small: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.jinja"
    own.write_text(
        "{% for m in messages %}<|im_start|>{{ m.role | upper }}: {{ m.content if m.content is string else '' }}"
        "<|im_end|>{% endfor %}<|im_start|>ASSISTANT: "
    )
    (tmp_path / "rows.jsonl").write_text(
        json.dumps({**small_run.text_rows(1)[0], "system": "Answer in French."}) + "\n"
    )
    spoken = read_samples(tmp_path / "rows.jsonl")[0]
    config, samples = made(small, tmp_path, "data.system='Answer in German.'", f"model.chat_template={own}")
    text = next(sample for sample in samples if not sample.media)
    with opened(config) as parts:
        assert parts.prepare.prompt(text).text.startswith(
            "<|im_start|>SYSTEM: Answer in German.<|im_end|><|im_start|>USER: What is 1 + 2?"
        )
        assert "SYSTEM: Answer in French." in parts.prepare.prompt(spoken).text  # a row's own comes first
    config, _ = made(small, tmp_path)
    with opened(config) as parts:
        assert "ANSWER IN" not in parts.prepare.prompt(text).text.upper()
        assert parts.prepare.prompt(text).text.startswith("<|im_start|>")


def test_only_rows_of_the_chosen_types_are_used_and_one_that_no_row_has_is_named(small: Path, tmp_path: Path) -> None:
    config, samples = made(small, tmp_path, "data.problem_types=['Multiple Choice']")
    none, _ = made(small, tmp_path, "data.problem_types=[ocr]")
    with opened(config) as parts:
        used = load_questions(config, parts, on_bad=None)
        with pytest.raises(UsageError, match=r"data\.problem_types=\['ocr'\]: no row of .* they are of .*numerical"):
            load_questions(none, parts, on_bad=None)
    assert [sample.id for sample in samples] == ["video-a", "video-b", "image", "text"]
    assert [sample.id for sample in used] == ["video-a", "video-b", "image"]


def test_stored_frames_that_were_not_taken_over_are_told(
    small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Never ignored in silence: whoever made them would think that they are used."""
    rows = [{**row, "preprocessed_video": f"{row['problem_id']}.pt"} for row in small_run.rows() if "videos" in row]
    small_run.write_rows(small / "stored.jsonl", rows)
    config, _ = made(small, tmp_path, f"data.validation=[{{path: {small / 'stored.jsonl'}}}]")
    told = []
    with opened(config) as parts:
        for _ in range(2):
            caplog.clear()
            samples = load_questions(config, parts, on_bad=None)
            told.append([record.message for record in caplog.records if "preprocessed_video" in record.message])
            for sample in samples:  # now their frames are in the cache, as after `cache import`
                parts.prepare.clips(parts.prepare.prompt(sample))
    [line] = told[0]
    assert "2 rows name stored frames ('preprocessed_video') that are not in" in line
    assert "stored.jsonl:1 (video-a.pt)" in line
    assert "`easyvideor1 cache import FOLDER --data FILE --cache" in line
    assert told[1] == []
