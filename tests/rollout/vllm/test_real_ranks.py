"""vLLM itself in a run of two ranks, beside the same run on one: `scripts/test_vllm.sh` runs these."""

import importlib.util
from pathlib import Path

import pytest
from support.on_ranks import on_ranks, results
from support.vllm_ranks import STEPS, Run, read_run, train, write_recipe

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
    pytest.mark.timeout(900),
]
ATOL = 1e-4
"""Nats; both compute in float32, in another order."""
ENGINES = {
    "in each process": ("rollout.engine=vllm",),
    "one server": ("rollout.engine=vllm_server", "rollout.vllm.start_servers=1"),
    "adapters": ("rollout.engine=vllm", "model.lora={rank: 4}", "optimizer.learning_rate=0.01"),
}
AHEAD = ("rollout.engine=vllm_server", "rollout.vllm.start_servers=1", "train.async_level=1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def alone(folder: Path) -> Run:
    """The run of one process."""
    recipe = write_recipe(folder / "demo", folder / "alone", *ENGINES["in each process"])
    assert results(train, [recipe], size=1, timeout_s=300) == [0]
    return read_run(folder / "alone")


@pytest.mark.parametrize("name", list(ENGINES))
def test_two_ranks_sample_from_the_policy_after_each_update(name: str, folder: Path, alone: Run) -> None:
    """Each step compares all that was sampled for it with the weights of the update before."""
    out = folder / name.replace(" ", "-")
    recipe = write_recipe(folder / "demo", out, *ENGINES[name])
    assert results(train, [recipe], timeout_s=600) == [0, 0]
    found = read_run(out)
    assert [record["step"] for record in found.metrics] == list(range(1, STEPS + 1))
    assert max(record["policy/sampler_logprob_diff_max"] for record in found.metrics) < ATOL
    for log in found.logs:  # each rank compared its own engine, again after each update
        assert {f"weights {version}: mean" in log for version in range(STEPS)} == {True}
    if name == "adapters":
        return  # they train something else
    assert found.rollouts == alone.rollouts
    for one, two in zip(alone.metrics, found.metrics, strict=True):
        assert two["reward/mean"] == pytest.approx(one["reward/mean"], abs=1e-9)
    apart = max(float((found.weights[name] - weight).abs().max()) for name, weight in alone.weights.items())
    assert apart < 1e-3  # after steps of 0.001


def test_a_server_samples_ahead_for_two_ranks(folder: Path) -> None:
    runs = []
    for size in (1, 2):
        out = folder / f"ahead-{size}"
        recipe = write_recipe(folder / "demo", out, *AHEAD)
        assert results(train, [recipe], size=size, timeout_s=600) == [0] * size
        runs.append(read_run(out))
    assert runs[0].rollouts == runs[1].rollouts
    for run in runs:
        assert [record["rollout/staleness"] for record in run.metrics] == [0, 1, 1, 1]


def test_an_engine_of_one_rank_that_keeps_old_weights_ends_the_run_on_both(folder: Path) -> None:
    recipe = write_recipe(folder / "demo", folder / "stale", *ENGINES["in each process"])
    ended = on_ranks(train, [recipe], True, timeout_s=600)
    assert [end.code for end in ended] == [0, 0]
    assert {end.result for end in ended} != {0}
    for end in ended:
        assert "weights 1: the engine does not sample from the policy" in end.stderr
