"""Two processes train as one does: the same rollouts, losses, gradients and weights, whatever each of them holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.on_ranks import results
from support.rank_training import PAIRS, RUNS, Ran, Updated, all_runs, all_updates

from easyvideor1.training.ranks import Ranks

NEAR = 1e-5
"""Relative; float32 adds in other orders."""


@pytest.fixture(scope="module")
def updates() -> tuple[dict[str, Updated], list[dict[str, Updated]]]:
    return all_updates(Ranks()), results(all_updates)


def distance(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """Of all weights or gradients together, relative."""
    assert found.keys() == expected.keys()
    apart = torch.stack([(found[name].double() - value.double()).norm() for name, value in expected.items()]).norm()
    return float(apart / torch.stack([value.double().norm() for value in expected.values()]).norm())


def assert_same(found: Updated, expected: Updated) -> None:
    assert float(torch.stack([value.norm() for value in expected.gradients.values()]).norm()) > 1e-2
    assert distance(found.gradients, expected.gradients) < NEAR
    assert found.metrics.keys() == expected.metrics.keys()
    for name, value in expected.metrics.items():
        if name != "update/model_tokens":  # blank packs count, and a prompt in two packs counts twice
            assert found.metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("pair", ["/".join(pair) for pair in PAIRS])
def test_text_images_and_videos_train_together_on_two_ranks(pair: str, updates: tuple) -> None:
    expected, ranks = updates
    for found in ranks:
        assert_same(found[pair], expected[pair])


@pytest.mark.parametrize("name", ["even", "uneven", "one-sided"])
def test_any_division_of_the_packs_gives_one_gradient(name: str, updates: tuple) -> None:
    expected, ranks = updates
    for found in ranks:
        assert_same(found[name], expected[name])


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl_moe", "qwen3_5", "none", "hybrid"])
def test_families_and_ways_to_shard(name: str, updates: tuple) -> None:
    expected, ranks = updates
    for found in ranks:
        assert_same(found[name], expected[name])


def test_in_half_precision_shards_are_float32_and_sums_over_ranks_too(updates: tuple) -> None:
    expected, ranks = updates
    for found in ranks:
        gradients = found["bfloat16"].gradients
        assert {gradient.dtype for gradient in gradients.values()} == {torch.float32}
        # The same rounding of the same layers: what differs are a few sums.
        assert distance(gradients, expected["bfloat16"].gradients) < 2e-2


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Ran], list[dict[str, Ran]]]:
    one: Path = tmp_path_factory.mktemp("one")
    two: Path = tmp_path_factory.mktemp("two")
    return all_runs(one, Ranks()), results(all_runs, two)


@pytest.mark.parametrize("name", [name for name in RUNS if not name.startswith("a ")])
def test_a_run_on_two_ranks_is_the_run_on_one(name: str, runs: tuple) -> None:
    expected, (first, second) = runs
    assert first[name].error == expected[name].error == ""
    assert first[name].rollouts == expected[name].rollouts
    assert first[name].bad == expected[name].bad
    assert len(expected[name].bad) == (4 if name == "bad samples skipped" else 0)
    assert distance(first[name].weights, expected[name].weights) < 1e-4
    assert all(torch.equal(first[name].weights[key], value) for key, value in second[name].weights.items())
    assert len(first[name].metrics) == len(expected[name].metrics) >= 2
    for found, wanted in zip(first[name].metrics, expected[name].metrics, strict=True):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            if key.startswith(("rollout/", "reward/", "accuracy", "data/")):
                assert found[key] == pytest.approx(value, rel=1e-9), key
            elif key != "update/model_tokens":
                assert found[key] == pytest.approx(value, rel=1e-3, abs=1e-5), key


def test_what_goes_wrong_on_one_rank_ends_the_run_on_both(runs: tuple) -> None:
    expected, (first, second) = runs
    assert expected["a bad sample"].error == "MediaError: 2.mp4: cannot be decoded"
    assert first["a bad sample"].error == second["a bad sample"].error == expected["a bad sample"].error
    assert expected["a reward that fails"].error == "ZeroDivisionError: division by zero"
    errors = {first["a reward that fails"].error, second["a reward that fails"].error}
    assert "ZeroDivisionError: division by zero" in errors
    assert any(error.startswith("RunError: rank ") and "division by zero" in error for error in errors)
