"""For every family: a tiny random model learns, and its checkpoint is a model that answers like the trained one."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.asking import answered, requests
from support.made_trainer import ENCODER, MadePreparer, made_config, made_trainer
from support.tiny_models import FAMILIES, tiny_model
from transformers import AutoModelForImageTextToText

from easyvideor1.config_data import SourceConfig
from easyvideor1.model.weights import checkpoint_tensors
from easyvideor1.records.folder import RunFolder
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.exporting import export
from easyvideor1.training import shelf

STEPS = 20


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory):
    """(trainer after its run on text, images and videos, its configuration)."""
    folder = tmp_path_factory.mktemp(request.param)
    tiny_model(request.param).save_pretrained(folder / "base")
    config = made_config(folder / "run", f"model.path={folder / 'base'}", f"train.steps={STEPS}")
    trainer = made_trainer(config, family=request.param)
    named = replace(config, data=replace(config.data, train=(SourceConfig(path="made.jsonl"),)))
    RunFolder(config.out).write_start(named)
    trainer.run()
    return trainer, config


def test_the_reward_rises_and_the_sampler_is_the_actor(trained):
    _, config = trained
    records = comparable(read_metrics(RunFolder(config.out).metrics))
    rewards = [record["reward/mean"] for record in records]
    assert len(rewards) == STEPS
    trains = [record for record in records if record["update/idle_groups_frac"] < 1]
    assert len(trains) >= 5
    assert np.mean(rewards[-4:]) > np.mean(rewards[:4]) + 0.2
    assert max(record["policy/sampler_logprob_diff_max"] for record in trains) < 1e-3
    assert [record["loss/ratio"] for record in trains] == [1.0] * len(trains)


def test_the_exported_checkpoint_loads_and_gives_the_trainers_greedy_answers(trained):
    trainer, config = trained
    newest = shelf.list_checkpoints(RunFolder(config.out).checkpoints)[-1]
    out = RunFolder(config.out).path / "exported"
    shutil.rmtree(out, ignore_errors=True)
    export(newest, out)
    model = AutoModelForImageTextToText.from_pretrained(out)
    preparer = MadePreparer(model)
    examples = [preparer.example(preparer.prompt(sample), ()) for sample in preparer.samples]
    asked = requests(examples, Sampling(temperature=0.0, max_response_tokens=5))
    found = answered(HFEngine(model, ENCODER, tokens_per_batch=1000), asked)
    expected = answered(trainer._engine, asked)
    assert [group[0].token_ids for group in found] == [group[0].token_ids for group in expected]
    base = answered(HFEngine(tiny_model(config_family(config)), ENCODER, tokens_per_batch=1000), asked)
    assert [group[0].token_ids for group in found] != [group[0].token_ids for group in base]


def config_family(config):
    return AutoModelForImageTextToText.from_pretrained(config.model.path).config.model_type


def test_an_engine_is_handed_what_a_checkpoint_holds(trained):
    from safetensors.torch import load_file

    trainer, config = trained
    newest = shelf.list_checkpoints(RunFolder(config.out).checkpoints)[-1]
    stored = {}
    for path in (newest / "model").glob("*.safetensors"):
        stored |= load_file(path)
    handed = dict(checkpoint_tensors(trainer._policy.model))
    assert handed.keys() == stored.keys()
    assert all(torch.equal(handed[name], tensor) for name, tensor in stored.items())
