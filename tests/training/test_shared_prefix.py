"""Shared-prefix packs, separate packs and plain padded batches of the real model classes are the same function.

Tolerances (float32): log-probs 1e-5 absolute, gradients 1e-5 relative; sums run in another order, nothing else differs.
"""

from dataclasses import replace

import pytest
import torch
from support.tiny_models import IMAGE, plain_logprobs, tiny_case, tiny_model
from support.values import present

from easyvideor1.errors import MismatchError
from easyvideor1.training import shared_prefix
from easyvideor1.training.layout import GroupLayout, PackLayout
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import pack_groups

LOGPROB_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-5
WHOLE_BATCH = 10_000
LARGEST_GROUP = 55
"""Tokens of the largest case with its responses: one group per pack, or two small ones."""


def make_cases(model):
    return [
        tiny_case(model, name="text", lengths=[3, 3, 3], seed=1),
        tiny_case(model, name="image", lengths=[1, 5, 2], images=[(1, 4, 4), (1, 2, 6)], seed=2),
        tiny_case(model, name="video", lengths=[4, 1], videos=[(2, 4, 4)], seed=3),
        tiny_case(model, name="mixed", lengths=[2, 6, 3], images=[(1, 4, 2)], videos=[(3, 2, 4), (1, 4, 4)], seed=4),
        tiny_case(model, name="single", lengths=[3], text_len=9, seed=5),
    ]


def step(model, losses):
    model.zero_grad()
    sum(losses, torch.zeros(())).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def weighted(logprobs, case):
    return [(lp * a).sum() for lp, a in zip(logprobs, case.group.advantages, strict=True)]


def packed(model, cases, **options):
    """{(sample id, rollout): log-probs} and gradients by packs."""
    batch = pack_groups([case.group for case in cases], **options)
    if options["tokens_per_pack"] == WHOLE_BATCH:
        assert len(batch.packs) == 1
    features = {index: case.features for index, case in enumerate(cases)}
    names = [(case.group.prompt.sample.id, i) for case in cases for i in range(len(case.group.rollouts))]
    found, losses = {}, []
    for pack in batch.packs:
        logprobs, _ = response_logprobs(model, pack, features)
        losses.append((logprobs * pack.tokens.advantages * pack.tokens.weights).sum())
        for sequence in pack.tokens.sequence.unique().tolist():
            found[names[sequence]] = logprobs[pack.tokens.sequence == sequence].detach()
    return found, step(model, losses)


def plain(model, cases):
    found, losses = {}, []
    for case in cases:
        logprobs = plain_logprobs(model, case)
        losses += weighted(logprobs, case)
        found |= {(case.group.prompt.sample.id, i): lp.detach() for i, lp in enumerate(logprobs)}
    return found, step(model, losses)


def logprob_difference(found, expected):
    assert found.keys() == expected.keys()
    return max((found[key] - expected[key]).abs().max().item() for key in expected)


def gradient_difference(found, expected):
    # Text alone reaches the vision tower too, through an empty patch, with gradients of exactly 0.
    assert not any(found[name].any() for name in found.keys() - expected.keys())
    assert found.keys() >= expected.keys()
    return max(((found[name] - g).norm() / (g.norm() + 1e-12)).item() for name, g in expected.items())


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen3_vl_moe", "qwen2_5_vl", "qwen2_vl"])
def plain_run(request):
    """(model that understands layouts, cases, log-probs and gradients of the plain forward)."""
    cases = make_cases(reference := tiny_model(request.param))
    expected = plain(reference, cases)
    model = tiny_model(request.param)
    shared_prefix.enable(model)
    return model, cases, *expected


@pytest.mark.parametrize(
    "options",
    [
        {"form": "shared", "tokens_per_pack": LARGEST_GROUP},
        {"form": "shared", "tokens_per_pack": WHOLE_BATCH},
        {"form": "shared", "tokens_per_pack": LARGEST_GROUP - 8},
        {"form": "separate", "tokens_per_pack": 100},
        {"form": "padded", "tokens_per_pack": 100},
    ],
    ids=["shared, few groups per pack", "shared, all groups in a pack", "shared, groups cut", "separate", "padded"],
)
def test_packed_rows_equal_the_plain_padded_forward(plain_run, options):
    model, cases, logprobs, gradients = plain_run
    found_logprobs, found_gradients = packed(model, cases, **options)
    assert logprob_difference(found_logprobs, logprobs) < LOGPROB_TOLERANCE
    assert gradient_difference(found_gradients, gradients) < GRADIENT_TOLERANCE


def test_order_and_row_budget_change_nothing(plain_run):
    model, cases, logprobs, gradients = plain_run
    shuffled = [cases[i] for i in (3, 0, 4, 2, 1)]
    found_logprobs, found_gradients = packed(model, shuffled, tokens_per_pack=60)
    assert logprob_difference(found_logprobs, logprobs) < LOGPROB_TOLERANCE
    assert gradient_difference(found_gradients, gradients) < GRADIENT_TOLERANCE


@pytest.fixture(scope="module")
def one_pack():
    """(model, pack of two groups, its media, its log-probs)."""
    model = tiny_model("qwen3_vl")
    shared_prefix.enable(model)
    cases = [
        tiny_case(model, name="a", lengths=[3, 2], videos=[(2, 2, 2)], seed=1),
        tiny_case(model, name="b", lengths=[2, 4], seed=2),
    ]
    (pack,) = pack_groups([case.group for case in cases], tokens_per_pack=1000).packs
    media = {0: cases[0].features}
    return model, pack, media, forward(model, pack, media)


@torch.no_grad()
def forward(model, pack, media, **options):
    return response_logprobs(model, pack, media, **options)[0]


def test_the_comparison_sees_wrong_positions(one_pack):
    model, pack, media, logprobs = one_pack
    positions = pack.position_ids.clone()
    positions[:, :, -4:] += 2  # the last response, as if it came after its neighbour
    changed = forward(model, replace(pack, position_ids=positions), media)
    assert (changed - logprobs)[:-4].abs().max() < LOGPROB_TOLERANCE
    assert (changed - logprobs)[-4:].abs().max() > 100 * LOGPROB_TOLERANCE


def test_the_comparison_sees_a_response_that_looks_at_its_neighbour(one_pack):
    model, pack, media, logprobs = one_pack
    first, second = pack.layout.groups
    leaky = PackLayout.of([first, replace(second, lengths=(sum(second.lengths),))])
    changed = forward(model, replace(pack, layout=leaky), media)
    assert (changed - logprobs)[:-4].abs().max() < LOGPROB_TOLERANCE
    assert (changed - logprobs)[-4:].abs().max() > 100 * LOGPROB_TOLERANCE


def test_the_comparison_sees_a_group_that_looks_at_the_one_before(one_pack):
    model, pack, media, logprobs = one_pack
    leaky = PackLayout.of([GroupLayout(num_prompt=pack.num_tokens - 4, lengths=(4,))])
    changed = forward(model, replace(pack, layout=leaky), media)
    assert (changed - logprobs)[5:].abs().max() > 100 * LOGPROB_TOLERANCE


def test_a_response_does_not_depend_on_the_others(one_pack):
    model, pack, media, logprobs = one_pack
    ids = pack.input_ids.clone()
    first_response = slice(pack.layout.groups[0].num_prompt, pack.layout.groups[0].num_prompt + 3)
    ids[:, first_response] = (ids[:, first_response] + 7) % 80
    changed = forward(model, replace(pack, input_ids=ids), media)
    assert torch.equal(changed[3:], logprobs[3:])
    assert (changed - logprobs)[1:3].abs().max() > 100 * LOGPROB_TOLERANCE


def test_generation_is_not_touched():
    reference, model = tiny_model("qwen3_vl"), tiny_model("qwen3_vl")
    shared_prefix.enable(model)
    ids = torch.tensor([[0, 0, 5, 6, 7], [1, 2, 3, 4, 5]])
    arguments = {"input_ids": ids, "attention_mask": torch.tensor([[0, 0, 1, 1, 1], [1] * 5]), "max_new_tokens": 6}
    assert torch.equal(model.generate(**arguments, do_sample=False), reference.generate(**arguments, do_sample=False))


def test_gradient_checkpointing_changes_nothing(one_pack):
    model, pack, media, _ = one_pack

    def run():
        logprobs, _ = response_logprobs(model, pack, media)
        return logprobs.detach(), step(model, [(logprobs * pack.tokens.advantages).sum()])

    logprobs, gradients = run()
    model.activation_checkpointing_enable()
    try:
        again, again_gradients = run()
    finally:
        model.activation_checkpointing_disable()
    assert torch.equal(again, logprobs)
    assert all(torch.equal(again_gradients[name], gradient) for name, gradient in gradients.items())


def test_temperature_divides_the_logits_and_entropy_is_that_of_the_distribution():
    model = tiny_model("qwen3_vl")
    shared_prefix.enable(model)
    case = tiny_case(model, name="a", lengths=[2], seed=1)
    (pack,) = pack_groups([case.group], tokens_per_pack=100).packs
    logits = model(input_ids=pack.input_ids, position_ids=pack.position_ids).logits[0, pack.predictors]
    expected = torch.distributions.Categorical(logits=logits / 0.7)
    logprobs, entropy = response_logprobs(model, pack, {}, temperature=0.7, with_entropy=True)
    torch.testing.assert_close(logprobs, expected.log_prob(pack.tokens.token_ids), atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy, expected.entropy(), atol=1e-5, rtol=0)
    gradients = step(model, [present(entropy).sum()])
    assert gradient_difference(gradients, step(model, [expected.entropy().sum()])) < GRADIENT_TOLERANCE
    without, none = response_logprobs(model, pack, {}, temperature=0.7)
    assert torch.equal(without, logprobs)
    assert none is None


def test_missing_features_name_the_sample(one_pack):
    model, pack, media, _ = one_pack
    with pytest.raises(MismatchError, match=r"sample a: 2 video placeholders need 8 patches, but there are 0"):
        forward(model, pack, {})
    short = media[0] | {"pixel_values_videos": media[0]["pixel_values_videos"][:-1]}
    with pytest.raises(MismatchError, match=r"sample a: .* but there are 7"):
        forward(model, pack, {0: short})


def test_a_response_with_a_vision_token_names_the_sample(one_pack):
    model, pack, media, _ = one_pack
    ids = pack.input_ids.clone()
    ids[0, -1] = IMAGE
    with pytest.raises(MismatchError, match="sample b: 1 image placeholders"):
        forward(model, replace(pack, input_ids=ids), media)


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
def test_a_model_with_linear_attention_gets_rows_with_the_video_of_a_group_computed_once(family):
    reference, model = tiny_model(family), tiny_model(family)
    shared_prefix.enable(model)
    form = shared_prefix.pack_form(model, shared=True)
    assert form == "padded"
    assert [shared_prefix.pack_form(tiny_model("qwen3_vl"), shared=shared) for shared in (True, False)] == [
        "shared",
        "separate",
    ]
    cases = [
        tiny_case(model, name="a", lengths=[3, 5, 1], videos=[(2, 4, 2)], seed=1),
        tiny_case(model, name="b", lengths=[2, 4], seed=2),
    ]
    looks = []
    handle = model.model.visual.register_forward_hook(lambda module, args, out: looks.append(len(args[0])))
    logprobs, gradients = plain(reference, cases)
    found_logprobs, found_gradients = packed(model, cases, tokens_per_pack=1000, form=form)
    handle.remove()
    assert looks == [16, 4]  # the video once for its three responses, and an empty patch for the text
    assert logprob_difference(found_logprobs, logprobs) < LOGPROB_TOLERANCE
    assert gradient_difference(found_gradients, gradients) < 10 * GRADIENT_TOLERANCE  # a recurrence over 20 tokens


def test_bfloat16_rows_stay_close_to_float32(one_pack):
    _, pack, media, logprobs = one_pack
    model = tiny_model("qwen3_vl").to(torch.bfloat16)
    shared_prefix.enable(model)
    found = forward(model, pack, media)
    assert found.dtype == torch.float32
    assert (found - logprobs).abs().mean() < 0.1  # 8 bits of mantissa, weights of std 0.12
