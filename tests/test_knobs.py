"""Settings that people bring along from other projects: each has an effect, and what cannot run is refused by name."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from easyvideor1.config import RunConfig
from easyvideor1.config_data import DataConfig, SourceConfig
from easyvideor1.config_train import OptimizerConfig, TrainConfig
from easyvideor1.config_tree import apply_overrides, build
from easyvideor1.data.order import Stratum, order, strata
from easyvideor1.data.samples import read_sources
from easyvideor1.errors import UsageError
from easyvideor1.recipe import data_files
from easyvideor1.runs.rank_limits import check_number_of_ranks
from easyvideor1.training.peak import peak_tflops, used_values
from easyvideor1.training.policy import scheduled_rate
from easyvideor1.types import FrameSpec, Sample
from easyvideor1.video.sampling import plan_media, vision_spec

TREE = {
    "out": "run",
    "model": {"path": "model"},
    "data": {"train": [{"path": "a.jsonl"}]},
    "cache": {"dir": "cache"},
    "train": {"steps": 3},
}


def config(*words: str) -> RunConfig:
    return build(RunConfig, apply_overrides(TREE, words), where="x.yaml")


@pytest.mark.parametrize(
    ("epochs", "samples", "steps"), [(1, 100, 12), (2, 100, 25), (0.5, 100, 6), (0.1, 8, 1), (3, 24, 9)]
)
def test_epochs_are_whole_steps_over_the_samples(epochs: float, samples: int, steps: int) -> None:
    made = config("train.steps=null", f"train.epochs={epochs}", "train.prompts_per_step=8").with_samples(samples)
    assert made.train.num_steps == steps
    assert config().with_samples(samples) == config()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["train.epochs=1"], "train.steps=3 and train.epochs=1.0: give one of the two"),
        (["train.steps=null"], "train.steps=None and train.epochs=None: give one of the two"),
        (["train.steps=null", "train.epochs=0"], "train.epochs must be above 0"),
        (["optimizer.warmup_steps=2", "optimizer.warmup_frac=0.1"], "both say how long the warm-up is"),
        (["optimizer.min_learning_rate_frac=0.1"], "has no effect on a constant rate"),
        (["optimizer.warmup_frac=2"], "optimizer.warmup_frac must be between 0 and 1"),
        (["train.passes=0"], "train.passes must be at least 1"),
        (["validation.temperature=0.7"], "train.validation_samples=0 asks for none"),
        (["validation.top_k=5"], "train.validation_samples=0 asks for none"),
        (["validation.repetition_penalty=1.1"], "train.validation_samples=0 asks for none"),
        (["validation.repetition_penalty=1.1", "train.validation_samples=1"], "rollout.engine=hf has none"),
        (["model.tokenizer=other", "rollout.engine=vllm"], "model.tokenizer with rollout.engine=vllm: vLLM reads"),
        (["validation.max_response_tokens=0"], "validation.max_response_tokens must be above 0"),
        (["data.problem_type_ratios={math: 0}"], "math must be a number > 0"),
        (["data.problem_type_ratios={math: 1}", "data.modality_ratios={video: 1}"], "keep one of the two"),
        (["data.problem_types=[]"], "data.problem_types names no type"),
        (["data.train=[{path: a.jsonl, video: {fsp: 1}}]"], "unknown key 'fsp'; did you mean 'fps'"),
        (["data.train=[{path: a.jsonl, video: {fps: 0}}]"], r"video of a.jsonl.fps must be above 0"),
        (["data.train=[{path: a.jsonl, image: {max_pixels: 1}}]"], "is above"),
        (
            ["train.steps=0", "data.validation=[{path: v}]", "validation.before_training=false"],
            "train.steps=0 only validates",
        ),
    ],
)
def test_what_cannot_run_is_refused_by_name(words: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        config(*words)


@pytest.mark.parametrize(
    ("word", "num_ranks", "problem"),
    [
        ("optimizer.states=8bit", 2, r"optimizer\.states=8bit works in a run of one process, this one has 2 ranks"),
        ("parallel.cpu_offload=true", 1, r"parallel\.cpu_offload=true .* this run is one process.*optimizer\.states"),
        ("parallel.sequence=2", 1, r"parallel\.sequence=2 does not divide the number of ranks, 1"),
    ],
)
def test_what_needs_one_process_or_several_is_refused_by_name(word: str, num_ranks: int, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_number_of_ranks(config(word), num_ranks)
    check_number_of_ranks(config(word), 3 - num_ranks)


def test_warm_up_and_least_rate_as_shares() -> None:
    optimizer = OptimizerConfig(learning_rate=1.0, schedule="linear", warmup_frac=0.25, min_learning_rate_frac=0.1)
    rates = [scheduled_rate(optimizer, step=step, total_steps=8) for step in range(9)]
    # 2 steps up; then 1 - 0.9 * n / 6 down to 0.1
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1])


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_a_run_that_is_all_warm_up_ends_at_the_full_rate(schedule: Literal["constant", "linear", "cosine"]) -> None:
    optimizer = OptimizerConfig(learning_rate=1.0, schedule=schedule, warmup_frac=1.0)
    assert [scheduled_rate(optimizer, step=step, total_steps=4) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]


def test_rows_in_their_order() -> None:
    plain = [Stratum(indices=np.arange(5), share=1.0)]
    assert list(islice(order(plain, seed=3, start=0, shuffle=False), 12)) == [0, 1, 2, 3, 4] * 2 + [0, 1]
    assert list(islice(order(plain, seed=3, start=7, shuffle=False), 3)) == [2, 3, 4]


def test_a_source_has_frame_budgets_of_its_own(tmp_path: Path, write_video: object) -> None:
    assert callable(write_video)
    write_video("a.mp4")  # 12 frames in 2 s
    row = {"problem": "?", "answer": "3", "problem_type": "numerical", "videos": ["a.mp4"]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "b.jsonl").write_text(json.dumps(row) + "\n")
    data = DataConfig(
        train=(
            SourceConfig(path=str(tmp_path / "a.jsonl")),
            SourceConfig(path=str(tmp_path / "b.jsonl"), video={"fps": 3.0, "max_pixels": 4096, "min_pixels": 1024}),
        ),
        video=FrameSpec(fps=1.0, min_frames=2, max_frames=8, min_pixels=16_384, max_pixels=16_384),
    )
    media = [read.sample.media[0] for read in read_sources(data.train)]
    plans = [plan_media(medium, data.video, vision_spec({"model_type": "qwen3_vl"})) for medium in media]
    assert [(len(plan.times_s), plan.height, plan.width) for plan in plans] == [(2, 128, 128), (6, 64, 64)]
    assert plans[0].cache_key != plans[1].cache_key


def test_a_folder_a_split_or_a_pattern_names_all_its_files(tmp_path: Path) -> None:
    for name in ("train-0.jsonl", "train-1.json.gz", "test.jsonl", "notes.txt"):
        (tmp_path / name).write_text("{}")

    def named(path: str, name: str | None = None) -> list[tuple[str, str]]:
        return [(Path(file.path).name, file.label) for file in data_files(SourceConfig(path=path, name=name))]

    assert [file for file, _ in named(str(tmp_path))] == ["test.jsonl", "train-0.jsonl", "train-1.json.gz"]
    assert named(f"{tmp_path}@train", "mine") == [
        ("train-0.jsonl", "mine/train-0"),
        ("train-1.json.gz", "mine/train-1.json"),
    ]
    assert named(f"{tmp_path}/te*.jsonl", "mine") == [("test.jsonl", "mine")]
    assert named(f"{tmp_path}/gone.jsonl") == [("gone.jsonl", "gone")]  # told where it is opened
    with pytest.raises(UsageError, match="no file of rows"):
        named(f"{tmp_path}@dev")


def test_several_passes_count_as_several_updates() -> None:
    assert TrainConfig(steps=1, updates_per_step=3, passes=2).updates_in_all == 6


def test_problem_types_have_shares() -> None:
    samples = [Sample(id=str(n), problem_type="math" if n < 90 else "ocr", problem="?", gold="1") for n in range(100)]
    data = DataConfig(train=(SourceConfig(path="a.jsonl"),), problem_type_ratios={"Math": 1.0, "OCR": 3.0})
    made = strata(samples, data)
    assert [(len(stratum.indices), stratum.share) for stratum in made] == [(90, 0.25), (10, 0.75)]
    first = [samples[index].problem_type for index in islice(order(made, seed=0, start=0), 400)]
    assert 296 <= first.count("ocr") <= 304
    with pytest.raises(UsageError, match="samples are of problem type 'ocr', which has no value"):
        strata(samples, DataConfig(train=data.train, problem_type_ratios={"math": 1.0}))


def test_model_flops_by_hand() -> None:
    """10^12 multiplications are 6 TFLOP; in 2 s on a CPU there is no peak to compare with."""
    used = used_values(10**12, wall_s=2.0, num_devices=1, device=torch.device("cpu"), dtype=torch.bfloat16)
    assert used == {"update/tflops_per_s": 3.0}
    assert peak_tflops("NVIDIA H100 80GB HBM3", torch.bfloat16) == 989.0
    assert peak_tflops("Some other device", torch.bfloat16) is None
