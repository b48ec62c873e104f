"""Servers and their client over real HTTP, with scripted engine cores: deaths, stale weights, refusals, no hang."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.asking import answered, requests
from support.fake_core import FakeCore, Script
from support.tiny_models import tiny_case, tiny_model

from easyvideor1.errors import MismatchError, RunError
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.rollout.vllm import wire
from easyvideor1.rollout.vllm.pump import Pump
from easyvideor1.rollout.vllm.server import RolloutServer
from easyvideor1.rollout.vllm.servers import ServersEngine
from easyvideor1.rollout.vllm.weight_files import read_weights, write_weights
from easyvideor1.types import (
    Clip,
    Example,
    FrameSpec,
    Media,
    MediaPlan,
    Prompt,
    Rollout,
    Sample,
    StopReason,
    VisionSpec,
)  # fmt: skip

END = 7
VISION = VisionSpec(
    family="qwen3_vl", patch_px=4, merge=2, temporal_patch=2, image_mean=(0.5, 0.5, 0.5), image_std=(0.5, 0.5, 0.5)
)
SAMPLING = Sampling(n=2, max_response_tokens=4)
Start = Callable[..., tuple[str, FakeCore, RolloutServer]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server: `start(script)` -> (address, core, server)."""
    running: list[tuple[RolloutServer, threading.Thread]] = []

    def started(script: Script, *, deadline_s: float = 60.0) -> tuple[str, FakeCore, RolloutServer]:
        core = FakeCore(script)
        pump = Pump(
            core, kind="raw_logprobs", end_ids=(END,), banned_ids=(90,), text_of=str, seeded=True, deadline_s=deadline_s
        )
        server = RolloutServer(
            core, pump, vision=VISION, dtype=torch.float32, tokens_per_batch=1000, address=("127.0.0.1", 0)
        )

        def run() -> None:
            with contextlib.suppress(RunError):  # a server that fails on purpose
                server.run()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{server.port}", core, server

    yield started
    for server, thread in running:
        server.stop()
        thread.join(10)


def examples(num: int = 4) -> list[Example]:
    model = tiny_model("qwen3_vl")
    cases = [tiny_case(model, name=str(index), lengths=[1], text_len=4 + index) for index in range(num)]
    return [Example(prompt=case.group.prompt, clips=(), features=case.features) for case in cases]


def made_engine(addresses: list[str], folder: Path, **changes: Any) -> ServersEngine:
    options: dict[str, Any] = {"tokens_per_batch": 1000, "deadline_s": 30.0, "retries": 2} | changes
    return ServersEngine(addresses, weights_dir=folder, **options)


def say_length(example: Example, asked: Any) -> list[int]:
    return [len(example.prompt), END]


def test_two_servers_answer_with_the_version_they_took_over(start: Start, tmp_path: Path):
    one, two = start(say_length), start(say_length)
    engine = made_engine([one[0], two[0]], tmp_path)
    engine.load_weights([("a", torch.arange(3.0)), ("b", torch.ones(2, 2))], version=4)
    groups = answered(engine, requests(examples(), SAMPLING))
    assert [group[0].token_ids for group in groups] == [(7, END), (8, END), (9, END), (10, END)]
    assert {rollout.weights_version for group in groups for rollout in group} == {4}
    assert one[1].asked
    assert two[1].asked
    assert one[1].calls == [f"load {tmp_path / 'version-4'}"]
    engine.load_weights([("a", torch.arange(3.0))], version=5)
    assert [path.name for path in tmp_path.iterdir()] == ["version-5"]


def test_a_server_that_dies_costs_nothing_but_the_requests_it_had(start: Start, tmp_path: Path):
    good, bad = start(say_length), start(say_length)
    engine = made_engine([bad[0], good[0]], tmp_path)
    bad[1].error = RunError("killed")
    groups = answered(engine, requests(examples(), SAMPLING))
    assert {rollout.stop_reason for group in groups for rollout in group} == {StopReason.EOS}
    assert [group[0].token_ids[0] for group in groups] == [7, 8, 9, 10]


def test_the_run_stops_when_no_server_is_left(start: Start, tmp_path: Path):
    address, core, _server = start(say_length)
    engine = made_engine([address], tmp_path)
    core.error = RunError("killed")
    with pytest.raises(RunError, match="no vLLM server is left of http"):
        answered(engine, requests(examples(), SAMPLING))
    with pytest.raises(RunError, match="no vLLM server is left"):
        made_engine(["http://127.0.0.1:9"], tmp_path)


def test_a_request_that_is_never_done_is_given_up_and_the_others_come(start: Start, tmp_path: Path):
    address, _, _ = start(
        lambda example, asked: None if example.sample.id == "1" else say_length(example, asked), deadline_s=0.5
    )
    groups = answered(made_engine([address], tmp_path), requests(examples(), SAMPLING))
    assert [group[0].stop_reason.value for group in groups] == ["eos", "abort", "eos", "eos"]


def test_a_server_with_other_weights_takes_over_ours_before_it_answers(start: Start, tmp_path: Path):
    address, core, server = start(say_length)
    engine = made_engine([address], tmp_path)
    engine.load_weights([("a", torch.zeros(1))], version=3)
    server._pump.version = 0  # as if it had been started again
    [group] = answered(engine, requests(examples(1), SAMPLING))
    assert group[0].weights_version == 3
    assert core.calls == [f"load {tmp_path / 'version-3'}"] * 2


def test_a_prompt_that_a_server_reads_differently_stops_the_run(start: Start, tmp_path: Path):
    address, core, _ = start(say_length)
    core.shift = 1
    with pytest.raises(MismatchError, match=r"sample \d: the engine places the prompt's tokens elsewhere"):
        answered(made_engine([address], tmp_path), requests(examples(), SAMPLING))


def test_a_request_travels_whole_and_its_patches_are_made_as_the_actor_makes_them():
    from easyvideor1.data.vision_inputs import media_inputs

    frames = np.random.default_rng(0).integers(0, 255, (4, 3, 8, 16), dtype=np.uint8)
    plan = MediaPlan(
        media=Media(kind="video", path="a.mp4"),
        times_s=(0.0, 0.1, 1 / 3, 0.5),
        height=8,
        width=16,
        grid_thw=(2, 2, 4),
        num_tokens=4,
        spec=FrameSpec(),
        source_fps=29.97,
        duration_s=0.6,
        cache_key="key",
    )
    prompt = Prompt(
        sample=Sample(id="s", problem_type="numerical", problem="", gold="", media=(plan.media,)),
        text="<|video_pad|>",
        input_ids=np.arange(6),
        token_types=np.array([0, 2, 2, 2, 2, 0]),
        position_ids=np.arange(18).reshape(3, 6),
        plans=(plan,),
    )
    clip = Clip(frames=frames, times_s=plan.times_s, source_fps=29.97, duration_s=0.6, backend="x")
    features = media_inputs(prompt, (clip,), VISION, torch.float32)
    sent = Request(example=Example(prompt=prompt, clips=(clip,), features=features), sampling=SAMPLING, seed=2**62)
    body = wire.request_bytes(sent, version=9)
    got, version = wire.read_request(body, vision=VISION, dtype=torch.float32)
    assert (version, got.seed, got.sampling) == (9, 2**62, SAMPLING)
    assert got.example.prompt.plans[0].times_s == plan.times_s
    assert got.example.prompt.plans[0].cache_key == "key"
    assert (got.example.prompt.position_ids == prompt.position_ids).all()
    assert features.keys() == got.example.features.keys()
    for name, tensor in features.items():
        assert torch.equal(tensor, got.example.features[name])
    assert len(body) < frames.nbytes + 2000


def test_rollouts_travel_exactly():
    rollout = Rollout(token_ids=(1, 2), text="a\n", logprobs=(-0.1, -1 / 3), stop_reason=StopReason.EOS)
    lost = Rollout(token_ids=(), text="", logprobs=None, stop_reason=StopReason.ABORT, weights_version=3)
    assert wire.read_rollouts(wire.rollouts_bytes((rollout, lost), banned_hits=2)) == ((rollout, lost), 2)


def test_weights_are_written_in_files_of_a_bounded_size(tmp_path: Path):
    tensors = {str(index): torch.full((4, 2), float(index)).T for index in range(5)}
    folder = write_weights(tensors.items(), tmp_path / "version-1", file_bytes=50)
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [f"model-{number:05d}.safetensors" for number in range(3)]
    read = dict(read_weights(folder))
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
