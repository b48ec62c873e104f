"""A trainer over a tiny model with made-up samples, rewards and trajectories."""

import json
from types import SimpleNamespace
from typing import Any

import torch

from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config import RunConfig
from easyvideor1.config_tree import apply_overrides, build
from easyvideor1.errors import MediaError
from easyvideor1.model import lora
from easyvideor1.model.families import vision_tower
from easyvideor1.model.weights import copy_weights
from easyvideor1.records.folder import RunFolder
from easyvideor1.report.terminal import open_progress
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.rollout.offline import OfflineTrajectories
from easyvideor1.training import checkpoint, sequence, sharded, shared_prefix, shelf
from easyvideor1.training.forward import PackForward
from easyvideor1.training.policy import Policy
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.reference import Frozen, reference_of
from easyvideor1.training.trainer import Trainer
from easyvideor1.training.value_head import value_head_of
from easyvideor1.types import Example, Prompt, Rollout, Score, StopReason
from support.tiny_models import tiny_case, tiny_model
from support.values import copied

NUM_SAMPLES = 6
STEPS = 4
END_ID = 7
OFTEN = "train.checkpoint_every=null"
"""Has `made_config` make a checkpoint after every step, as for all models so small; else at the start and the end."""
ENCODER: Any = SimpleNamespace(end_ids=(END_ID,), pad_id=95, banned_ids=(90, 91, 92, 93), response_text=str)


class Killed(BaseException):
    """Stands for the death of the process: no handler of the loop may see it."""


class MadePreparer:
    """Random prompts and patches of text, image and video samples; `bad` ids cannot be decoded.

    `media` gives the grids of each sample; then all have as much text.
    """

    def __init__(self, model, bad=(), media=None):
        self.bad = bad
        self.cases = {}
        if media is not None:
            for index, grids in enumerate(media):
                self.cases[str(index)] = tiny_case(model, name=str(index), lengths=[1], seed=index, **grids)
            return
        for index in range(NUM_SAMPLES):
            grids: dict[str, Any] = ({}, {"images": [(1, 4, 4)]}, {"videos": [(2, 4, 4)]})[index % 3]
            self.cases[str(index)] = tiny_case(model, name=str(index), lengths=[1], text_len=4 + index, **grids)

    @property
    def samples(self):
        return [case.group.prompt.sample for case in self.cases.values()]

    def prompt(self, sample):
        return self.cases[sample.id].group.prompt

    def num_bytes(self, prompt: Prompt) -> int:
        return 1

    def clips(self, prompt):
        if prompt.sample.id in self.bad:
            raise MediaError("cannot be decoded", where=f"{prompt.sample.id}.mp4")
        return ()

    def example(self, prompt, clips):
        return Example(prompt=prompt, clips=clips, features=self.cases[prompt.sample.id].features)


def low_tokens(pairs):
    """Reward: the share of token ids below 40 (the text of a made response is the list of its ids)."""
    scores = []
    for _, text, _ in pairs:
        ids = json.loads(text)
        value = sum(token < 40 for token in ids) / len(ids)
        scores.append(Score(value=value, parts={"accuracy": value, "format": 1.0}))
    return scores


def made_config(out, *overrides):
    tree = {
        "out": str(out),
        "model": {"path": "unused"},
        "data": {"train": []},
        "cache": {"dir": "unused"},
        "rollout": {"n": 4, "max_response_tokens": 5},
        "optimizer": {"learning_rate": 0.01},
        "train": {"steps": STEPS, "prompts_per_step": 4, "tokens_per_pack": 200, "checkpoint_every": 0},
    }
    return build(RunConfig, apply_overrides(tree, overrides), where="test")


def made_trainer(
    config,
    *,
    engine=None,
    score=low_tokens,
    bad=(),
    media=None,
    evaluate=None,
    offline=None,
    family="qwen3_vl",
    ranks=None,
):
    """With several ranks: the model sharded over them, and a whole copy that samples, as in runs.models."""
    ranks = ranks or Ranks()
    dtype = getattr(torch, config.model.dtype)
    with ranks.agree("checkpoint"):
        found = shelf.newest_whole(RunFolder(config.out).checkpoints)
    model = tiny_model(family).to(dtype if ranks.size == 1 else torch.float32)
    preparer: Any = MadePreparer(model, bad, media)
    if config.model.freeze_vision_tower:
        vision_tower(model).requires_grad_(False)
    if config.model.lora:
        lora.add_adapters(model, config.model.lora)
    shared_prefix.enable(model)
    algorithm = fitting_algorithm(config)
    forward = PackForward(
        model,
        sequence=sequence.join(ranks, config.parallel),
        value_head=value_head_of(model, algorithm),
    )
    reference = reference_of(forward) if algorithm.needs_reference else None
    if found and (weights := checkpoint.weights_folder(found)):
        # In place, because made models have all buffers in their dtype and loaded ones do not.
        model.load_state_dict(type(model).from_pretrained(weights, dtype=model.dtype).state_dict())
    elif found:
        lora.load_adapters(model, found)
    if found and forward.value_head is not None:
        checkpoint.load_value_head(found, forward.value_head)
    if ranks.size > 1:
        sharded.shard(forward, config.parallel, ranks=ranks, dtype=dtype)
    policy = Policy(
        forward,
        algorithm=algorithm,
        optimizer=config.optimizer,
        total_steps=STEPS,
        temperature=config.rollout.temperature,
        reference=reference,
        ranks=ranks,
    )
    return Trainer(
        config,
        samples=preparer.samples,
        prepare=preparer,
        engine=engine or made_engine(policy, family, dtype=dtype, overlaps=config.train.async_level > 0),
        policy=policy,
        algorithm=algorithm,
        score=score,
        evaluate=evaluate,
        progress=open_progress(title="test", total_steps=STEPS),
        offline=offline,
        resume_from=found,
    )


def made_engine(policy, family, *, dtype, overlaps):
    if policy.ranks.size == 1 and not overlaps:
        return HFEngine(policy.model, ENCODER, tokens_per_batch=300, tower=policy.tower)
    sampler = tiny_model(family).to(dtype)
    shared_prefix.enable(sampler)
    # Other batches than those of one process.
    return HFEngine(sampler, ENCODER, tokens_per_batch=90, take_over=lambda: copy_weights(policy.model, sampler))


def final_weights(trainer):
    """Those of the model, and of a value head."""
    policy = trainer._policy
    named = [*policy.model.state_dict().items(), *policy.masters.of_values.items()]
    return copied(named)


def copy_of_reference(trainer: Trainer) -> Any:
    """The frozen model that a run without LoRA compares with."""
    reference = trainer._policy._reference
    assert isinstance(reference, Frozen)
    return reference._forward.model


GOOD, BAD = [1, 2, 3], [60, 61, 62]


def offline(ids=("0", "1", "2", "3", "4", "5"), tokens=GOOD):
    rollout = Rollout(
        token_ids=tuple(tokens), text=json.dumps(tokens), logprobs=None, stop_reason=StopReason.EOS, source="offline"
    )
    return OfflineTrajectories(by_sample=dict.fromkeys(ids, (rollout,)), num_too_long=0)
