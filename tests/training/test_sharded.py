"""Several ranks read their parts of a model: together they have what Transformers loads."""

from __future__ import annotations

import re

import pytest
import torch
from support.rank_loading import CASES
from support.rank_training import Both

pytestmark = pytest.mark.timeout(900)  # the first one waits for two processes


@pytest.mark.parametrize("name", list(CASES))
def test_two_ranks_have_the_weights_and_buffers_that_transformers_loads(name: str, cases: Both) -> None:
    expected, ranks = cases[0].loaded[name], [found.loaded[name] for found in cases[1]]
    for found in ranks:
        assert found.tensors.keys() == expected.tensors.keys()
        assert found.trained == expected.trained
        assert any("inv_freq" in key for key in found.tensors)
        for key, value in expected.tensors.items():
            own = found.tensors[key]
            assert own.dtype in (torch.float32, value.dtype), key
            if name == "merged adapters" and key.endswith("_proj.weight"):
                torch.testing.assert_close(own, value, msg=key)
            else:
                assert torch.equal(own.to(value.dtype), value), key
        assert found.reference.keys() == expected.reference.keys()
        for key, value in expected.reference.items():
            assert torch.equal(found.reference[key], value), key
        tolerance = 0.2 if "model.dtype=bfloat16" in CASES[name] else 1e-4
        assert found.logprobs is not None
        torch.testing.assert_close(found.logprobs, expected.logprobs, rtol=0, atol=tolerance)


def test_what_one_rank_finds_is_the_same_error_on_both(cases: Both) -> None:
    first, second = [found.loaded for found in cases[1]]
    told = {
        "a weight is missing": "UsageError: .*the weight model.language_model.layers.1.mlp.up_proj.weight is in none",
        "not a number": "RunError: .*1 of .* numbers of the weight model.language_model.layers.1.mlp.up_proj.weight",
        "no weights": "UsageError: .*neither model.safetensors nor model.safetensors.index.json",
    }
    for name, expected in told.items():
        assert first[name].error == second[name].error
        assert re.match(expected, first[name].error), first[name].error


def test_tied_weights_are_one_weight_on_every_rank(cases: Both) -> None:
    names = [
        [name for name in found.loaded["tied"].trained if "embed_tokens" in name or "lm_head" in name]
        for found in cases[1]
    ]
    assert names == [["model.model.language_model.embed_tokens.weight"]] * 2
    for found in cases[1]:
        tensors = found.loaded["tied"].tensors
        assert torch.equal(tensors["lm_head.weight"], tensors["model.language_model.embed_tokens.weight"])
