"""The life of a run under faults, by the real command: signals, full disks, changed data, rewards that hang or die."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.small_run import (
    environment,
    numbers,
    recipe,
    rows,
    scene,
    start,
    start_warm,
    text_rows,
    weights,
    write_inputs,
    write_rows,
)
from support.warm_start import WarmProcess, with_small_files

from easyvideor1.cli import main
from easyvideor1.demo.clips import write_clip
from easyvideor1.demo.setup import MODEL
from easyvideor1.records import jsonl
from easyvideor1.training import shelf

Capture = pytest.CaptureFixture[str]
WAIT_S = 200.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_inputs(tmp_path_factory.mktemp("faults"))
    write_rows(folder / "texts.jsonl", text_rows())
    return folder


def texts(folder: Path, out: Path, changes: dict[str, Any] | None = None) -> str:
    return recipe(folder, out, data="texts.jsonl", changes=changes)


def own_reward(folder: Path, code: str) -> dict[str, Any]:
    """Changes of a recipe whose numerical rows are scored by a function of their own, which knows the gold answer:
    that is tried before the run."""
    path = folder / "own.py"
    head = (
        "import os, subprocess, sys, time\nfrom easyvideor1.types import Score\n\n\ndef judge(sample, text):\n"
        "    if text == f'<answer>{sample.gold}</answer>':\n        return Score(value=1.0)\n"
    )
    path.write_text(head + code)
    return {"reward.rewards": {"numerical": f"{path}:judge"}, "reward.workers": 1}


def wait_for(path: Path, process: WarmProcess) -> None:
    until = time.monotonic() + WAIT_S
    while not path.exists():
        assert process.poll() is None, process.communicate(timeout=1)
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_of_a_scheduler_ends_the_run_after_its_step_and_the_run_goes_on(
    folder: Path, tmp_path: Path, name: str
) -> None:
    changes = {"train.steps": 30, "train.validate_every": 1}
    with start_warm("train", texts(folder, tmp_path / "run", changes)) as process:
        wait_for(tmp_path / "run" / "checkpoints" / shelf.name_of(2), process)
        process.send_signal(getattr(signal, name))
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 128 + getattr(signal, name)
    last = errors.strip().splitlines()[-1]
    found = re.fullmatch(rf"{name}: step (\d+) is finished and saved; run the same command again to go on", last)
    assert found, errors
    step = int(found[1])
    assert last == (tmp_path / "run" / "stopped.txt").read_text().strip()
    steps = str(step + 1)
    assert main(["train", str(tmp_path / "run.yaml"), f"train.steps={steps}"]) == 0
    assert not (tmp_path / "run" / "stopped.txt").exists()
    assert main(["train", texts(folder, tmp_path / "whole", changes), f"train.steps={steps}"]) == 0
    assert numbers(tmp_path / "run") == numbers(tmp_path / "whole")
    assert weights(tmp_path / "run", step + 1) == weights(tmp_path / "whole", step + 1)


@pytest.mark.parametrize("after_s", [0.2, 0.8, 2.0])
def test_ctrl_c_in_the_first_seconds_is_one_line(folder: Path, tmp_path: Path, after_s: float) -> None:
    errors, code = "", 0
    for _ in range(6):
        with start("train", texts(folder, tmp_path / "run", {"train.steps": 500})) as process:
            time.sleep(after_s)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=WAIT_S)
        code = process.returncode
        if code != -signal.SIGINT and "runpy" not in errors and "init_import_site" not in errors:
            break
        after_s *= 2  # Python itself had not started yet
    assert errors == "interrupted; run the same command again to go on\n"
    assert code == 130


def test_a_second_run_in_the_same_folder_is_refused_and_changes_nothing(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    with start_warm("train", texts(folder, tmp_path / "run", {"train.steps": 500})) as process:
        wait_for(tmp_path / "run" / "checkpoints" / shelf.name_of(1), process)
        assert main(["train", str(tmp_path / "run.yaml")]) == 2
        assert f"another process writes to this run: process {process.pid}" in capsys.readouterr().err
        process.kill()
        process.communicate(timeout=WAIT_S)
    steps = [record["step"] for record in numbers(tmp_path / "run")]
    assert steps == sorted(set(steps))


def test_changed_rows_are_refused_when_a_run_goes_on(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    data = write_rows(folder / "change.jsonl", text_rows())
    path = recipe(folder, tmp_path / "run", data=data.name, changes={"train.steps": 1, "data.validation": []})
    assert main(["train", path]) == 0
    more = [path, "train.steps=2"]
    gold = text_rows()
    gold[2]["answer"] = "77"
    for changed, message in (
        (gold, "change.jsonl:3 is another row than when this run began, and so are 0 more"),
        (text_rows(5), "had 4 rows when this run began, and has 5"),
        (text_rows()[::-1], "change.jsonl:1 is another row than when this run began, and so are 3 more"),
    ):
        write_rows(data, changed)
        capsys.readouterr()
        assert main(["train", *more]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "Put the old data back" in error
    write_rows(data, text_rows())
    assert main(["train", *more]) == 0


def test_a_replaced_video_is_refused_when_a_run_goes_on_and_under_a_running_one(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_clip(scene(), data / "a.mp4", side_px=64)
    write_rows(data / "videos.jsonl", rows()[:1])
    (data / "model").symlink_to(folder / "model")
    path = recipe(data, tmp_path / "run", data="videos.jsonl", changes={"train.steps": 1, "train.prompts_per_step": 1})
    assert main(["train", path]) == 0
    old = (data / "a.mp4").read_bytes()
    write_clip(scene("blue", seed=1), data / "a.mp4", side_px=64)
    capsys.readouterr()
    assert main(["train", path, "train.steps=2"]) == 2
    error = capsys.readouterr().err
    assert "videos.jsonl:1: the content of its media (" in error
    assert "is another than when this run began" in error
    (data / "a.mp4").write_bytes(old)  # at another time than before
    with start_warm("train", path, "train.steps=500") as process:
        wait_for(tmp_path / "run" / "checkpoints" / shelf.name_of(2), process)
        write_clip(scene("blue", seed=1), data / "new.mp4", side_px=64)
        os.replace(data / "new.mp4", data / "a.mp4")
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 3
    assert "a.mp4: this file was replaced while the run goes on" in errors.splitlines()[-1]


def test_a_nan_in_the_starting_weights_is_named_before_the_first_rollout(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copytree(folder / "model", tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("q_proj.weight"))
    tensors[name][0, :3] = torch.nan
    save_file(tensors, file, metadata={"format": "pt"})
    path = texts(folder, tmp_path / "run", {"model.path": str(tmp_path / "model")})
    assert main(["train", path]) == 3
    error = capsys.readouterr().err
    assert f"3 of {tensors[name].numel()} numbers of the weight " in error
    assert "q_proj.weight are NaN or infinite" in error
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize("file", ["metrics.jsonl", "rollouts.jsonl", "validation.jsonl"])
def test_a_full_disk_is_one_line_and_the_run_goes_on_once_there_is_room(
    folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    whole, full = (texts(folder, tmp_path / name, {"train.steps": 2}) for name in ("whole", "full"))
    assert main(["train", whole]) == 0
    append = jsonl.Lines.append
    room = {"metrics.jsonl": 3, "rollouts.jsonl": 2, "validation.jsonl": 2}[file]
    left = [room]

    def limited(lines: jsonl.Lines, record: dict[str, Any]) -> None:
        if lines.path.name == file:
            left[0] -= 1
            if left[0] < 0:
                lines._file.write(b'{"step": ')  # what still fits
                raise OSError(errno.ENOSPC, "No space left on device")
        append(lines, record)

    with monkeypatch.context() as patch:
        patch.setattr(jsonl.Lines, "append", limited)
        capsys.readouterr()
        assert main(["train", full]) == 3
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert "No space left on device" in error
    assert "\n" not in error
    assert "No space left on device" in (tmp_path / "full" / "stopped.txt").read_text()
    assert main(["train", full]) == 0
    assert numbers(tmp_path / "full") == numbers(tmp_path / "whole")


def test_a_real_small_disk_keeps_the_last_checkpoint_and_has_room_for_the_reason(folder: Path, tmp_path: Path) -> None:
    """By the limit of the process on the size of files, as a quota would be: every write beyond it fails."""
    out = tmp_path / "run"
    assert main(["train", texts(folder, out, {"train.steps": 1})]) == 0
    size = (out / "checkpoints" / shelf.name_of(1) / "optimizer" / "part-00000.safetensors").stat().st_size
    words = ["train", str(out.with_suffix(".yaml")), "train.steps=2"]
    with WarmProcess(with_small_files, size // 2, words, env=environment()) as process:
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 3, errors
    assert "the checkpoint step-000002 could not be written: File too large" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert "File too large" in (out / "stopped.txt").read_text()
    assert main(["train", str(out.with_suffix(".yaml")), "train.steps=2"]) == 0


def test_validation_that_cannot_be_judged_stops_the_run_before_it_counts(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    changes = own_reward(tmp_path, "    raise RuntimeError('no judge today')\n")
    path = texts(folder, tmp_path / "run", changes)
    assert main(["train", path]) == 3
    error = capsys.readouterr().err
    assert "validation: 2 of 4 answers could not be scored, more than reward.max_unscored_frac=0.25" in error
    assert "no judge today" in error
    assert "run the same command again" in error
    own_reward(tmp_path, "    return Score(value=0.5)\n")
    assert main(["train", path]) == 0
    name = "validation/unscored_frac"
    assert [record[name] for record in numbers(tmp_path / "run") if name in record] == [0, 0]


def test_hanging_rewards_leave_less_and_less_time_to_the_others_of_a_validation(folder: Path, tmp_path: Path) -> None:
    changes = own_reward(tmp_path, "    time.sleep(100)\n") | {
        "reward.deadline_s": 2.0,
        "reward.max_unscored_frac": 1.0,
        "train.steps": 0,
    }
    assert main(["train", texts(folder, tmp_path / "run", changes)]) == 0
    told = (tmp_path / "run" / "validation.jsonl").read_text()
    limits = [float(found) for found in re.findall(r"not done within ([\d.]+) s", told)]
    # Twice the deadline may be lost: the first takes 2 s of 4, the second 1 s of the other 2, then the least of 0.5 s.
    assert len(limits) == 4
    assert limits[0] == 2.0
    assert sorted(limits, reverse=True) == limits
    assert 0.5 <= limits[-1] < 1.0


def test_a_reward_that_runs_out_of_memory_loses_its_response_and_its_worker_is_replaced(
    folder: Path, tmp_path: Path
) -> None:
    code = (
        f"    open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}} {{sample.id}}\\n')\n"
        "    if sample.id == 'text-1':\n"
        "        kept = globals().setdefault('kept', [])\n"
        "        while True:\n"
        "            kept.append(bytearray(50_000_000))\n"
        "    return Score(value=0.5)\n"
    )
    changes = own_reward(tmp_path, code) | {"reward.memory_mb": 700, "reward.max_unscored_frac": 1.0, "train.steps": 1}
    assert main(["train", texts(folder, tmp_path / "run", changes)]) == 0
    start_record = next(record for record in numbers(tmp_path / "run") if record["step"] == 0)
    assert start_record["validation/unscored_frac"] == 0.25
    served = [line.split() for line in (tmp_path / "pids").read_text().splitlines()]
    victims = {pid for pid, name in served if name == "text-1"}
    after = [(pid, name) for number, (pid, name) in enumerate(served) if (pid, "text-1") in map(tuple, served[:number])]
    assert victims
    assert not after, "a process that had run out of memory served another response"


def test_what_a_reward_starts_and_prints_ends_with_it(folder: Path, tmp_path: Path) -> None:
    code = (
        "    child = subprocess.Popen(['sleep', '1000'])\n"
        f"    open({str(tmp_path / 'pids')!r}, 'a').write(f'{{child.pid}}\\n')\n"
        "    print('x' * 10_000_000)\n"
        "    sys.stderr.write('y' * 10_000_000)\n"
        "    return Score(value=0.5, parsed='p' * 10_000_000, reason='r' * 1_000_000)\n"
    )
    changes = own_reward(tmp_path, code) | {"train.steps": 1}
    with start_warm("train", texts(folder, tmp_path / "run", changes)) as process:
        output, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, errors[-2000:]
    assert len(errors) + len(output) < 500_000
    assert "a worker process has printed 64 KiB; the rest is dropped" in errors
    written = sum(path.stat().st_size for path in (tmp_path / "run").glob("*.*") if path.is_file())
    assert written < 3_000_000
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text()


def test_a_run_that_does_not_move_ends_with_its_stacks(folder: Path, tmp_path: Path) -> None:
    code = f"    open({str(tmp_path / 'there')!r}, 'w').close()\n    time.sleep(1000)\n"
    limits = {"reward.deadline_s": 900.0, "train.stall_limit_s": 3.0, "data.validation": []}
    changes = own_reward(tmp_path, code) | limits
    with start_warm("train", texts(folder, tmp_path / "run", changes)) as process:
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 3
    last = errors.strip().splitlines()[-1]
    assert "no progress for 3 s (train.stall_limit_s) while: rollout and reward of step 1, samples text-" in last
    told = (tmp_path / "run" / "stalled.txt").read_text()
    assert "in ask" in told, "the main thread"
    assert "in judge" in errors, "the worker"
    assert (tmp_path / "run" / "stopped.txt").read_text().startswith("no progress for 3 s")
    assert json.loads((tmp_path / "run" / "run.json").read_text())


def test_checkpoints_written_in_the_background_hold_the_weights_of_their_step(folder: Path, tmp_path: Path) -> None:
    keep = {"train.keep_checkpoints": 4, "train.checkpoint_every": 1}
    for name, changes in (("front", keep), ("back", keep | {"train.save_in_background": True})):
        assert main(["train", texts(folder, tmp_path / name, changes)]) == 0
    front, back = ((tmp_path / name / "checkpoints").glob("step-*/**/*.safetensors") for name in ("front", "back"))
    contents = [
        {str(path.relative_to(path.parents[2])): path.read_bytes() for path in paths} for paths in (front, back)
    ]
    assert len(contents[0]) == 2 * 4
    assert contents[0] == contents[1]
    assert numbers(tmp_path / "front") == numbers(tmp_path / "back")


def test_an_update_that_breaks_the_weights_ends_the_run_and_leaves_a_checkpoint_from_before_it(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    code = "    return Score(value=len(set(text)) / 100 if '</answer>' in text else 0.0)\n"
    changes = own_reward(tmp_path, code) | {
        "model.path": str(MODEL),
        "data.validation": [],
        "optimizer.learning_rate": 10.0,
        "rollout.max_response_tokens": 24,
        "train.steps": 12,
        "train.checkpoint_every": 1,
        "train.stop.dead_steps": 2,
    }
    assert main(["train", texts(folder, tmp_path / "run", changes)]) == 3
    error = capsys.readouterr().err
    found = re.search(r"the update of step (\d+) broke the weights .* Those of step (\d+) or before", error)
    assert found, error
    assert weights(tmp_path / "run", int(found[2]))
