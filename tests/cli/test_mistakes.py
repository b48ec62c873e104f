"""Mistakes people make, each answered with an exit code and a line that names key, file or row and the remedy."""

import errno
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from safetensors.numpy import load_file, save_file

from easyvideor1.cli import main
from easyvideor1.demo.setup import MODEL

QUESTION = {"problem": "1 + 1?", "answer": "2", "problem_type": "numerical"}
JUDGE = (
    "{base_url: 'http://127.0.0.1:9/v1', model: m, problem_types: [numerical], cache_dir: judged, retries: 0, "
    "timeout_s: 1}"
)
RECIPE = {
    "out": "run",
    "model": {"path": str(MODEL)},
    "data": {"train": [{"path": "rows.jsonl"}], "max_prompt_tokens": 256},
    "cache": {"dir": "cache"},
    "rollout": {"n": 2, "max_response_tokens": 4},
    "train": {"steps": 1, "prompts_per_step": 1},
}
FILES: dict[str, str | bytes] = {
    "recipe.yaml": yaml.safe_dump(RECIPE),
    "rows.jsonl": json.dumps(QUESTION) + "\n",
    "empty.yaml": "",
    "list.yaml": "- out\n- train\n",
    "broken.yaml": "out: [run\n",
    "twice.yaml": "out: run\nseed: 1\nout: other\n",
    "binary.yaml": b"\xff\xfe\x00out",
    "little.yaml": "out: run\n",
    "empty.jsonl": "",
    "text.mp4": "<html>404</html>",
    "own.py": "def score(sample, response):\n    return 1.0\n",
    "broken.py": "def score(:\n",
    "broken_model/config.json": "{",
    "bert/config.json": '{"model_type": "bert"}',
    "bert/tokenizer.json": "{}",
    "odd_tokenizer/config.json": (MODEL / "config.json").read_bytes(),
    "odd_tokenizer/tokenizer.json": "{}",
    "no_model/readme.txt": "",
    "not_a_run/notes.txt": "mine",
    "templates/numerical.jinja": "{{ problem }",
    "no_json.jsonl": '{"problem": "x"\n',
    "no_answer.jsonl": json.dumps({"problem": "1 + 1?", "problem_type": "numerical"}) + "\n",
    "no_type.jsonl": json.dumps(QUESTION | {"problem_type": "numericall"}) + "\n",
    "odd_gold.jsonl": json.dumps(QUESTION | {"answer": "purple"}) + "\n",
    "gone_video.jsonl": json.dumps(QUESTION | {"videos": ["gone.mp4"]}) + "\n",
    "text_video.jsonl": json.dumps(QUESTION | {"videos": ["text.mp4"]}) + "\n",
    "tags.jsonl": json.dumps(QUESTION | {"problem": "<video> and <video>", "videos": ["text.mp4"]}) + "\n",
    "long.jsonl": json.dumps(QUESTION | {"problem": "word " * 2000}) + "\n",
}

MISTAKES = [
    # Recipes.
    ("train none.yaml", 2, r"none\.yaml: no such recipe; name a YAML file, or a shipped one"),
    ("train no_model", 2, r"no_model: no such recipe"),
    ("train empty.yaml", 2, r"empty\.yaml: the file holds nothing; a recipe has sections"),
    ("train list.yaml", 2, r"list\.yaml: the file holds a list; a recipe has sections"),
    ("train broken.yaml", 2, r"broken\.yaml: not valid YAML: .*line 1"),
    ("train twice.yaml", 2, r"key 'out' stands twice, first on line 1"),
    ("train binary.yaml", 2, r"binary\.yaml: not valid YAML"),
    ("train little.yaml", 2, r"little\.yaml: missing key 'model'"),
    ("train recipe.yaml hello", 2, r"'hello' is no setting; write section\.key=value"),
    ("train recipe.yaml --steps 3", 2, r"unrecognized arguments: --steps.*settings are written section\.key=value"),
    ("train recipe.yaml rollout.n=[", 2, r"override 'rollout\.n=\[': not a YAML value"),
    ("train recipe.yaml out.deep=1", 2, r"override 'out\.deep=1': 'out' is a value, not a section"),
    # Keys and values.
    ("train recipe.yaml rollout.temprature=1", 2, r"unknown key 'rollout\.temprature'; did you mean 'temperature'"),
    ("train recipe.yaml trainer.steps=1", 2, r"unknown key 'trainer'; did you mean 'train'"),
    ("train recipe.yaml rollout=3", 2, r"'rollout' is a section with keys"),
    ("train recipe.yaml rollout.n=0", 2, r"rollout\.n must be at least 1, got 0"),
    ("train recipe.yaml rollout.n=many", 2, r"'rollout\.n' must be int, got 'many'"),
    ("train recipe.yaml rollout.n=2.5", 2, r"'rollout\.n' must be int, got 2\.5"),
    ("train recipe.yaml rollout.temperature=0", 2, r"rollout\.temperature must be above 0"),
    ("train recipe.yaml rollout.top_p=1.5", 2, r"rollout\.top_p must be between 0 and 1, got 1\.5"),
    ("train recipe.yaml optimizer.learning_rate=-1", 2, r"optimizer\.learning_rate must be at least 0, got -1"),
    ("train recipe.yaml optimizer.learning_rate=.inf", 2, r"optimizer\.learning_rate must be finite"),
    ("train recipe.yaml 'optimizer.betas=[0.9]'", 2, r"'optimizer\.betas' must have 2 values, got 1"),
    ("train recipe.yaml algorithm.name=grpoo", 2, r"did you mean 'grpo'"),
    ("train recipe.yaml 'algorithm.options={clip_hihg: 0.3}'", 2, r"clip_hihg.*clip_high"),
    ("train recipe.yaml model.dtype=float16", 2, r"'model\.dtype' must be one of float32, bfloat16, got 'float16'"),
    ("train recipe.yaml train.steps=-1", 2, r"train\.steps must be at least 0, got -1"),
    (
        "train recipe.yaml train.updates_per_step=9",
        2,
        r"train\.updates_per_step=9 is more than train\.prompts_per_step",
    ),
    ("train recipe.yaml train.keep_checkpoints=0", 2, r"train\.keep_checkpoints must be at least 1"),
    ("train recipe.yaml 'reward.weights={accuracy: 0.5}'", 2, r"reward\.weights must sum to 1"),
    (
        "train recipe.yaml 'reward.weights={acuracy: 1.0}'",
        2,
        r"reward\.weights names the part 'acuracy', .*register it",
    ),
    ("train recipe.yaml reward.max_unscored_frac=2", 2, r"reward\.max_unscored_frac must be between 0 and 1, got 2"),
    ("train recipe.yaml reward.memory_mb=1", 2, r"reward\.memory_mb must be at least 256"),
    ("train recipe.yaml offline.accuracy_threshold=2", 2, r"offline\.accuracy_threshold must be above 0 and at most 1"),
    ("train recipe.yaml data.on_bad_sample=ignore", 2, r"'data\.on_bad_sample' must be one of error, skip"),
    ("train recipe.yaml 'data.modality_ratios={sound: 1}'", 2, r"unknown modality 'sound'; known: text, image, video"),
    ("train recipe.yaml data.video.fps=0", 2, r"data\.video\.fps"),
    ("train recipe.yaml data.video.min_frames=8 data.video.max_frames=4", 2, r"data\.video.*min_frames.*max_frames"),
    ("train recipe.yaml trackers=[tensorbord]", 2, r"'trackers\[0\]' must be one of .*did you mean 'tensorboard'"),
    ("train recipe.yaml trackers=[wandb,wandb]", 2, r"trackers: one stands twice"),
    ("train recipe.yaml cache.codec=zip", 2, r"'cache\.codec' must be one of raw, zstd, jpeg"),
    ("train recipe.yaml cache.max_bytes=0", 2, r"cache\.max_bytes must be above 0"),
    ("train recipe.yaml cache.dir=", 2, r"cache\.dir"),
    ("train recipe.yaml out=", 2, r"'?out'? must be"),
    # Models.
    ("train recipe.yaml model.path=Qwen/Qwen3-VL-8B-Instruct", 2, r"hf download Qwen/Qwen3-VL-8B-Instruct"),
    ("train recipe.yaml model.path=/nowhere", 2, r"model\.path=/nowhere: no such folder; give a folder"),
    ("train recipe.yaml model.path=rows.jsonl", 2, r"model\.path=rows\.jsonl is a file; give the folder"),
    ("train recipe.yaml model.path=no_model", 2, r"model\.path=no_model: no model: the folder has no config\.json"),
    ("train recipe.yaml model.path=broken_model", 2, r"broken_model/config\.json.*(JSON|read)"),
    ("train recipe.yaml model.path=bert", 2, r"bert.*(qwen|famil)"),
    ("train recipe.yaml model.path=odd_tokenizer", 2, r"odd_tokenizer: the tokenizer cannot be read: .*complete"),
    ("train recipe.yaml 'model.lora={targets: []}'", 2, r"model\.lora\.targets names no layer"),
    ("train recipe.yaml 'model.lora={targets: [nope]}'", 2, r"model\.lora\.targets: no layer .* is named nope"),
    # Data.
    ("train recipe.yaml data.train=[]", 2, r"data\.train names no file; give at least one"),
    ("train recipe.yaml data.train=rows.jsonl", 2, r"'data\.train' must be a list, got 'rows\.jsonl'"),
    ("train recipe.yaml 'data.train=[{path: gone.jsonl}]'", (1, 2), r"gone\.jsonl.*No such file"),
    ("train recipe.yaml 'data.train=[{path: empty.jsonl}]'", 1, r"empty\.jsonl"),
    ("train recipe.yaml 'data.train=[{path: rows.jsonl, weight: -1}]'", 2, r"the weight of rows\.jsonl must be"),
    ("train recipe.yaml 'data.train=[{path: rows.jsonl}, {path: rows.jsonl}]'", 2, r"two files are called 'rows'"),
    ("train recipe.yaml 'data.train=[{path: no_json.jsonl}]'", 1, r"no_json\.jsonl:1: .*JSON"),
    ("train recipe.yaml 'data.train=[{path: no_answer.jsonl}]'", 1, r"no_answer\.jsonl:1: field 'answer': missing"),
    ("train recipe.yaml 'data.train=[{path: no_type.jsonl}]'", 1, r"no_type\.jsonl:1: .*did you mean 'numerical'"),
    ("train recipe.yaml 'data.train=[{path: odd_gold.jsonl}]'", 1, r"odd_gold\.jsonl:1: .*purple"),
    ("train recipe.yaml 'data.train=[{path: gone_video.jsonl}]'", 1, r"gone_video\.jsonl:1.*gone\.mp4|gone\.mp4.*:1"),
    ("train recipe.yaml 'data.train=[{path: text_video.jsonl}]'", 1, r"text\.mp4.*html"),
    ("train recipe.yaml 'data.train=[{path: tags.jsonl}]'", 1, r"tags\.jsonl:1: .*2 <video> tags but 1 videos"),
    ("train recipe.yaml 'data.train=[{path: long.jsonl}]'", 1, r"long\.jsonl:1: .*the limit is 25[0-9]"),
    ("train recipe.yaml data.templates=gone", 2, r"gone: the folder of prompt templates does not exist"),
    ("train recipe.yaml data.templates=templates", 2, r"prompt template for 'numerical' in templates"),
    ("train recipe.yaml 'data.validation=[{path: rows.jsonl}]'", 1, r"data\.allow_shared_validation=true"),
    ("train recipe.yaml offline.enable=true offline.source=gone.jsonl", (1, 2), r"gone\.jsonl"),
    # Rewards and judges.
    ("train recipe.yaml 'reward.rewards={numerical: \"gone.py:score\"}'", 2, r"gone\.py"),
    ("train recipe.yaml 'reward.rewards={numerical: own.py}'", 2, r"own\.py"),
    ("train recipe.yaml 'reward.rewards={numerical: \"own.py:nope\"}'", 2, r"own\.py.*nope"),
    ("train recipe.yaml 'reward.rewards={numerical: \"broken.py:score\"}'", 2, r"broken\.py"),
    (f'train recipe.yaml "reward.judge={JUDGE}"', 2, r"judge.*127\.0\.0\.1:9"),
    # Folders and disks.
    ("train recipe.yaml out=rows.jsonl", 2, r"rows\.jsonl is a file; `out` names the folder of the run"),
    ("train recipe.yaml out=rows.jsonl/deep", 2, r"rows\.jsonl/deep.*a file stands where a folder is needed"),
    ("train recipe.yaml out=not_a_run", 2, r"not_a_run is not empty and holds no run \(notes\.txt\).*another `out`"),
    ("train recipe.yaml cache.dir=rows.jsonl", 2, r"cache\.dir=rows\.jsonl: cannot be written.*choose another place"),
    ("train recipe.yaml cache.mode=preprocessed_only cache.dir=gone", 2, r"easyvideor1 preprocess` first"),
    ("demo --out rows.jsonl", 2, r"rows\.jsonl is a file"),
    ("demo --out not_a_run", 2, r"not_a_run is not empty and holds no run"),
    # Commands.
    ("trian recipe.yaml", 2, r"invalid choice: 'trian'"),
    ("demo --skill-steps 3", 2, r"--skill-steps: belongs to 'demo build-model'"),
    ("demo build-model train.steps=3", 2, r"demo build-model takes no overrides"),
    ("export nowhere --out x", 2, r"nowhere: neither a checkpoint nor the folder of a run"),
    ("export nowhere", 2, r"required: --out"),
    ("report nowhere", 1, r"nowhere: no such folder \(give the folder of a run"),
    ("report not_a_run", 1, r"not_a_run: not a run: it holds no metrics\.jsonl"),
    ("ask nowhere text.mp4 What?", 2, r"model\.path=nowhere: no such folder"),
    ("ask no_model text.mp4 What?", 2, r"no config\.json"),
    ("explain rows.jsonl --id nope --out seen", 2, r"no sample has the id 'nope' among 1"),
    ("explain rows.jsonl --id 0", 2, r"required: --out"),
    ("video plan gone.mp4", 1, r"gone\.mp4"),
    ("video plan text.mp4", 1, r"text\.mp4.*html"),
    ("video plan text.mp4 --fps 0", (1, 2), r"fps|not a video"),
    ("data check gone.jsonl", (1, 2), r"gone\.jsonl"),
    ("data check", 2, r"name at least one data file, or a --recipe"),
    ("data check rows.jsonl --model no_model", 2, r"no config\.json"),
    ("data filter rows.jsonl --out filtered", 2, r"--model DIR"),
    ("data clean gone.jsonl --out clean.jsonl", (1, 2), r"gone\.jsonl"),
    ("preprocess rows.jsonl", 2, r"--cache"),
    ("preprocess rows.jsonl --cache rows.jsonl", 2, r"rows\.jsonl"),
    ("preprocess rows.jsonl --cache c --shard 9/8", 2, r"shard"),
    ("cache stats gone", (1, 2), r"gone"),
    ("reward gone.jsonl", (1, 2), r"gone\.jsonl"),
    ("eval score nobench", (1, 2), r"nobench|required"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(words: list[str]) -> int | str | None:
    try:
        return main(words)
    except SystemExit as ended:  # argparse
        return ended.code


@pytest.mark.parametrize(("command", "code", "message"), MISTAKES, ids=[mistake[0] for mistake in MISTAKES])
def test_a_mistake_is_named_with_its_remedy(
    place: Path, capsys: pytest.CaptureFixture, command: str, code: int | tuple[int, ...], message: str
) -> None:
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    found = answer(shlex.split(command))
    output = capsys.readouterr()
    said = output.err + output.out
    assert found in (code if isinstance(code, tuple) else (code,)), said
    assert re.search(message, said, re.DOTALL), said
    assert "Traceback" not in said
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("weights", [None, b"no tensors"])
def test_weights_that_are_missing_or_damaged_are_named(
    place: Path, capsys: pytest.CaptureFixture, weights: bytes | None
) -> None:
    shutil.copytree(MODEL, place / "model")
    (place / "model" / "model.safetensors").unlink()
    if weights is not None:
        (place / "model" / "model.safetensors").write_bytes(weights)
    assert main(["train", "recipe.yaml", "model.path=model"]) == 2
    assert re.search(r"model\.path=model: the model cannot be read: .*is the folder complete", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("rename", "told"),
    [
        (
            lambda name: f"_orig_mod.{name}",
            r"\d+ weights of the model, .*hold _orig_mod\..*of another program",
        ),
        (lambda name: name if "q_proj" not in name else None, r"\d+ weights of the model, .*q_proj.* is it complete"),
    ],
    ids=["names of a compiled model", "left out"],
)
def test_weights_that_would_be_made_up_are_named(
    place: Path, capsys: pytest.CaptureFixture, rename: Callable[[str], str | None], told: str
) -> None:
    shutil.copytree(MODEL, place / "model")
    weights = load_file(MODEL / "model.safetensors")
    named = {new: tensor for name, tensor in weights.items() if (new := rename(name)) is not None}
    save_file(named, place / "model" / "model.safetensors", metadata={"format": "pt"})
    assert main(["train", "recipe.yaml", "model.path=model"]) == 2
    assert re.search(rf"model\.path=model: {told}", capsys.readouterr().err)


def test_a_quantized_model_is_not_trained(place: Path, capsys: pytest.CaptureFixture) -> None:
    shutil.copytree(MODEL, place / "model")
    config = json.loads((MODEL / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "awq", "bits": 4}
    (place / "model" / "config.json").write_text(json.dumps(config))
    assert main(["train", "recipe.yaml", "model.path=model"]) == 2
    assert "model.path=model: its weights are quantized (awq), and training needs" in capsys.readouterr().err


def test_a_recipe_without_mistakes_runs_and_its_trackers_have_its_metrics(place: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert main(["train", "recipe.yaml", "trackers=[tensorboard]"]) == 0
    found = accumulator.EventAccumulator(str(place / "run" / "tensorboard"))
    found.Reload()
    lines = [json.loads(line) for line in (place / "run" / "metrics.jsonl").read_text().splitlines()]
    values = [(line["step"], line["reward/mean"]) for line in lines if "reward/mean" in line]
    assert [(event.step, pytest.approx(event.value)) for event in found.Scalars("reward/mean")] == values
    assert main(["export", "run", "--out", "model"]) == 0
    assert main(["ask", "run", "text.mp4", "What?"]) == 1  # the model is found, the video is none


def test_a_working_folder_that_was_removed_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["config", "seed"]) == 2
    assert capsys.readouterr().err == "error: the working folder was removed; go into one that is there\n"


def test_there_are_many() -> None:
    assert len(MISTAKES) == len({mistake[0] for mistake in MISTAKES}) >= 60


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_report_that_cannot_be_written_is_a_line_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    (place / "run").mkdir()
    (place / "run" / "metrics.jsonl").write_text('{"step": 1, "reward/mean": 0.5}\n')

    def fail(path: Path, *args: object, **options: object) -> None:
        path.touch()
        raise OSError(error, "no luck", str(path))

    monkeypatch.setattr(Path, "write_text", fail)
    assert main(["report", "run"]) == 2
    assert re.search(
        r"run/report\.html: cannot be written: no luck \(.*choose another place\)", capsys.readouterr().err
    )
    assert sorted(path.name for path in (place / "run").iterdir()) == ["metrics.jsonl"]
