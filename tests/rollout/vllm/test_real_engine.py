"""vLLM itself beside the actor, in float32: `scripts/test_vllm.sh` runs these. Broken on purpose, each check fails."""

import importlib.util
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.asking import answered, requests

from easyvideor1.config import LoraConfig, ModelConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.data.prepare import Preparer
from easyvideor1.demo.build import IMAGE_SPEC, VIDEO_SPEC
from easyvideor1.demo.clips import Scene, Thing, write_clip, write_image
from easyvideor1.demo.setup import MODEL, demo_config
from easyvideor1.errors import MismatchError, RunError
from easyvideor1.model.load import load_model
from easyvideor1.model.weights import checkpoint_tensors
from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.vllm import core as core_module
from easyvideor1.rollout.vllm.colocated import VLLMEngine, open_core
from easyvideor1.rollout.vllm.core import VLLMCore
from easyvideor1.rollout.vllm.launch import started_servers
from easyvideor1.rollout.vllm.pump import Pump
from easyvideor1.rollout.vllm.servers import ServersEngine
from easyvideor1.training import shared_prefix
from easyvideor1.training.agreement import AgreeingEngine
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import pack_groups
from easyvideor1.types import Example, Group, Media, Rollout, Sample, StopReason
from easyvideor1.video.cache import FrameCache

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]
ATOL = 1e-4
"""Nats; both compute in float32, in another order."""
FAMILIES = ("qwen3_vl", "qwen2_5_vl")
QWEN2_5 = {
    "text_config": {
        "vocab_size": 512, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [6, 5, 5]},
    },
    "vision_config": {
        "depth": 2, "hidden_size": 64, "num_heads": 4, "intermediate_size": 128, "out_hidden_size": 128,
        "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "fullatt_block_indexes": [1],
        "window_size": 64, "tokens_per_second": 2,
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model folders of the families; that of Qwen2.5-VL is random, with the tokenizer of the demo's."""
    return {"qwen3_vl": Path(MODEL), "qwen2_5_vl": _qwen2_5(tmp_path_factory.mktemp("qwen2_5_vl"))}


def _qwen2_5(folder: Path) -> Path:
    from transformers import AutoConfig, AutoModelForImageTextToText

    shipped = json.loads((Path(MODEL) / "config.json").read_text())
    markers = {name: value for name, value in shipped.items() if name.endswith("_token_id")}
    torch.manual_seed(0)
    config = AutoConfig.for_model("qwen2_5_vl", **QWEN2_5, **markers)
    config.tie_word_embeddings = False
    model = AutoModelForImageTextToText.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(4)
    model.save_pretrained(folder)
    for file in Path(MODEL).iterdir():
        if file.name.startswith(("tokenizer", "chat_template", "generation_config")):
            (folder / file.name).write_bytes(file.read_bytes())
    sizes = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, "processor_class": "Qwen2_5_VLProcessor"}
    area = {"size": {"shortest_edge": 4096, "longest_edge": 32768}}
    image = {"image_processor_type": "Qwen2VLImageProcessor"}
    video = {"video_processor_type": "Qwen2VLVideoProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(sizes | area | image))
    (folder / "video_preprocessor_config.json").write_text(json.dumps(sizes | area | video))
    return folder


class Setting:
    """A model of a family: the actor, examples of every kind of prompt, and engines over it."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work = folder, work
        self.encoder = Encoder.from_pretrained(folder)
        self.prepare = Preparer(
            self.encoder,
            FrameCache(work / "cache"),
            video=VIDEO_SPEC,
            image=IMAGE_SPEC,
            thinking=True,
            max_prompt_tokens=512,
            dtype=torch.float32,
        )
        self.examples = [self.prepare(sample) for sample in _samples(work)]
        self.cores: dict[str, tuple[VLLMCore, Pump]] = {}

    def actor(self, **changes: Any) -> Any:
        model = load_model(ModelConfig(path=str(self.folder), **changes))
        shared_prefix.enable(model)
        return model.eval()

    def engine(self, temperature: float = 1.0, **engine_args: Any) -> VLLMEngine:
        """One per combination of arguments and test session, with the weights of the folder."""
        name = f"{temperature} {engine_args}"
        if name not in self.cores:
            config = demo_config(
                self.work / "run",
                seed=0,
                overrides=[
                    f"rollout.temperature={temperature}",
                    "rollout.engine=vllm",
                    f"rollout.vllm.engine_args={json.dumps(engine_args | {'kv_cache_memory_bytes': 64 << 20})}",
                ],
            )
            self.cores[name] = open_core(config, self.encoder, folder=self.folder, sleeps=True)
        core, pump = self.cores[name]
        engine = VLLMEngine(core, pump, tokens_per_batch=20_000)
        engine.load_weights(checkpoint_tensors(self.actor()), version=0)
        return engine


def _samples(folder: Path) -> list[Sample]:
    thing = Thing(colour="red", shape="circle", x=0.3, y=0.5, radius=0.15, dx_per_s=0.15)
    scene = Scene(things=(thing,), duration_s=3.0, background="gradient", shade=70, texture_seed=1)
    write_clip(scene, folder / "a.mp4", side_px=64)
    write_image(scene, folder / "b.png", side_px=64)
    video, image = Media(kind="video", path=str(folder / "a.mp4")), Media(kind="image", path=str(folder / "b.png"))
    part = replace(video, start_s=0.3, end_s=2.1)
    kinds = {"text": (), "image": (image,), "video": (video,), "mixed": (image, part), "two": (part, video)}
    return [
        Sample(id=name, problem_type="numerical", problem="How many shapes?", gold="1", media=media)
        for name, media in kinds.items()
    ]


@pytest.fixture(scope="session", params=FAMILIES)
def setting(
    request: pytest.FixtureRequest, folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Setting:
    return Setting(folders[request.param], tmp_path_factory.mktemp("work"))


def actor_logprobs(model: Any, example: Example, rollouts: tuple[Rollout, ...], temperature: float) -> np.ndarray:
    nothing = (0.0,) * len(rollouts)
    group = Group(prompt=example.prompt, rollouts=rollouts, advantages=nothing, weights=nothing)
    [pack] = pack_groups([group], tokens_per_pack=100_000).packs
    with torch.no_grad():
        return response_logprobs(model, pack, {0: example.features}, temperature=temperature)[0].numpy()


def gaps(engine: Any, model: Any, examples: list[Example], sampling: Sampling) -> list[float]:
    """Largest distance of the two log-probs, per example."""
    groups = answered(engine, requests(examples, sampling, seed=1))
    assert all(len(group) == sampling.n for group in groups)
    return [
        float(
            np.abs(
                actor_logprobs(model, example, group, sampling.temperature or 1.0)
                - np.concatenate([np.array(rollout.logprobs) for rollout in group])
            ).max()
        )
        for example, group in zip(examples, groups, strict=True)
    ]


def moved(model: Any, scale: float = 0.03) -> Any:
    """The model after something like an update."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * scale * parameter.abs().mean())
    return model


ENGINES = {"whole prompts": {}, "chunks": {"enable_chunked_prefill": True, "max_num_batched_tokens": 64}}


@pytest.mark.parametrize("args", ENGINES.values(), ids=list(ENGINES))
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_the_actors_before_and_after_a_sync(setting: Setting, temperature: float, args: dict[str, Any]):
    engine = setting.engine(temperature, **args)
    sampling = Sampling(n=8, temperature=temperature, max_response_tokens=24)
    actor = setting.actor()
    assert max(gaps(engine, actor, setting.examples, sampling)) < ATOL
    moved(actor)
    assert min(gaps(engine, actor, setting.examples, sampling)) > 10 * ATOL, "the engine is stale"
    engine.load_weights(checkpoint_tensors(actor), version=1)
    assert max(gaps(engine, actor, setting.examples, sampling)) < ATOL
    assert max(gaps(engine, actor, setting.examples, sampling)) < ATOL, "with prompts and media in the caches"


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_adapters_are_sampled_from_after_a_sync(setting: Setting, temperature: float):
    pytest.importorskip("peft")
    engine = setting.engine(temperature)
    sampling = Sampling(n=4, temperature=temperature, max_response_tokens=24)
    base, actor = setting.actor(), moved_adapters(setting)
    engine.load_weights(checkpoint_tensors(actor), version=1)
    assert max(gaps(engine, actor, setting.examples, sampling)) < ATOL
    assert min(gaps(engine, base, setting.examples, sampling)) > 10 * ATOL


def moved_adapters(setting: Setting) -> Any:
    actor = setting.actor(lora=LoraConfig(rank=4))
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in actor.named_parameters():
            if ".lora_" in name:
                parameter.add_(0.05 * torch.randn_like(parameter))
    return actor


def test_n_responses_share_the_reading_of_a_prompt_and_seeds_decide(setting: Setting):
    engine = setting.engine()
    sampling = Sampling(n=8, max_response_tokens=24)
    once = answered(engine, requests(setting.examples, sampling, seed=3))
    again = answered(engine, requests(setting.examples[::-1], sampling, seed=3))[::-1]
    other = answered(engine, requests(setting.examples, sampling, seed=4))
    texts = [[[rollout.token_ids for rollout in group] for group in groups] for groups in (once, again, other)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_greedy_is_the_likeliest_token_and_vision_tokens_never_come(setting: Setting):
    engine = setting.engine()
    actor = setting.actor()
    [[rollout]] = answered(engine, requests(setting.examples[2:3], Sampling(temperature=0.0, max_response_tokens=16)))
    [[again]] = answered(engine, requests(setting.examples[2:3], Sampling(temperature=0.0, max_response_tokens=16)))
    assert rollout.token_ids == again.token_ids
    groups = answered(engine, requests(setting.examples, Sampling(n=8, max_response_tokens=40), seed=9))
    banned = set(setting.encoder.banned_ids)
    assert not any(banned & set(rollout.token_ids) for group in groups for rollout in group)
    del actor


def test_vision_tokens_that_are_likely_are_drawn_again_with_exact_log_probs(setting: Setting):
    actor = setting.actor()
    head = actor.get_output_embeddings().weight
    pad = setting.encoder.banned_ids[-1]
    with torch.no_grad():  # as likely as the token that the model likes most on average
        head[pad] = head[setting.encoder.end_ids[0]] * 1.5 + 0.1 * torch.randn_like(head[pad])
    for temperature in (1.0, 0.7):
        engine = setting.engine(temperature)
        engine.load_weights(checkpoint_tensors(actor), version=1)
        sampling = Sampling(n=8, temperature=temperature, max_response_tokens=32)
        assert max(gaps(engine, actor, setting.examples[:1], sampling)) < ATOL


def test_a_cache_that_is_not_reset_is_found(setting: Setting, monkeypatch: pytest.MonkeyPatch):
    engine = setting.engine()
    actor = setting.actor()
    checked = agreeing(engine, actor)
    sampling = Sampling(n=4, max_response_tokens=16)
    answered(checked, requests(setting.examples[2:3], sampling))
    monkeypatch.setattr(engine._core._engine, "reset_prefix_cache", lambda: True)  # type: ignore[attr-defined]
    moved(actor, scale=0.3)
    checked.load_weights(checkpoint_tensors(actor), version=1)
    with pytest.raises(RunError, match="does not sample from the policy"):
        answered(checked, requests(setting.examples[2:3], sampling))


def agreeing(engine: Any, actor: Any, max_mean_gap: float = 1e-3) -> AgreeingEngine:
    return AgreeingEngine(
        engine, actor, max_mean_gap=max_mean_gap, check_every=1, tokens_per_pack=10_000, form=lambda: "shared"
    )


def test_stale_weights_and_forgotten_adapters_are_found(setting: Setting):
    pytest.importorskip("peft")
    engine = setting.engine()
    sampling = Sampling(n=4, max_response_tokens=16)
    with pytest.raises(RunError, match="does not sample from the policy"):
        answered(agreeing(engine, moved(setting.actor(), scale=0.3)), requests(setting.examples, sampling))
    with pytest.raises(RunError, match="does not sample from the policy"):
        answered(agreeing(engine, moved_adapters(setting)), requests(setting.examples, sampling))


def broken(setting: Setting, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]) -> VLLMEngine:
    """An engine that is given something else than the prompt."""
    engine = setting.engine()
    whole = core_module._engine_input

    def changed(ids: list[int], found: Any) -> Any:
        made = whole(ids, found)
        change(made)
        return made

    monkeypatch.setattr(core_module, "_engine_input", changed)
    return engine


def test_a_changed_pixel_is_found(setting: Setting, monkeypatch: pytest.MonkeyPatch):
    def change(made: Any) -> None:
        name = "pixel_values_videos"
        item = made["mm_kwargs"]["video"][0]
        item[name].data = item[name].data.clone()
        item[name].data[:4] += 0.5

    engine = broken(setting, monkeypatch, change)
    with pytest.raises(RunError, match=r"sample video \(video\)"):
        # The demo's model is sure of most tokens, so a small change moves them little; rounding is 1e-6.
        answered(
            agreeing(engine, setting.actor(), max_mean_gap=2e-5),
            requests(setting.examples[2:3], Sampling(n=4, max_response_tokens=16)),
        )


def test_a_wrong_time_and_a_shifted_position_are_found(setting: Setting, monkeypatch: pytest.MonkeyPatch):
    if setting.encoder.vision.family == "qwen2_5_vl":

        def change(made: Any) -> None:
            made["mm_kwargs"]["video"][0]["second_per_grid_ts"].data *= 2
    else:

        def change(made: Any) -> None:  # a token before the clip: everything after it stands one further
            made["prompt_token_ids"] = [*made["prompt_token_ids"][:1], *made["prompt_token_ids"]]

    engine = broken(setting, monkeypatch, change)
    with pytest.raises(MismatchError, match="sample video: the engine"):
        answered(engine, requests(setting.examples[2:3], Sampling(max_response_tokens=4)))


def test_frames_and_times_that_give_another_prompt_are_found(setting: Setting):
    engine = setting.engine()
    example = setting.examples[2]
    pump = engine._pump
    pump._num_read.clear()
    frames = example.clips[0].frames.copy()
    frames[0, :, :8, :8] ^= 64
    for other in (
        replace(example, clips=(replace(example.clips[0], frames=frames),)),
        replace(
            example,
            prompt=replace(
                example.prompt, plans=(replace(example.prompt.plans[0], times_s=(0.0, 0.7, 1.4, 2.9, 3.0, 3.1)),)
            ),
        ),
    ):
        if other.prompt is not example.prompt and setting.encoder.vision.family == "qwen2_5_vl":
            continue  # its times are in the positions, see above
        with pytest.raises(MismatchError, match="sample video: vLLM's own reading of the prompt is another one"):
            answered(engine, requests([other], Sampling(max_response_tokens=4)))


@pytest.fixture(scope="session")
def servers(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], Path]]:
    """Two servers of the demo's model and where they print."""
    work = tmp_path_factory.mktemp("servers")
    recipe = work / "recipe.yaml"
    import yaml

    from easyvideor1.config_tree import to_tree

    config = demo_config(work / "run", seed=0, overrides=["rollout.engine=vllm_server", "rollout.vllm.start_servers=2"])
    recipe.write_text(yaml.safe_dump(to_tree(config)))
    with started_servers(2, recipe=recipe, model=folders["qwen3_vl"], logs=work) as addresses:
        yield addresses, work


@pytest.mark.timeout(600)
def test_servers_sample_from_the_actor_and_one_may_be_killed_in_the_middle(
    servers: tuple[list[str], Path], folders: dict[str, Path], tmp_path: Path
):
    addresses, _ = servers
    setting = Setting(folders["qwen3_vl"], tmp_path)
    engine = ServersEngine(
        addresses, weights_dir=tmp_path / "weights", tokens_per_batch=20_000, deadline_s=120.0, retries=2
    )
    actor = setting.actor()
    sampling = Sampling(n=8, max_response_tokens=24)
    assert max(gaps(engine, actor, setting.examples, sampling)) < ATOL
    moved(actor)
    engine.load_weights(checkpoint_tensors(actor), version=1)
    assert max(gaps(engine, actor, setting.examples, sampling)) < ATOL
    asked = requests(setting.examples * 8, Sampling(n=8, max_response_tokens=64), seed=5)
    stream = engine.generate(asked)
    found = dict([next(stream)])
    os.kill(_pid_at(addresses[0]), signal.SIGKILL)
    found |= dict(stream)
    assert sorted(found) == list(range(len(asked)))
    stops = {rollout.stop_reason for group in found.values() for rollout in group}
    assert StopReason.ABORT not in stops
    assert {rollout.weights_version for group in found.values() for rollout in group} == {1}


def _pid_at(address: str) -> int:
    port = address.rpartition(":")[2]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"easyvideor1.rollout.vllm.server" in words:
            file = Path(os.fsdecode(words[words.index(b"--port-file") + 1]))
            if file.exists() and file.read_text() == port:
                return int(process.name)
    raise AssertionError(address)
