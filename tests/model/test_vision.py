"""One call of the vision tower per pack, one kernel call per layer in it, and one look per step where it is frozen.

Tolerances (float32): 1e-5; sums run in another order, nothing else differs.
"""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from support.made_trainer import copy_of_reference, made_config, made_trainer
from support.tiny_models import IMAGE, tiny_case, tiny_model
from support.values import present
from support.varlen_emulation import varlen_on_cpu

from easyvideor1.errors import MismatchError
from easyvideor1.model.vision import Seen, Tower, encoder_outputs, join_inputs, look, shares_of
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.training import shared_prefix, vision_attention
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import pack_groups
from easyvideor1.types import Example

FAMILIES = ["qwen3_vl", "qwen2_5_vl", "qwen2_vl", "qwen3_5"]
MEDIA = {
    "text": {},
    "image": {"images": [(1, 4, 6), (1, 2, 2)]},
    "video": {"videos": [(3, 4, 4)]},
    "both": {"images": [(1, 4, 2)], "videos": [(2, 2, 6), (1, 4, 4)]},
}


def enabled(family, **options):
    model = tiny_model(family)
    shared_prefix.enable(model)
    if options.get("frozen"):
        model.model.visual.requires_grad_(False)
    return model


def cases_of(model, names):
    return [tiny_case(model, name=name, lengths=[3, 2], seed=seed, **MEDIA[name]) for seed, name in enumerate(names)]


def example_of(case):
    return Example(prompt=case.group.prompt, clips=(), features=dict(case.features))


def counted(model):
    """A list that gets the number of patches of every call of the vision tower."""
    calls = []
    model.model.visual.register_forward_hook(lambda module, args, out: calls.append(len(args[0])))
    return calls


@pytest.mark.parametrize("family", FAMILIES)
def test_one_call_sees_what_transformers_sees_in_a_call_per_kind_and_prompt(family):
    reference, model = tiny_model(family), enabled(family)
    cases = cases_of(model, ["image", "text", "video", "both"])
    calls = counted(model)
    with torch.no_grad():
        seen, zero = look(model, [case.features for case in cases])
        assert zero is None
        assert calls == [sum(len(t) for case in cases for name, t in case.features.items() if "grid" not in name)]
        for case, found in zip(cases, seen, strict=True):
            expected = {}
            if "pixel_values" in case.features:
                expected["image"] = reference.model.get_image_features(
                    case.features["pixel_values"], case.features["image_grid_thw"], return_dict=True
                )
            if "pixel_values_videos" in case.features:
                expected["video"] = reference.model.get_video_features(
                    case.features["pixel_values_videos"], case.features["video_grid_thw"], return_dict=True
                )
            outputs = encoder_outputs([found])
            assert outputs.keys() == expected.keys()
            for kind, output in outputs.items():
                pooled = torch.cat(present(output.pooler_output))
                torch.testing.assert_close(pooled, torch.cat(expected[kind].pooler_output), atol=1e-5, rtol=1e-5)
                levels = getattr(expected[kind], "deepstack_features", None) or []
                found_levels = present(output.deepstack_features)
                assert len(levels) == len(found_levels) == (family == "qwen3_vl")
                for level, wanted in zip(found_levels, levels, strict=True):
                    torch.testing.assert_close(torch.cat(level), torch.cat(list(wanted)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("names", [["text"], ["image"], ["video"], ["both", "text"], ["image", "video"]])
def test_every_pack_calls_the_tower_once_and_reaches_all_its_weights(names):
    model = enabled("qwen3_vl")
    cases = cases_of(model, names)
    [pack] = pack_groups([case.group for case in cases], tokens_per_pack=1000).packs
    order = []
    model.model.visual.register_forward_hook(lambda *_: order.append("tower"))
    model.model.language_model.register_forward_pre_hook(lambda *_: order.append("text"))
    logprobs, _ = response_logprobs(model, pack, {index: case.features for index, case in enumerate(cases)})
    logprobs.sum().backward()
    assert order == ["tower", "text"]
    gradients = [parameter.grad for parameter in model.model.visual.parameters()]
    assert all(gradient is not None for gradient in gradients)
    assert any(gradient.any() for gradient in gradients) == (names != ["text"])


def test_the_empty_patch_of_a_text_pack_changes_no_number():
    model = enabled("qwen3_vl")
    [case] = cases_of(model, ["text"])
    [pack] = pack_groups([case.group], tokens_per_pack=1000).packs
    with torch.no_grad():
        found, _ = response_logprobs(model, pack, {})
        kept, _ = response_logprobs(model, pack, {0: Seen(by_kind={})})
    assert torch.equal(found, kept)


def test_separate_segments_of_a_group_share_one_look():
    model = enabled("qwen3_vl")
    cases = cases_of(model, ["video", "image"])
    [pack] = pack_groups([case.group for case in cases], tokens_per_pack=1000, form="separate").packs
    assert len(pack.segments) == 4
    calls = counted(model)
    response_logprobs(model, pack, {index: case.features for index, case in enumerate(cases)})
    assert calls == [48 + 28]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_frozen_tower_saw_gives_the_same_log_probs_and_gradients(family):
    model = enabled(family, frozen=True)
    cases = cases_of(model, ["both", "text", "video"])
    form = shared_prefix.pack_form(model, shared=True)
    tower = Tower(model)
    examples = [example_of(case) for case in cases]
    calls = counted(model)
    with tower.kept():
        kept = {index: tower.media(example) for index, example in enumerate(examples)}
        assert all(tower.media(example) is kept[index] for index, example in enumerate(examples) if example.features)
    assert len(calls) == 2
    assert all(isinstance(item, Seen) for item in kept.values())
    pixels = {index: case.features for index, case in enumerate(cases)}
    results = []
    for media in (pixels, kept):
        model.zero_grad()
        found = []
        for pack in pack_groups([case.group for case in cases], tokens_per_pack=500, form=form).packs:
            logprobs, _ = response_logprobs(model, pack, media)
            (logprobs * pack.tokens.advantages).sum().backward()
            found.append(logprobs.detach())
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        results.append([torch.cat(found), *gradients])
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(second, first, atol=1e-5, rtol=1e-4)
    num_calls = len(calls)
    assert tower.media(examples[0]) is examples[0].features, "outside of the block nothing is kept"
    with tower.kept():
        tower.media(examples[0])
    assert len(calls) == num_calls + 1


@pytest.mark.parametrize("has_seen_it_all", [False, True])
def test_shares_of_several_ranks_are_together_what_one_sees(has_seen_it_all):
    """Also where the engine had the tower look at the whole example before."""
    model = enabled("qwen2_5_vl", frozen=True)
    case = tiny_case(model, name="a", lengths=[2], images=[(1, 4, 8), (1, 4, 4)], videos=[(5, 4, 4), (2, 8, 8)])
    example = example_of(case)
    alone = Tower(model)
    towers = [Tower(model, rank=rank, size=3) for rank in range(3)]
    with contextlib.ExitStack() as stack:
        for tower in (alone, *towers):
            stack.enter_context(tower.kept())
        whole = alone.media(example)
        if has_seen_it_all:
            for tower in towers:
                tower.inputs([example])
        calls = counted(model)
        shares = [tower.media(example) for tower in towers]
    assert isinstance(whole, Seen)
    # Of 256 patches in pieces of 32, 16, 5 x 16 and 2 x 64: whose middle is below 256 / 3, below 512 / 3, the rest.
    assert calls == ([] if has_seen_it_all else [32 + 16 + 2 * 16, 3 * 16 + 64, 64])
    for kind, tokens in whole.by_kind.items():
        parts = [share.by_kind[kind] for share in shares if isinstance(share, Seen) and kind in share.by_kind]
        torch.testing.assert_close(torch.cat([part.first for part in parts]), tokens.first, atol=1e-5, rtol=1e-4)
        assert all(isinstance(share, Seen) and share.num_tokens(kind) == len(tokens) for share in shares)


def test_temporal_patches_are_dealt_evenly_in_order():
    model = tiny_model("qwen3_vl")
    cases = [
        tiny_case(model, name="a", lengths=[1], videos=[(3, 4, 4)]),
        tiny_case(model, name="b", lengths=[1], images=[(1, 4, 4)], videos=[(4, 4, 4)]),
    ]
    shares = shares_of([cases[0].features, {}, cases[1].features], size=2)
    grids = [
        [{name: tensor.tolist() for name, tensor in part.items() if "grid" in name} for part in share]
        for share in shares
    ]
    assert grids == [
        [{"video_grid_thw": [[3, 4, 4]]}, {}, {"image_grid_thw": [[1, 4, 4]]}],
        [{}, {}, {"video_grid_thw": [[4, 4, 4]]}],
    ]
    for name in ("pixel_values", "pixel_values_videos"):
        found = [part[name] for share in shares for part in share if name in part]
        assert torch.equal(torch.cat(found), torch.cat([c.features[name] for c in cases if name in c.features]))
    assert shares_of([{}], size=2) == [[{}], [{}]]


def test_a_tower_that_trains_hands_the_pixels_on():
    model = enabled("qwen3_vl")
    [case] = cases_of(model, ["video"])
    example = example_of(case)
    tower = Tower(model)
    with tower.kept():
        assert tower.media(example) is example.features


def test_a_tower_whose_deepstack_mergers_train_is_not_frozen():
    model = enabled("qwen3_vl", frozen=True)
    assert Tower(model).is_frozen
    model.model.visual.deepstack_merger_list.requires_grad_(True)
    assert not Tower(model).is_frozen


@pytest.mark.parametrize("frozen", [True, False])
def test_the_arguments_of_a_forward_are_those_of_the_prompts_in_order(frozen):
    model = enabled("qwen3_vl", frozen=frozen)
    cases = cases_of(model, ["both", "text", "image"])
    tower = Tower(model)
    with tower.kept():
        inputs = tower.inputs([example_of(case) for case in cases])
    assert set(inputs) == (
        {"mm_encoder_outputs"}
        if frozen
        else {"pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw"}
    )
    length = max(len(case.group.prompt) for case in cases)
    ids = torch.zeros(3, length, dtype=torch.long)
    for row, case in zip(ids, cases, strict=True):
        row[: len(case.group.prompt)] = torch.from_numpy(case.group.prompt.input_ids)
    positions = torch.arange(length).expand(3, 3, -1)
    pixels = Tower(enabled("qwen3_vl")).inputs([example_of(case) for case in cases])
    with torch.no_grad():
        found = model(input_ids=ids, position_ids=positions, **inputs).logits
        expected = tiny_model("qwen3_vl")(input_ids=ids, position_ids=positions, **pixels).logits
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_response_with_a_vision_token_is_named_though_the_tower_is_frozen():
    model = enabled("qwen3_vl", frozen=True)
    [case] = cases_of(model, ["image"])
    [pack] = pack_groups([case.group], tokens_per_pack=1000).packs
    pack.input_ids[0, -1] = IMAGE
    tower = Tower(model)
    message = "sample image: 8 image placeholders, but the vision tower made 7 tokens"
    with tower.kept(), pytest.raises(MismatchError, match=message):
        response_logprobs(model, pack, {0: tower.media(example_of(case))})


@pytest.mark.parametrize(
    "lengths", [[5], [4, 4, 4], [4, 4, 9, 4, 1, 9], [1, 2, 3]], ids=["one", "equal", "mixed", "all different"]
)
def test_segments_attend_within_themselves_by_one_call_per_distinct_length(monkeypatch, lengths):
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 3, sum(lengths), 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    heads = [query, key, value]
    ends = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
    of_segment = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    mask = of_segment[:, None] == of_segment
    expected = F.scaled_dot_product_attention(*heads, attn_mask=mask, scale=0.3).transpose(1, 2)
    calls = []
    sdpa = F.scaled_dot_product_attention

    def counting(*args, **options):
        calls.append(args[0].shape)
        return sdpa(*args, **options)

    monkeypatch.setattr(vision_attention.F, "scaled_dot_product_attention", counting)
    found, _ = vision_attention.vision_attention(
        torch.nn.Identity(), query, key, value, None, scaling=0.3, cu_seq_lens_q=ends, max_length_q=max(lengths)
    )
    assert len(calls) == len(set(lengths))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    grad = torch.randn_like(found)
    for a, b in zip(torch.autograd.grad(found, heads, grad), torch.autograd.grad(expected, heads, grad), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_a_gpu_takes_one_call_for_all_segments():
    lengths = [4, 4, 9, 1]
    torch.manual_seed(0)
    heads = [torch.randn(sum(lengths), 3, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    ends = torch.tensor([0, 4, 8, 17, 18], dtype=torch.int32)
    grad = torch.randn(sum(lengths), 3, 8, dtype=torch.float64)
    with varlen_on_cpu():
        found = vision_attention._Varlen.apply(*heads, ends, 9, 0.3)
        gradients = torch.autograd.grad(found, heads, grad)
    expected = vision_attention._by_length(heads, lengths, 0.3)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    for a, b in zip(gradients, torch.autograd.grad(expected, heads, grad), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_a_layer_of_the_tower_makes_one_call_for_all_temporal_patches(monkeypatch):
    model = enabled("qwen3_vl")
    calls = []
    sdpa = F.scaled_dot_product_attention

    def counting(*args, **options):
        calls.append(args[0].shape[0])
        return sdpa(*args, **options)

    monkeypatch.setattr(vision_attention.F, "scaled_dot_product_attention", counting)
    case = tiny_case(model, name="long", lengths=[1], videos=[(16, 4, 4)])
    look(model, [case.features])
    assert calls == [16] * model.config.vision_config.depth


def test_with_a_frozen_tower_a_step_with_reference_and_old_log_probs_looks_once_at_each_sample(tmp_path, monkeypatch):
    overrides = ["train.steps=1", "train.updates_per_step=2", "algorithm.options={kl_coef: 0.1}"]
    trainer = made_trainer(made_config(tmp_path, *overrides))
    model = trainer._policy.model
    model.model.visual.requires_grad_(False)
    calls, of_reference = counted(model), counted(copy_of_reference(trainer))
    examples = []
    preparer = trainer._collector.supply._prepare
    make = preparer.example
    monkeypatch.setattr(preparer, "example", lambda *args: examples.append(make(*args)) or examples[-1])
    trainer.run()
    assert trainer._policy.num_old_forwards > 0
    assert len(calls) == sum(bool(example.features) for example in examples) > 0, "rollout and update look once in all"
    assert not of_reference
    assert comparable(read_metrics(tmp_path / "metrics.jsonl"))[0]["loss/kl_ref"] > 0
    assert not trainer._policy.tower._seen


def test_inputs_of_several_prompts_are_joined_in_order_and_a_single_one_is_not_copied():
    video, image = torch.arange(6.0).reshape(3, 2), torch.ones(1, 2)
    parts = [{"pixel_values_videos": video}, {}, {"pixel_values": image, "pixel_values_videos": video[:1]}]
    joined = join_inputs(parts)
    assert joined["pixel_values"] is image
    assert joined["pixel_values_videos"].tolist() == [[0, 1], [2, 3], [4, 5], [0, 1]]
    assert join_inputs([{}]) == {}
