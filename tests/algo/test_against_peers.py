"""Losses, gradients and advantages against TRL's and verl's own values on random input (see make_*_vectors.py)."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from easyvideor1.algo import advantages
from easyvideor1.algo.algorithms import ALGORITHMS
from easyvideor1.algo.losses import Tokens, policy_loss

TRL = json.loads(Path(__file__).with_name("trl_vectors.json").read_text())
VERL = json.loads(Path(__file__).with_name("verl_vectors.json").read_text())
REL = 1e-5
"""Both sides compute in float64; 1e-5 would still show any difference of formula."""

TRL_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "grpo, one update": ("grpo", {}),
    "grpo, kl": ("grpo", {"kl_coef": 0.04}),
    "dapo": ("dapo", {}),
    "dapo, entropy": ("dapo", {"entropy_coef": 0.01}),
    "dapo, sampler": ("dapo", {"sampler_cap": 1.3}),
    "dr_grpo": ("dr_grpo", {}),
    "gspo": ("gspo", {"clip_low": 0.05, "clip_high": 0.08}),
    "cispo": ("cispo", {"clip_high": 0.2}),
    "rloo": ("rloo", {}),
}
VERL_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "dual clip": ("dapo", {"dual_clip": 1.2}),
    "dr_grpo": ("dr_grpo", {}),
    "gspo_token": ("gspo_token", {"clip_low": 0.05, "clip_high": 0.08}),
    "gspo_token, by token": ("gspo_token", {"clip_low": 0.05, "clip_high": 0.08, "average": "token"}),
    "cispo": ("cispo", {"clip_low": 0.2, "clip_high": 0.3}),
    "k1": ("dapo", {"kl_coef": 0.04, "kl_kind": "k1"}),
    "k2": ("dapo", {"kl_coef": 0.04, "kl_kind": "k2"}),
    "k3": ("dapo", {"kl_coef": 0.04, "kl_kind": "k3"}),
}
LOSSES = [
    pytest.param(vectors["losses"][case], *setting, id=f"{library}: {case}")
    for library, vectors, cases in (("trl", TRL, TRL_CASES), ("verl", VERL, VERL_CASES))
    for case, setting in cases.items()
]


def vector(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("data", "name", "options"), LOSSES)
def test_loss_and_gradient_are_those_of_the_library(data, name, options):
    algorithm = dataclasses.replace(ALGORITHMS[name], **options)
    lengths = torch.tensor(data["lengths"])
    num_tokens, num_sequences = len(data["logprobs"]), len(lengths)
    sequence = torch.repeat_interleave(torch.arange(num_sequences), lengths)
    logprobs = vector(data["logprobs"]).requires_grad_()
    tokens = Tokens(
        logprobs=logprobs,
        advantages=vector(data["advantages"])[sequence],
        weights=torch.ones(num_tokens, dtype=torch.float64),
        sequence=sequence,
        num_sequences=num_sequences,
        is_offline=torch.zeros(num_tokens, dtype=torch.bool),
        old_logprobs=vector(data["old"]) if data["with_old"] else None,
        ref_logprobs=vector(data["ref"]),
        sampler_logprobs=vector(data["sampler"]),
        entropy=vector(data["entropy"]).requires_grad_(),
    )
    fixed = num_sequences * data["max_length"]
    normalizer = {"token": num_tokens, "sequence": num_sequences, "fixed": fixed}[algorithm.average]
    loss = policy_loss(tokens, algorithm, normalizer=normalizer)
    loss.value.backward()
    assert loss.value.item() == pytest.approx(data["loss"], rel=REL)
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx(data["gradient"], rel=REL, abs=1e-15)
    if data["with_old"]:
        assert 0 < loss.metrics["loss/ratio_clipped_frac"].mean() < 1, "the case must show clipped and free tokens"


@pytest.mark.parametrize("case", TRL["advantages"])
def test_advantages_are_trls(case):
    data = TRL["advantages"][case]
    parts = [row or [math.nan, math.nan] for row in data["parts"]]
    weights = {"accuracy": data["weights"][0], "format": data["weights"][1]}
    groups = [parts[start : start + data["group"]] for start in range(0, len(parts), data["group"])]
    columns = [dict(zip(weights, zip(*group, strict=True), strict=True)) for group in groups]
    name = case.split(",")[0]
    if name == "gdpo":
        ours = [value for column in columns for value in advantages.gdpo_sums(column, weights=weights)]
        ours = [math.nan if math.isnan(row[0]) else value for value, row in zip(ours, parts, strict=True)]
        ours = advantages.scaled_over_batch(ours, batch_B=ours)
    else:
        function = {"grpo": advantages.grpo, "dr_grpo": advantages.centered, "rloo": advantages.rloo}[name]
        rewards = [[sum(w * r for w, r in zip(data["weights"], row, strict=True)) for row in group] for group in groups]
        ours = [value for group in rewards for value in function(group)]
    assert ours == pytest.approx(data["advantages"], rel=REL)
