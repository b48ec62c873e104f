import pytest

from easyvideor1.config import RunConfig, apply_overrides, build, load_config, to_tree
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
