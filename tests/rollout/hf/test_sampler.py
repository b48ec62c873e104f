"""Which tokens are sampled, by evenly spread numbers in place of random ones: their shares are then exact."""

import numpy as np
import pytest
import torch

from easyvideor1.errors import RunError
from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.hf.sampler import Sampler, ways

LOGITS = torch.tensor([2.0, 0.0, 1.0, -1.0, 3.0, 0.5])
N = 20_000


def sampled(sampling, *, banned=(), logits=LOGITS, n=N):
    """(share of each token, log-prob of each token that was sampled)."""
    device = torch.device("cpu")
    sampler = Sampler(banned, device=device)
    rows = logits.repeat(n, 1)
    how = ways([sampling] * n, vocab_size=rows.shape[1], device=device)
    numbers = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    tokens, logprobs = sampler.sample(rows, how=how, uniforms=numbers)
    assert logprobs.dtype == torch.float32
    by_token = {int(token): logprobs[tokens == token].unique().tolist() for token in tokens.unique()}
    return torch.bincount(tokens, minlength=len(logits)) / n, by_token, sampler.banned_hits


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_tokens_come_by_their_probabilities_at_the_temperature(temperature):
    shares, logprobs, _ = sampled(Sampling(temperature=temperature, max_response_tokens=1))
    expected = (LOGITS / temperature).softmax(-1)
    torch.testing.assert_close(shares, expected, atol=2 / N, rtol=0)
    for token, values in logprobs.items():
        assert values == pytest.approx([float(expected[token].log())], abs=1e-6)


def test_banned_tokens_never_come_and_log_probs_are_those_of_the_whole_distribution():
    shares, logprobs, hits = sampled(Sampling(max_response_tokens=1), banned=(4, 1))
    allowed = LOGITS.clone()
    allowed[[4, 1]] = -torch.inf
    torch.testing.assert_close(shares, allowed.softmax(-1), atol=2 / N, rtol=0)
    assert hits == N  # token 4 was the likeliest
    for token, values in logprobs.items():
        assert values == pytest.approx([float(LOGITS.log_softmax(-1)[token])], abs=1e-6)
    assert sampled(Sampling(max_response_tokens=1), banned=(1,))[2] == 0


def test_a_banned_token_that_outweighs_all_others_leaves_them_their_shares():
    logits = torch.tensor([2.0, 0.0, 1.0, 500.0])  # beside 500 the others are 0 in float32
    shares, logprobs, hits = sampled(Sampling(max_response_tokens=1), banned=(3,), logits=logits)
    torch.testing.assert_close(shares[:3], logits[:3].softmax(-1), atol=2 / N, rtol=0)
    assert (float(shares[3]), hits) == (0.0, N)
    assert logprobs[0] == [-498.0]


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        # Probabilities by hand: 0.61, 0.22, 0.08, 0.05, 0.03, 0.01 for the tokens 4, 0, 2, 5, 1, 3.
        ({"top_k": 1}, [4]),
        ({"top_k": 3}, [4, 0, 2]),
        ({"top_k": 6}, [4, 0, 2, 5, 1, 3]),
        ({"top_p": 0.5}, [4]),
        ({"top_p": 0.7}, [4, 0]),
        ({"top_p": 0.9}, [4, 0, 2]),
        ({"top_p": 0.9, "top_k": 2}, [4, 0]),
        # top_p counts within what top_k left: 0.73 and 0.27 of two tokens.
        ({"top_p": 0.72, "top_k": 2}, [4]),
    ],
)
def test_filters_keep_the_most_likely_tokens_in_proportion(filters, kept):
    shares, logprobs, _ = sampled(Sampling(max_response_tokens=1, **filters))
    probabilities = LOGITS.softmax(-1)
    expected = torch.zeros(6)
    expected[kept] = probabilities[kept] / probabilities[kept].sum()
    torch.testing.assert_close(shares, expected, atol=2 / N, rtol=0)
    for token, values in logprobs.items():
        assert values == pytest.approx([float(probabilities[token].log())], abs=1e-6)


def test_greedy_takes_the_likeliest_that_is_allowed_and_its_log_prob_is_at_temperature_1():
    shares, logprobs, _ = sampled(Sampling(temperature=0.0, max_response_tokens=1), banned=(4,))
    assert shares.tolist() == [1, 0, 0, 0, 0, 0]
    assert logprobs[0] == pytest.approx([float(LOGITS.log_softmax(-1)[0])], abs=1e-6)


def test_each_response_of_a_batch_is_drawn_in_its_own_way():
    samplings = [
        Sampling(max_response_tokens=1),
        Sampling(temperature=0.0, max_response_tokens=1),
        Sampling(temperature=0.3, top_k=2, max_response_tokens=1),
        Sampling(top_p=0.7, max_response_tokens=1),
    ]
    numbers = torch.tensor([0.3, 0.9, 0.1, 0.99], dtype=torch.float64)
    device = torch.device("cpu")
    together, _ = Sampler((), device=device).sample(
        LOGITS.repeat(4, 1), how=ways(samplings, vocab_size=6, device=device), uniforms=numbers
    )
    alone = [
        Sampler((), device=device).sample(
            LOGITS[None].clone(), how=ways([way], vocab_size=6, device=device), uniforms=numbers[i : i + 1]
        )[0]
        for i, way in enumerate(samplings)
    ]
    assert together.tolist() == torch.cat(alone).tolist()


def test_the_largest_numbers_stay_within_the_vocabulary():
    logits = torch.randn(1, 150_000, generator=torch.Generator().manual_seed(0))
    device = torch.device("cpu")
    for number in (1 - 2.0**-41, 2.0**-41):
        tokens, _ = Sampler((149_999, 0), device=device).sample(
            logits.clone(),
            how=ways([Sampling(max_response_tokens=1)], vocab_size=150_000, device=device),
            uniforms=torch.tensor([number], dtype=torch.float64),
        )
        assert 0 < int(tokens) < 149_999


def test_a_token_that_float32_could_not_tell_from_impossible_still_comes():
    logits = torch.tensor([[0.0, -18.0]])  # 1 in 66 million
    device = torch.device("cpu")
    tokens, logprobs = Sampler((), device=device).sample(
        logits,
        how=ways([Sampling(max_response_tokens=1)], vocab_size=2, device=device),
        uniforms=torch.tensor([1 - 2.0**-30], dtype=torch.float64),
    )
    assert tokens.tolist() == [1]
    assert logprobs.tolist() == pytest.approx([-18.0], abs=1e-6)


def test_logits_that_are_no_numbers_are_an_error():
    with pytest.raises(RunError, match="not finite"):
        sampled(Sampling(max_response_tokens=1), logits=torch.tensor([0.0, np.nan]), n=2)
