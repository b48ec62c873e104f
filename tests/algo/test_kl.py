"""KL estimators by hand, and their mean against the exact divergence."""

import math

import pytest
import torch
from support.values import present

from easyvideor1.algo.kl import token_kl

POLICY = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
REFERENCE = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
EXACT = float((POLICY * (POLICY / REFERENCE).log()).sum())


def test_estimators_of_one_token():
    policy, reference = torch.tensor([-1.0]), torch.tensor([-1.5])
    assert token_kl(policy, reference, kind="k1").item() == 0.5
    assert token_kl(policy, reference, kind="k2").item() == 0.125
    assert token_kl(policy, reference, kind="abs").item() == 0.5
    assert token_kl(reference, policy, kind="abs").item() == 0.5
    assert token_kl(policy, reference, kind="k3").item() == pytest.approx(math.exp(-0.5) - 1 + 0.5)


@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_k1_and_k3_are_unbiased(kind):
    estimates = token_kl(POLICY.log(), REFERENCE.log(), kind=kind)
    assert float((POLICY * estimates).sum()) == pytest.approx(EXACT, rel=1e-12)


def test_the_gradient_of_k2_is_that_of_the_exact_divergence():
    logits = POLICY.log().requires_grad_()
    logprobs = logits.log_softmax(0)
    (logprobs.exp() * (logprobs - REFERENCE.log())).sum().backward()
    assert logits.grad is not None
    exact, logits.grad = logits.grad, None
    (POLICY * token_kl(logits.log_softmax(0), REFERENCE.log(), kind="k2")).sum().backward()
    assert torch.allclose(present(logits.grad), exact, rtol=1e-12)
