"""What may change when a run goes on."""

import pytest
import yaml

from easyvideor1.config import RunConfig
from easyvideor1.config_tree import apply_overrides, build, to_tree
from easyvideor1.errors import UsageError
from easyvideor1.recipe import load_config
from easyvideor1.records.folder import RunFolder
from easyvideor1.runs.resume import check_same_run
from easyvideor1.runs.starting_model import START, check_same_start

TREE = {
    "out": "run",
    "model": {"path": "model"},
    "data": {"train": [{"path": "a.jsonl", "media_root": "videos"}, {"path": "b.jsonl"}]},
    "cache": {"dir": "cache"},
    "reward": {"judge": {"base_url": "http://a", "model": "m", "problem_types": ["open-ended"], "cache_dir": "j"}},
    "train": {"steps": 10},
}


@pytest.fixture
def goes_on(tmp_path):
    """Checks whether a run begun with some overrides goes on with others."""

    def check(begun: list[str], now: list[str]) -> None:
        configs = [build(RunConfig, apply_overrides(TREE, words), where="x.yaml") for words in (begun, [*begun, *now])]
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(to_tree(configs[0])))
        check_same_run(configs[1], before=path)

    return check


@pytest.mark.parametrize(
    "change",
    [
        "out=moved",
        "cache.dir=/another/disk",
        "cache.max_bytes=1000000",
        "cache.mode=preprocessed_only",
        "cache.deadline_s=20",
        "data.train=[{path: a.jsonl, media_root: /mnt/videos}, {path: b.jsonl, media_root: elsewhere}]",
        "reward.workers=7",
        "reward.deadline_s=30",
        "reward.memory_mb=4096",
        "reward.judge.base_url=http://b",
        "reward.judge.concurrency=2",
        "train.steps=20",
        "train.tokens_per_pack=4096",
        "train.validate_every=5",
        "train.checkpoint_every=3",
        "train.keep_checkpoints=5",
        "train.stop.max_kl=1.0",
        "model.gradient_checkpointing=true",
        "model.path=./there/../model",
        "data.train=[{path: /mnt/a.jsonl, media_root: videos}, {path: ./b.jsonl}]",  # the rows themselves are compared
    ],
)
def test_what_changes_no_result_may_change(goes_on, change):
    goes_on([], [change])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("seed=1", "seed was 0, is now 1"),
        ("rollout.n=4", "rollout.n was 8, is now 4"),
        ("optimizer.learning_rate=1e-5", "optimizer.learning_rate was 1e-06, is now 1e-05"),
        (
            "data.train=[{path: c.jsonl, media_root: videos}, {path: b.jsonl}]",
            r"data\.train\[0\]\.path was .*a\.jsonl, is now .*c\.jsonl",
        ),
        ("data.video.fps=1", r"data\.video\.fps was 2\.0, is now 1\.0"),
        ("reward.weights={accuracy: 1.0}", r"reward\.weights\.accuracy was 0\.9"),
        ("reward.judge.model=other", r"reward\.judge\.model was m"),
        ("model.path=other", r"model\.path was .*model, is now .*other"),
        ("cache.codec=jpeg", r"cache\.codec was raw, is now jpeg"),
        ("model.lora={rank: 4}", r"model\.lora"),
    ],
)
def test_what_decides_the_numbers_may_not(goes_on, change, told):
    with pytest.raises(UsageError, match=told):
        goes_on([], [change])


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_length_of_a_run_that_its_schedule_ends_with_may_not_change(goes_on, schedule):
    with pytest.raises(UsageError, match=r"train\.steps was 10 and is now 20.*Give train\.steps=10 to go on"):
        goes_on([f"optimizer.schedule={schedule}"], ["train.steps=20"])


def test_a_run_goes_on_from_another_working_folder_and_with_its_model_elsewhere(tmp_path, monkeypatch):
    for name in ("model", "moved", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(b"weights" if name != "other" else b"Weights")
    monkeypatch.chdir(tmp_path)
    run = RunFolder("run")
    with run.claimed():
        config = build(RunConfig, TREE, where="x.yaml")
        run.write_start(config)
        check_same_start(config.model.path, run.path / START)
    before = run.config.absolute()
    assert load_config(before).model.path == str(tmp_path / "model")
    monkeypatch.chdir("/")
    for words in ([f"model.path={tmp_path}/model"], [f"model.path={tmp_path}/moved"]):
        places = [
            f"cache.dir={tmp_path}/cache",
            f"data.train=[{{path: {tmp_path}/a.jsonl, media_root: v}}, {{path: b.jsonl}}]",
        ]
        check_same_run(build(RunConfig, apply_overrides(TREE, [*places, *words]), where="x.yaml"), before=before)
    with pytest.raises(UsageError, match=r"model\.path was .*model, is now .*other"):
        check_same_run(
            build(RunConfig, apply_overrides(TREE, [f"model.path={tmp_path}/other"]), where="x.yaml"), before=before
        )
