"""Prompts about the same media: what they begin with is read once, and nothing that is sampled changes."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support.asking import answered
from support.tiny_models import FAMILIES, IMAGE, VIDEO, tiny_case, tiny_model
from support.values import present

from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.types import Example, Prompt, Rollout

ENCODER: Any = SimpleNamespace(end_ids=tuple(range(6)), banned_ids=(IMAGE, VIDEO), response_text=str)
SAMPLED = Sampling(n=2, max_response_tokens=7)


def with_question(prompt: Prompt, question: list[int], name: str) -> Prompt:
    """The prompt with other words behind its media."""
    end = int(np.flatnonzero(prompt.token_types)[-1]) + 2  # the mark behind the last medium is the same for all
    after = prompt.position_ids[:, end - 1].max() + 1 + np.arange(len(question))
    return replace(
        prompt,
        sample=replace(prompt.sample, id=name),
        input_ids=np.concatenate([prompt.input_ids[:end], question]),
        token_types=np.concatenate([prompt.token_types[:end], np.zeros(len(question), np.int64)]),
        position_ids=np.concatenate([prompt.position_ids[:, :end], np.tile(after, (3, 1))], 1),
    )


def questions(model: Any, num: int, *, seed: int = 0, text_len: int = 5) -> list[Example]:
    """Questions of different lengths about the same two media."""
    case = tiny_case(model, name="", lengths=[1], images=[(1, 4, 6)], videos=[(3, 4, 4)], text_len=text_len, seed=seed)
    rng = np.random.default_rng(seed)
    asked = [rng.integers(0, 80, 1 + 5 * k).tolist() for k in range(num)]
    prompts = [with_question(case.group.prompt, words, f"{seed}-{k}") for k, words in enumerate(asked)]
    return [Example(prompt=prompt, clips=(), features=case.features) for prompt in prompts]


def requests(examples: list[Example], *, shares: bool, sampling: Sampling = SAMPLED) -> list[Request]:
    return [Request(example=example, sampling=sampling, seed=3, shares_beginning=shares) for example in examples]


def tower_runs(model: Any) -> list[int]:
    """Filled with the number of media of every call of the vision tower."""
    runs: list[int] = []
    model.model.visual.register_forward_hook(
        lambda module, args, kwargs, out: runs.append(len(kwargs["grid_thw"] if "grid_thw" in kwargs else args[1])),
        with_kwargs=True,
    )
    return runs


@cache
def whole_prompts(family: str) -> tuple[list[Example], list[tuple[Rollout, ...]]]:
    """Questions about two groups of media, and what is sampled where each prompt is read by itself."""
    model = tiny_model(family)
    examples = [*questions(model, 4), *questions(model, 3, seed=1, text_len=9)]
    return examples, answered(HFEngine(model, ENCODER, tokens_per_batch=10_000), requests(examples, shares=False))


@pytest.mark.parametrize("tokens_per_batch", [1, 70, 10_000])
@pytest.mark.parametrize("family", FAMILIES)
def test_rollouts_are_those_of_whole_prompts(family: str, tokens_per_batch: int) -> None:
    model = tiny_model(family)
    examples, alone = whole_prompts(family)
    runs = tower_runs(model)
    engine = HFEngine(model, ENCODER, tokens_per_batch=tokens_per_batch)
    shared = answered(engine, requests(examples, shares=True))
    assert [[r.token_ids for r in group] for group in shared] == [[r.token_ids for r in group] for group in alone]
    for group, other in zip(shared, alone, strict=True):
        for rollout, expected in zip(group, other, strict=True):
            np.testing.assert_allclose(present(rollout.logprobs), present(expected.logprobs), atol=1e-4)
    assert sum(runs) == 4  # an image and a video of either group, however many questions
    assert (engine.counts.tower_runs, engine.counts.beginnings_read) == (2, 2)
    ends = [np.flatnonzero(e.prompt.token_types)[-1] + 1 for e in (examples[0], examples[4])]
    behind = sum(len(example.prompt) for example in examples) - 4 * ends[0] - 3 * ends[1]
    assert engine.counts.prompt_tokens_read == sum(ends) + behind


def test_other_media_before_the_same_words_are_another_beginning() -> None:
    model = tiny_model("qwen3_vl")
    one, two = questions(model, 2), questions(model, 2, seed=1)
    ids = one[0].prompt.input_ids
    other = [Example(prompt=replace(two[0].prompt, input_ids=ids), clips=(), features=two[0].features)]
    plans: Any = (SimpleNamespace(cache_key="a"),), (SimpleNamespace(cache_key="b"),)
    asked = [
        Example(prompt=replace(example.prompt, plans=keys), clips=(), features=example.features)
        for example, keys in zip([one[0], *other], plans, strict=True)
    ]
    engine = HFEngine(model, ENCODER, tokens_per_batch=10_000)
    shared = answered(engine, requests(asked, shares=True))
    alone = answered(HFEngine(model, ENCODER, tokens_per_batch=10_000), requests(asked, shares=False))
    assert engine.counts.beginnings_read == 2
    assert [group[0].token_ids for group in shared] == [group[0].token_ids for group in alone]


def test_whole_prompts_and_beginnings_stand_in_one_batch() -> None:
    model = tiny_model("qwen3_vl")
    examples = [*questions(model, 3), *questions(model, 2, seed=1)]
    mixed = [
        replace(request, shares_beginning=number < 3) for number, request in enumerate(requests(examples, shares=False))
    ]
    alone = answered(HFEngine(model, ENCODER, tokens_per_batch=10_000), requests(examples, shares=False))
    found = answered(HFEngine(model, ENCODER, tokens_per_batch=10_000), mixed)
    assert [[r.token_ids for r in group] for group in found] == [[r.token_ids for r in group] for group in alone]


def test_a_beginning_is_kept_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("qwen3_vl")
    budget, held = 160, []
    advance = HFEngine._advance
    monkeypatch.setattr(
        HFEngine, "_advance", lambda self, batch: (held.append(batch.num_tokens), advance(self, batch))[1]
    )
    engine = HFEngine(model, ENCODER, tokens_per_batch=budget)
    answered(engine, requests(questions(model, 8), shares=True))
    assert max(held) <= budget
    assert engine.counts.beginnings_read == 1


def test_a_request_that_is_not_ready_holds_nobody_up() -> None:
    model = tiny_model("qwen3_vl")
    examples = questions(model, 3)
    done: list[int] = []
    given: list[int] = []

    def hesitant() -> Any:
        for number, request in enumerate(requests(examples, shares=True)):
            while len(given) > len(done):
                yield None  # until the one before is answered
            given.append(number)
            yield request

    engine = HFEngine(model, ENCODER, tokens_per_batch=10_000)
    with engine.awake(), torch.no_grad():
        for place, _ in engine.generate(hesitant()):
            done.append(place)
    assert done == [0, 1, 2]
