"""Losses and their gradients against numbers worked by hand."""

import math

import pytest
import torch

from easyvideor1.algo.algorithms import ALGORITHMS, Algorithm
from easyvideor1.algo.losses import Loss, Tokens, idle_sums, policy_loss


def vector(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def tokens(logprobs, *, advantages, lengths=None, offline=None, weights=None, **optional) -> Tokens:
    """Tokens of sequences of the given lengths (default: one sequence), in float64."""
    lengths = lengths or [len(logprobs)]
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return Tokens(
        logprobs=vector(logprobs).requires_grad_(),
        advantages=vector(advantages),
        weights=vector(weights or [1.0] * len(logprobs)),
        sequence=sequence,
        num_sequences=len(lengths),
        is_offline=torch.tensor(offline or [False] * len(logprobs)),
        **{name: vector(values) for name, values in optional.items()},
    )


def make(**options) -> Algorithm:
    return Algorithm(name="test", paper="", **options)


def value_and_gradient(batch: Tokens, algorithm: Algorithm, normalizer: float = 1.0) -> tuple[float, list[float]]:
    batch.logprobs.grad = None
    loss = policy_loss(batch, algorithm, normalizer=normalizer)
    loss.value.backward()
    assert batch.logprobs.grad is not None
    return loss.value.item(), batch.logprobs.grad.tolist()


def means(loss: Loss) -> dict[str, float]:
    return {name: metric.mean() for name, metric in loss.metrics.items()}


def near(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-12)


LOG2 = math.log(2)
FOUR = {"logprobs": [-1.0, -1.0, -1.0, -1.0], "old_logprobs": [-1 - LOG2, -1 - LOG2, -1 + LOG2, -1 + LOG2]}
"""Ratios 2, 2, 1/2, 1/2."""


def test_clip_bounds_a_gain_and_keeps_a_loss():
    batch = tokens(**FOUR, advantages=[1.5, -1.5, 1.5, -1.5])
    # min(2, 1.28) 1.5; min(2 -1.5, 1.28 -1.5); 0.5 1.5; min(0.5 -1.5, 0.8 -1.5). Clipped tokens have no gradient.
    value, gradient = value_and_gradient(batch, make(clip_low=0.2, clip_high=0.28))
    assert value == near(-(1.28 * 1.5 - 3.0 + 0.75 - 1.2))
    assert gradient == near([0.0, 3.0, -0.75, 0.0])
    assert means(policy_loss(batch, make(clip_high=0.28), normalizer=1))["loss/ratio_clipped_frac"] == 0.5


def test_dual_clip_bounds_what_a_bad_response_is_charged():
    batch = tokens(**FOUR, advantages=[1.5, -1.5, 1.5, -1.5])
    value, gradient = value_and_gradient(batch, make(clip_high=0.28, dual_clip=1.9))
    assert value == near(-(1.28 * 1.5 - 1.9 * 1.5 + 0.75 - 1.2))
    assert gradient == near([0.0, 0.0, -0.75, 0.0])


def test_gspo_clips_whole_sequences_by_their_mean_log_ratio():
    # Log ratios log 2, 0, 0: ratio 2^(1/3), clipped, as it is above 1.2 and A > 0. Log ratios -log 2, 0: 2^-0.5.
    batch = tokens(
        [-1.0] * 5,
        old_logprobs=[-1 - LOG2, -1, -1, -1 + LOG2, -1],
        advantages=[1, 1, 1, 0.5, 0.5],
        lengths=[3, 2],
    )
    value, gradient = value_and_gradient(batch, make(ratio="sequence", average="sequence"), normalizer=2)
    assert value == near(-(1.2 + 0.5 * 2**-0.5) / 2)
    assert gradient == near([0, 0, 0] + [-0.5 * 2**-0.5 / 2 / 2] * 2)


def test_gspo_token_has_gspos_value_and_gradient_where_advantages_agree():
    batch = tokens([-1.0, -0.5, -2.0], old_logprobs=[-1.1, -0.4, -2.05], advantages=[0.7] * 3)
    by_sequence = value_and_gradient(batch, make(ratio="sequence", average="sequence"))
    by_token = value_and_gradient(batch, make(ratio="sequence_token", average="sequence"))
    assert by_token[0] == near(by_sequence[0])
    assert by_token[1] == near(by_sequence[1])


def test_gspo_token_gives_each_token_the_gradient_of_its_own_advantage():
    batch = tokens([-1.0, -1.0], old_logprobs=[-1.1, -1.0], advantages=[2.0, -1.0])
    _, gradient = value_and_gradient(batch, make(ratio="sequence_token", average="sequence"))
    assert gradient == near([-2.0 * math.exp(0.05) / 2, 1.0 * math.exp(0.05) / 2])


def test_trajectory_ratio_multiplies_the_tokens_of_a_response():
    batch = tokens([-1.0, -1.0], old_logprobs=[-1.1, -0.95], advantages=[2.0, 2.0])
    value, gradient = value_and_gradient(batch, make(ratio="trajectory", average="sequence"))
    assert value == near(-2.0 * math.exp(0.05))
    assert gradient == near([-2.0 * math.exp(0.05)] * 2)


def test_cispo_keeps_the_gradient_of_clipped_tokens():
    batch = tokens(**FOUR, advantages=[1.5, -1.5, 1.5, -1.5])
    value, gradient = value_and_gradient(batch, make(loss="cispo", clip_low=1.0, clip_high=0.5))
    # Weights 1.5 1.5 0.5 0.5, log-probability -1.
    assert value == near(1.5 * 1.5 - 1.5 * 1.5 + 0.5 * 1.5 - 0.5 * 1.5)
    assert gradient == near([-2.25, 2.25, -0.75, 0.75])


def test_luffy_shapes_stored_tokens_and_clips_sampled_ones():
    p = 0.25
    batch = tokens([math.log(p), -1.0], advantages=[2.0, 2.0], offline=[True, False], old_logprobs=[-9.0, -1 - LOG2])
    algorithm = make(offline_loss="shaped", offline_old="one")
    value, gradient = value_and_gradient(batch, algorithm)
    # f = p / (p + 0.1); df / dlog p = 0.1 p / (p + 0.1)^2. The sampled token's ratio 2 is clipped at 1.2.
    assert value == near(-2.0 * p / 0.35 - 2.0 * 1.2)
    assert gradient == near([-2.0 * 0.1 * p / 0.35**2, 0.0])
    metrics = means(policy_loss(batch, algorithm, normalizer=1))
    assert metrics["loss/policy_offline"] == near(-2.0 * p / 0.35)
    assert metrics["loss/policy_online"] == near(-2.4)
    assert metrics["loss/offline_token_frac"] == 0.5
    # Of the sampled token alone: ratio 2, its k3.
    assert metrics["loss/ratio"] == near(2.0)
    assert metrics["loss/kl_old"] == near(0.5 - 1 + LOG2)


@pytest.mark.parametrize(("offline_old", "old"), [("current", -0.9), ("stored", -0.95), ("one", 0.0)])
def test_old_logprobs_of_stored_tokens_follow_the_recipe(offline_old, old):
    batch = tokens(
        [-1.0, -1.0],
        advantages=[1.0, 1.0],
        offline=[True, False],
        old_logprobs=[-0.9, -1.05],
        sampler_logprobs=[-0.95, 7],
    )
    value, _ = value_and_gradient(batch, make(offline_old=offline_old))
    assert value == near(-math.exp(-1 - old) - math.exp(0.05))


def test_sft_is_the_negative_log_probability_whatever_the_advantage():
    batch = tokens([-1.0, -0.25], advantages=[0.0, -3.0], offline=[True, True])
    assert value_and_gradient(batch, ALGORITHMS["sft"], normalizer=2) == (near(0.625), near([-0.5, -0.5]))


@pytest.mark.parametrize(
    ("kind", "value", "slope"),
    [("k1", LOG2, 1.0), ("k2", LOG2**2 / 2, LOG2), ("k3", 0.5 - 1 + LOG2, 0.5)],
)
def test_kl_estimators(kind, value, slope):
    # Policy twice the reference: r = 1/2; k3 = r - 1 - log r, its slope 1 - r.
    batch = tokens([-1.0], advantages=[0.0], ref_logprobs=[-1 - LOG2])
    loss = value_and_gradient(batch, make(kl_coef=0.04, kl_kind=kind))
    assert loss == (near(0.04 * value), near([0.04 * slope]))
    assert means(policy_loss(batch, make(kl_coef=0.04, kl_kind=kind), normalizer=1))["loss/kl_ref"] == near(value)


def test_a_kl_in_the_reward_is_not_in_the_loss_as_well():
    batch = tokens([-1.0], advantages=[0.0])
    assert value_and_gradient(batch, make(kl_coef=0.04, kl_in="reward"))[0] == 0.0


def test_entropy_is_a_bonus():
    batch = tokens([-1.0, -1.0], advantages=[0.0, 0.0], entropy=[0.5, 0.9])
    assert batch.entropy is not None
    batch.entropy.requires_grad_()
    policy_loss(batch, make(entropy_coef=0.01), normalizer=2).value.backward()
    assert policy_loss(batch, make(entropy_coef=0.01), normalizer=2).value.item() == near(-0.01 * 0.7)
    assert batch.entropy.grad is not None
    assert batch.entropy.grad.tolist() == near([-0.005, -0.005])


def test_sampler_weights_are_capped_and_one_where_unknown_or_stored():
    batch = tokens(
        [-1.0, -1.0, -1.0, -1.0],
        advantages=[1.0, 1.0, 1.0, 1.0],
        sampler_logprobs=[-1 - math.log(3), -1 + LOG2, math.nan, -7.0],
        offline=[False, False, False, True],
    )
    value, gradient = value_and_gradient(batch, make(sampler_cap=2.0))
    assert value == near(-2.0 - 0.5 - 1.0 - 1.0)
    assert gradient == near([-2.0, -0.5, -1.0, -1.0])
    assert means(policy_loss(batch, make(sampler_cap=2.0), normalizer=1))["loss/sampler_capped_frac"] == 0.25


@pytest.mark.parametrize(
    ("average", "normalizer", "expected"),
    [
        ("token", 4, (0.3 + 1.2 + 1.2 + 1.2) / 4),
        ("sequence", 2, (0.3 + 1.2) / 2),
        ("fixed", 2 * 10, (0.3 + 3 * 1.2) / 20),
    ],
)
def test_averages_weigh_long_responses_differently(average, normalizer, expected):
    batch = tokens([-1.0] * 4, advantages=[-0.3, -1.2, -1.2, -1.2], lengths=[1, 3])
    assert value_and_gradient(batch, make(average=average), normalizer)[0] == near(expected)


def test_one_update_per_batch_has_a_ratio_of_exactly_one():
    logprobs = [-1.1, -0.3, -2.7]
    batch = tokens(logprobs, advantages=[0.3, -0.1, 0.7])
    loss = policy_loss(batch, make(), normalizer=3)
    assert loss.metrics["loss/ratio"].total.item() == 3.0
    same = tokens(logprobs, advantages=[0.3, -0.1, 0.7], old_logprobs=logprobs)
    assert value_and_gradient(batch, make()) == value_and_gradient(same, make())


def test_a_weight_scales_the_loss_of_its_tokens():
    batch = tokens([-1.0, -1.0], advantages=[1.0, 1.0], weights=[1.0, 0.25])
    assert value_and_gradient(batch, make()) == (near(-1.25), near([-1.0, -0.25]))


def test_a_bad_response_that_became_far_too_likely_is_still_pushed_down():
    batch = tokens([-1.0, -1.0], advantages=[-1.0, 1.0], old_logprobs=[-31.0, -31.0])
    _, gradient = value_and_gradient(batch, make())
    assert gradient == near([math.exp(20), 0.0])
    # The same of a policy far below the reference, which k3 pulls back.
    batch = tokens([-101.0], advantages=[0.0], ref_logprobs=[-1.0])
    assert value_and_gradient(batch, make(kl_coef=1.0))[1] == near([1 - math.exp(20)])


def test_clipped_tokens_are_those_whose_ratio_a_bound_holds():
    def clipped(algorithm: Algorithm, **others) -> float:
        batch = tokens(**FOUR, advantages=[1.5, -1.5, 1.5, -1.5], **others)
        return means(policy_loss(batch, algorithm, normalizer=1))["loss/ratio_clipped_frac"]

    assert clipped(make()) == 0.5
    assert clipped(make(dual_clip=1.9)) == 0.75
    # CISPO bounds its weight whatever the advantage: ratios 2 and 2 by 1.5, none below by 0.
    assert clipped(make(loss="cispo", clip_low=1.0, clip_high=0.5)) == 0.5
    assert clipped(make(loss="cispo", clip_low=0.3, clip_high=0.5)) == 1.0
    # Shaping bounds nothing, and stored tokens count by their own loss.
    assert clipped(make(offline_loss="shaped"), offline=[True, False, False, False]) == 0.25


def test_half_precision_is_computed_with_in_float32():
    # 300 ones do not add up to 300 in bfloat16, which has 8 bits.
    logprobs = torch.full((300,), -1.0, dtype=torch.bfloat16).requires_grad_()
    ones = torch.ones(300, dtype=torch.bfloat16)
    batch = Tokens(
        logprobs=logprobs,
        advantages=ones,
        weights=ones,
        sequence=torch.zeros(300, dtype=torch.int64),
        num_sequences=1,
        is_offline=torch.zeros(300, dtype=torch.bool),
    )
    loss = policy_loss(batch, make(average="sequence"), normalizer=1)
    assert loss.value.item() == pytest.approx(-1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"kl_coef": 0.1}, "ref_logprobs"),
        ({"entropy_coef": 0.1}, "entropy"),
        ({"sampler_cap": 2.0}, "sampler_logprobs"),
        ({"offline_old": "stored"}, "sampler_logprobs"),
    ],
)
def test_a_tensor_that_the_recipe_needs_must_be_there(options, name):
    with pytest.raises(ValueError, match=rf"needs Tokens\.{name}"):
        policy_loss(tokens([-1.0], advantages=[1.0]), make(**options), normalizer=1)


def test_an_entropy_bonus_without_gradients_is_refused():
    with pytest.raises(ValueError, match="no gradient flows"):
        policy_loss(tokens([-1.0], advantages=[1.0], entropy=[0.5]), make(entropy_coef=0.1), normalizer=1)


@pytest.mark.parametrize("normalizer", [0.0, -1.0, math.nan])
def test_a_batch_without_training_tokens_is_refused(normalizer):
    with pytest.raises(ValueError, match="must be positive"):
        policy_loss(tokens([-1.0], advantages=[1.0]), make(), normalizer=normalizer)


@pytest.mark.parametrize("name", ["grpo", "dapo", "gspo", "cispo", "luffy", "rloo"])
def test_what_is_not_computed_adds_to_the_metrics_what_it_would_add_if_it_were(name):
    batch = tokens(
        [-1.0, -2.0, -0.5, -3.0, -1.5], advantages=[0.0] * 5, lengths=[3, 2], offline=[False] * 3 + [True] * 2
    )
    value, gradient = value_and_gradient(batch, ALGORITHMS[name])
    assert (value, gradient) == (0.0, [0.0] * 5)
    computed = policy_loss(batch, ALGORITHMS[name], normalizer=1.0).metrics
    counted = idle_sums(num_sampled=3, num_offline=2, is_only_update=True)
    assert counted == {metric: (float(part.total), float(part.count)) for metric, part in computed.items()}


def test_ratios_after_an_earlier_update_are_not_made_up():
    only, later = (idle_sums(num_sampled=3, num_offline=0, is_only_update=only) for only in (True, False))
    assert only.keys() - later.keys() == {"loss/ratio", "loss/kl_old"}
