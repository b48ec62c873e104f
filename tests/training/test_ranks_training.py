"""Two processes train as one does: the same rollouts, losses, gradients and weights, whatever each of them holds."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from support.rank_training import (
    PAIRS,
    RUNS,
    Both,
    Updated,
    assert_same_rollouts,
    base_answers,
    exported_answers,
    go_on,
)

from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.training.ranks import Ranks

pytestmark = pytest.mark.timeout(900)  # the first one waits for two processes
NEAR = 1e-5
"""Relative; float32 adds in other orders."""


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


@pytest.mark.parametrize("name", ["even", "uneven", "one-sided"])
def test_any_division_of_the_packs_gives_one_gradient(name: str, cases: Both) -> None:
    expected, ranks = cases[0].updates, [found.updates for found in cases[1]]
    for found in ranks:
        assert_same(found[name], expected[name])


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl_moe", "qwen3_5", "none", "hybrid"])
def test_families_and_ways_to_shard(name: str, cases: Both) -> None:
    expected, ranks = cases[0].updates, [found.updates for found in cases[1]]
    for found in ranks:
        assert_same(found[name], expected[name])


def test_in_half_precision_shards_are_float32_and_sums_over_ranks_too(cases: Both) -> None:
    expected, ranks = cases[0].updates, [found.updates for found in cases[1]]
    for found in ranks:
        gradients = found["bfloat16"].gradients
        assert {gradient.dtype for gradient in gradients.values()} == {torch.float32}
        # The same rounding of the same layers: what differs are a few sums.
        assert distance(gradients, expected["bfloat16"].gradients) < 2e-2


@pytest.mark.parametrize("pair", ["/".join(pair) for pair in PAIRS])
def test_whole_steps_of_texts_images_and_videos_on_two_ranks_are_those_of_one(pair: str, cases: Both) -> None:
    expected, ranks = cases[0].steps[pair], [found.steps[pair] for found in cases[1]]
    kinds = pair.split("/")
    assert [found.sampled for found in ranks] == [[kinds[0]], [kinds[1]]]
    assert sorted(kind for found in ranks for kind in found.computed) == sorted(kinds)
    assert all(len(found.computed) == 1 for found in ranks)
    assert all(len(found.gradients) == len(found.weights) for found in (expected, *ranks))
    for found in ranks:
        assert found.rollouts == expected.rollouts
        assert float(torch.stack([value.norm() for value in expected.gradients.values()]).norm()) > 1e-2
        assert distance(found.gradients, expected.gradients) < NEAR
        assert distance(found.weights, expected.weights) < NEAR
    assert ranks[0].metrics.keys() == expected.metrics.keys()
    for name, value in expected.metrics.items():
        if name != "update/model_tokens":
            assert ranks[0].metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name


def test_whole_steps_move_all_weights_and_take_them_over(cases: Both) -> None:
    """What the comparison above would not see: steps that change nothing."""
    steps = list(cases[0].steps.values())
    moved = [distance(after.weights, before.weights) for before, after in itertools.pairwise(steps)]
    assert min(moved) > 10 * NEAR
    assert all(step.metrics["update/idle_groups_frac"] == 0 for step in steps)
    assert all(step.metrics["policy/sampler_logprob_diff_max"] < 1e-3 for step in steps)


@pytest.mark.parametrize("name", [name for name in RUNS if not name.startswith("a ")])
def test_a_run_on_two_ranks_is_the_run_on_one(name: str, cases: Both) -> None:
    expected, (first, second) = cases[0].runs, [found.runs for found in cases[1]]
    assert first[name].error == expected[name].error == ""
    assert_same_rollouts(name, first[name], expected[name])
    assert first[name].bad == expected[name].bad
    assert len(expected[name].bad) == (4 if name == "bad samples skipped" else 0)
    assert distance(first[name].weights, expected[name].weights) < 1e-4
    assert all(torch.equal(first[name].weights[key], value) for key, value in second[name].weights.items())
    assert len(first[name].metrics) == len(expected[name].metrics) >= 2
    for found, wanted in zip(first[name].metrics, expected[name].metrics, strict=True):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            if key.startswith(("rollout/", "reward/", "accuracy", "data/")) and key != "reward/kl_ref":
                assert found[key] == pytest.approx(value, rel=1e-9), key
            elif key != "update/model_tokens":
                assert found[key] == pytest.approx(value, rel=1e-3, abs=1e-5), key


def test_what_goes_wrong_on_one_rank_ends_the_run_on_both(cases: Both) -> None:
    expected, (first, second) = cases[0].runs, [found.runs for found in cases[1]]
    assert expected["a bad sample"].error == "MediaError: 2.mp4: cannot be decoded"
    assert first["a bad sample"].error == second["a bad sample"].error == expected["a bad sample"].error
    for name in ("a reward that fails", "a reward that fails ahead"):
        assert expected[name].error == "ZeroDivisionError: division by zero"
        errors = {first[name].error, second[name].error}
        assert "ZeroDivisionError: division by zero" in errors
        assert any(error.startswith("RunError: rank ") and "division by zero" in error for error in errors)


def test_a_step_sampled_ahead_fails_or_is_given_up_after_the_one_that_trains(cases: Both) -> None:
    for found in (cases[0].runs, cases[1][0].runs):
        steps = {name: [item for item in found[name].metrics if "loss/total" in item] for name in found}
        assert [item["rollout/staleness"] for item in steps["sampled ahead"]] == [0, 1, 1, 1]
        for name in ("sampled ahead, ended by a signal", "a reward that fails ahead"):
            assert [item["step"] for item in steps[name]] == [1, 2]


def test_what_two_ranks_export_gives_their_greedy_answers(cases: Both) -> None:
    _, (first, second) = cases
    found = exported_answers(first.runs["plain"].out)
    assert found == first.runs["plain"].greedy == second.runs["plain"].greedy == cases[0].runs["plain"].greedy
    assert found != base_answers()


def test_killed_and_gone_on_with_by_as_many_ranks_is_never_killed_to_the_bit(cases: Both) -> None:
    for found in cases[1]:
        steady, killed = found.going_on["steady"], found.going_on["killed"]
        assert steady.keys() == killed.keys()
        assert all(torch.equal(killed[name], value) for name, value in steady.items())
    assert told(cases[1][0].folder / "killed") == told(cases[1][0].folder / "steady")


def test_killed_and_gone_on_with_by_other_numbers_of_processes_loses_and_repeats_nothing(cases: Both) -> None:
    """One process until step 3, two until step 5, one to the end."""
    expected, (first, _) = cases
    folder = first.folder / "changing"
    weights = go_on(folder, Ranks())
    assert distance(weights, expected.going_on["steady"]) < NEAR
    found, wanted = told(folder), told(expected.folder / "steady")
    assert [step for step, _ in found[0]] == [1, 2, 3, 4, 5, 6]
    assert found[1] == wanted[1]
    for (_, values), (_, others) in zip(found[0], wanted[0], strict=True):
        assert values.keys() == others.keys()
        for name in values.keys() - {"update/model_tokens"}:
            assert values[name] == pytest.approx(others[name], rel=1e-3, abs=1e-5), name


def told(folder: Path) -> tuple[list[tuple[int, dict[str, float]]], str]:
    """The metrics of each step of a run, and its rollouts."""
    records = [record for record in comparable(read_metrics(folder / "metrics.jsonl")) if "loss/total" in record]
    return [(record["step"], record) for record in records], (folder / "rollouts" / "rollouts.jsonl").read_text()
