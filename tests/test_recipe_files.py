"""Every recipe in the repository and in the package is one that a run would accept, and tells how it deviates from its
source."""

import re
from functools import reduce
from pathlib import Path

import pytest
import yaml

from easyvideor1.algo.algorithms import named_algorithm
from easyvideor1.config_tree import to_tree
from easyvideor1.recipe import load_config

ROOT = Path(__file__).parents[1]
RECIPES = sorted([*(ROOT / "recipes").glob("*.yaml"), *(ROOT / "easyvideor1" / "recipes").glob("*.yaml")])

PAPER = "arXiv:2604.16893"
SETTINGS_OF = {
    # The paper's training configuration, and where it is silent the public recipe for video and the defaults under it.
    PAPER: {
        "model.dtype": "bfloat16",
        "model.lora": None,
        "model.freeze_vision_tower": False,
        "model.gradient_checkpointing": True,
        "data.video.fps": 2.0,
        "data.video.max_frames": 128,
        "data.video.min_pixels": 3136,
        "data.video.max_pixels": 262_144,
        "data.video.total_pixels": None,
        "data.image.min_pixels": 3136,
        "data.image.max_pixels": 1_048_576,
        "data.max_prompt_tokens": 20_000,
        "data.on_bad_sample": "skip",  # its filter_overlong_prompts
        "data.shuffle": False,
        "data.thinking": False,  # its form part wants the answer block alone
        "cache.mode": "prefer_preprocessed",
        "rollout.engine": "vllm",
        "rollout.n": 8,
        "rollout.temperature": 1.0,
        "rollout.top_p": 1.0,
        "rollout.top_k": 0,
        "rollout.max_response_tokens": 4096,
        "reward.weights.accuracy": 0.9,
        "reward.weights.format": 0.1,
        "reward.overlong_buffer_tokens": 0,
        "algorithm.name": "grpo",
        "algorithm.options.average": "token",
        "algorithm.options.clip_low": 0.2,
        "algorithm.options.clip_high": 0.3,
        "algorithm.options.dual_clip": 3.0,
        "algorithm.options.kl_coef": 0.0,
        "algorithm.options.entropy_coef": 0.0,
        "algorithm.options.drop_equal_groups": False,
        "offline.enable": False,
        "offline.accuracy_threshold": None,
        "optimizer.learning_rate": 1e-6,
        "optimizer.betas": [0.9, 0.999],
        "optimizer.weight_decay": 0.01,
        "optimizer.max_grad_norm": 1.0,
        "optimizer.warmup_steps": 0,
        "optimizer.schedule": "constant",
        "train.steps": 200,
        "train.prompts_per_step": 256,
        "train.updates_per_step": 1,
        "train.validate_every": 10,
        "train.checkpoint_every": 20,
        "train.keep_checkpoints": 10,
        "train.validation_samples": 1,
        "validation.temperature": 0.7,
        "validation.top_p": 0.95,
        "validation.top_k": 0,
        "validation.before_training": True,
    }
}
DEVIATION = re.compile(r"#   (?P<key>[\w.]+): (?P<there>.+?) -> (?P<here>.+?); (?P<reason>.+)")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_a_recipe_is_a_valid_configuration(path: Path) -> None:
    config = load_config(path)
    assert named_algorithm(config.algorithm).name == config.algorithm.name


def test_there_are_recipes() -> None:
    assert {path.name for path in RECIPES} >= {"demo.yaml", "qwen3_vl_8b_video.yaml"}
    assert [path.name for path in RECIPES if not source_of(path)] == ["demo.yaml"]


@pytest.mark.parametrize("path", [path for path in RECIPES if path.stem != "demo"], ids=lambda path: path.name)
def test_a_recipe_tells_every_deviation_from_its_source(path: Path) -> None:
    source = source_of(path)
    here = resolved(path)
    given = {key: (there, here.get(key)) for key, there in SETTINGS_OF[source].items() if here.get(key) != there}
    assert deviations(path) == given


def test_the_recipe_of_the_paper_is_the_papers() -> None:
    """The deviations that are left change no number of the training: a clip bound that the paper itself gives, what
    samples, and what is kept."""
    path = next(path for path in RECIPES if path.name == "qwen3_vl_8b_video.yaml")
    assert set(deviations(path)) == {"algorithm.options.clip_high", "rollout.engine", "train.keep_checkpoints"}
    assert resolved(path)["algorithm.options.clip_high"] == 0.28


def source_of(path: Path) -> str:
    """The paper that the head of a recipe names; "" for none."""
    match = re.search(r"^# Source: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else ""


def deviations(path: Path) -> dict[str, tuple[object, object]]:
    """Key -> (value of the source, value of the recipe), as the head of a recipe tells them."""
    head = path.read_text(encoding="utf-8").split("\nout:")[0].splitlines()
    start = next((place for place, line in enumerate(head) if line.startswith("# Deviations")), len(head))
    found = {}
    for line in head[start + 1 :]:
        match = DEVIATION.fullmatch(line)
        assert match, f"{path.name}: not of the form 'key: there -> here; reason': {line}"
        found[match["key"]] = (value_of(match["there"]), value_of(match["here"]))
    return found


def value_of(text: str) -> object:
    value = yaml.safe_load(text)
    return float(value) if isinstance(value, str) and re.fullmatch(r"[\d.]+e-?\d+", value) else value


def resolved(path: Path) -> dict[str, object]:
    """Key -> value of everything that a recipe sets or leaves at its default, the numbers of the algorithm included."""
    config = load_config(path)
    tree = to_tree(config)
    tree["algorithm"]["options"] = to_tree(named_algorithm(config.algorithm))
    if config.model.lora is not None:
        tree["model"]["lora"] = {"rank": config.model.lora.rank, "alpha": config.model.lora.alpha}
    keys = {key for settings in SETTINGS_OF.values() for key in settings}
    return {key: reduce(lambda node, name: node[name], key.split("."), tree) for key in keys}
