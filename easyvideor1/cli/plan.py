"""`easyvideor1 plan RECIPE [a.b=c ..]`: what a run will need, without a weight or a GPU."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from easyvideor1.cli.settings import only_settings
from easyvideor1.recipe import load_config
from easyvideor1.runs.devices import DEVICES, GIB

if TYPE_CHECKING:
    from easyvideor1.runs.planning import Plan

EXAMPLES = ("easyvideor1 plan demo-run/config.yaml --gpu cpu",)
DEVICE = "h100"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say what a run will need before it is started: tokens of the data from plans, memory of each GPU by part, "
        "disk, time of a step, the largest pack that fits, and what to change where it does not fit. It reads "
        "config.json and the tokenizer of the model, but no weights; where the data are not there yet, every sample is "
        "taken to be the largest that the recipe lets in."
    )
    parser.add_argument("recipe", metavar="RECIPE", help="YAML file, or name of a shipped recipe")
    parser.add_argument("words", nargs="*", metavar="section.key=value", help="values that replace the recipe's")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs that train together (default: 1)")
    parser.add_argument("--gpu", choices=sorted(DEVICES), default=DEVICE, help=f"kind of GPU (default: {DEVICE})")
    parser.add_argument("--gpu-gb", type=float, metavar="GB", help="its memory, where it is not the usual size")
    parser.add_argument(
        "--response-tokens", type=int, metavar="N", help="mean length of a response (default: half the limit)"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Returns 1 if the run does not fit into memory."""
    only_settings(args.words)
    from easyvideor1.runs.planning import make_plan  # imports torch

    plan = make_plan(
        load_config(args.recipe, args.words),
        device=args.gpu,
        gpus=args.gpus,
        memory_gb=args.gpu_gb,
        response_tokens=args.response_tokens,
    )
    print(json.dumps(plan.as_values()) if args.json else "\n".join(lines(plan)))
    return 0 if plan.fits else 1


def lines(plan: Plan) -> list[str]:
    """The plan for people."""
    tokens, memory, train = plan.tokens, plan.memory, plan.config.train
    values = plan.as_values()
    told = [
        f"model: {plan.sizes.weights / 1e9:.2f} billion weights, {plan.sizes.trained / 1e9:.2f} billion of them train",
        f"data: {tokens.basis}",
        f"  prompt {tokens.prompt_mean:,.0f} tokens on average, at most {tokens.prompt_max:,}; vision "
        f"{tokens.vision_mean:,.0f} of them, at most {tokens.vision_max:,}; response taken as {plan.response_tokens:,}",
    ]
    if tokens.num_bad:
        told.append(f"  {tokens.num_bad} rows cannot be used (`easyvideor1 data check` says why)")
    told.append(
        f"a step: {train.prompts_per_step} prompts x {plan.config.rollout.n} responses, "
        f"{plan.update_tokens_per_step / 1e6:,.2f} million tokens in the update"
    )
    if tokens.num_rows:
        told.append(f"  {plan.steps} steps, {plan.steps_per_epoch:,.1f} a pass over the data")
        told.append(f"cache: {_gib(tokens.cache_bytes)} for {tokens.num_media:,} media, uncompressed (cache.codec)")
    told.append(f"checkpoint: {_gib(plan.checkpoint_bytes)} each, {train.keep_checkpoints} kept and the best one")
    told.append(f"memory of each of {plan.ranks} x {plan.device_name}:")
    told += _parts("libraries", {"": memory.base})
    told += _parts("all the time", memory.lasting)
    told += _parts("in an update", memory.update)
    told += _parts("in sampling", memory.rollout)
    told.append(
        f"  at most {_gib(memory.peak)} of {_gib(values['usable_bytes'])} that can be used: "
        + ("it fits" if plan.fits else "it does NOT fit")
    )
    told += _parts("main memory, for each", memory.host)
    pace = plan.pace
    told.append(
        f"time of a step: {pace.step_s:,.1f} s (sampling {pace.rollout_s:,.1f}, update {pace.update_s:,.1f}, loading "
        f"beside them {pace.load_s:,.1f}), {values['run_hours']:,.1f} hours in all; a rough guess: "
        f"{values['pace']['assumed']}"
    )
    if plan.validations:
        questions = f"{plan.validations} validations of {tokens.num_questions:,} questions"
        told.append(f"  with {questions}, {pace.validation_s:,.1f} s each")
    if plan.largest_pack_tokens:
        told.append(
            f"largest train.tokens_per_pack that fits: {plan.largest_pack_tokens:,} (now {train.tokens_per_pack:,})"
        )
    if not plan.fits:
        ways = plan.remedies or ("no single change is enough: fewer frames or pixels, adapters and more GPUs together",)
        told += ["to make it fit, one of:", *(f"  {way}" for way in ways)]
    return told


def _parts(title: str, parts: Mapping[str, int]) -> list[str]:
    """One line: the sum, then the parts of it from large to small."""
    if not sum(parts.values()):
        return []
    named = sorted(((size, name) for name, size in parts.items() if name and size), reverse=True)
    told = ", ".join(f"{name} {_gib(size)}" for size, name in named)
    return [f"  {title}: {_gib(sum(parts.values()))}" + (f" ({told})" if told else "")]


def _gib(size: float) -> str:
    return f"{size / GIB:,.1f} GiB" if size >= GIB / 10 else f"{size / (1 << 20):,.1f} MiB"
