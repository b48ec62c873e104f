"""Engines with weights of their own in a run of two ranks: what is asked, handed over, compared, and what fails."""

from __future__ import annotations

import pytest
import torch
from support.rank_engines import END, NUM_EXAMPLES, examples
from support.rank_training import Both
from support.tiny_models import tiny_model

from easyvideor1.model.weights import checkpoint_tensors

pytestmark = pytest.mark.timeout(900)  # the first one waits for two processes


def test_ranks_share_a_server_which_takes_over_the_weights_once(cases: Both) -> None:
    one, (first, second) = cases[0].sampled.shared, [found.sampled.shared for found in cases[1]]
    expected = {example.sample.id: (len(example.prompt), END) for example in examples(NUM_EXAMPLES)}
    assert one.answers == expected
    assert [first.answers.keys(), second.answers.keys()] == [{"0", "2", "4"}, {"1", "3"}]
    assert first.answers | second.answers == expected
    assert one.versions == first.versions == second.versions == {3}
    assert one.loads == first.loads == ["version-3"]
    weights = dict(checkpoint_tensors(tiny_model("qwen3_vl")))
    for found in (one, first):
        assert found.weights.keys() == weights.keys()
        assert all(torch.equal(found.weights[name], tensor) for name, tensor in weights.items())


def test_weights_that_the_first_rank_cannot_write_end_the_run_on_both(cases: Both) -> None:
    first, second = (found.sampled.shared.error for found in cases[1])
    assert first.startswith("NotADirectoryError")
    assert second.startswith("RunError: rank 0 failed: NotADirectoryError")


def test_an_engine_that_fails_in_the_middle_of_the_weights_ends_the_run_on_both(cases: Both) -> None:
    assert [found.sampled.unloaded for found in (cases[0], *cases[1])] == ["out of memory"] * 3


@pytest.mark.parametrize("name", ["compared", "compared_together"])
def test_each_rank_compares_what_its_engine_sampled_and_one_with_old_weights_ends_both(name: str, cases: Both) -> None:
    one, first, second = (getattr(found.sampled, name) for found in (cases[0], *cases[1]))
    assert [one.modalities, first.modalities, second.modalities] == [{"text", "video"}, {"text"}, {"text", "video"}]
    assert max(one.gap, first.gap, second.gap) < 1e-4
    assert "weights 1: the engine does not sample from the policy" in one.error
    assert first.error == second.error
    assert "(text), weights 1: the engine does not sample from the policy" in first.error
