"""The engine over a real model: its log-probs are the actor's, and nothing but the request decides what is sampled."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.asking import answered, requests
from support.tiny_models import FAMILIES, IMAGE, VIDEO, tiny_case, tiny_model
from support.values import present

from easyvideor1.errors import MismatchError, RunError, UsageError
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.rollout.hf import engine as engine_module
from easyvideor1.training import shared_prefix
from easyvideor1.types import Example, StopReason

END_ID = 7
GRID = [(2, 4, 4)]
MODEL = "qwen3_vl"


def encoder(**changes) -> Any:
    fields = {"end_ids": (END_ID,), "banned_ids": (IMAGE, VIDEO), "response_text": str}
    return SimpleNamespace(**(fields | changes))


def examples(model, num=4):
    """Text, image, video and mixed prompts in turn, of different lengths."""
    media = ({}, {"images": [(1, 4, 6)]}, {"videos": GRID}, {"images": [(1, 4, 4)], "videos": GRID})
    made = []
    for index in range(num):
        kinds = media[index % 4]
        case = tiny_case(model, name=str(index), lengths=[1], text_len=3 + 2 * index, seed=index, **kinds)
        made.append(Example(prompt=case.group.prompt, clips=(), features=case.features))
    return made


def actor_logits(model, example, ids):
    """[tokens, vocabulary] by one plain forward over prompt and response, with our positions."""
    prompt = example.prompt
    after = prompt.next_position + np.arange(len(ids))
    positions = np.concatenate([prompt.position_ids, np.broadcast_to(after, (3, len(ids)))], axis=1)
    with torch.no_grad():
        return model(
            input_ids=torch.tensor([[*prompt.input_ids.tolist(), *ids]]),
            position_ids=torch.from_numpy(positions)[:, None],
            use_cache=False,
            **example.features,
        ).logits[0, len(prompt) - 1 : -1]


def actor_logprobs(model, example, ids, temperature=1.0):
    logits = actor_logits(model, example, ids) / temperature
    return logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]


@pytest.mark.parametrize("family", FAMILIES)
def test_sampler_logprobs_are_the_actors_for_every_modality_and_any_batch(family):
    model = tiny_model(family)
    shared_prefix.enable(model)
    prompts = examples(model)

    @cache  # engines mostly sample the same
    def expected(place, token_ids):
        return actor_logprobs(model, prompts[place], list(token_ids))

    for tokens_per_batch in (1, 60, 10_000):
        engine = HFEngine(model, encoder(), tokens_per_batch=tokens_per_batch)
        groups = answered(engine, requests(prompts, Sampling(n=3, max_response_tokens=6), seed=1))
        assert len(groups) == len(prompts)
        for place, group in enumerate(groups):
            assert len(group) == 3
            for rollout in group:
                np.testing.assert_allclose(present(rollout.logprobs), expected(place, rollout.token_ids), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_is_the_argmax_of_a_plain_forward_and_does_not_depend_on_the_batch(family):
    model = tiny_model(family)
    prompts = examples(model)
    greedy = Sampling(temperature=0.0, max_response_tokens=5)
    together = answered(HFEngine(model, encoder(), tokens_per_batch=10_000), requests(prompts, greedy))
    alone = answered(HFEngine(model, encoder(), tokens_per_batch=1), requests(prompts, greedy, seed=9))
    assert [group[0].token_ids for group in together] == [group[0].token_ids for group in alone]
    for example, (rollout,) in zip(prompts, together, strict=True):
        logits = actor_logits(model.eval(), example, list(rollout.token_ids))
        logits[:, [IMAGE, VIDEO]] = -torch.inf
        assert logits.argmax(-1).tolist() == list(rollout.token_ids)


def mixed_requests(model, num=14):
    """Requests of every sampling, some for the same prompt, with limits that differ."""
    ways = [
        Sampling(n=3, max_response_tokens=7),
        Sampling(temperature=0.0, max_response_tokens=7),
        Sampling(n=2, temperature=0.7, max_response_tokens=4),
        Sampling(n=4, temperature=1.3, top_p=0.8, top_k=20, max_response_tokens=9),
    ]
    prompts = examples(model, num // 2)
    return [Request(example=prompts[i // 2], sampling=ways[i % 4], seed=100 + i % 3) for i in range(num)]


@pytest.mark.parametrize("family", [MODEL, "qwen3_5"])
def test_rollouts_are_the_same_in_any_batch_order_and_company(family, monkeypatch):
    model = tiny_model(family)
    asked = mixed_requests(model)
    make = encoder(end_ids=tuple(range(8)))  # responses end at many different places
    expected = answered(HFEngine(model, make, tokens_per_batch=10_000), asked)
    stops = {rollout.stop_reason for group in expected for rollout in group}
    assert stops == {StopReason.EOS, StopReason.LENGTH}
    assert len({rollout.token_ids for group in expected for rollout in group}) > 20
    steps = []
    whole = HFEngine._advance
    monkeypatch.setattr(HFEngine, "_advance", lambda self, batch: (steps.append(batch.step), whole(self, batch))[1])
    for tokens_per_batch, order in ((1, 1), (90, 1), (200, -1), (10_000, -1)):
        found = answered(HFEngine(model, make, tokens_per_batch=tokens_per_batch), asked[::order])[::order]
        assert_same(found, expected)
    assert max(steps) > 2 * 9  # the columns of a batch were used again
    one_by_one = [answered(HFEngine(model, make, tokens_per_batch=500), [request])[0] for request in asked]
    assert_same(one_by_one, expected)


def assert_same(found, expected):
    """The same tokens; log-probs up to the order in which sums are rounded, which the random weights make larger."""
    for group, others in zip(found, expected, strict=True):
        assert [rollout.token_ids for rollout in group] == [rollout.token_ids for rollout in others]
        assert [rollout.stop_reason for rollout in group] == [rollout.stop_reason for rollout in others]
        for rollout, other in zip(group, others, strict=True):
            np.testing.assert_allclose(present(rollout.logprobs), other.logprobs, atol=1e-4)


def test_the_same_seed_gives_the_same_rollouts_and_leaves_the_global_state_alone():
    model = tiny_model(MODEL)
    engine = HFEngine(model, encoder(), tokens_per_batch=200)
    before = torch.get_rng_state()
    sampling = Sampling(n=4, max_response_tokens=6)
    first, again, other = (answered(engine, requests(examples(model), sampling, seed)) for seed in (1, 1, 2))
    assert first == again
    pairs = [pair for groups in zip(first, other, strict=True) for pair in zip(*groups, strict=True)]
    assert sum(one.token_ids == another.token_ids for one, another in pairs) < 2
    assert torch.equal(before, torch.get_rng_state())


def test_log_probs_are_those_of_the_whole_distribution_at_the_temperature():
    model = tiny_model(MODEL)
    prompts = examples(model)
    sampling = Sampling(n=3, temperature=0.7, top_p=0.9, top_k=12, max_response_tokens=5)
    groups = answered(HFEngine(model, encoder(), tokens_per_batch=1000), requests(prompts, sampling))
    for example, group in zip(prompts, groups, strict=True):
        for rollout in group:
            expected = actor_logprobs(model, example, list(rollout.token_ids), temperature=0.7)
            np.testing.assert_allclose(present(rollout.logprobs), expected, atol=1e-4)


def test_vision_tokens_are_never_sampled_though_they_are_the_most_likely():
    model = tiny_model(MODEL)
    with torch.no_grad():
        # Every hidden state is pushed towards one direction, and the image token's output row points there.
        model.model.language_model.norm.weight.fill_(0.0)
        model.model.language_model.norm.register_forward_hook(lambda *args: torch.ones_like(args[-1]))
        model.lm_head.weight[IMAGE] = 5.0
    engine = HFEngine(model, encoder(), tokens_per_batch=1000)
    groups = answered(engine, requests(examples(model), Sampling(n=2, max_response_tokens=4)))
    assert not {IMAGE, VIDEO} & {token for group in groups for rollout in group for token in rollout.token_ids}
    assert engine.banned_hits == sum(len(rollout.token_ids) for group in groups for rollout in group)


def test_a_response_ends_at_its_end_token_or_at_the_limit():
    model = tiny_model(MODEL)
    engine = HFEngine(model, encoder(end_ids=tuple(range(40))), tokens_per_batch=1000)
    groups = answered(engine, requests(examples(model), Sampling(n=8, max_response_tokens=3)))
    rollouts = [rollout for group in groups for rollout in group]
    ended = [rollout for rollout in rollouts if rollout.stop_reason is StopReason.EOS]
    cut = [rollout for rollout in rollouts if rollout.stop_reason is StopReason.LENGTH]
    assert ended
    assert cut
    assert all(rollout.token_ids[-1] < 40 and max([*rollout.token_ids[:-1], 99]) >= 40 for rollout in ended)
    assert all(len(rollout.token_ids) == 3 and min(rollout.token_ids) >= 40 for rollout in cut)
    assert all(len(rollout.logprobs or ()) == len(rollout.token_ids) for rollout in rollouts)


def test_rollouts_carry_the_version_of_the_weights_and_shared_weights_are_not_made():
    model = tiny_model(MODEL)
    engine = HFEngine(model, encoder(), tokens_per_batch=1000)

    def tensors():
        raise AssertionError("made a tensor")
        yield

    engine.load_weights(tensors(), version=3)
    [[rollout]] = answered(engine, requests(examples(model)[:1], Sampling(max_response_tokens=2)))
    assert rollout.weights_version == 3


def broken_requests():
    raise MismatchError("no such prompt")
    yield


def test_the_model_is_as_before_outside_of_awake():
    model = tiny_model(MODEL)
    shared_prefix.enable(model)
    engine = HFEngine(model, encoder(), tokens_per_batch=1000)
    with pytest.raises(AssertionError, match="awake"):
        next(engine.generate([]))
    with engine.awake():
        assert not model.training
        with pytest.raises(MismatchError):
            next(engine.generate(broken_requests()))
    assert model.training
    configs = {
        module.config._attn_implementation
        for module in model.model.language_model.modules()
        if hasattr(module, "config")
    }
    assert configs == {shared_prefix.NAME}


def test_each_prompt_is_read_once_and_a_finished_response_is_computed_no_more():
    model = tiny_model(MODEL)
    prompts = examples(model)
    tower, sizes = [], []
    model.model.visual.register_forward_hook(lambda *args: tower.append(args))
    model.model.language_model.embed_tokens.register_forward_hook(lambda module, args, out: sizes.append(args[0].shape))
    greedy, sampled = Sampling(temperature=0.0, max_response_tokens=6), Sampling(n=5, max_response_tokens=6)
    asked = [Request(example=prompt, sampling=way, seed=4) for prompt in prompts for way in (greedy, sampled)]
    groups = answered(HFEngine(model, encoder(end_ids=tuple(range(20))), tokens_per_batch=10_000), asked)
    read, *steps = sizes
    assert read == (1, sum(len(prompt.prompt) for prompt in prompts))
    assert len(tower) == 2  # images and videos of all prompts
    lengths = [len(rollout.token_ids) for group in groups for rollout in group]
    assert [shape[0] for shape in steps] == [sum(length > k for length in lengths) for k in range(1, max(lengths))]
    assert len(set(steps)) > 2


def test_a_prompt_is_read_once_though_its_responses_start_at_different_times(monkeypatch):
    model = tiny_model(MODEL)
    read = []
    whole = HFEngine._read
    monkeypatch.setattr(HFEngine, "_read", lambda self, unread: (read.append(list(unread)), whole(self, unread))[1])
    prompts = examples(model, 6)
    engine = HFEngine(model, encoder(end_ids=tuple(range(30))), tokens_per_batch=80)
    answered(engine, requests(prompts, Sampling(n=7, max_response_tokens=8)))
    assert [prompt.sample.id for group in read for prompt in group] == [str(number) for number in range(6)]


def test_prompts_are_read_several_at_a_time(monkeypatch):
    model = tiny_model(MODEL)
    together = []
    whole = HFEngine._read
    monkeypatch.setattr(HFEngine, "_read", lambda self, unread: (together.append(len(unread)), whole(self, unread))[1])
    prompts = [example for example in examples(model, 40) if not example.features][:10] * 4
    prompts = [replace(example, prompt=replace(example.prompt)) for example in prompts]  # each its own
    engine = HFEngine(model, encoder(end_ids=tuple(range(30))), tokens_per_batch=500)
    answered(engine, requests(prompts, Sampling(max_response_tokens=8)))
    assert sum(together) == 40
    assert len(together) <= 9


@pytest.mark.parametrize("family", [MODEL, "qwen2_vl"])
def test_prompts_of_very_different_lengths_are_kept_apart_and_given_back(family, monkeypatch):
    model = tiny_model(family)
    prompts = []
    for index, text_len in enumerate((9, 70, 150, 160, 400)):
        case = tiny_case(model, name=str(index), lengths=[1], text_len=text_len, images=[(1, 4, 4)], seed=index)
        prompts.append(Example(prompt=case.group.prompt, clips=(), features=case.features))
    held = []
    whole = HFEngine._advance
    monkeypatch.setattr(
        HFEngine,
        "_advance",
        lambda self, batch: (
            held.append(([len(stack.reads) for stack in batch._stacks], {row.read for row in batch.slots})),
            whole(self, batch),
        )[1],
    )
    sampling = Sampling(n=3, max_response_tokens=24)
    engine = HFEngine(model, encoder(end_ids=tuple(range(12))), tokens_per_batch=10_000)
    groups = answered(engine, requests(prompts, sampling, seed=8))
    assert held[0][0] == [1, 1, 2, 1]
    assert all(sum(stacked) <= 2 * len(prompts_of) for stacked, prompts_of in held)
    assert sum(held[-1][0]) < 5
    for example, group in zip(prompts, groups, strict=True):
        for rollout in group:
            expected = actor_logprobs(model, example, list(rollout.token_ids))
            np.testing.assert_allclose(present(rollout.logprobs), expected, atol=1e-4)


@pytest.mark.parametrize("family", [MODEL, "qwen2_vl", "qwen3_5"])
def test_copies_of_short_prompts_change_no_response(family, monkeypatch):
    """Short and long prompts in one batch, responses of any length, steps beyond the columns of the batch."""
    model = tiny_model(family)
    lengths = (3, 30, 9, 70, 5, 20, 60, 8)  # of the text; at most 40 tokens in all are copied
    prompts = []
    for index, text_len in enumerate(lengths):
        case = tiny_case(model, name=str(index), lengths=[1], text_len=text_len, seed=index)
        prompts.append(Example(prompt=case.group.prompt, clips=(), features=case.features))
    make = encoder(end_ids=tuple(range(6)))
    asked = requests(prompts, Sampling(n=3, max_response_tokens=40), seed=4)
    most, steps, leads = [], [], []
    whole = HFEngine._advance

    def advance(self, batch):
        steps.append(batch.step)
        leads.append(batch.lead)
        most.append({batch.is_copied(slot.read) for slot in batch.slots})
        whole(self, batch)

    monkeypatch.setattr(HFEngine, "_advance", advance)
    found = {}
    for tokens_per_batch in (10_000, 330):
        found[tokens_per_batch] = answered(HFEngine(model, make, tokens_per_batch=tokens_per_batch), asked)
    assert set(leads) == {40}
    assert {True, False} in most
    assert max(steps) > 80  # the columns were used again
    monkeypatch.setattr(engine_module, "SHORT_PROMPT_TOKENS", 0)
    apart = answered(HFEngine(model, make, tokens_per_batch=10_000), asked)
    assert leads[-1] == 0
    for example, group, *copied in zip(prompts, apart, *found.values(), strict=True):
        expected = {rollout.token_ids for rollout in group}
        assert all({rollout.token_ids for rollout in other} == expected for other in copied)
        for rollout in copied[1]:
            logprobs = actor_logprobs(model, example, list(rollout.token_ids))
            np.testing.assert_allclose(present(rollout.logprobs), logprobs, atol=1e-4)


@pytest.mark.parametrize("tokens_per_batch", [100, 250])
def test_memory_stays_within_the_budget_and_is_used(tokens_per_batch, monkeypatch):
    model = tiny_model(MODEL)
    held = []
    whole = HFEngine._advance
    monkeypatch.setattr(
        HFEngine, "_advance", lambda self, batch: (held.append((batch.num_tokens, len(batch))), whole(self, batch))[1]
    )
    engine = HFEngine(model, encoder(end_ids=tuple(range(8))), tokens_per_batch=tokens_per_batch)
    answered(engine, requests(examples(model, 8), Sampling(n=4, max_response_tokens=8)))
    assert max(tokens for tokens, _ in held) <= tokens_per_batch
    # Until the last requests are under way: never less than what a refill waits for.
    used = [tokens / tokens_per_batch for tokens, _ in held[: len(held) // 2]]
    assert min(used) > 1 - engine_module.REFILL_FRAC - 60 / tokens_per_batch


def test_requests_are_prepared_when_there_is_room_for_them():
    model = tiny_model(MODEL)
    taken = []

    def lazily():
        for request in requests(examples(model, 12), Sampling(n=2, max_response_tokens=6)):
            taken.append(request)
            yield request

    engine = HFEngine(model, encoder(), tokens_per_batch=120)
    most = 0
    with engine.awake():
        for number, _ in enumerate(engine.generate(lazily())):
            most = max(most, len(taken) - number)
    assert len(taken) == 12
    assert most <= 6


def test_a_bfloat16_model_gives_logits_that_are_not_rounded():
    model = tiny_model(MODEL).to(torch.bfloat16)
    engine = HFEngine(model, encoder(), tokens_per_batch=1000)
    hidden = torch.randn(3, 64).to(torch.bfloat16)
    with engine.awake():
        logits = engine._logits(hidden)
    assert torch.equal(logits, F.linear(hidden.float(), model.lm_head.weight.float()))
    prompts = examples(model)
    prompts = [
        Example(
            prompt=example.prompt,
            clips=(),
            features={k: v.bfloat16() if v.is_floating_point() else v for k, v in example.features.items()},
        )
        for example in prompts
    ]
    groups = answered(engine, requests(prompts, Sampling(n=2, max_response_tokens=6)))
    exact = tiny_model(MODEL)
    for example, group in zip(examples(exact), groups, strict=True):
        for rollout in group:
            expected = actor_logprobs(exact, example, list(rollout.token_ids))
            assert np.abs(np.array(rollout.logprobs) - expected.numpy()).mean() < 0.2  # 8 bits of mantissa


def test_weights_that_are_broken_are_named():
    model = tiny_model(MODEL)
    with torch.no_grad():
        model.lm_head.weight[5, 5] = torch.nan
    with pytest.raises(RunError, match="logits are not finite"):
        answered(
            HFEngine(model, encoder(), tokens_per_batch=100), requests(examples(model), Sampling(max_response_tokens=2))
        )


def test_sliding_windows_are_refused():
    model = tiny_model("qwen2_vl")
    model.config.get_text_config().layer_types = ["sliding_attention", "full_attention"]
    with pytest.raises(UsageError, match="use_sliding_window to false"):
        HFEngine(model, encoder(), tokens_per_batch=100)


def test_generation_settings_of_the_model_folder_are_not_used():
    # Transformers' generate fills unset values from there: at top_k 1 all responses of a group would be one.
    model, configured = tiny_model(MODEL), tiny_model(MODEL)
    settings = {"do_sample": True, "top_k": 1, "top_p": 0.001, "repetition_penalty": 1.05, "temperature": 1e-6}
    for name, value in settings.items():
        setattr(configured.generation_config, name, value)
    sampling = Sampling(n=4, max_response_tokens=6)
    groups, found = (
        answered(HFEngine(each, encoder(), tokens_per_batch=500), requests(examples(each), sampling))
        for each in (model, configured)
    )
    assert found == groups
    assert all(len({rollout.token_ids for rollout in group}) == 4 for group in groups)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_an_earlier_generation_left_in_the_model_changes_nothing(family):
    # Transformers' models keep the offset of the last prompt's positions and use it where none are given.
    model = tiny_model(family).eval()
    sampling = Sampling(n=2, max_response_tokens=5)
    engine = HFEngine(model, encoder(), tokens_per_batch=500)
    expected = answered(engine, requests(examples(model), sampling))
    model.model.rope_deltas = torch.tensor([[-40], [7], [99]])
    assert answered(engine, requests(examples(model), sampling)) == expected
    assert model.model.rope_deltas.tolist() == [[-40], [7], [99]]
    for example, group in zip(examples(model), expected, strict=True):
        for rollout in group:
            np.testing.assert_allclose(
                present(rollout.logprobs), actor_logprobs(model, example, list(rollout.token_ids)), atol=1e-4
            )


def test_the_seconds_of_a_video_reach_every_token_of_the_response():
    model = tiny_model("qwen2_5_vl")
    [_, _, video, _] = examples(model)
    slow = video.prompt.position_ids.copy()
    after = np.flatnonzero(video.prompt.token_types == 2).max() + 1
    slow[0, after - 4 : after] += 30  # the second temporal patch, and the text after it
    slow[:, after:] += 30
    slow = replace(video, prompt=replace(video.prompt, position_ids=slow))
    sampling = Sampling(n=2, max_response_tokens=5)
    engine = HFEngine(model, encoder(), tokens_per_batch=500)
    [fast_group], [slow_group] = (answered(engine, requests([example], sampling)) for example in (video, slow))
    for example, group in ((video, fast_group), (slow, slow_group)):
        for rollout in group:
            np.testing.assert_allclose(
                present(rollout.logprobs), actor_logprobs(model, example, list(rollout.token_ids)), atol=1e-4
            )
    assert abs(present(fast_group[0].logprobs)[0] - present(slow_group[0].logprobs)[0]) > 1e-3


def test_an_end_token_at_the_limit_ends_the_response():
    model = tiny_model(MODEL)
    engine = HFEngine(model, encoder(end_ids=tuple(range(96))), tokens_per_batch=500)
    groups = answered(engine, requests(examples(model), Sampling(n=2, max_response_tokens=1)))
    assert {rollout.stop_reason for group in groups for rollout in group} == {StopReason.EOS}
    assert {len(rollout.token_ids) for group in groups for rollout in group} == {1}
