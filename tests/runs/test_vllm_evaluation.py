"""`easyvideor1 eval --engine vllm` against vLLM itself (see scripts/test_vllm.sh): the answers of the engine hf."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from support.made_benchmarks import NAMES, make_data, make_model, words

from easyvideor1.cli import main
from easyvideor1.errors import RunError
from easyvideor1.records.jsonl import read_objects
from easyvideor1.rollout.vllm.core import VLLMCore

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]
CHUNKED = {"enable_chunked_prefill": True, "max_num_batched_tokens": 64, "kv_cache_memory_bytes": 64 << 20}
"""Prompts of more tokens than one step reads."""


def responses(out: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """(benchmark, id) -> response and what ended it, of all items that were asked."""
    found = {}
    for name in NAMES:
        for record in read_objects(out / name / "answers.jsonl"):
            if record["response"] is not None:
                found[name, record["id"]] = record["response"], record["stop"]
    return found


def deaths(out: Path) -> int:
    return json.loads((out / "results.json").read_text())["run"]["counts"]["engine_deaths"]


def test_vllm_answers_as_the_engine_hf_does_also_after_its_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = make_model(tmp_path / "model"), tmp_path / "data"
    make_data(data, num_videos=6, num_questions=3)
    cache = ["--cache", str(tmp_path / "frames")]
    assert main(words(model, data, tmp_path / "hf", *cache)) == 1  # the broken and the missing video
    more = ["--engine", "vllm", "--vllm-args", json.dumps(CHUNKED)]
    assert main(words(model, data, tmp_path / "vllm", *cache, *more)) == 1
    expected = responses(tmp_path / "hf")
    assert len(expected) == 3 * 6 * 3
    assert len(set(expected.values())) > 10  # they are not all the same answer
    assert responses(tmp_path / "vllm") == expected
    assert deaths(tmp_path / "vllm") == 0

    steps, step = [0], VLLMCore.step

    def dying(core: VLLMCore) -> Any:
        steps[0] += 1
        if steps[0] == 20:
            raise RunError("vLLM failed while sampling")
        return step(core)

    monkeypatch.setattr(VLLMCore, "step", dying)
    assert main(words(model, data, tmp_path / "died", *cache, *more)) == 1
    assert responses(tmp_path / "died") == expected
    assert deaths(tmp_path / "died") == 1
