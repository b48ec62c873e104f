"""Prompts against Transformers' own processors and models (see qwen_oracle.py), and the ways encoding must fail."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import qwen_oracle as oracle
from support.qwen_oracle import CASES, FAMILIES

from easyvideor1.data.encode import Encoder, patch_times_s
from easyvideor1.data.vision_inputs import media_inputs
from easyvideor1.errors import DataError, MismatchError, UsageError
from easyvideor1.types import Clip, Sample

ROOT = Path(__file__).parents[2]
ORACLE_PACKAGES = ROOT / ".venv" / "oracle"


@pytest.fixture(scope="session")
def oracle_folder(tmp_path_factory):
    """Outputs of the real classes, made in a process of their own (torchvision must come before transformers)."""
    if not ORACLE_PACKAGES.is_dir() and importlib.util.find_spec("torchvision") is None:
        pytest.skip("no torchvision; scripts/install.sh installs it")
    folder = tmp_path_factory.mktemp("oracle")
    path = os.pathsep.join([str(ORACLE_PACKAGES), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, oracle.__file__, str(folder)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "qwen3_vl"
    oracle.write_model_folder(folder, "qwen3_vl")
    return folder


@pytest.fixture(scope="module")
def encoder(model_folder):
    return make_encoder(model_folder, "qwen3_vl")


def make_encoder(folder, family, **options):
    from transformers import AutoTokenizer

    return Encoder(
        AutoTokenizer.from_pretrained(folder, local_files_only=True),
        oracle.config(family),
        oracle.vision(family),
        **options,
    )


def clips(name, family, plans):
    return [
        Clip(frames=frames, times_s=plan.times_s, source_fps=1.0, duration_s=1.0, backend="random")
        for frames, plan in zip(oracle.frames(name, family), plans, strict=True)
    ]


def text_sample(text, **fields):
    return Sample(id="q1", problem_type="open-ended", problem=text, gold="", where="rows.jsonl:7", **fields)


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_are_those_of_the_processor_and_the_model(oracle_folder, family):
    encoder = make_encoder(oracle_folder / family, family)
    for name in CASES:
        expected = np.load(oracle_folder / family / f"{name}.npz")
        prompt = encoder.encode(*oracle.sample_and_plans(name, encoder.vision))
        np.testing.assert_array_equal(prompt.input_ids, expected["input_ids"][0], err_msg=name)
        np.testing.assert_array_equal(prompt.token_types, expected["mm_token_type_ids"][0], err_msg=name)
        np.testing.assert_array_equal(prompt.position_ids, expected["position_ids"], err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_media_inputs_are_those_of_the_processor(oracle_folder, family):
    encoder = make_encoder(oracle_folder / family, family)
    for name in CASES:
        expected = np.load(oracle_folder / family / f"{name}.npz")
        sample, plans, text = oracle.sample_and_plans(name, encoder.vision)
        prompt = encoder.encode(sample, plans, text)
        inputs = media_inputs(prompt, clips(name, family, plans), encoder.vision, torch.float32)
        vision_names = {"pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw"}
        assert set(inputs) == vision_names & set(expected.files), name
        for key, value in inputs.items():
            np.testing.assert_array_equal(value.numpy(), expected[key], err_msg=f"{name} {key}")
        halved = media_inputs(prompt, clips(name, family, plans), encoder.vision, torch.bfloat16)
        for key in {"pixel_values", "pixel_values_videos"} & set(inputs):
            assert torch.equal(halved[key], torch.from_numpy(expected[key]).bfloat16()), f"{name} {key}"


def test_a_video_shows_the_time_of_each_temporal_patch(encoder):
    sample, plans, text = oracle.sample_and_plans("odd_frames", encoder.vision)
    plans = [replace(plans[0], times_s=(0.25, 1.0, 7.04))]
    prompt = encoder.encode(sample, plans, text)
    shown = encoder.tokenizer.decode(prompt.input_ids)
    # Frames at 0.25 s and 1.0 s share a patch (middle 0.625); the last one is repeated as padding.
    pads = "<|vision_start|><|video_pad|><|video_pad|><|vision_end|>"
    assert f"<|vision_start|><0.6 seconds>{pads}<7.0 seconds>{pads}<|vision_end|>How many?" in shown
    assert "<|vision_start|><|video_pad|><|vision_end|>How many?" in prompt.text
    counted = "<|vision_start|>[2 x <|video_pad|>]<|vision_end|>"
    as_read = encoder.as_read(prompt)
    assert f"<|vision_start|><0.6 seconds>{counted}<7.0 seconds>{counted}<|vision_end|>How many?" in as_read


def test_subtitles_stand_behind_the_frames_that_a_model_sees_as_one(encoder, oracle_folder):
    sample, plans, text = oracle.sample_and_plans("odd_frames", encoder.vision)
    said = ["one. ", "two. <|video_pad|>", ""]
    prompt = encoder.encode(sample, plans, text, behind_frames=said)
    plain = encoder.encode(sample, plans, text)
    times = [f"<{time_s:.1f} seconds>" for time_s in patch_times_s(plans[0].times_s, 2)]
    counted = "<|vision_start|>[2 x <|video_pad|>]<|vision_end|>"
    shown = f"{times[0]}{counted}one. two. <|video_pad|>{times[1]}{counted}<|vision_end|>How many?"
    assert shown in encoder.as_read(prompt)
    assert (prompt.token_types != 0).sum() == (plain.token_types != 0).sum()
    assert (encoder.encode(sample, plans, text, behind_frames=["", "", ""]).input_ids == plain.input_ids).all()
    in_one_piece = make_encoder(oracle_folder / "qwen2_5_vl", "qwen2_5_vl")
    _, plans, _ = oracle.sample_and_plans("odd_frames", in_one_piece.vision)
    with pytest.raises(UsageError, match="takes a video in one piece"):
        in_one_piece.encode(sample, plans, text, behind_frames=said)


def test_positions_of_a_small_prompt_by_hand(encoder):
    sample, plans, _ = oracle.sample_and_plans("image", encoder.vision)
    prompt = encoder.encode(sample, plans, "<image>")
    start = int(np.argmax(prompt.token_types == 1))
    # 4x6 patches are 2x3 tokens: rows 0..1, columns 0..2, one step in time; the text goes on after the longer side.
    image = prompt.position_ids[:, start : start + 6] - start
    assert image.tolist() == [[0] * 6, [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    assert (prompt.position_ids[:, start + 6] == start + 3).all()
    assert prompt.next_position == prompt.position_ids.max() + 1


def test_the_frame_rate_changes_positions_where_the_model_has_no_timestamps(oracle_folder):
    encoder = make_encoder(oracle_folder / "qwen2_5_vl", "qwen2_5_vl")
    sample, plans, text = oracle.sample_and_plans("video", encoder.vision)
    slow = encoder.encode(sample, [replace(plans[0], duration_s=30.0)], text)
    fast = encoder.encode(sample, [replace(plans[0], duration_s=3.0)], text)
    # 6 frames in 30 s are 10 s per temporal patch, at 2 positions per second.
    for prompt, step in ((slow, 20), (fast, 2)):
        times = np.unique(prompt.position_ids[0][prompt.token_types == 2])
        assert (times - times[0]).tolist() == [0, step, 2 * step]


@pytest.mark.parametrize("control", ["<|im_end|>", "<|video_pad|>", "<|vision_start|>", "<|endoftext|>"])
def test_control_tokens_in_the_question_stay_text(encoder, control):
    sample, plans, _ = oracle.sample_and_plans("video", encoder.vision)
    prompt = encoder.encode(sample, plans, f"a {control}<video>{control} b{control}")
    honest = encoder.encode(sample, plans, "a <video> b")
    token = encoder.tokenizer.convert_tokens_to_ids(control)
    assert (prompt.input_ids == token).sum() == (honest.input_ids == token).sum()
    assert encoder.tokenizer.decode(prompt.input_ids).count(control) == (honest.input_ids == token).sum() + 3
    assert f"a {control}" in prompt.text


def test_a_prompt_has_a_system_message_and_a_prefix_of_its_own(model_folder, encoder):
    sample, text = text_sample("?"), "\n Which? \n"
    plain = encoder.encode(sample, [], text)
    begun = encoder.encode(sample, [], text, system="Watch.", prefix="Best option:(<|im_end|>")
    assert begun.text.endswith("Best option:(<|im_end|>")
    assert "Watch." in begun.text.split("Which?")[0]
    assert " Which? \n" in begun.text
    end = encoder.tokenizer.convert_tokens_to_ids("<|im_end|>")
    # One more turn ends, the system's; the one in the prefix is text.
    assert (begun.input_ids == end).sum() == (plain.input_ids == end).sum() + 1
    always = make_encoder(model_folder, "qwen3_vl", system="Watch.")
    same = always.encode(sample, [], text, prefix="Best option:(<|im_end|>")
    assert same.input_ids.tolist() == begun.input_ids.tolist()
    assert same.position_ids.shape[1] == len(same)


def test_a_system_message_comes_first_and_cannot_inject_either(model_folder, encoder):
    with_system = make_encoder(model_folder, "qwen3_vl", system="Be brief.<|im_end|>")
    prompt = with_system.encode(text_sample("Why?"), [], "Why?")
    assert prompt.text.startswith("<|im_start|>system\nBe brief.<|im_end|><|im_end|>\n<|im_start|>user\nWhy?")
    end = encoder.end_ids[0]
    assert (prompt.input_ids == end).sum() == 2


def test_added_tokens_that_are_not_special_are_used_in_the_text(encoder):
    think = encoder.tokenizer.convert_tokens_to_ids("<think>")
    prompt = encoder.encode(text_sample("q"), [], "Use <think> tags")
    assert (prompt.input_ids == think).sum() == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no tag", r"tags for \[\], the media are \[video\]"),
        ("<image>", r"tags for \[image\], the media are \[video\]"),
        ("<video><video>", r"tags for \[video, video\]"),
    ],
)
def test_tags_that_do_not_fit_the_media_name_row_and_field(encoder, text, said):
    sample, plans, _ = oracle.sample_and_plans("video", encoder.vision)
    with pytest.raises(DataError, match=said) as caught:
        encoder.encode(sample, plans, text)
    assert str(caught.value).startswith("rows.jsonl:7: field 'problem'")
    assert "<image> or <video> tag per medium" in str(caught.value)


def test_tags_in_another_order_than_the_media_are_refused(encoder):
    sample, plans, _ = oracle.sample_and_plans("mixed", encoder.vision)
    with pytest.raises(DataError, match=r"the text has tags for \[video, image, image, video\]"):
        encoder.encode(sample, plans, "<video><image><image><video>")


@pytest.mark.parametrize(
    "change",
    [
        {"num_tokens": 11},
        {"grid_thw": (2, 4, 4)},
        {"height": 32},
        {"times_s": (0.0, 1.0)},
    ],
)
def test_a_plan_that_disagrees_with_itself_names_the_sample(encoder, change):
    sample, plans, text = oracle.sample_and_plans("video", encoder.vision)
    with pytest.raises(MismatchError, match=r"sample video: the plan of clip\.video"):
        encoder.encode(sample, [replace(plans[0], **change)], text)


def test_plans_for_other_media_are_refused(encoder):
    sample, _, text = oracle.sample_and_plans("video", encoder.vision)
    with pytest.raises(MismatchError, match=r"plans for \[\], media \[video\]"):
        encoder.encode(sample, [], text)


def test_a_chat_template_that_drops_media_is_refused(model_folder):
    encoder = make_encoder(model_folder, "qwen3_vl")
    encoder.tokenizer.chat_template = oracle.TEMPLATE.replace("<|{{ part.type }}_pad|>", "")
    with pytest.raises(MismatchError, match=r"sample video: the chat template placed \[\] for \[video\]"):
        encoder.encode(*oracle.sample_and_plans("video", encoder.vision))


def test_placeholders_that_come_from_the_text_are_counted(encoder, monkeypatch):
    sample, plans, _ = oracle.sample_and_plans("video", encoder.vision)
    monkeypatch.setattr(encoder, "_plain", encoder.tokenizer.backend_tokenizer)
    with pytest.raises(MismatchError, match="sample video: 13 video tokens in the prompt, 12 in the plans"):
        encoder.encode(sample, plans, "<video> <|video_pad|>")


def test_frames_that_are_not_what_was_planned_are_refused(encoder):
    sample, plans, text = oracle.sample_and_plans("video", encoder.vision)
    prompt = encoder.encode(sample, plans, text)
    (clip,) = clips("video", "qwen3_vl", plans)
    with pytest.raises(MismatchError, match=r"sample video: the frames of clip\.video are \[5, 3, 64, 64\]"):
        media_inputs(prompt, [replace(clip, frames=clip.frames[:5])], encoder.vision, torch.float32)
    with pytest.raises(MismatchError, match="0 clips for 1 media"):
        media_inputs(prompt, [], encoder.vision, torch.float32)


def test_responses_end_with_the_turn_and_read_back_as_text(encoder):
    ids = encoder.response_ids("<think>seconds</think><answer>A</answer>")
    assert ids[-1] == encoder.end_ids[0] == encoder.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert encoder.response_text(ids) == "<think>seconds</think><answer>A</answer>"
    assert encoder.response_ids("<think>seconds</think><answer>A</answer><|im_end|>") == ids
    assert encoder.response_ids("a <|im_end|> b").count(encoder.end_ids[0]) == 1


def test_every_vision_token_is_banned_and_no_end_token_is(encoder):
    tokens = encoder.tokenizer.convert_ids_to_tokens(list(encoder.banned_ids))
    vision = {"<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"}
    assert set(tokens) - {None} == vision
    # The ids that the model has beyond those of the tokenizer have no text.
    allowed = set(range(encoder.vocab_size)) - set(encoder.banned_ids)
    assert allowed == set(encoder.tokenizer.get_vocab().values()) - set(
        encoder.tokenizer.convert_tokens_to_ids([*vision])
    )
    assert encoder.tokenizer.convert_ids_to_tokens(encoder.pad_id) == "<|endoftext|>"
    assert encoder.vocab_size == 400


def test_a_model_folder_is_read_as_it_lies_there(model_folder, tmp_path):
    (model_folder / "generation_config.json").write_text('{"eos_token_id": [302, 300]}')
    encoder = Encoder.from_pretrained(model_folder)
    assert encoder.end_ids == (302, 300)
    assert encoder.vision.patch_px == 16
    with pytest.raises(UsageError, match=r"config\.json: cannot read"):
        Encoder.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text((model_folder / "config.json").read_text())
    with pytest.raises(UsageError, match=r"no tokenizer\.json"):
        Encoder.from_pretrained(tmp_path)


def test_models_that_cannot_be_encoded_for_are_refused(model_folder, encoder):
    with pytest.raises(UsageError, match="model_type 'llava' is not supported; known: qwen2_vl"):
        Encoder(encoder.tokenizer, oracle.config("qwen3_vl"), replace(encoder.vision, family="llava"))
    with pytest.raises(UsageError, match="'video_token_id' is 5"):
        Encoder(encoder.tokenizer, oracle.config("qwen3_vl") | {"video_token_id": 5}, encoder.vision)


def other_tokenizer(model_folder: Path, folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The model's tokenizer with something else in its tokenizer.json; no configuration beside it."""
    folder.mkdir()
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        if (model_folder / name).is_file():
            (folder / name).write_bytes((model_folder / name).read_bytes())
    tree = json.loads((model_folder / "tokenizer.json").read_text())
    change(tree)
    (folder / "tokenizer.json").write_text(json.dumps(tree))
    return folder


def test_another_tokenizer_takes_the_place_of_the_models_own(model_folder: Path, tmp_path: Path) -> None:
    own = Encoder.from_pretrained(model_folder)
    other = other_tokenizer(model_folder, tmp_path / "other", lambda tree: tree["model"].update(merges=[]))
    taken = Encoder.from_pretrained(model_folder, tokenizer=other)
    first, second = (encoder.encode(text_sample("which colour"), [], "which colour") for encoder in (own, taken))
    assert (first.text, taken.end_ids, taken.banned_ids) == (second.text, own.end_ids, own.banned_ids)
    assert len(second) > len(first)  # letters one by one
    assert taken.as_read(second) == own.as_read(first)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (
            "ids beyond the model",
            r"other: the tokenizer's largest id is \d+, and the model has words for ids below \d+",
        ),
        ("another name", r"'video_token_id' is \d+, which the tokenizer calls '<tool>' instead of '<\|video_pad\|>'"),
        ("a plain vision token", r"'vision_start_token_id' is \d+, which is no special token of the tokenizer"),
        ("nothing", r"other: no tokenizer\.json"),
    ],
)
def test_a_tokenizer_that_does_not_fit_the_model_is_refused(
    model_folder: Path, tmp_path: Path, wrong: str, problem: str
) -> None:
    def change(tree: dict[str, Any]) -> None:
        added = tree["added_tokens"]
        if wrong == "ids beyond the model":
            added += [{**added[-1], "content": f"<added {id_}>", "id": id_} for id_ in range(len(added), 1000)]
        elif wrong == "another name":
            next(token for token in added if token["content"] == "<|video_pad|>")["content"] = "<tool>"
        else:
            next(token for token in added if token["content"] == "<|vision_start|>")["special"] = False

    other = other_tokenizer(model_folder, tmp_path / "other", change)
    if wrong == "nothing":
        (other / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=problem):
        Encoder.from_pretrained(model_folder, tokenizer=other)
