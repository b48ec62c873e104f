import os

import pytest
import yaml

from easyvideor1.config import RunConfig
from easyvideor1.config_data import CacheConfig
from easyvideor1.config_tree import apply_overrides, build, to_tree
from easyvideor1.config_yaml import dump_yaml, read_yaml
from easyvideor1.errors import UsageError
from easyvideor1.recipe import load_config, load_settings

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
        ("cache.deadline_s=0", "cache.deadline_s must be above 0"),
        ("cache.dir=''", "cache.dir is empty"),
        ("out=' '", "out is empty"),
        ("seed=-1", "seed must be at least 0, got -1"),
        ("model.path=''", "model.path is empty"),
        ("model.lora={targets: []}", "model.lora.targets names no layer"),
        ("data.max_prompt_tokens=0", "data.max_prompt_tokens must be at least 1"),
        ("data.train=[{path: ''}]", "data.train.path is empty"),
        ("data.train=[{path: a, weight: 0}]", "data.train: the weight of a must be a number > 0"),
        ("data.train=[{path: a}, {path: b/a}]", "data.train: two files are called 'a'"),
        ("data.train=[{path: a, weight: 1}, {path: b}]", "data.train: b has no weight"),
        ("data.validation=[{path: a, weight: 1}]", "data.validation: a has a weight"),
        ("data.modality_ratios={audio: 1}", "data.modality_ratios: unknown modality 'audio'"),
        ("data.video.fps=0", "data.video.fps must be above 0, got 0.0"),
        ("data.video.fps=.inf", "data.video.fps must be finite"),
        ("data.video.min_frames=0", "data.video.min_frames must be at least 1"),
        ("data.video.max_frames=3", "data.video.min_frames=4 is above data.video.max_frames=3"),
        ("data.video.max_pixels=-5", "data.video.max_pixels must be at least 1, got -5"),
        ("data.video.min_pixels=300000", "data.video.min_pixels=300000 is above data.video.max_pixels=262144"),
        ("data.video.total_pixels=100", "data.video.total_pixels=100 is less than"),
        ("data.image.max_pixels=1000", "data.image.min_pixels=16384 is above data.image.max_pixels=1000"),
        ("data.image.fps=fast", "'data.image.fps' must be float, got 'fast'"),
        ("rollout.max_response_tokens=0", "rollout.max_response_tokens must be at least 1"),
        ("reward.deadline_s=0", "reward.deadline_s must be above 0"),
        ("reward.memory_mb=10", "reward.memory_mb must be at least 256, got 10"),
        ("reward.workers=0", "reward.workers must be at least 1"),
        ("reward.weights={}", "reward.weights is empty"),
        ("reward.weights={accuracy: 0.4, format: 0.6}", "format weighs 0.6, more than accuracy with 0.4"),
        ("reward.weights={accuracy: 1.5, format: -0.5}", "reward.weights must sum to 1, none negative"),
        ("reward.overlong_buffer_tokens=-1", "reward.overlong_buffer_tokens must be at least 0"),
        ("reward.judge={base_url: b, model: m, problem_types: [x], cache_dir: c, concurrency: 0}",
         "reward.judge.concurrency must be at least 1, got 0"),
        ("reward.judge={base_url: b, model: m, problem_types: [x], cache_dir: c, timeout_s: 0}",
         "reward.judge.timeout_s must be above 0"),
        ("reward.judge={base_url: b, model: m, problem_types: [], cache_dir: c}", "reward.judge.problem_types names"),
        ("reward.judge={base_url: b}", "missing key 'reward.judge.model'"),
        ("offline.accuracy_threshold=0", "offline.accuracy_threshold must be above 0 and at most 1"),
        ("train.stop.max_kl=-1", "train.stop.max_kl must be at least 0"),
        ("train.tokens_per_pack=0", "train.tokens_per_pack must be at least 1"),
        ("train.tokens_per_row=9", "unknown key 'train.tokens_per_row'; did you mean 'tokens_per_pack'"),
        ("optimizer.warmup_steps=-1", "optimizer.warmup_steps must be at least 0"),
        ("optimizer.schedule=step", "'optimizer.schedule' must be one of constant, linear, cosine"),
        ("train.steps=010", "'train.steps' must be int, got '010'; write 10, without zeros in front or quotes"),
        ("train.steps=1:30", "'train.steps' must be int, got '1:30'"),
        ("train.steps=1e3", "'train.steps' must be int, got 1000.0; write 1000"),
        (f"train.steps={'9' * 5000}", "not a YAML value: Exceeds the limit"),
        (f"optimizer.weight_decay={'9' * 400}", "'optimizer.weight_decay' must be float"),
        ("optimizer.weight_decay=.inf", "optimizer.weight_decay must be finite"),
        ("cache.deadline_s=.inf", "cache.deadline_s must be between 0 and 2e+06, got inf"),
        ("parallel.timeout_s=1e9", "parallel.timeout_s must be between 0 and 2e+06"),
        ("train.stall_limit_s=.inf", "train.stall_limit_s must be between 0 and 2e+06"),
        ("model.tokenizer=None", "'model.tokenizer' is the text 'None'; the YAML for no value is null"),
        ("out=2024", "'out' must be str, got 2024; a text that looks like another kind of value stands in quotes"),
        ("model.freeze_vision_tower='true'", "must be bool, got 'true'; write true, without quotes"),
        ("data.train=a.jsonl", "write it in brackets"),
        ("data.train=[a.jsonl]", "such as {path: ..}"),
        ("rollout=", "'rollout' is a section with keys, but nothing was given: None; remove it for the defaults"),
        ("out=runs/a #1", "YAML ignores what follows ' #'; put the value in quotes"),
        ("out=@a", "if it is a text, put it in quotes"),
        ("train={steps: 1, steps: 2}", "key 'steps' stands twice"),
        ('out="C:\\runs"', "'out' holds the control character '\\r'"),
        ('project="C:\\runs"', "project holds a control character"),
        ("out=~nobody-of-that-name/a", "no home folder is known for '~nobody-of-that-name'"),
        ("out=$EASYVIDEOR1_NOT_SET/a", "names the environment variable 'EASYVIDEOR1_NOT_SET', which is not set"),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value_names_the_file_the_key_and_the_remedy(tmp_path, override, message):
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(TREE))
    with pytest.raises(UsageError) as raised:
        load_config(path, [override])
    assert message in str(raised.value)
    assert str(path) in str(raised.value) or "override" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "the file holds a list; a recipe has sections with keys"),
        ("", "the file holds nothing; a recipe has sections"),
        ("just words", "the file holds a text"),
        ("train: {steps: 1\n", "not valid YAML"),
        ("seed: 1\nout: a\nseed: 2\n", "key 'seed' stands twice, first on line 1"),
        ("train:\n  steps: 1\n  steps: 2\n", "key 'steps' stands twice, first on line 2"),
        ("!!python/object/apply:os.system [ls]", "not valid YAML"),
        ("train:\n\tsteps: 1\n", "indent with spaces, not with tabs"),
        ("algorithm: &a {options: {x: *a}}\n", "not valid YAML: found unconstructable recursive node"),
        ("out: a\n".encode("utf-16").decode("latin-1"), "save the file as UTF-8"),
    ],
)
def test_a_file_that_is_no_recipe_says_what_it_is(tmp_path, text, message):
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as raised:
        load_config(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert message in str(raised.value)


def test_training_without_data_is_refused(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(TREE | {"data": {}}))
    with pytest.raises(UsageError, match=r"x\.yaml: data\.train names no file"):
        load_config(path)


def test_settings_need_no_recipe_and_no_model():
    settings = load_settings(None, ["data.video.fps=1", "cache.dir=c"])
    assert (settings.data.video.fps, settings.model, settings.cache) == (1.0, None, CacheConfig(dir="c"))
    with pytest.raises(UsageError, match=r"settings: unknown key 'rollout\.m'"):
        load_settings(None, ["rollout.m=1"])


def test_a_missing_key_is_named():
    with pytest.raises(UsageError, match=r"missing key 'model\.path'"):
        build(RunConfig, apply_overrides(TREE, ["model={}"]), where="x.yaml")


def test_numbers_written_without_a_dot_are_floats(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("out: r\nmodel: {path: m}\ndata: {train: [{path: a}]}\ncache: {dir: c}\ntrain: {steps: 1}\n")
    config = load_config(path, ["optimizer.learning_rate=1e-6", "rollout.temperature=1"])
    assert config.optimizer.learning_rate == 1e-6
    assert isinstance(config.rollout.temperature, float)


def test_home_and_variables_in_paths_are_filled_in_where_no_shell_does_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "$5").touch()  # what is there under its name is meant
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(TREE))
    words = ["out=~/runs/a", "cache.dir=$SCRATCH/c", "model.path=${SCRATCH}/m", "data.train=[{path: $5}]"]
    config = load_config(path, [*words, "reward.rewards={numerical: '~/own.py:score'}", "project=$SCRATCH"])
    assert (config.out, config.cache.dir, config.model.path) == ("/home/me/runs/a", "/scratch/me/c", "/scratch/me/m")
    assert (config.data.train[0].path, config.project) == ("$5", "$SCRATCH")
    assert config.reward.rewards == {"numerical": "/home/me/own.py:score"}


@pytest.mark.parametrize(
    "value",
    ["1e5", "010", "1:30", "2024-01-02", "on", "null", "=", "~", "0x1f", "a #b", "", 1e-6, 1e300, True, None, 10],
)
def test_values_are_read_as_they_were_written(value):
    text = dump_yaml({"k": value})
    assert read_yaml(text, where="x") == yaml.safe_load(text) == {"k": value}


def test_a_recipe_may_come_by_a_pipe_and_not_by_a_folder(tmp_path):
    read, write = os.pipe()
    with os.fdopen(write, "w") as pipe:
        pipe.write(yaml.safe_dump(TREE))
    assert load_config(f"/dev/fd/{read}").out == "run"
    os.close(read)
    (tmp_path / "config.yaml").touch()
    with pytest.raises(UsageError, match=r"it is a folder: name a YAML file, such as .*config\.yaml"):
        load_config(tmp_path)
