from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.asking import requests
from support.tiny_models import IMAGE, VIDEO, tiny_case, tiny_model

from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.training import shared_prefix
from easyvideor1.types import Example, StopReason

END_ID, PAD_ID = 7, 95
GRID = [(2, 4, 4)]


def encoder(**changes):
    fields = {"end_ids": (END_ID,), "pad_id": PAD_ID, "banned_ids": (IMAGE, VIDEO), "response_text": str}
    return SimpleNamespace(**(fields | changes))


def examples(model):
    """A text, an image, a video and a mixed prompt, of different lengths."""
    media = ({}, {"images": [(1, 4, 6)]}, {"videos": GRID}, {"images": [(1, 4, 4)], "videos": GRID})
    made = []
    for index, kinds in enumerate(media):
        case = tiny_case(model, name=str(index), lengths=[1], text_len=3 + 2 * index, seed=index, **kinds)
        made.append(Example(prompt=case.group.prompt, clips=(), features=case.features))
    return made


def actor_logprobs(model, example, ids):
    """Log-probs of a response by one plain forward over prompt and response, with our positions."""
    prompt = example.prompt
    after = prompt.next_position + np.arange(len(ids))
    positions = np.concatenate([prompt.position_ids, np.broadcast_to(after, (3, len(ids)))], axis=1)
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([[*prompt.input_ids.tolist(), *ids]]),
            position_ids=torch.from_numpy(positions)[:, None],
            use_cache=False,
            **example.features,
        ).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]


@pytest.mark.parametrize("family", ["qwen3_vl", "qwen2_5_vl", "qwen2_vl"])
def test_sampler_logprobs_are_the_actors_for_every_modality_and_any_batch(family):
    model = tiny_model(family)
    shared_prefix.enable(model)
    prompts = examples(model)
    for responses_per_batch in (1, 64):
        engine = HFEngine(model, encoder(), responses_per_batch=responses_per_batch)
        groups = engine.generate(requests(prompts, Sampling(n=3, max_response_tokens=6)), seed=1)
        for example, group in zip(prompts, groups, strict=True):
            assert len(group) == 3
            for rollout in group:
                expected = actor_logprobs(model, example, list(rollout.token_ids))
                np.testing.assert_allclose(rollout.logprobs, expected, atol=1e-4)


def test_greedy_is_the_argmax_of_a_plain_forward_and_does_not_depend_on_the_batch():
    model = tiny_model("qwen3_vl")
    prompts = examples(model)
    greedy = Sampling(temperature=0.0, max_response_tokens=5)
    together = HFEngine(model, encoder(), responses_per_batch=64).generate(requests(prompts, greedy), seed=0)
    alone = HFEngine(model, encoder(), responses_per_batch=1).generate(requests(prompts, greedy), seed=9)
    assert [group[0].token_ids for group in together] == [group[0].token_ids for group in alone]
    ids = list(together[2][0].token_ids)
    with torch.no_grad():
        after = prompts[2].prompt.next_position + np.arange(len(ids))
        positions = np.concatenate([prompts[2].prompt.position_ids, np.broadcast_to(after, (3, len(ids)))], axis=1)
        logits = model(
            input_ids=torch.tensor([[*prompts[2].prompt.input_ids.tolist(), *ids]]),
            position_ids=torch.from_numpy(positions)[:, None],
            **prompts[2].features,
        ).logits[0, len(prompts[2].prompt) - 1 : -1]
    logits[:, [IMAGE, VIDEO]] = -torch.inf
    assert logits.argmax(-1).tolist() == ids


def test_the_same_seed_gives_the_same_rollouts_and_leaves_the_global_state_alone():
    model = tiny_model("qwen3_vl")
    engine = HFEngine(model, encoder(), responses_per_batch=8)
    before = torch.get_rng_state()
    first, again, other = (
        engine.generate(requests(examples(model), Sampling(n=4, max_response_tokens=6)), seed=seed)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert torch.equal(before, torch.get_rng_state())


def test_vision_tokens_are_never_sampled_though_they_are_the_most_likely():
    model = tiny_model("qwen3_vl")
    with torch.no_grad():
        # Every hidden state is pushed towards one direction, and the image token's output row points there.
        model.model.language_model.norm.weight.fill_(0.0)
        model.model.language_model.norm.register_forward_hook(lambda *args: torch.ones_like(args[-1]))
        model.lm_head.weight[IMAGE] = 5.0
    engine = HFEngine(model, encoder(), responses_per_batch=64)
    groups = engine.generate(requests(examples(model), Sampling(n=2, max_response_tokens=4)), seed=0)
    assert not {IMAGE, VIDEO} & {token for group in groups for rollout in group for token in rollout.token_ids}
    assert engine.banned_hits > 0


def test_a_response_ends_at_its_end_token_or_at_the_limit():
    model = tiny_model("qwen3_vl")
    engine = HFEngine(model, encoder(end_ids=tuple(range(40))), responses_per_batch=64)
    groups = engine.generate(requests(examples(model), Sampling(n=8, max_response_tokens=3)), seed=0)
    rollouts = [rollout for group in groups for rollout in group]
    ended = [rollout for rollout in rollouts if rollout.stop_reason is StopReason.EOS]
    cut = [rollout for rollout in rollouts if rollout.stop_reason is StopReason.LENGTH]
    assert ended
    assert cut
    assert all(rollout.token_ids[-1] < 40 and max([*rollout.token_ids[:-1], 99]) >= 40 for rollout in ended)
    assert all(len(rollout.token_ids) == 3 and min(rollout.token_ids) >= 40 for rollout in cut)
    assert all(len(rollout.logprobs or ()) == len(rollout.token_ids) for rollout in rollouts)


def test_rollouts_carry_the_version_of_the_weights():
    model = tiny_model("qwen3_vl")
    engine = HFEngine(model, encoder(), responses_per_batch=64)
    engine.load_weights(model, version=3)
    assert (
        engine.generate(requests(examples(model)[:1], Sampling(max_response_tokens=2)), seed=0)[0][0].weights_version
        == 3
    )
    with pytest.raises(AssertionError, match="shares the actor's weights"):
        engine.load_weights(tiny_model("qwen3_vl"), version=4)
