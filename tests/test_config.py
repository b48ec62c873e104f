import pytest

from easyvideor1.config import RunConfig, load_config
from easyvideor1.config_tree import apply_overrides, build, to_tree
from easyvideor1.errors import UsageError

TREE = {
    "out": "run",
    "model": {"path": "model"},
    "data": {"train": [{"path": "a.jsonl"}]},
    "cache": {"dir": "cache"},
    "train": {"steps": 3},
}


def test_a_recipe_round_trips_through_its_tree():
    config = build(RunConfig, TREE, where="x.yaml")
    assert build(RunConfig, to_tree(config), where="x.yaml") == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.learning_rat=1", "unknown key 'optimizer.learning_rat'; did you mean 'learning_rate'"),
        ("train.steps=many", "'train.steps' must be int"),
        ("train.steps=true", "'train.steps' must be int"),
        ("cache.mode=prefer_preprocess", "did you mean 'prefer_preprocessed'"),
        ("data.train=a.jsonl", "'data.train' must be a list"),
        ("data.train=[{pth: a}]", "unknown key 'data.train[0].pth'; did you mean 'path'"),
        ("optimizer.betas=[0.9]", "'optimizer.betas' must have 2 values"),
        ("reward.weights={accuracy: 0.5}", "must sum to 1"),
        ("train=5", "'train' is a section"),
        ("train.steps", "not of the form"),
        ("rollout.n=0", "rollout.n must be at least 1, got 0"),
        ("rollout.temperature=0", "rollout.temperature must be above 0, got 0.0; at 0 all rollouts"),
        ("rollout.top_p=1.5", "rollout.top_p must be between 0 and 1, got 1.5"),
        ("rollout.top_p=0", "rollout.top_p must be above 0"),
        ("optimizer.learning_rate=-1", "optimizer.learning_rate must be at least 0, got -1.0"),
        ("optimizer.learning_rate=.inf", "optimizer.learning_rate must be finite"),
        ("optimizer.weight_decay=.nan", "optimizer.weight_decay must be at least 0, got nan"),
        ("optimizer.max_grad_norm=0", "optimizer.max_grad_norm must be above 0, got 0.0"),
        ("optimizer.betas=[0.9, 1]", "optimizer.betas must be at least 0 and below 1"),
        ("train.prompts_per_step=0", "train.prompts_per_step must be at least 1"),
        ("train.updates_per_step=33", "each update needs a prompt of its own"),
        ("train.keep_checkpoints=0", "train.keep_checkpoints must be at least 1"),
        ("train.validate_every=-1", "train.validate_every must be at least 0"),
        ("train.stop.collapse_frac=2", "train.stop.collapse_frac must be between 0 and 1"),
        ("model.lora={rank: 0}", "model.lora.rank must be at least 1"),
        ("reward.max_unscored_frac=2", "reward.max_unscored_frac must be between 0 and 1"),
        ("cache.max_bytes=0", "cache.max_bytes must be above 0"),
    ],
)
def test_a_wrong_key_or_value_names_the_place_and_the_remedy(override, message):
    with pytest.raises(UsageError, match=message.replace("[", r"\[").replace("'", "'")):
        build(RunConfig, apply_overrides(TREE, [override]), where="x.yaml")


def test_a_missing_key_is_named():
    with pytest.raises(UsageError, match=r"missing key 'train\.steps'"):
        build(RunConfig, apply_overrides(TREE, ["train={}"]), where="x.yaml")


def test_numbers_written_without_a_dot_are_floats(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("out: r\nmodel: {path: m}\ndata: {train: [{path: a}]}\ncache: {dir: c}\ntrain: {steps: 1}\n")
    config = load_config(path, ["optimizer.learning_rate=1e-6", "rollout.temperature=1"])
    assert config.optimizer.learning_rate == 1e-6
    assert isinstance(config.rollout.temperature, float)
