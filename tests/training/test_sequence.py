"""Ranks that compute each pack together: what one process computes, whatever is cut where."""

from __future__ import annotations

import pytest
import torch
from support.on_ranks import results
from support.rank_training import Updated, assert_same_rollouts
from support.sequence_cases import MORE_RUNS, RUNS, Together, of_four, of_two, of_two_more
from support.tiny_models import tiny_model

from easyvideor1.errors import UsageError
from easyvideor1.training import sequence
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.sequence import SequenceGroup, require_divisible

pytestmark = pytest.mark.timeout(600)  # the first one waits for the processes
NEAR = 1e-5
"""Relative; float32 adds in other orders."""
Both = tuple[Together, list[Together]]
"""Of one process, and of each of several ranks."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Both:
    one, ranks = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    return of_two(one, Ranks()), results(of_two, ranks, size=2)


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Both:
    one, ranks = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    return of_two_more(one, Ranks()), results(of_two_more, ranks, size=2)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Both:
    one, ranks = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("four")
    return of_four(one, Ranks()), results(of_four, ranks, size=4)


def assert_near(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """All of them together, relative."""
    assert found.keys() == expected.keys()
    apart = torch.stack([(found[name].double() - value.double()).norm() for name, value in expected.items()]).norm()
    assert apart < NEAR * torch.stack([value.double().norm() for value in expected.values()]).norm()


def assert_same(found: Updated, expected: Updated) -> None:
    assert float(torch.stack([value.norm() for value in expected.gradients.values()]).norm()) > 1e-2
    assert_near(found.gradients, expected.gradients)
    assert found.metrics.keys() == expected.metrics.keys()
    for name, value in expected.metrics.items():
        if name != "update/model_tokens":  # blank packs count
            assert found.metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def assert_same_run(name: str, both: Both) -> None:
    expected, ranks = both[0].runs[name], [found.runs[name] for found in both[1]]
    for found in ranks:
        assert found.error == expected.error == ""
        assert_same_rollouts(name, found, expected)
        assert_near(found.weights, expected.weights)
    assert len(ranks[0].metrics) == len(expected.metrics) >= 2
    for values, others in zip(ranks[0].metrics, expected.metrics, strict=True):
        assert values.keys() == others.keys()
        for key, value in others.items():
            if key != "update/model_tokens":
                assert values[key] == pytest.approx(value, rel=1e-3, abs=1e-5), key


def test_packs_of_two_ranks_have_the_log_probs_and_entropies_of_one(two: Both) -> None:
    expected, ranks = two
    for found in ranks:
        assert_near(found.logprobs, expected.logprobs)
        assert_near(found.entropies, expected.entropies)


def test_texts_images_and_videos_have_the_gradients_of_one_process(two: Both) -> None:
    expected, ranks = two
    for found in ranks:
        for name, updated in expected.updates.items():
            assert_same(found.updates[name], updated)
            assert found.updates[name].metrics["update/model_tokens"] == updated.metrics["update/model_tokens"]


@pytest.mark.parametrize("name", RUNS)
def test_whole_steps_move_the_weights_as_one_process_does(name: str, two: Both) -> None:
    assert_same_run(name, two)


@pytest.mark.parametrize(
    ("family", "size", "problem"),
    [
        ("qwen3_vl", 3, "parallel.sequence=3 does not divide the 4 attention heads of this model; take one of 1, 2, 4"),
        ("qwen3_5", 2, "'qwen3_5' has linear-attention layers"),
    ],
)
def test_models_that_cannot_be_cut_are_refused(family: str, size: int, problem: str) -> None:
    require_divisible(tiny_model(family), 1)
    with pytest.raises(UsageError, match=problem):
        require_divisible(tiny_model(family), size)


@pytest.mark.slow
@pytest.mark.skipif("not config.getoption('markexpr')", reason="takes a minute; run with -m slow")
def test_other_models_have_the_gradients_of_one_process(more: Both) -> None:
    expected, ranks = more
    for found in ranks:
        for name, updated in expected.updates.items():
            assert_same(found.updates[name], updated)


@pytest.mark.slow
@pytest.mark.skipif("not config.getoption('markexpr')", reason="takes a minute; run with -m slow")
@pytest.mark.parametrize("name", MORE_RUNS)
def test_steps_of_other_recipes_move_the_weights_as_one_process_does(name: str, more: Both) -> None:
    assert_same_run(name, more)


@pytest.mark.slow
@pytest.mark.skipif("not config.getoption('markexpr')", reason="takes a minute; run with -m slow")
def test_four_ranks_in_pairs_and_all_together(four: Both) -> None:
    expected, ranks = four
    for found in ranks:
        assert found.updates.keys() == expected.updates.keys()
        for name, updated in expected.updates.items():
            assert_same(found.updates[name], updated)
        assert_near(found.logprobs, expected.logprobs)
    assert_same_run("frozen tower", four)


def test_one_process_is_a_group_of_its_own() -> None:
    alone = SequenceGroup()
    rows = torch.arange(6.0).view(3, 2)
    numbers = torch.tensor([2, 0, 0])
    assert torch.equal(alone.fetch(rows, held=[torch.arange(3)], wanted=[numbers]), rows[numbers])
    assert alone.everything(rows, count=3) is rows
    assert alone.one_each(["own"]) == ["own"]


def test_an_error_that_is_none_of_a_connection_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")

    monkeypatch.setattr(torch.distributed, "all_to_all_single", refuse)
    with pytest.raises(RuntimeError, match="Split sizes"):
        sequence._all_to_all(torch.zeros(2, 3), [1, 1], [1, 1], None)
