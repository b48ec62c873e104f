"""Recipes of EasyVideoR1 and EasyR1 read as ours: every key of theirs has one of ours, or a reason why there is none.

A key that their file leaves out counts with their default, which often is not ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml

from easyvideor1.algo.algorithms import named_algorithm
from easyvideor1.config import RunConfig, TrackerName
from easyvideor1.config_tree import build, read_tree
from easyvideor1.config_yaml import dump_yaml
from easyvideor1.runs.foreign_keys import KEYS, SAME, Equivalent

SAME_ESTIMATORS = ("grpo", "ema_grpo", "rloo", "remax", "reinforce_plus_plus", "gdpo")
ESTIMATORS = {"gae": "ppo"} | {name: name for name in SAME_ESTIMATORS}
"""Their advantage -> the algorithm whose advantage that is here."""
LOSSES: Mapping[str, Mapping[str, Any]] = {
    "default": {"loss": "clip", "ratio": "token"},
    "gspo": {"loss": "clip", "ratio": "sequence", "average": "sequence"},
    "gspo_token": {"loss": "clip", "ratio": "sequence_token"},
    "cispo": {"loss": "cispo", "ratio": "token"},
}
OF_CRITIC = "of a critic model; the values here are those of a head on the policy's own layers"
KL_KINDS = {"kl": "k1", "abs": "abs", "mse": "k2", "low_var_kl": "k3", "full": "full"}
ENGINE_ARGS = ("gpu_memory_utilization", "enforce_eager", "enable_chunked_prefill", "max_num_batched_tokens")
TRACKERS = get_args(TrackerName)
NO_LIMIT = 1_000_000
MOMENTS = {"adamw": "float32", "adamw_bf16": "bfloat16"}
OFFLOADED = ("fsdp.enable_cpu_offload", "offload.offload_params", "offload.offload_optimizer")


@dataclass(frozen=True, kw_only=True)
class Converted:
    """Our recipe, and what it leaves out."""

    tree: dict[str, Any]
    """As it stands in a recipe."""
    left_out: tuple[tuple[str, Any, str], ...]
    """(key, value, reason) of what their file sets and nothing here does."""
    commands: tuple[str, ...]
    """What is to be done once before the run."""

    def text(self, source: str) -> str:
        """The recipe as a file, with what it leaves out at its head."""
        lines = [f"# From {source} by `easyvideor1 config --from`."]
        if self.commands:
            lines += ["# Before the run:", *(f"#   {command}" for command in self.commands)]
        if self.left_out:
            lines += ["# Left out:", *(f"#   {key}: {value!r:.80}; {why}" for key, value, why in self.left_out)]
        return "\n".join(lines) + "\n" + dump_yaml(self.tree)


def converted(path: Path) -> Converted:
    """The recipe that a YAML file of EasyVideoR1 or EasyR1 means.

    Raises:
        UsageError: the file cannot be read, or what it means cannot run here.
    """
    given = _flat(read_tree(path))
    theirs = {key.name: key.default for key in KEYS} | given
    made: dict[str, Any] = {ours: theirs[name] for name, ours in SAME.items() if theirs[name] is not None}
    left_out = _left_out(given)
    for part in (_data, _model, _rollout, _reward, _algorithm, _optimizer, _trainer):
        made |= part(theirs, left_out)
    tree: dict[str, Any] = {}
    for name, value in made.items():
        *sections, last = name.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
    config = build(RunConfig, tree, where=str(path))
    named_algorithm(config.algorithm)
    return Converted(tree=tree, left_out=tuple(left_out), commands=tuple(_commands(theirs, tree)))


def _left_out(given: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    known = {key.name: key for key in KEYS}
    found = []
    for name, value in given.items():
        key = known.get(name)
        if key is None:
            found.append((name, value, OF_CRITIC if name.startswith("worker.critic.") else "an unknown key"))
        elif not key.ours and value != key.default:
            found.append((name, value, key.note))
    return found


def _data(theirs: Mapping[str, Any], left_out: list[tuple[str, Any, str]]) -> dict[str, Any]:
    root = {} if theirs["data.image_dir"] is None else {"media_root": theirs["data.image_dir"]}
    budgets: dict[str, Any] = {}
    for kind in ("image", "video"):
        for limit in ("min_pixels", "max_pixels"):
            own = theirs[f"data.{kind}_{limit}"]
            budgets[f"data.{kind}.{limit}"] = theirs[f"data.{limit}"] if own is None else own
    names = ("fps", "max_frames", "min_pixels", "max_pixels", "total_pixels")
    validation = {name: theirs[f"data.val_video_{name}"] for name in names}
    validation = {name: value for name, value in validation.items() if value is not None}
    own_budget = {"video": validation} if validation else {}
    mode = theirs["data.video_source_mode"]
    if mode is None:
        mode = "prefer_preprocessed" if theirs["data.use_preprocessed_videos"] else "realtime_only"
    return budgets | {
        "data.train": [{"path": path, **root} for path in _files(theirs["data.train_files"])],
        "data.validation": [{"path": path, **root, **own_budget} for path in _files(theirs["data.val_files"])],
        "data.on_bad_sample": "skip" if theirs["data.filter_overlong_prompts"] else "error",
        "data.thinking": False,
        "cache.dir": "cache/frames",
        "cache.mode": mode,
    }


def _model(theirs: Mapping[str, Any], left_out: list[tuple[str, Any, str]]) -> dict[str, Any]:
    is_half = theirs["worker.actor.fsdp.mp_param_dtype"] == "bf16"
    is_full = theirs["worker.actor.fsdp.enable_full_shard"]
    return {
        "model.dtype": "bfloat16" if is_half else "float32",
        "parallel.cpu_offload": any(theirs[f"worker.actor.{name}"] for name in OFFLOADED),
        "parallel.shard": "hybrid" if theirs["worker.actor.fsdp.fsdp_size"] > 0 else "full" if is_full else "none",
    }


def _rollout(theirs: Mapping[str, Any], left_out: list[tuple[str, Any, str]]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "rollout.top_k": max(0, theirs["worker.rollout.top_k"]),
        "rollout.engine": "vllm" if theirs["worker.rollout.name"] == "vllm" else "hf",
        "offline.enable": theirs["worker.rollout.enable_mix_policy"],
    }
    if theirs["worker.rollout.mix_policy_accuracy_threshold"] is not None:
        made["offline.accuracy_threshold"] = theirs["worker.rollout.mix_policy_accuracy_threshold"]
    if made["rollout.engine"] == "vllm":
        given = {name: theirs[f"worker.rollout.{name}"] for name in ENGINE_ARGS}
        made["rollout.vllm.engine_args"] = {name: value for name, value in given.items() if value is not None}
    decoding = theirs["worker.rollout.val_override_config"] or {}
    is_sampled = decoding.get("temperature", theirs["worker.rollout.temperature"]) > 0
    made["train.validation_samples"] = decoding.get("n", 1) if is_sampled else 0
    if is_sampled:
        made["validation.temperature"] = decoding.get("temperature", theirs["worker.rollout.temperature"])
        made["validation.top_p"] = decoding.get("top_p", theirs["worker.rollout.top_p"])
        for penalty in ("presence_penalty", "repetition_penalty"):
            if penalty in decoding:
                made[f"validation.{penalty}"] = decoding[penalty]
        made["validation.top_k"] = max(0, decoding.get("top_k", theirs["worker.rollout.top_k"]))
    return made


def _reward(theirs: Mapping[str, Any], left_out: list[tuple[str, Any, str]]) -> dict[str, Any]:
    place = theirs["worker.reward.reward_function"]
    if place is None:
        return {}
    made: dict[str, Any] = {"reward.rewards": {"*": place if ":" in place else f"{place}:main"}}
    if arguments := theirs["worker.reward.reward_function_kwargs"]:
        made["reward.arguments"] = {"*": dict(arguments)}
    return made


def _algorithm(theirs: Mapping[str, Any], left_out: list[tuple[str, Any, str]]) -> dict[str, Any]:
    estimator, loss = theirs["algorithm.adv_estimator"], theirs["worker.actor.loss_type"]
    if estimator not in ESTIMATORS:
        left_out.append(("algorithm.adv_estimator", estimator, "grpo takes its place"))
    if loss not in LOSSES:
        left_out.append(("worker.actor.loss_type", loss, "the clipped loss takes its place"))
    average = "token" if theirs["worker.actor.loss_avg_mode"] == "token" else "sequence"
    options: dict[str, Any] = {"average": average, **LOSSES.get(loss, LOSSES["default"])}
    options |= {
        "clip_low": theirs["worker.actor.clip_ratio_low"],
        "clip_high": theirs["worker.actor.clip_ratio_high"],
    }
    if options["loss"] == "clip":
        options["dual_clip"] = theirs["worker.actor.clip_ratio_dual"]
    if theirs["algorithm.online_filtering"]:
        rounds = theirs["trainer.max_try_make_batch"]
        options |= {
            "filter_part": theirs["algorithm.filter_key"],
            "filter_low": theirs["algorithm.filter_low"],
            "filter_high": theirs["algorithm.filter_high"],
            "refill_rounds": NO_LIMIT if rounds < 0 else rounds,
        }
    if estimator == "gae":
        options |= {
            "gae_gamma": theirs["algorithm.gamma"],
            "gae_lambda": theirs["algorithm.lam"],
            "value_clip": theirs["worker.critic.cliprange_value"],
            "value_warmup_steps": theirs["trainer.critic_warmup"],
        }
    if not theirs["algorithm.disable_kl"] and theirs["algorithm.kl_coef"]:
        options |= _kl(theirs, left_out)
    return {"algorithm.name": ESTIMATORS.get(estimator, "grpo"), "algorithm.options": options}


def _kl(theirs: Mapping[str, Any], left_out: list[tuple[str, Any, str]]) -> dict[str, Any]:
    kind = theirs["algorithm.kl_penalty"]
    if kind not in KL_KINDS:
        left_out.append(("algorithm.kl_penalty", kind, "k3 takes its place"))
    found = {
        "kl_coef": theirs["algorithm.kl_coef"],
        "kl_kind": KL_KINDS.get(kind, "k3"),
        "kl_in": "loss" if theirs["algorithm.use_kl_loss"] else "reward",
    }
    if theirs["algorithm.kl_type"] == "adaptive":
        found |= {"kl_target": theirs["algorithm.kl_target"], "kl_horizon": theirs["algorithm.kl_horizon"]}
    return found


def _optimizer(theirs: Mapping[str, Any], left_out: list[tuple[str, Any, str]]) -> dict[str, Any]:
    schedule = theirs["worker.actor.optim.lr_scheduler_type"]
    made: dict[str, Any] = {"optimizer.schedule": schedule, "optimizer.betas": list(theirs["worker.actor.optim.betas"])}
    if theirs["worker.actor.optim.lr_warmup_steps"] is None:
        made["optimizer.warmup_frac"] = theirs["worker.actor.optim.lr_warmup_ratio"]
    else:
        made["optimizer.warmup_steps"] = theirs["worker.actor.optim.lr_warmup_steps"]
    if schedule != "constant" and theirs["worker.actor.optim.min_lr_ratio"] is not None:
        made["optimizer.min_learning_rate_frac"] = theirs["worker.actor.optim.min_lr_ratio"]
    strategy = theirs["worker.actor.optim.strategy"]
    if strategy not in MOMENTS:
        left_out.append(("worker.actor.optim.strategy", strategy, "AdamW takes its place"))
    made["optimizer.states"] = MOMENTS.get(strategy, "float32")
    return made


def _trainer(theirs: Mapping[str, Any], left_out: list[tuple[str, Any, str]]) -> dict[str, Any]:
    prompts, per_update = theirs["data.rollout_batch_size"], theirs["worker.actor.global_batch_size"]
    longest = theirs["data.max_prompt_length"] + theirs["data.max_response_length"]
    length: dict[str, Any] = {"train.epochs": theirs["trainer.total_epochs"]}
    if theirs["trainer.max_steps"] is not None:
        length = {"train.steps": theirs["trainer.max_steps"]}
    if theirs["trainer.val_only"]:
        length = {"train.steps": 0}
    out = (
        theirs["trainer.save_checkpoint_path"]
        or f"runs/{theirs['trainer.project_name']}/{theirs['trainer.experiment_name']}"
    )
    limit = theirs["trainer.save_limit"]
    unknown = [name for name in _listed(theirs["trainer.logger"]) if name not in (*TRACKERS, "console", "file")]
    if unknown:
        left_out.append(("trainer.logger", unknown, f"trackers are {', '.join(TRACKERS)}"))
    return length | {
        "out": out,
        "trackers": [name for name in _listed(theirs["trainer.logger"]) if name in TRACKERS],
        "train.updates_per_step": max(1, prompts // per_update),
        "train.tokens_per_pack": max(longest, theirs["worker.actor.max_token_len_per_gpu"] or 0),
        "train.validate_every": max(0, theirs["trainer.val_freq"]),
        "train.checkpoint_every": max(0, theirs["trainer.save_freq"]),
        "train.checkpoint_optimizer": not theirs["trainer.save_model_only"],
        "train.keep_checkpoints": NO_LIMIT if limit < 0 else limit,
    }


def _commands(theirs: Mapping[str, Any], tree: Mapping[str, Any]) -> list[str]:
    """What a user does once: rename columns, take stored frames over."""
    names = {"problem": "prompt_key", "answer": "answer_key", "images": "image_key", "videos": "video_key"}
    renamed = {ours: theirs[f"data.{key}"] for ours, key in names.items() if theirs[f"data.{key}"] != ours}
    # Their default name of the question is "prompt"; their own rows call it "problem".
    words = "".join(f" --map {ours}={name}" for ours, name in renamed.items())
    sources = [*tree["data"]["train"], *tree["data"]["validation"]]
    found = [f"easyvideor1 data convert {source['path']} --out ROWS.jsonl{words}" for source in sources if words]
    for part, key in (("train", "preprocessed_video_dir"), ("validation", "val_preprocessed_video_dir")):
        folder = theirs[f"data.{key}"] or theirs["data.preprocessed_video_dir"]
        if folder is not None and tree["cache"]["mode"] != "realtime_only":
            found += [
                f"easyvideor1 cache import {folder} --data {source['path']} --recipe THIS_FILE"
                for source in tree["data"][part]
            ]
    return found


def _files(named: Any) -> list[str]:
    return [] if not named else [named] if isinstance(named, str) else list(named)


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted names -> values; sections that are values here stay whole."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(value, Mapping) and not re.search(r"(kwargs|override_config)$", path):
            found |= _flat(value, path)
        else:
            found[path] = value
    return found


def markdown_table() -> str:
    """The table of docs/migrating.md."""
    lines = ["| their key | default | ours | note |", "|---|---|---|---|"]
    lines += [_line(key) for key in KEYS]
    return "\n".join(lines) + "\n"


def _line(key: Equivalent) -> str:
    ours = f"`{key.ours}`" if key.ours else "-"
    default = yaml.safe_dump(key.default, default_flow_style=True).splitlines()[0]
    return f"| `{key.name}` | `{default}` | {ours} | {key.note} |"
