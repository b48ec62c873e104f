"""Engines that several ranks sample with, for tests/training/test_ranks_engines.py; with one rank the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from easyvideor1.config import ParallelConfig
from easyvideor1.errors import RunError
from easyvideor1.model.weights import checkpoint_tensors, copy_weights
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.rollout.vllm.pump import Pump
from easyvideor1.rollout.vllm.server import RolloutServer
from easyvideor1.rollout.vllm.servers import ServersEngine
from easyvideor1.rollout.vllm.weight_files import read_weights
from easyvideor1.training import sequence, sharded, shared_prefix
from easyvideor1.training.agreement import AgreeingEngine
from easyvideor1.training.forward import PackForward
from easyvideor1.training.ranks import Ranks
from easyvideor1.types import Example, Media, VisionSpec
from support.asking import answered, requests
from support.fake_core import FakeCore
from support.made_trainer import ENCODER
from support.tiny_models import tiny_case, tiny_model

END = 7
VISION = VisionSpec(
    family="qwen3_vl", patch_px=4, merge=2, temporal_patch=2, image_mean=(0.5, 0.5, 0.5), image_std=(0.5, 0.5, 0.5)
)
NUM_EXAMPLES = 5


@dataclass
class Shared:
    """What ranks did with a server that they share."""

    answers: dict[str, tuple[int, ...]]
    """Of this rank: id of the sample -> the tokens of its response."""
    versions: set[int]
    """Of the weights that made them."""
    loads: list[str]
    """Versions that the server took over; of the first rank only."""
    weights: dict[str, torch.Tensor]
    """That were written for it; of the first rank only."""
    error: str
    """What came of weights that the first rank could not write."""


@dataclass
class Compared:
    """What came of comparing the engine of each rank with the actor."""

    modalities: set[str]
    """That this rank compared."""
    gap: float
    """The largest distance of them, in nats per token."""
    error: str
    """What came of an engine of the last rank that kept old weights."""


@dataclass
class Sampled:
    shared: Shared
    compared: Compared
    compared_together: Compared
    """Where all ranks compute each pack together."""
    unloaded: str
    """What came of an engine of the last rank that failed in the middle of the weights."""


def sampled(folder: Path, ranks: Ranks) -> Sampled:
    return Sampled(
        shared=shared_server(folder, made_forward(ranks), ranks),
        compared=comparisons(made_forward(ranks), ranks),
        compared_together=comparisons(made_forward(ranks, ranks_per_pack=ranks.size), ranks),
        unloaded=unloaded(made_forward(ranks), ranks),
    )


def made_forward(ranks: Ranks, *, ranks_per_pack: int = 1) -> PackForward:
    forward = PackForward(made_model(), sequence=sequence.join(ranks, ParallelConfig(sequence=ranks_per_pack)))
    if ranks.size > 1:
        sharded.shard(forward, ParallelConfig(), ranks=ranks, dtype=torch.float32)
    return forward


def made_model() -> Any:
    model = tiny_model("qwen3_vl")
    shared_prefix.enable(model)
    return model


def shared_server(folder: Path, forward: PackForward, ranks: Ranks) -> Shared:
    core = FakeCore(lambda example, asked: [len(example.prompt), END])
    with served(core) as address:
        [address, *_] = ranks.gather(address, of="address")
        engine = agreeing(servers_engine(address, folder / "weights", ranks), forward, ranks, max_mean_gap=1e9)
        give_weights(engine, forward, version=3)
        own = ranks.share(examples(NUM_EXAMPLES))
        groups = answered(engine, requests(own, Sampling(n=2, max_response_tokens=4)))
        # As if the server had been started again and all ranks came to know of it.
        inner: Any = engine._engine
        inner._hand_over(inner._servers[0])
        loads = [Path(call.removeprefix("load ")).name for call in core.calls]
        weights = dict(read_weights(folder / "weights" / "version-3")) if ranks.is_first else {}
        (folder / "file").touch()
        broken = agreeing(servers_engine(address, folder / "file" / "weights", ranks), forward, ranks)
        error = ""
        try:
            give_weights(broken, forward, version=4)
        except Exception as found:  # noqa: BLE001 - it is what is looked at
            error = f"{type(found).__name__}: {found}"
        ranks.gather(None, of="end of the server")
    return Shared(
        answers={example.sample.id: group[0].token_ids for example, group in zip(own, groups, strict=True)},
        versions={rollout.weights_version for group in groups for rollout in group},
        loads=loads,
        weights=weights,
        error=error,
    )


def servers_engine(address: str, weights: Path, ranks: Ranks) -> ServersEngine:
    return ServersEngine(
        [address],
        weights_dir=weights,
        tokens_per_batch=1000,
        deadline_s=30.0,
        retries=1,
        rank=ranks.rank,
        num_ranks=ranks.size,
        run="test",
    )


def agreeing(engine: Engine, forward: PackForward, ranks: Ranks, *, max_mean_gap: float = 1e-3) -> AgreeingEngine:
    return AgreeingEngine(
        engine,
        forward,
        ranks=ranks,
        max_mean_gap=max_mean_gap,
        check_every=1,
        tokens_per_pack=60,
        form=lambda: "shared",
    )


def give_weights(engine: AgreeingEngine, forward: PackForward, *, version: int) -> None:
    engine.load_weights(checkpoint_tensors(forward.model), version=version)


@contextmanager
def served(core: FakeCore) -> Iterator[str]:
    """The address of a server over a scripted core."""
    pump = Pump(core, kind="raw_logprobs", end_ids=(END,), banned_ids=(90,), text_of=str, seeded=True, deadline_s=30.0)
    server = RolloutServer(
        core, pump, vision=VISION, dtype=torch.float32, tokens_per_batch=1000, address=("127.0.0.1", 0)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()
    thread.join(10)


def examples(count: int) -> list[Example]:
    """Of text."""
    model = tiny_model("qwen3_vl")
    cases = [tiny_case(model, name=str(index), lengths=[1], text_len=4 + index) for index in range(count)]
    return [Example(prompt=case.group.prompt, clips=(), features=case.features) for case in cases]


def comparisons(forward: PackForward, ranks: Ranks) -> Compared:
    """Texts on the first rank; a text and a video on the last, of which more packs are made."""
    sampler, is_last = made_model(), ranks.rank == ranks.size - 1
    keeps_old = [False]

    def take_over() -> None:
        if keeps_old[0]:
            for _ in checkpoint_tensors(forward.model):  # as all others do
                pass
        else:
            copy_weights(forward.model, sampler)

    engine = agreeing(HFEngine(sampler, ENCODER, tokens_per_batch=500, take_over=take_over), forward, ranks)
    asked = [*examples(2)[: 1 + is_last], *([video_example()] if is_last else [])]
    sampling = Sampling(n=12, max_response_tokens=6)
    give_weights(engine, forward, version=0)
    answered(engine, requests(asked, sampling))
    found = dict(engine.gaps)
    moved(forward)
    keeps_old[0] = is_last
    give_weights(engine, forward, version=1)
    error = ""
    try:
        answered(engine, requests(asked, sampling))
    except Exception as raised:  # noqa: BLE001 - it is what is looked at
        error = f"{type(raised).__name__}: {raised}"
    return Compared(modalities={*found}, gap=max(gap.max for gap in found.values()), error=error)


def unloaded(forward: PackForward, ranks: Ranks) -> str:
    class Taking(HFEngine):
        def load_weights(self, tensors: Any, *, version: int) -> None:
            for number, _ in enumerate(tensors):
                if number == 2 and ranks.rank == ranks.size - 1:
                    raise RunError("out of memory")

    engine = agreeing(Taking(made_model(), ENCODER, tokens_per_batch=500), forward, ranks)
    try:
        give_weights(engine, forward, version=1)
    except RunError as error:
        return str(error)
    return ""


def video_example() -> Example:
    case = tiny_case(tiny_model("qwen3_vl"), name="video", lengths=[1], videos=[(2, 4, 4)])
    sample = replace(case.group.prompt.sample, media=(Media(kind="video", path="x"),))
    return Example(prompt=replace(case.group.prompt, sample=sample), clips=(), features=case.features)


@torch.no_grad()
def moved(forward: PackForward) -> None:
    """The model after something like an update, the same on any number of ranks."""
    weights: Sequence[torch.Tensor] = [weight for weight in forward.parameters() if weight.ndim > 1]
    for weight in weights:
        weight.mul_(1.3)
