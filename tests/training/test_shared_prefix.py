"""Shared-prefix packs, separate packs and plain padded batches of the real model classes are the same function.

Tolerances (float32): log-probs 1e-5 absolute, gradients 1e-4 relative; sums run in another order, nothing else differs.
"""

from dataclasses import replace

import pytest
import torch
from support.tiny_models import IMAGE, plain_logprobs, tiny_case, tiny_model

from easyvideor1.errors import MismatchError
from easyvideor1.training import shared_prefix
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import pack_groups
from easyvideor1.training.shared_prefix import PackLayout, lay_out

LOGPROB_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-4
WHOLE_BATCH = 10_000


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
    sum(losses).backward()
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
    assert found.keys() == expected.keys()
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
        {"shared_prefix": True, "tokens_per_pack": 1},
        {"shared_prefix": True, "tokens_per_pack": WHOLE_BATCH},
        {"shared_prefix": False, "tokens_per_pack": 100},
    ],
    ids=["shared, a group per pack", "shared, all groups in a pack", "separate"],
)
def test_packed_rows_equal_the_plain_padded_forward(plain_run, options):
    model, cases, logprobs, gradients = plain_run
    found_logprobs, found_gradients = packed(model, cases, **options)
    assert logprob_difference(found_logprobs, logprobs) < LOGPROB_TOLERANCE
    assert gradient_difference(found_gradients, gradients) < GRADIENT_TOLERANCE


def test_order_and_row_budget_change_nothing(plain_run):
    model, cases, logprobs, gradients = plain_run
    shuffled = [cases[i] for i in (3, 0, 4, 2, 1)]
    found_logprobs, found_gradients = packed(model, shuffled, tokens_per_pack=60, shared_prefix=True)
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
    (pack,) = pack_groups([case.group for case in cases], tokens_per_pack=1000, shared_prefix=True).packs
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
    leaky = PackLayout(groups=(first, lay_out(second.num_prompt, [sum(second.lengths)])))
    changed = forward(model, replace(pack, layout=leaky), media)
    assert (changed - logprobs)[:-4].abs().max() < LOGPROB_TOLERANCE
    assert (changed - logprobs)[-4:].abs().max() > 100 * LOGPROB_TOLERANCE


def test_the_comparison_sees_a_group_that_looks_at_the_one_before(one_pack):
    model, pack, media, logprobs = one_pack
    leaky = PackLayout(groups=(lay_out(pack.num_tokens - 4, [4]),))
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


def test_gradient_checkpointing_and_logit_chunks_change_nothing(one_pack):
    model, pack, media, _ = one_pack

    def run(**options):
        logprobs, entropy = response_logprobs(model, pack, media, **options)
        return logprobs.detach(), entropy, step(model, [(logprobs * pack.tokens.advantages).sum()])

    logprobs, entropy, gradients = run()
    model.activation_checkpointing_enable()
    try:
        chunked = run(chunk_tokens=4)
    finally:
        model.activation_checkpointing_disable()
    assert (chunked[0] - logprobs).abs().max() < LOGPROB_TOLERANCE
    assert (chunked[1] - entropy).abs().max() < LOGPROB_TOLERANCE
    assert gradient_difference(chunked[2], gradients) < GRADIENT_TOLERANCE


def test_temperature_divides_the_logits_and_entropy_is_that_of_the_distribution():
    model = tiny_model("qwen3_vl")
    shared_prefix.enable(model)
    case = tiny_case(model, name="a", lengths=[2], seed=1)
    (pack,) = pack_groups([case.group], tokens_per_pack=1, shared_prefix=True).packs
    logits = model(input_ids=pack.input_ids, position_ids=pack.position_ids).logits[0, pack.predictors]
    expected = torch.distributions.Categorical(logits=logits / 0.7)
    logprobs, entropy = response_logprobs(model, pack, {}, temperature=0.7, entropy_gradients=True)
    torch.testing.assert_close(logprobs, expected.log_prob(pack.tokens.token_ids), atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy, expected.entropy(), atol=1e-5, rtol=0)
    gradients = step(model, [entropy.sum()])
    assert gradient_difference(gradients, step(model, [expected.entropy().sum()])) < GRADIENT_TOLERANCE
    without = response_logprobs(model, pack, {}, temperature=0.7)[1]
    assert torch.equal(without, entropy)
    assert not without.requires_grad


def test_text_rows_reach_every_weight_of_the_vision_tower_when_asked(one_pack):
    model = one_pack[0]
    case = tiny_case(model, name="a", lengths=[2, 2], seed=1)
    (pack,) = pack_groups([case.group], tokens_per_pack=1, shared_prefix=True).packs
    model.zero_grad()
    kept, _ = response_logprobs(model, pack, {}, keep_vision_in_graph=True)
    kept.sum().backward()
    gradients = [parameter.grad for parameter in model.model.visual.parameters()]
    assert all(gradient is not None and not gradient.any() for gradient in gradients)
    assert torch.equal(kept, response_logprobs(model, pack, {})[0])


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


@pytest.mark.parametrize("tokens_per_pack", [1, 60, WHOLE_BATCH])
@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
def test_models_with_linear_attention_compute_responses_one_by_one_on_one_run_of_the_tower(family, tokens_per_pack):
    reference, model = tiny_model(family), tiny_model(family)
    shared_prefix.enable(model)
    cases = make_cases(reference)
    logprobs, gradients = plain(reference, cases)
    runs = []
    model.model.visual.register_forward_hook(lambda *args: runs.append(args))
    found_logprobs, found_gradients = packed(model, cases, tokens_per_pack=tokens_per_pack, shared_prefix=False)
    assert logprob_difference(found_logprobs, logprobs) < LOGPROB_TOLERANCE
    assert gradient_difference(found_gradients, gradients) < GRADIENT_TOLERANCE
    if tokens_per_pack == WHOLE_BATCH:
        assert len(runs) == 4  # image, video, and both of the mixed prompt; each for all rollouts of its group
    with pytest.raises(AssertionError, match="a segment per response"):
        packed(model, cases, tokens_per_pack=tokens_per_pack, shared_prefix=True)


def test_bfloat16_rows_stay_close_to_float32(one_pack):
    _, pack, media, logprobs = one_pack
    model = tiny_model("qwen3_vl").to(torch.bfloat16)
    shared_prefix.enable(model)
    found = forward(model, pack, media)
    assert found.dtype == torch.float32
    assert (found - logprobs).abs().mean() < 0.1  # 8 bits of mantissa, weights of std 0.12
