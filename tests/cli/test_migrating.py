"""A made-up project in the formats of EasyVideoR1 comes over with the documented commands, and trains a step on the
same prompts, pixels and rewards; with its videos, and without."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pytest
import torch
import yaml
from support import small_run
from support.easyvideor1_project import write_frames

from easyvideor1.cli import main
from easyvideor1.data.samples import read_samples
from easyvideor1.demo.clips import write_clip
from easyvideor1.errors import UsageError
from easyvideor1.recipe import load_config
from easyvideor1.report.read import read_rollouts
from easyvideor1.runs.foreign_keys import KEYS
from easyvideor1.runs.foreign_recipe import converted, markdown_table
from easyvideor1.runs.parts import opened
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec

ROOT = Path(__file__).parents[2]
THEIR_KEYS = Path(__file__).parents[1] / "support" / "easyvideor1_keys.tsv"
SPEC = FrameSpec(fps=2.0, max_frames=4, min_pixels=4096, max_pixels=4096)
TEMPLATE = """{#- one file for all types -#}
{%- set ptype = problem_type | lower | trim -%}
{%- set opts = options if options is defined and options is iterable and options | length > 0 else [] -%}
{%- if ptype == "multiple choice" and opts | length > 0 -%}
{{ problem | trim ~ "\\nOptions:\\n" ~ opts | join("\\n") }}
{%- else -%}
{{ content | trim }}
{%- endif %}
Give the letter between <answer> and </answer>. [{{ data_type }}, {{ data_source }}]

"""
REWARD = """
REWARD_NAME, REWARD_TYPE = "made", "batch"

def compute_score(reward_inputs, format_weight=0.1, **kwargs):
    if not isinstance(reward_inputs, list):
        raise ValueError("a list is needed")
    results = []
    for item in reward_inputs:
        right = float(len(item["response"]) % 3 == len(item["ground_truth"]) % 3)
        form = float("<answer>" in item["response"])
        overall = (1 - format_weight) * right + format_weight * form + 0.001 * item["response_length"]
        results.append({"overall": overall, "accuracy": right, "format": form, "letters": len(item["response"])})
    return results
"""


@dataclass(frozen=True)
class Project:
    folder: Path
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = small_run.write_inputs(tmp_path_factory.mktemp("theirs"))
    write_clip(small_run.scene("blue", seed=1), folder / "b.mp4", side_px=64)
    stored = folder / "stored"
    stored.mkdir()
    rows = []
    for number, name in enumerate(("a.mp4", "b.mp4")):
        plan = plan_media(Media(kind="video", path=str(folder / name)), SPEC, vision_spec({"model_type": "qwen3_vl"}))
        write_frames(stored / f"{number}.pt", decode(plan))
        rows.append(
            {
                "problem": "<video>What colour is it?", "answer": "<answer>A</answer>",
                "options": ["A. red", "B. blue"], "videos": [name],
                "images": None, "data_type": "video",
                "problem_type": "multiple choice",
                "problem_id": number, "data_source": "made", "has_offline_trajectory": False,
                "offline_output": "<answer>B</answer>", "preprocessed_video": f"{number}.pt",
            }
        )  # fmt: skip
    (folder / "train.json").write_text(json.dumps(rows))
    (folder / "unified.jinja").write_text(TEMPLATE)
    (folder / "reward.py").write_text(REWARD)
    tree = {
        "data": {
            "train_files": str(folder / "train.json"), "prompt_key": "problem", "image_dir": str(folder),
            "preprocessed_video_dir": str(stored), "video_max_frames": 4, "min_pixels": 4096, "max_pixels": 4096,
            "max_prompt_length": 1000, "max_response_length": 4, "rollout_batch_size": 2, "shuffle": False,
            "format_prompt": str(folder / "unified.jinja"), "val_batch_size": 64,
        },
        "algorithm": {"adv_estimator": "grpo", "disable_kl": True},
        "worker": {
            "actor": {
                "global_batch_size": 2, "model": {"model_path": str(folder / "model")}, "optim": {"lr": "1e-3"},
                "fsdp": {"mp_param_dtype": "fp32"}, "use_torch_compile": False, "ulysses_size": 2,
                "padding_free": False,
            },
            "rollout": {"n": 2, "name": "vllm", "val_override_config": {"temperature": 0.7, "top_p": 0.95, "n": 1}},
            "reward": {
                "reward_function": f"{folder / 'reward.py'}:compute_score",
                "reward_function_kwargs": {"format_weight": 0.2},
            },
        },
        "trainer": {"max_steps": 1, "logger": ["file"], "experiment_name": "x", "nnodes": 1},
    }  # fmt: skip
    (folder / "their.yaml").write_text(yaml.safe_dump(tree))
    return Project(folder=folder, rows=rows)


@pytest.mark.parametrize("has_videos", [True, False], ids=["with its videos", "without its videos"])
def test_a_project_comes_over_and_trains_a_step_on_the_same(
    project: Project,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    has_videos: bool,
) -> None:
    folder, recipe, out = project.folder, tmp_path / "recipe.yaml", tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    assert main(["config", "--from", str(folder / "their.yaml"), "--out", str(recipe)]) == 0
    text = recipe.read_text()
    assert yaml.safe_load(text)["parallel"]["sequence"] == 2
    assert "#   worker.actor.padding_free: False; always" in text
    if not has_videos:
        gone = json.loads((folder / "train.json").read_text())
        for row in gone:
            row["videos"] = [f"gone/{row['videos'][0]}"]
        (folder / "gone.json").write_text(json.dumps(gone))
        text = text.replace("train.json", "gone.json")
        recipe.write_text(text)
    commands = re.findall(r"^#   easyvideor1 (.*)$", text, re.MULTILINE)
    assert len(commands) == 1
    for command in commands:
        assert main([*command.replace("THIS_FILE", str(recipe)).split(), "--workers", "1"]) == 0
    taken = capsys.readouterr().out
    assert "2 files taken over" in taken
    assert ("0 of the videos are gone" in taken) == has_videos
    words = ["rollout.engine=hf", f"out={out}", "rollout.vllm={}", "cache.mode=preprocessed_only"]
    assert main(["train", str(recipe), *words]) == 2
    assert "parallel.sequence=2 does not divide the number of ranks, 1" in capsys.readouterr().err
    words.append("parallel.sequence=1")
    assert main(["train", str(recipe), *words]) == 0

    config = load_config(recipe, words)
    samples = read_samples(config.data.train[0].path, media_root=folder)
    assert [sample.trajectories for sample in samples] == [(), ()]
    theirs = jinja2.Template(TEMPLATE.strip())
    with opened(config) as parts:
        for sample, row in zip(samples, project.rows, strict=True):
            prompt = parts.prepare.prompt(sample)
            said = theirs.render(content=row["problem"], **row)
            assert said.removeprefix("<video>") in prompt.text
            held = torch.load(folder / "stored" / row["preprocessed_video"], weights_only=True)
            [clip] = parts.prepare.clips(prompt)
            assert digest(clip.frames.tobytes()) == digest(held["frames"].to(torch.uint8).numpy().tobytes())
            times = [index / held["metadata"]["fps"] for index in held["metadata"]["frames_indices"]]
            assert prompt.plans[0].times_s == pytest.approx(times, abs=0.05)
    module = imported(folder / "reward.py")
    records = read_rollouts(out / "rollouts")
    assert len({record["id"] for record in records}) == 2
    for response in [response for record in records for response in record["group"]]:
        # A length of 1 to 4 tokens is a thousandth each; the rest of the reward follows from the text.
        given = {"response": response["response"], "response_length": 0, "ground_truth": "<answer>A</answer>"}
        [expected] = module.compute_score([given], format_weight=0.2)
        assert round(1000 * (response["value"] - expected["overall"]), 6) in (1, 2, 3, 4)
    assert all(record["parts"]["letters"] == len(record["response"]) for record in records)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("their_reward", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_key_of_theirs_has_a_row_with_its_default() -> None:
    rows = {key.name: key for key in KEYS}
    for line in THEIR_KEYS.read_text().splitlines():
        name, default = line.split("\t")
        assert name in rows, f"docs/migrating.md has no row for {name}"
        assert str(rows[name].default).strip() == str(yaml.safe_load(default)).strip(), name
    assert all(key.ours or key.note for key in KEYS)


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "migrating.md").read_text()
    assert markdown_table() in page, "print easyvideor1.runs.foreign_recipe.markdown_table() into the page"


def test_our_keys_in_the_table_are_keys() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    known = set(re.findall(r"^\| `([\w.\[\]]+)`", page, re.MULTILINE))
    known |= set(re.findall(r"^## (\S+)", page, re.MULTILINE))
    assert {key.ours for key in KEYS if key.ours} - known == set()


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"trainer": {"val_only": True}}, {"train.steps": 0}),
        ({"worker": {"actor": {"optim": {"strategy": "adamw_bf16"}}}}, {"optimizer.states": "bfloat16"}),
        ({"worker": {"actor": {"offload": {"offload_optimizer": True}}}}, {"parallel.cpu_offload": True}),
        ({"trainer": {"save_model_only": True}}, {"train.checkpoint_optimizer": False}),
        ({"trainer": {"save_limit": -1, "logger": ["console", "wandb", "mlflow", "clearml"]}},
         {"trackers": ["wandb", "mlflow"]}),
        ({"worker": {"actor": {"loss_type": "gspo"}}}, {"algorithm.options.ratio": "sequence"}),
        ({"worker": {"actor": {"loss_type": "cispo"}}}, {"algorithm.options.loss": "cispo"}),
        ({"worker": {"actor": {"optim": {"lr_scheduler_type": "cosine", "min_lr_ratio": 0.1,
                                         "lr_warmup_ratio": 0.05}}}},
         {"optimizer.min_learning_rate_frac": 0.1, "optimizer.warmup_frac": 0.05}),
        ({"algorithm": {"use_kl_loss": True, "kl_penalty": "full"}}, {"algorithm.options.kl_kind": "full"}),
        ({"algorithm": {"online_filtering": True, "filter_key": "accuracy"}},
         {"algorithm.options.filter_part": "accuracy", "algorithm.options.refill_rounds": 20}),
        ({"algorithm": {"use_kl_loss": True, "kl_penalty": "low_var_kl", "kl_type": "adaptive"}},
         {"algorithm.options.kl_kind": "k3", "algorithm.options.kl_in": "loss", "algorithm.options.kl_target": 0.1}),
        ({"algorithm": {"adv_estimator": "gae", "lam": 0.95, "gamma": 0.99}, "trainer": {"critic_warmup": 3},
          "worker": {"critic": {"cliprange_value": 0.2}}},
         {"algorithm.name": "ppo", "algorithm.options.gae_lambda": 0.95, "algorithm.options.gae_gamma": 0.99,
          "algorithm.options.value_warmup_steps": 3, "algorithm.options.value_clip": 0.2,
          "algorithm.options.kl_in": "reward", "algorithm.options.kl_kind": "k1"}),
        ({"data": {"val_files": "v.json", "val_video_fps": 1.0}},
         {"data.validation": [{"path": "v.json", "video": {"fps": 1.0}}]}),
        ({"data": {"val_video_source_mode": "preprocessed_only"}}, {"validation.cache_mode": "preprocessed_only"}),
        ({"data": {"use_preprocessed_videos": False}}, {"cache.mode": "realtime_only"}),
    ],
)  # fmt: skip
def test_values_mean_what_they_meant(tmp_path: Path, given: dict[str, Any], ours: dict[str, Any]) -> None:
    tree = {"data": {"train_files": "t.json"}, "worker": {"actor": {"model": {"model_path": "m"}}}}
    for section, values in given.items():
        merged = tree.setdefault(section, {})
        for name, value in values.items():
            merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
    (tmp_path / "their.yaml").write_text(yaml.safe_dump(tree))
    made = converted(tmp_path / "their.yaml")
    for name, value in ours.items():
        node: Any = made.tree
        for part in name.split("."):
            node = node[part]
        assert node == value
    named = {key for key, _, _ in made.left_out}
    assert named == ({"trainer.logger"} if "clearml" in str(given) else set())


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "their.yaml").write_text("data: {train_files: t.json, shufle: false}\n")
    with pytest.raises(UsageError, match=r"model"):
        converted(tmp_path / "their.yaml")
