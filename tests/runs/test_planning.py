"""Plans: sizes of models, counts of tokens, memory part by part, and what is said where a run does not fit."""

import functools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_run import recipe, rows, write_inputs, write_rows
from support.tiny_models import tiny_case, tiny_model

from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.cli import main
from easyvideor1.config import LoraConfig, ModelConfig, RunConfig
from easyvideor1.data.samples import read_samples
from easyvideor1.errors import UsageError
from easyvideor1.model.sizes import Sizes, model_without_weights, sizes_of
from easyvideor1.recipe import RECIPES, load_config
from easyvideor1.runs.devices import DEVICES
from easyvideor1.runs.footprint import Footprint, footprint, text_layer_bytes, tower_layer_bytes, usable_bytes
from easyvideor1.runs.pace import Pace, num_forwards, num_responses, num_validations, pace
from easyvideor1.runs.parts import opened
from easyvideor1.runs.planned_tokens import Counted, Tokens
from easyvideor1.runs.planning import Plan, make_plan
from easyvideor1.training import shared_prefix
from easyvideor1.training.balance import Costs
from easyvideor1.training.costs import costs_of
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import pack_groups

PUBLISHED = {"2B": 2_127_532_032, "4B": 4_437_815_808, "8B": 8_767_123_696}
"""Numbers of weights in the files of Qwen3-VL-Instruct."""
GIB = 1 << 30


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize("size", PUBLISHED)
def test_the_sizes_of_published_models_are_theirs(size: str) -> None:
    model = model_without_weights(ModelConfig(path=f"models/Qwen3-VL-{size}-Instruct", dtype="bfloat16"))
    assert sizes_of(model).weights == PUBLISHED[size]
    assert {weight.device.type for weight in model.parameters()} == {"meta"}


def test_a_model_that_is_not_known_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"models/Other-7B: no config.json.*qwen3_vl_8b"):
        model_without_weights(ModelConfig(path="models/Other-7B"))


def test_adapters_train_alone() -> None:
    path = "models/Qwen3-VL-2B-Instruct"
    sizes = sizes_of(model_without_weights(ModelConfig(path=path, lora=LoraConfig(rank=8))))
    # Of each of 28 layers: rank x (in + out) of q, k, v, o, gate, up, down.
    per_layer = 8 * ((2048 + 2048) * 2 + (2048 + 1024) * 2 + (2048 + 6144) * 3)
    assert sizes.trained == sizes.adapters == 28 * per_layer
    assert sizes.weights == PUBLISHED["2B"]


def test_token_counts_are_the_trainers(small: Path, tmp_path: Path) -> None:
    path = recipe(small, tmp_path / "run", changes={"train.steps": 1, "train.prompts_per_step": 4})
    config = load_config(path)
    tokens = make_plan(config, device="cpu", gpus=1).tokens
    with opened(config) as parts:
        prompts = [parts.prepare.prompt(sample) for sample in read_samples(config.data.train[0].path)]
        sizes = [parts.prepare.num_bytes(prompt) for prompt in prompts]
        examples = [parts.prepare.example(prompt, parts.prepare.clips(prompt)) for prompt in prompts]
    assert [item.tokens for item in tokens.prompts] == [len(prompt) for prompt in prompts]
    assert [item.vision for item in tokens.prompts] == [int((prompt.token_types != 0).sum()) for prompt in prompts]
    held = [
        sum(clip.frames.nbytes for clip in example.clips)
        + sum(tensor.nbytes for name, tensor in example.features.items() if name.startswith("pixel"))
        for example in examples
    ]
    assert [item.example_bytes for item in tokens.prompts] == sizes == held
    assert tokens.num_media == 3
    assert tokens.cache_bytes == sum(clip.frames.nbytes for example in examples for clip in example.clips)


def tokens_of(prompt: int, vision: int, example_bytes: int = 0) -> Tokens:
    return Tokens(
        prompts=(Counted(tokens=prompt, vision=vision, frame_bytes=0, example_bytes=example_bytes),),
        num_rows=1,
        num_bad=0,
        num_media=0,
        cache_bytes=0,
        basis="made up",
    )


def memory(config: RunConfig, *, ranks: int = 1, tokens: Tokens | None = None) -> Footprint:
    sizes = sizes_of(model_without_weights(config.model))
    found = tokens or tokens_of(1000, 0)
    return footprint(config, sizes, found, response_tokens=100, ranks=ranks, device=DEVICES["h100"], is_gpu=True)


def test_what_lasts_is_exact_by_hand() -> None:
    num = PUBLISHED["8B"]
    config = load_config("qwen3_vl_8b_video")
    alone = memory(config).lasting
    assert alone == {
        "weights": 2 * num,
        "float32 copies of the weights that train": 4 * num,
        "gradients": 4 * num,
        "optimizer": 8 * num,
    }
    shared = memory(config, ranks=32).lasting
    assert shared == {
        "weights": 4 * num // 32,
        "gradients": 4 * num // 32,
        "optimizer": 8 * num // 32,
        "copy that samples": 2 * num,
    }
    with_values = memory(load_config("qwen3_vl_8b_video", ["algorithm={name: ppo, options: {}}"]), ranks=32).lasting
    assert with_values == {**shared, "value head": 16 * (4096 + 1) // 32}  # weights, gradients, two moments
    ahead = replace(config, train=replace(config.train, async_level=1))
    assert memory(ahead).lasting["copy that samples"] == 2 * num
    # Of two ranks that compute packs of the largest size together, each has half of one.
    whole, half = (
        memory(load_config("qwen3_vl_8b_video", words), ranks=2).update for words in ((), ["parallel.sequence=2"])
    )
    assert half["activations, text"] == pytest.approx(whole["activations, text"] / 2, rel=1e-6)
    # Keys and values of as many responses as tokens_per_batch allows, each with its part of the prompt's.
    at_once = 65_536 // (4096 + 125)
    assert memory(config).rollout["KV cache"] == at_once * (4096 + 125) * 36 * 2 * 1024 * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("num_videos", [0, 1])
def test_activations_are_what_autograd_keeps(dtype: torch.dtype, num_videos: int) -> None:
    """Counted by the storages that are saved for the backward, weights apart."""
    model = tiny_model("qwen3_vl").to(dtype)
    shared_prefix.enable(model)
    media: dict[str, Any] = {"videos": [(8, 8, 8)] * num_videos} if num_videos else {}
    case = tiny_case(model, name="a", lengths=[100, 100], text_len=120, **media)
    features = {name: item.to(dtype) if item.is_floating_point() else item for name, item in case.features.items()}
    [pack] = pack_groups([case.group], tokens_per_pack=10_000).packs
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        response_logprobs(model, pack, {0: features}, with_entropy=True)
    sizes, item = sizes_of(model), dtype.itemsize
    num_patches = sum(len(tensor) for name, tensor in features.items() if name.startswith("pixel"))
    text = pack.num_tokens * (sizes.layers * text_layer_bytes(sizes, item=item) + (4 * item + 4) * sizes.hidden)
    tower = num_patches * (
        sizes.tower_layers * tower_layer_bytes(sizes, item=item)
        + 2 * sizes.mergers * sizes.tower_hidden * item
        + sizes.patch_values * item
    )
    logits = 200 * sizes.vocabulary * 4
    assert text + tower + logits == pytest.approx(sum(kept.values()), rel=0.2)


def made_plan(small: Path, out: Path, *words: str, **options: Any) -> Plan:
    config = load_config(recipe(small, out), words)
    return make_plan(config, **{"device": "cpu", "gpus": 1, **options})


def test_the_largest_pack_fits_and_one_step_more_does_not(small: Path, tmp_path: Path) -> None:
    words = ("train.prompts_per_step=4096", "rollout.tokens_per_batch=1024", "data.train=[{path: nowhere.jsonl}]")
    plan = made_plan(small, tmp_path / "run", *words, memory_gb=0.8)
    largest = plan.largest_pack_tokens
    assert largest is not None

    def peak(tokens: int) -> int:
        return made_plan(small, tmp_path / "run", *words, f"train.tokens_per_pack={tokens}").memory.peak

    assert peak(largest) <= usable_bytes(plan.device) < peak(largest + 1024)


def test_what_is_advised_makes_it_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "qwen3_vl_8b_video", "--gpu", "h200"]) == 1
    told = capsys.readouterr().out
    assert "it does NOT fit" in told
    assert "4 GPUs instead of 1" in told
    assert "model.lora" in told
    assert main(["plan", "qwen3_vl_8b_video", "--gpu", "h200", "model.lora={rank: 64, alpha: 128}"]) == 0
    assert main(["plan", "qwen3_vl_8b_video", "--gpu", "h100", "--gpus", "32"]) == 1
    told = capsys.readouterr().out
    advised = re.search(r"^  (train.tokens_per_pack=\d+)$", told, re.MULTILINE)
    assert advised
    assert main(["plan", "qwen3_vl_8b_video", "--gpu", "h100", "--gpus", "32", advised[1]]) == 0
    assert "\n  parallel.sequence=2\n" in told
    assert main(["plan", "qwen3_vl_8b_video", "--gpu", "h100", "--gpus", "32", "parallel.sequence=2"]) == 0


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_every_shipped_recipe_is_planned(
    name: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On made-up rows, with the tokenizer of no model there: vision tokens are counted, text is estimated."""
    data = write_rows(small / "planned.jsonl", rows())
    words = [f"data.train=[{{path: {data}}}]", f"out={tmp_path / 'run'}"]
    main(["plan", name, *words, "--gpu", "h200", "--gpus", "8", "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert plan["tokens"]["rows"] == 4
    assert plan["tokens"]["vision_max"] > 0
    assert plan["pace"]["step_s"] > 0
    assert plan["steps"] == load_config(name).train.steps
    if named := re.search(r"_(\d)gpu$", name):  # with videos of the most frames and pixels too
        assert main(["plan", name, "--gpu", "h100", "--gpus", named[1]]) == 0


def test_rows_that_cannot_be_used_are_counted_and_missing_data_are_bounded(small: Path, tmp_path: Path) -> None:
    broken = write_rows(small / "broken.jsonl", [*rows(), {**rows()[0], "problem_id": "x", "videos": ["none.mp4"]}])
    plan = made_plan(small, tmp_path / "run", f"data.train=[{{path: {broken}}}]")
    assert (plan.tokens.num_rows, plan.tokens.num_bad) == (5, 1)
    missing = made_plan(small, tmp_path / "run", "data.train=[{path: nowhere.jsonl}]")
    # 4 frames of 64 x 64: two steps in time of 4 tokens.
    assert missing.tokens.vision_max == 8
    assert "nowhere.jsonl is not there" in missing.tokens.basis


@pytest.mark.parametrize("words", [["rollout.engine=vllm"], ["train.async_level=1"]])
def test_engines_and_sampling_ahead_are_planned_for_several_gpus(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "qwen3_vl_2b_1gpu", "--gpus", "32", "--json", *words]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["gpus"] == 32


def test_ranks_that_cannot_share_packs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "qwen3_vl_8b_video", "--gpus", "8", "parallel.sequence=3"]) == 2
    assert "parallel.sequence=3 does not divide the number of ranks, 8" in capsys.readouterr().err
    assert main(["plan", "qwen3_vl_8b_video", "--gpus", "12", "parallel.sequence=3"]) == 2
    assert "parallel.sequence=3 does not divide the 32 attention heads" in capsys.readouterr().err


SMALLEST = "qwen3_vl_2b_1gpu"
BASE = (
    "model.gradient_checkpointing=false",
    "algorithm={name: grpo, options: {}}",
    "train.steps=10",
    "train.epochs=null",
)
FORWARDS = [
    # Forward, gradients of inputs, gradients of weights.
    ((), 3),
    (("model.gradient_checkpointing=true",), 4),
    (("model.lora={rank: 8}",), 2),
    (("algorithm.options={kl_coef: 0.1}",), 4),
    # Old log-probs before the first of several optimizer steps.
    (("train.updates_per_step=2",), 4),
    (("train.passes=3",), 3 * 3 + 1),
    (("train.passes=3", "train.updates_per_step=2", "algorithm.options={kl_coef: 0.1}"), 3 * 4 + 1),
    # Policy and reference once more, for the KL in the reward.
    (("algorithm={name: reinforce_plus_plus, options: {kl_coef: 0.1, kl_in: reward}}",), 4 + 2),
    # Values before the update, by the same forward as the policy's part of that KL.
    (("algorithm.name=ppo",), 3 + 1),
    (("algorithm={name: ppo, options: {kl_coef: 0.1, kl_in: reward}}",), 4 + 2),
]


@pytest.mark.parametrize(("words", "forwards"), FORWARDS)
def test_an_update_takes_as_long_as_its_forwards(words: tuple[str, ...], forwards: int) -> None:
    config = load_config(SMALLEST, [*BASE, *words])
    assert num_forwards(config, fitting_algorithm(config)) == forwards
    assert paced(config).update_s == pytest.approx(paced(load_config(SMALLEST, BASE)).update_s * forwards / 3)


def paced(config: RunConfig, *, ranks: int = 8, num_questions: int = 0) -> Pace:
    sizes, costs = sizes_and_costs(config.model.path)  # adapters change neither
    tokens = replace(tokens_of(1000, 500), num_questions=num_questions)
    return pace(config, sizes, costs, tokens, response_tokens=100, ranks=ranks, device=DEVICES["h100"])


@functools.cache
def sizes_and_costs(path: str) -> tuple[Sizes, Costs]:
    model = model_without_weights(ModelConfig(path=path, dtype="bfloat16"))
    return sizes_of(model), costs_of(model)


RESPONSES = [
    ((), (8,)),
    (("algorithm={name: remax, options: {}}",), (9,)),
    (("algorithm.options={temporal_bonus: 0.3}",), (8, 4)),
    (("algorithm={name: sft, options: {}}", "offline.enable=true"), ()),
]


@pytest.mark.parametrize(("words", "responses"), RESPONSES)
def test_all_that_is_sampled_takes_time(words: tuple[str, ...], responses: tuple[int, ...]) -> None:
    config = load_config(SMALLEST, [*BASE, "rollout.n=8", *words])
    assert num_responses(config, fitting_algorithm(config)) == responses
    usual = paced(load_config(SMALLEST, [*BASE, "rollout.n=8"])).rollout_s
    assert (paced(config).rollout_s >= usual) == bool(responses)
    assert bool(paced(config).rollout_s) == bool(responses)


def test_servers_sample_at_their_own_number_beside_the_update_and_a_copy_shares_its_gpu() -> None:
    served = [*BASE, "rollout.engine=vllm_server", "train.async_level=1", "train.prompts_per_step=512"]
    two, four = (paced(load_config(SMALLEST, [*served, f"rollout.vllm.start_servers={n}"])) for n in (2, 4))
    assert two.rollout_s == pytest.approx(2 * four.rollout_s, rel=0.1)
    assert two.step_s == max(two.rollout_s, two.update_s)
    copied = load_config(SMALLEST, [*BASE, "train.async_level=1"])
    assert paced(copied).step_s == paced(copied).rollout_s + paced(copied).update_s
    # Both at once, and the frames of both steps.
    found, usual = memory(copied, tokens=tokens_of(1000, 0, 4)), memory(copied, tokens=tokens_of(1000, 0, 4))
    apart = memory(replace(copied, train=replace(copied.train, async_level=0)), ranks=2)
    beside = memory(copied, ranks=2)
    assert beside.lasting == apart.lasting
    assert beside.peak == apart.peak + min(sum(apart.update.values()), sum(apart.rollout.values()))
    assert found.host["the same of the step that is sampled ahead"] == usual.host["frames and patches of a step"] > 0


def test_validations_are_counted_where_their_questions_are() -> None:
    config = load_config(SMALLEST, [*BASE, "train.validate_every=4"])
    assert paced(config).validation_s == 0
    once, more = paced(config, num_questions=64), paced(config, num_questions=640)
    assert 5 < more.validation_s / once.validation_s < 11
    assert num_validations(config, steps=10) == 4  # before, 4, 8, 10
    assert num_validations(config, steps=8) == 3
    late = replace(config, validation=replace(config.validation, before_training=False))
    assert num_validations(replace(late, train=replace(late.train, validate_every=0)), steps=10) == 1
