"""Engine and actor are compared: other weights, pixels or positions, and forgotten adapters end the run."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support.asking import answered, requests
from support.made_trainer import ENCODER
from support.tiny_models import tiny_case, tiny_model

from easyvideor1.config import LoraConfig
from easyvideor1.errors import RunError
from easyvideor1.model import lora
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.training import shared_prefix
from easyvideor1.training.agreement import AgreeingEngine, adapter_share
from easyvideor1.types import Example


def made_model(seed: int = 0) -> Any:
    model = tiny_model("qwen3_vl", seed)
    shared_prefix.enable(model)
    return model


def examples(model: Any) -> list[Example]:
    media: tuple[dict[str, Any], ...] = ({}, {"images": [(1, 4, 6)]}, {"videos": [(2, 4, 4)]})
    cases = [tiny_case(model, name=str(i), lengths=[1], seed=i, **kinds) for i, kinds in enumerate(media)]
    kinds = ("text", "image", "video")
    return [
        Example(
            prompt=replace(case.group.prompt, sample=_of_modality(case.group.prompt.sample, kind)),
            clips=(),
            features=case.features,
        )
        for case, kind in zip(cases, kinds, strict=True)
    ]


def _of_modality(sample: Any, kind: str) -> Any:
    from easyvideor1.types import Media

    return replace(sample, media=() if kind == "text" else (Media(kind=kind, path="x"),))  # type: ignore[arg-type]


def agreeing(actor: Any, sampled_from: Any = None, check_every: int = 2) -> AgreeingEngine:
    engine = HFEngine(actor if sampled_from is None else sampled_from, ENCODER, tokens_per_batch=500)  # type: ignore[arg-type]
    return AgreeingEngine(
        engine, actor, max_mean_gap=1e-3, check_every=check_every, tokens_per_pack=500, form=lambda: "shared"
    )


SAMPLING = Sampling(n=4, max_response_tokens=8)


def test_where_sampling_and_learning_overlap_the_actor_is_compared_only_while_it_is_still():
    model = made_model()
    text, image, _ = examples(model)
    engine = HFEngine(made_model(), ENCODER, tokens_per_batch=500, take_over=lambda: None)
    agreeing = AgreeingEngine(
        engine, model, max_mean_gap=1e-3, check_every=2, tokens_per_pack=500, form=lambda: "shared", overlaps=True
    )
    rounds = []
    for version, asked in enumerate([[text], [text, image], [text, image], [text]]):
        agreeing.load_weights((), version=version)
        rounds.append(agreeing.needs_still_actor)
        answered(agreeing, requests(asked, SAMPLING))
    # First round; not due, but images come for the first time; due for them; not due.
    assert rounds == [True, False, True, False]
    assert set(agreeing.gaps) == {"text", "image"}


def test_an_engine_with_the_actors_weights_agrees_in_every_modality():
    model = made_model()
    engine = agreeing(model)
    answered(engine, requests(examples(model), SAMPLING))
    assert engine.gaps.keys() == {"text", "image", "video"}
    assert max(gap.max for gap in engine.gaps.values()) < 1e-4
    assert {gap.adapter_share for gap in engine.gaps.values()} == {None}


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_stale_weights_stop_the_run(temperature: float):
    actor, stale = made_model(), made_model()
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02 * parameter.abs().mean())
    engine = agreeing(actor, stale)
    sampling = replace(SAMPLING, temperature=temperature)
    with pytest.raises(RunError, match=r"sample 0 \(text\), weights 0: the engine does not sample from the policy"):
        answered(engine, requests(examples(actor), sampling))


def test_a_changed_pixel_stops_the_run():
    model = made_model()
    [_, _, video] = examples(model)
    engine = agreeing(model)
    pixels = video.features["pixel_values_videos"].clone()
    pixels[0, 0] += 0.5
    seen = replace(video, features=video.features | {"pixel_values_videos": pixels})
    inner = engine._engine.generate

    def generate(asked: Any) -> Any:
        yield from inner(replace(request, example=seen) for request in asked)

    engine._engine.generate = generate  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"sample 2 \(video\)"):
        answered(engine, requests([video], SAMPLING))


def test_a_modality_is_compared_at_first_and_then_every_few_versions():
    model = made_model()
    engine = agreeing(model)
    compared = []
    whole = engine._gap
    engine._gap = lambda *args, **kwargs: (compared.append(engine._version), whole(*args, **kwargs))[1]  # type: ignore[method-assign]
    for version in range(6):
        engine.load_weights([], version=version)
        answered(engine, requests(examples(model)[:1], SAMPLING))
    assert compared == [0, 2, 4]
    engine = agreeing(model, check_every=0)
    engine._gap = lambda *args, **kwargs: (compared.append(-1), whole(*args, **kwargs))[1]  # type: ignore[method-assign]
    for version in range(3):
        engine.load_weights([], version=version)
        answered(engine, requests(examples(model)[:1], SAMPLING))
    assert compared[3:] == [-1]


def test_an_engine_that_samples_from_the_base_under_the_adapters_stops_the_run():
    actor, base = made_model(), made_model()
    lora.add_adapters(actor, LoraConfig(rank=2))
    gap_before = _answered_gap(agreeing(actor, base), actor)
    assert gap_before is None, "fresh adapters change nothing"
    with torch.no_grad():
        for name, parameter in actor.named_parameters():
            if ".lora_" in name:
                parameter.add_(torch.randn_like(parameter) * 1e-5)
    # So little that the distance alone does not tell.
    share = _answered_gap(agreeing(actor), actor)
    assert share == pytest.approx(1.0, abs=0.2)
    with pytest.raises(RunError, match="are those of the base model, without the adapters"):
        _answered_gap(agreeing(actor, base), actor)


def _answered_gap(engine: AgreeingEngine, actor: Any) -> float | None:
    asked = [Request(example=examples(actor)[2], sampling=replace(SAMPLING, n=16), seed=1)]
    answered(engine, asked)
    return engine.gaps["video"].adapter_share


def test_the_share_of_the_adapters_is_not_told_from_noise():
    rng = np.random.default_rng(0)
    base, moved = torch.zeros(200), torch.from_numpy(rng.normal(size=200) * 1e-3)
    noise = torch.from_numpy(rng.normal(size=200))
    assert adapter_share(moved + 1e-4 * noise, moved, base) == pytest.approx(1.0, abs=0.1)
    assert adapter_share(1e-4 * noise, moved, base) == pytest.approx(0.0, abs=0.1)
    assert adapter_share(moved + 0.05 * noise, moved, base) is None
    assert adapter_share(moved, base, base) is None
