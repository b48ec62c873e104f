"""Packing, by hand-worked numbers. A prompt of 3 tokens whose last position is 7 stands for one with media."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.values import present

from easyvideor1.errors import UsageError
from easyvideor1.training.pack import pack_groups
from easyvideor1.types import Group, Prompt, Rollout, Sample, StopReason, TokenCredit


def make_group(name: str, prompt_ids: list[int], responses: list[list[int]], *, last_position: int = 7) -> Group:
    steps = np.array([*range(len(prompt_ids) - 1), last_position])
    prompt = Prompt(
        sample=Sample(id=name, problem_type="numerical", problem="", gold=""),
        text="",
        input_ids=np.array(prompt_ids),
        token_types=np.zeros(len(prompt_ids), dtype=np.int64),
        position_ids=np.stack([steps, steps, steps - 1]),
        plans=(),
    )
    rollouts = tuple(
        Rollout(
            token_ids=tuple(ids), text="", logprobs=tuple(-0.1 * token for token in ids), stop_reason=StopReason.EOS
        )
        for ids in responses
    )
    num = len(responses)
    return Group(
        prompt=prompt,
        rollouts=rollouts,
        advantages=tuple(0.1 * (i + 1) for i in range(num)),
        weights=tuple(float(i != 1) for i in range(num)),
    )


def test_a_shared_row_by_hand():
    groups = [make_group("a", [1, 2, 3], [[4, 5], [6]]), make_group("b", [7, 8], [[9]], last_position=1)]
    batch = pack_groups(groups, tokens_per_pack=9)
    (pack,) = batch.packs
    assert pack.input_ids.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 9]]
    assert pack.position_ids[0, 0].tolist() == [0, 1, 7, 8, 9, 8, 0, 1, 2]
    assert pack.position_ids[2, 0].tolist() == [-1, 0, 6, 8, 9, 8, -1, 0, 2]  # one next position for all three axes
    assert pack.predictors.tolist() == [2, 3, 2, 7]
    tokens = pack.tokens
    assert tokens.token_ids.tolist() == [4, 5, 6, 9]
    np.testing.assert_allclose(tokens.sampler_logprobs, [-0.4, -0.5, -0.6, -0.9], rtol=1e-6)
    np.testing.assert_allclose(tokens.advantages, [0.1, 0.1, 0.2, 0.1], rtol=1e-6)
    assert tokens.weights.tolist() == [1, 1, 0, 1]
    assert tokens.sequence.tolist() == [0, 0, 1, 2]
    assert tokens.group.tolist() == [0, 0, 0, 1]
    assert [(s.group, s.rollouts, s.sample_id) for s in pack.segments] == [(0, (0, 1), "a"), (1, (0,), "b")]
    assert (batch.num_groups, batch.num_sequences, batch.num_response_tokens, batch.num_tokens) == (2, 3, 4, 9)


def test_separate_rows_by_hand():
    batch = pack_groups([make_group("a", [1, 2, 3], [[4, 5], [6]])], tokens_per_pack=5, form="separate")
    first, second = batch.packs
    assert first.input_ids.tolist() == [[1, 2, 3, 4, 5]]
    assert second.input_ids.tolist() == [[1, 2, 3, 6]]
    assert second.position_ids[:, 0, -1].tolist() == [8, 8, 8]
    assert second.tokens.sequence.tolist() == [1]
    assert present(first.layout).sequences.query_lengths == (5,)
    assert not present(first.layout).prompts


@pytest.mark.parametrize("form", ["shared", "separate", "padded"])
@pytest.mark.parametrize("tokens_per_pack", [6, 7, 12, 1000])
def test_every_response_token_is_packed_once_and_predicted_by_the_token_before(form, tokens_per_pack):
    groups = [make_group("a", [1, 2, 3], [[4, 5], [6], [7, 8, 9]]), make_group("b", [10, 11], [[12], [13, 14]])]
    batch = pack_groups(groups, tokens_per_pack=tokens_per_pack, form=form)
    seen = {}
    for pack in batch.packs:
        assert pack.num_tokens <= tokens_per_pack
        before = pack.input_ids.flatten()[pack.predictors].tolist()
        for previous, token, sequence in zip(before, pack.tokens.token_ids, pack.tokens.sequence, strict=True):
            seen.setdefault(sequence.item(), []).append((previous, token.item()))
    assert seen == {
        0: [(3, 4), (4, 5)],
        1: [(3, 6)],
        2: [(3, 7), (7, 8), (8, 9)],
        3: [(11, 12)],
        4: [(11, 13), (13, 14)],
    }


def test_a_group_over_the_bound_is_cut_into_the_fewest_segments():
    # A prompt of 3 and responses of 4, 4, 3, 3, 3, 3: 20 tokens with room for 10 beside the prompt are two segments.
    group = make_group("a", [1, 2, 3], [[4] * length for length in (4, 4, 3, 3, 3, 3)])
    batch = pack_groups([group], tokens_per_pack=13)
    assert [[segment.rollouts for segment in pack.segments] for pack in batch.packs] == [[(0, 2, 3)], [(1, 4, 5)]]
    assert [pack.num_tokens for pack in batch.packs] == [13, 13]
    assert [segment.start for pack in pack_groups([group], tokens_per_pack=26).packs for segment in pack.segments] == [
        0
    ]


def test_a_response_over_the_bound_is_named_with_its_sizes():
    groups = [make_group("a", [1, 2, 3], [[4]]), make_group("long one", [1, 2, 3], [[4, 5], [6] * 8])]
    with pytest.raises(UsageError, match=r"long one: its prompt of 3 tokens with a response of 8 is more than .*=10"):
        pack_groups(groups, tokens_per_pack=10)
    assert pack_groups(groups, tokens_per_pack=11).num_tokens == 4 + 11 + 5
    # What is not computed does not have to fit.
    assert pack_groups(groups, tokens_per_pack=10, chosen=[(0,), (0,)]).num_response_tokens == 3


def test_rows_are_filled_up_on_the_right_within_the_bound():
    group = make_group("a", [1, 2, 3], [[4], [5, 6, 7], [8, 9]], last_position=2)
    first, second = pack_groups([group], tokens_per_pack=12, form="padded").packs
    assert first.input_ids.tolist() == [[1, 2, 3, 5, 6, 7], [1, 2, 3, 8, 9, 9]]
    assert first.position_ids[0].tolist() == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 0]]
    assert first.predictors.tolist() == [2, 3, 4, 8, 9]
    assert first.tokens.token_ids.tolist() == [5, 6, 7, 8, 9]
    assert second.input_ids.tolist() == [[1, 2, 3, 4]]
    assert first.layout is None


def test_only_chosen_rollouts_are_packed_and_all_are_counted():
    groups = [make_group("a", [1, 2, 3], [[4, 5], [6], [7]]), make_group("b", [1, 2], [[5]])]
    batch = pack_groups(groups, tokens_per_pack=99, chosen=[(0, 2), ()])
    [pack] = batch.packs
    assert pack.input_ids.tolist() == [[1, 2, 3, 4, 5, 7]]
    assert pack.tokens.sequence.tolist() == [0, 0, 2]
    assert (batch.num_groups, batch.num_sequences) == (2, 4)


def test_unknown_sampler_logprobs_are_nan_and_offline_rollouts_are_marked():
    group = make_group("a", [1, 2, 3], [[4, 5], [6]])
    offline = replace(group.rollouts[1], source="offline", logprobs=None)
    (pack,) = pack_groups([replace(group, rollouts=(group.rollouts[0], offline))], tokens_per_pack=99).packs
    assert pack.tokens.is_offline.tolist() == [False, False, True]
    assert [math.isnan(value) for value in pack.tokens.sampler_logprobs.tolist()] == [False, False, True]


def test_empty_responses_count_as_sequences_but_take_no_place():
    groups = [make_group("a", [1, 2, 3], [[], [6]]), make_group("b", [1, 2], [[]]), make_group("c", [1, 2], [[5]])]
    batch = pack_groups(groups, tokens_per_pack=99)
    (pack,) = batch.packs
    assert pack.input_ids.tolist() == [[1, 2, 3, 6, 1, 2, 5]]
    assert pack.tokens.sequence.tolist() == [1, 3]
    assert pack.tokens.group.tolist() == [0, 2]
    assert batch.num_sequences == 4


def test_groups_that_do_not_fit_together_are_named():
    group = make_group("a", [1, 2, 3], [[4, 5], [6]])
    with pytest.raises(ValueError, match="sample a: 2 rollouts, but 0 advantages"):
        pack_groups([replace(group, advantages=())], tokens_per_pack=9)
    short = replace(group.rollouts[0], logprobs=(-0.1,))
    with pytest.raises(ValueError, match="sample a: rollout 0 has 2 tokens, but 1 log-probs"):
        pack_groups([replace(group, rollouts=(short, group.rollouts[1]))], tokens_per_pack=9)


def test_credit_of_single_tokens_goes_where_they_are_packed():
    group = make_group("a", [1, 2, 3], [[4, 5], [6], [7, 8, 9]])
    credits = tuple(
        TokenCredit(advantages=np.array(ids) / 10, returns=np.array(ids) * 1.0, values=np.array(ids) * -1.0)
        for ids in ([4, 5], [6], [7, 8, 9])
    )
    group = replace(group, tokens=credits)
    for packs in (pack_groups([group], tokens_per_pack=9).packs, pack_groups([group], tokens_per_pack=6).packs):
        for tokens in (pack.tokens for pack in packs):
            np.testing.assert_allclose(tokens.advantages, tokens.token_ids / 10, rtol=1e-6)
            assert tokens.returns.tolist() == tokens.token_ids.tolist()
            assert tokens.old_values.tolist() == (-tokens.token_ids).tolist()
    (plain,) = pack_groups([make_group("b", [1], [[2]])], tokens_per_pack=9).packs
    assert plain.tokens.returns.isnan().all()
    with pytest.raises(ValueError, match="sample a: the credit of its tokens is not that of its rollouts"):
        pack_groups([replace(group, tokens=credits[:2])], tokens_per_pack=9)
