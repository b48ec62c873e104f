"""An advantage or a loss of the user's own."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.losses import Terms, Tokens, policy_loss
from easyvideor1.algo.own import own_advantages
from easyvideor1.config import AlgorithmConfig
from easyvideor1.errors import RunError, UsageError

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "best": lambda rewards: [float(reward == max(rewards)) for reward in rewards],
    "short": lambda rewards: [1.0],
    "nan": lambda rewards: [math.nan for _ in rewards],
    "broken": lambda rewards: 1 / 0,
    "squared": lambda terms: -terms.advantages * terms.ratio.square(),
    "scalar": lambda terms: terms.logprobs.sum(),
}


def made(*, advantage: str | None = None, loss: str | None = None) -> Algorithm:
    return Algorithm(name="t", paper="", functions=FUNCTIONS, own_advantage=advantage, own_loss=loss)


def test_an_advantage_by_hand() -> None:
    assert own_advantages(made(advantage="best"), [0.5, 1.0, 0.0]) == [0.0, 1.0, 0.0]
    assert own_advantages(made(advantage="nan"), [math.nan]) == [0.0]


@pytest.mark.parametrize(
    ("place", "problem"),
    [("short", "finite number for each of 2 rewards"), ("nan", "finite number"), ("broken", "ZeroDivisionError")],
)
def test_a_wrong_advantage_is_told(place: str, problem: str) -> None:
    with pytest.raises(RunError, match=problem):
        own_advantages(made(advantage=place), [1.0, 0.0])


def tokens() -> Tokens:
    return Tokens(
        logprobs=torch.tensor([-1.0, -2.0], requires_grad=True),
        old_logprobs=torch.tensor([-1.5, -2.0]),
        advantages=torch.tensor([1.0, -2.0]),
        weights=torch.ones(2),
        sequence=torch.tensor([0, 1]),
        num_sequences=2,
        is_offline=torch.zeros(2, dtype=torch.bool),
    )


def test_a_loss_and_its_gradient_by_hand() -> None:
    """-A r^2 with r = exp(0.5) and 1: the loss is (-e + 2) / 2, its gradient -A 2 r^2 / 2."""
    given = tokens()
    loss = policy_loss(given, made(loss="squared"), normalizer=2.0)
    assert float(loss.value.detach()) == pytest.approx((2 - math.e) / 2)
    loss.value.backward()
    assert given.logprobs.grad is not None
    assert given.logprobs.grad.tolist() == pytest.approx([-math.e, 2.0])
    assert isinstance(Terms, type)


def test_a_loss_of_another_shape_is_told() -> None:
    with pytest.raises(RunError, match="own_loss: scalar must return a tensor with the loss of each of 2 tokens"):
        policy_loss(tokens(), made(loss="scalar"), normalizer=2.0)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="own_advantage takes the place of a group's advantage"):
        Algorithm(name="t", paper="", own_advantage="f.py:g", advantage="gdpo")


def test_a_place_is_found_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    config = AlgorithmConfig(options={"own_loss": "mine.py:f", "clip_low": 0.1}).found_from(tmp_path)
    assert config.options == {"own_loss": f"{tmp_path}/mine.py:f", "clip_low": 0.1}
