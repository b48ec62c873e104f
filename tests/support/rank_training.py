"""Updates and runs of tiny models on any number of ranks, for tests/training/test_ranks_training.py.

Everything here is called in the test's own process, which is the reference, and in several processes.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForImageTextToText

from easyvideor1.algo.algorithms import named_algorithm
from easyvideor1.algo.credit import normalizer
from easyvideor1.cli import main
from easyvideor1.config import AlgorithmConfig, ModelConfig, ParallelConfig
from easyvideor1.config_data import SourceConfig
from easyvideor1.config_train import OptimizerConfig
from easyvideor1.data.order import Stratum, order
from easyvideor1.model.load import prepared
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.metrics import is_wall_clock
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.exporting import export
from easyvideor1.training import sequence, sharded, shared_prefix, shelf
from easyvideor1.training.forward import PackForward
from easyvideor1.training.minibatch import Idle, Minibatch
from easyvideor1.training.pack import pack_groups
from easyvideor1.training.policy import Policy
from easyvideor1.training.ranks import Ranks, joined
from easyvideor1.types import Score
from support.asking import answered, requests
from support.made_trainer import (
    ENCODER,
    OFTEN,
    Killed,
    MadePreparer,
    final_weights,
    low_tokens,
    made_config,
    made_trainer,
)
from support.rank_engines import Sampled, sampled
from support.rank_loading import Loaded, load_all
from support.tiny_models import Case, tiny_case, tiny_model
from support.values import copied

KINDS: dict[str, dict[str, Any]] = {
    "text": {},
    "image": {"images": [(1, 4, 4)]},
    "video": {"videos": [(2, 4, 4)]},
    "both": {"images": [(1, 4, 4)], "videos": [(2, 4, 4)]},
}
GRPO = named_algorithm(AlgorithmConfig())
PAIRS = list(itertools.product(KINDS, KINDS))
"""What the first and the second rank have."""


@dataclass
class Updated:
    """What one update came to."""

    metrics: dict[str, float]
    gradients: dict[str, torch.Tensor]


def made_policy(
    ranks: Ranks,
    *,
    family: str = "qwen3_vl",
    parallel: ParallelConfig | None = None,
    dtype: torch.dtype = torch.float32,
    heads: tuple[int, int] | None = None,
    options: Mapping[str, Any] | None = None,
    recomputes: bool = False,
    frozen: bool = False,
) -> Policy:
    """
    Args:
        heads: query heads, and key-value heads; None: as tiny models have them.
        options: of the algorithm, GRPO.
        recomputes: with activation checkpointing.
        frozen: the vision tower does not train.
    """
    model = tiny_model(family, heads=heads)
    prepared(model, ModelConfig(path="unused", gradient_checkpointing=recomputes, freeze_vision_tower=frozen))
    if ranks.size == 1:
        model.to(dtype)
    shared_prefix.enable(model)
    parallel = parallel or ParallelConfig()
    forward = PackForward(model, sequence=sequence.join(ranks, parallel))
    if ranks.size > 1:
        sharded.shard(forward, parallel, ranks=ranks, dtype=dtype)
    return Policy(
        forward,
        algorithm=named_algorithm(AlgorithmConfig(options=dict(options or {}))),
        optimizer=OptimizerConfig(learning_rate=0.0, max_grad_norm=float("inf")),
        total_steps=1,
        temperature=1.0,
        ranks=ranks,
    )


def updated(
    policy: Policy,
    cases: Sequence[Case],
    *,
    owners: Sequence[int],
    tokens_per_pack: int = 1000,
    shared: bool = True,
) -> Updated:
    """One update of groups, each computed by the rank or sequence group that owns it, or all by the only one."""
    groups = [case.group for case in cases]
    own = policy.ranks.rank // policy.sequence.size
    mine = [policy.ranks.size == 1 or owner == own for owner in owners]
    chosen = [tuple(range(len(group.rollouts))) if is_mine else () for group, is_mine in zip(groups, mine, strict=True)]
    form = shared_prefix.pack_form(policy.model, shared=shared)
    work = Minibatch(
        batch=pack_groups(groups, tokens_per_pack=tokens_per_pack, form=form, chosen=chosen),
        media={index: case.features for index, case in enumerate(cases) if mine[index]},
        normalizer=normalizer(groups, GRPO, max_response_tokens=5),
        idle=Idle(),
    )
    tally = policy.update([work], step=0)
    weights = policy.masters.by_name.items()
    gradients = copied((name, weight.grad) for name, weight in weights if weight.grad is not None)
    return Updated(metrics=tally.values(), gradients=gradients)


def cases_of(policy: Policy, kinds: Sequence[str]) -> list[Case]:
    return [
        tiny_case(policy.model, name=f"{kind}{number}", lengths=[3, 5], seed=number, **KINDS[kind])
        for number, kind in enumerate(kinds)
    ]


def of_packs(ranks: Ranks) -> dict[str, Updated]:
    """Eight groups in packs of one: four on each rank; all but one on the first; none on the second."""
    policy = made_policy(ranks)
    cases = cases_of(policy, list(KINDS) * 2)
    dealt = {"even": [0, 1] * 4, "uneven": [0] * 7 + [1], "one-sided": [0] * 8}
    return {name: updated(policy, cases, owners=owners, tokens_per_pack=40) for name, owners in dealt.items()}


def of_families(ranks: Ranks) -> dict[str, Updated]:
    found = {}
    for family in ("qwen2_5_vl", "qwen3_vl_moe", "qwen3_5"):
        policy = made_policy(ranks, family=family)
        found[family] = updated(policy, cases_of(policy, ["text", "both", "video"]), owners=[0, 1, 1])
    return found


def of_layouts(ranks: Ranks) -> dict[str, Updated]:
    """Whole on every rank, and sharded within machines."""
    found = {}
    for shard in ("none", "hybrid"):
        policy = made_policy(ranks, parallel=ParallelConfig(shard=shard))
        found[shard] = updated(policy, cases_of(policy, ["text", "video"]), owners=[0, 1])
    policy = made_policy(ranks, dtype=torch.bfloat16)
    found["bfloat16"] = updated(policy, cases_of(policy, ["text", "video"]), owners=[0, 1])
    return found


@dataclass
class Ran:
    """What a run left behind, or how it ended."""

    out: Path

    error: str
    metrics: list[dict[str, float]]
    rollouts: list[str]
    bad: list[str]
    weights: dict[str, torch.Tensor]
    greedy: list[tuple[int, ...]]
    """Answers of its engine to all samples, in the end; of the plain run only."""


def assert_same_rollouts(name: str, found: Ran, expected: Ran) -> None:
    """The same to the bit; where a value head has a say in them, advantages up to the order of additions."""
    if name != "values":
        assert found.rollouts == expected.rollouts
        return
    records, others = ([json.loads(line) for line in ran.rollouts] for ran in (found, expected))
    for record, other in zip(records, others, strict=True):
        assert math.isclose(record.pop("advantage"), other.pop("advantage"), rel_tol=1e-4, abs_tol=1e-4)
        assert record == other


RUNS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "several updates and a reference": ("train.updates_per_step=2", "algorithm.options={kl_coef: 0.1}"),
    "KL over all words": ("algorithm.options={kl_coef: 0.1, kl_kind: full}",),
    "KL in the reward": ("algorithm.name=reinforce_plus_plus",),
    "values": (
        "algorithm={name: ppo, options: {kl_coef: 0.1, kl_in: reward, kl_kind: k1, value_detached: false}}",
        "train.updates_per_step=2",
    ),
    "frozen tower": ("model.freeze_vision_tower=true",),
    "adapters": ("model.lora={rank: 2}", "algorithm.options={kl_coef: 0.1}"),
    "few groups, refilled": ("train.prompts_per_step=3", "algorithm.name=dapo"),
    "eight packs": ("train.prompts_per_step=8", "train.tokens_per_pack=60"),
    "sampled ahead": ("train.async_level=1", "train.steps=4"),
    "sampled ahead, ended by a signal": (
        "train.async_level=1",
        "train.prompts_per_step=3",
        "algorithm.name=dapo",
        "train.steps=4",
    ),
    "bad samples skipped": ("data.on_bad_sample=skip",),
    "a bad sample": (),
    "a reward that fails": (),
    "a reward that fails ahead": ("train.async_level=1", "train.steps=4", "train.prompts_per_step=2"),
}
"""Name -> overrides of the configuration."""


def run(name: str, out: Path, ranks: Ranks, *more: str) -> Ran:
    bad = ("2", "4") if name in ("bad samples skipped", "a bad sample") else ()
    config = made_config(out, "train.steps=2", *RUNS[name], *more)
    score = _failing if name.startswith("a reward that fails") else low_tokens
    trainer = made_trainer(config, ranks=ranks, bad=bad, score=score)
    if name.endswith("ended by a signal"):  # to one rank, while the third step is sampled
        is_last = ranks.rank == ranks.size - 1
        trainer._is_asked_to_end = lambda: is_last and trainer._state.step == 2
    error = ""
    try:
        trainer.run()
    except Exception as found:  # noqa: BLE001 - it is what is looked at
        error = f"{type(found).__name__}: {found}"
    weights = final_weights(trainer)
    lines = [json.loads(line) for line in _lines(out / "metrics.jsonl")]
    return Ran(
        out=out,
        error=error,
        metrics=[{key: value for key, value in line.items() if not is_wall_clock(key)} for line in lines],
        rollouts=_lines(out / "rollouts" / "rollouts.jsonl"),
        bad=_lines(out / "bad_samples.jsonl"),
        weights=weights,
        greedy=greedy_answers(trainer._engine) if name == "plain" else [],
    )


def greedy_answers(engine: Engine) -> list[tuple[int, ...]]:
    """To the made samples; their prompts do not depend on the weights."""
    preparer = MadePreparer(tiny_model("qwen3_vl"))
    examples = [preparer.example(preparer.prompt(sample), ()) for sample in preparer.samples]
    asked = requests(examples, Sampling(temperature=0.0, max_response_tokens=5))
    return [rollouts[0].token_ids for rollouts in answered(engine, asked)]


def exported_answers(out: Path) -> list[tuple[int, ...]]:
    """The same of what a run exports, by Transformers' own loading."""
    tiny_model("qwen3_vl").save_pretrained(out / "base")
    config = made_config(out, f"model.path={out / 'base'}")
    named = replace(config, data=replace(config.data, train=(SourceConfig(path="made.jsonl"),)))
    RunFolder(out).write_start(named)
    export(shelf.list_checkpoints(RunFolder(out).checkpoints)[-1], out / "exported")
    return greedy_answers(plain_engine(AutoModelForImageTextToText.from_pretrained(out / "exported")))


def base_answers() -> list[tuple[int, ...]]:
    return greedy_answers(plain_engine(tiny_model("qwen3_vl")))


def plain_engine(model: Any) -> HFEngine:
    return HFEngine(model, ENCODER, tokens_per_batch=1000)


@dataclass
class Stepped:
    """One step of a whole trainer: rollouts, update, weights to the engine."""

    sampled: list[str]
    """Samples whose responses this rank sampled."""
    computed: list[str]
    """Samples that this rank's packs hold."""
    rollouts: list[tuple[int, ...]]
    """Token ids of all responses of the step."""
    metrics: dict[str, float]
    gradients: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]
    """After the update."""


def steps_of_pairs(out: Path, ranks: Ranks) -> dict[str, Stepped]:
    """A run whose steps have two prompts, one for each rank, of all pairs of kinds in turn; its first step tries out
    what the others build on."""
    flat = [kind for pair in PAIRS for kind in pair]
    # The order of samples is a function of the seed: the sample that comes at a place gets the kind of that place.
    places = islice(order([Stratum(indices=np.arange(len(flat)), share=1.0)], seed=0, start=0), len(flat))
    kind_of = dict(zip(places, flat, strict=True))
    config = made_config(
        out,
        f"train.steps={len(PAIRS)}",
        "train.prompts_per_step=2",
        "optimizer.learning_rate=0.0001",
    )
    trainer: Any = made_trainer(
        config, ranks=ranks, media=[KINDS[kind_of[index]] for index in range(len(flat))], score=spread_tokens
    )
    seen: dict[str, Any] = {}
    collect, minibatches = trainer._collector.collect, trainer._minibatches

    def noting_collect(*args: Any, **kwargs: Any) -> Any:
        collected = collect(*args, **kwargs)
        own = [item.usable for item in collected.candidates if item.usable.rank == ranks.rank]
        seen["sampled"] = [kind_of[int(item.prompt.sample.id)] for item in own]
        seen["rollouts"] = [rollout.token_ids for group in collected.groups for rollout in group.rollouts]
        return collected

    def noting_minibatches(*args: Any) -> Any:
        works = minibatches(*args)
        segments = [segment for work in works for pack in work.batch.packs for segment in pack.segments]
        seen["computed"] = [kind_of[int(segment.sample_id)] for segment in segments]
        return works

    trainer._collector.collect, trainer._minibatches = noting_collect, noting_minibatches
    found = {}
    for pair in PAIRS:
        trainer._step()
        weights = trainer._policy.masters.by_name.items()
        found["/".join(pair)] = Stepped(
            **seen,
            metrics={},
            gradients=copied((name, weight.grad) for name, weight in weights if weight.grad is not None),
            weights=final_weights(trainer),
        )
    lines = [json.loads(line) for line in _lines(out / "metrics.jsonl")] if ranks.is_first else []
    lines = [line for line in lines if "loss/total" in line]  # the last one is of the checkpoint
    for stepped, line in zip(found.values(), lines, strict=ranks.is_first):
        stepped.metrics = {key: value for key, value in line.items() if not is_wall_clock(key)}
    return found


def go_on(out: Path, ranks: Ranks, *, killed_in: int | None = None, steps: int = 6) -> dict[str, torch.Tensor]:
    """Begin a run or go on with it; the weights it has in the end.

    Args:
        killed_in: step whose update is the last thing it does: nothing is tidied up, as after SIGKILL.
    """
    config = made_config(out, f"train.steps={steps}", OFTEN, "optimizer.learning_rate=0.0001")
    trainer: Any = made_trainer(config, ranks=ranks, score=spread_tokens)
    update = trainer._policy.update

    def dying(works: Any, *, step: int, **options: Any) -> Any:
        tally = update(works, step=step, **options)
        if step + 1 == killed_in:
            raise Killed
        return tally

    trainer._policy.update = dying
    with suppress(Killed):
        trainer.run()
    return final_weights(trainer)


@dataclass
class Cases:
    """All that is compared between one process and several."""

    folder: Path
    """With a folder of each run."""
    updates: dict[str, Updated]
    runs: dict[str, Ran]
    steps: dict[str, Stepped]
    loaded: dict[str, Loaded]
    sampled: Sampled
    going_on: dict[str, dict[str, torch.Tensor]]
    """Weights in the end of a run that is never killed ("steady"), and of one that is killed and goes on ("killed")."""


Both = tuple[Cases, list[Cases]]
"""Of one process, and of each of two ranks."""


def all_cases(folder: Path, models: Path, ranks: Ranks | None = None) -> Cases:
    """
    Args:
        models: folder that `rank_loading.write_models` filled.
    """
    if ranks is None:
        with joined(timeout_s=600) as ranks:
            return all_cases(folder, models, ranks)
    return Cases(
        folder=folder,
        updates=of_packs(ranks) | of_families(ranks) | of_layouts(ranks),
        runs={name: run(name, folder / str(number), ranks) for number, name in enumerate(RUNS)},
        steps=steps_of_pairs(folder / "pairs", ranks),
        loaded=load_all(models, ranks),
        sampled=sampled(folder, ranks),
        going_on=going_on(folder, ranks),
    )


def going_on(folder: Path, ranks: Ranks) -> dict[str, dict[str, torch.Tensor]]:
    """Of one process, a run that is never killed. Of several, such a run, one that they begin, are killed in and go on
    with, and their part of one ("changing") that one process began and will end."""
    found = {"steady": go_on(folder / "steady", ranks)}
    if ranks.size > 1:
        go_on(folder / "killed", ranks, killed_in=3)
        found["killed"] = go_on(folder / "killed", ranks)
        go_on(folder / "changing", ranks, killed_in=5)
    return found


def command(words: Sequence[str]) -> int:
    """The command line, in this process."""
    return main(list(words))


def spread_tokens(items: Any) -> list[Score]:
    """A reward that hardly ever is the same for two responses, so that every group trains."""
    ids = [json.loads(text) for _, text, _ in items]
    values = [sum(token * (place + 1) for place, token in enumerate(tokens)) / (96 * 15) for tokens in ids]
    return [Score(value=value, parts={"accuracy": value, "format": 1.0}) for value in values]


def _failing(items: Any) -> Any:
    """A reward with a mistake for one of the samples."""
    if any(sample.id == "1" for sample, _, _ in items):
        raise ZeroDivisionError("division by zero")
    return low_tokens(items)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
