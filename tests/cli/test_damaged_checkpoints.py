"""`train` over damaged checkpoints: each is named, never trained on, and the run ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.small_run import numbers, recipe, text_rows, weights, write_inputs, write_rows

from easyvideor1.cli import main
from easyvideor1.training import manifest, shelf

STEPS = 3
MODEL, MOMENTS = "model/model.safetensors", "optimizer/part-00000.safetensors"
Damage = Callable[[Path], object]


def flip(name: str, place: float) -> Damage:
    def damage(checkpoint: Path) -> None:
        content = bytearray((checkpoint / name).read_bytes())
        content[int(place * (len(content) - 1))] ^= 0x10
        (checkpoint / name).write_bytes(content)

    return damage


def fill(name: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda checkpoint: (checkpoint / name).write_bytes(change((checkpoint / name).read_bytes()))


def replaced_by_folder(name: str) -> Damage:
    def damage(checkpoint: Path) -> None:
        (checkpoint / name).unlink()
        (checkpoint / name).mkdir()

    return damage


def replaced_by_file(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    checkpoint.write_text("not a folder")


def link_to_nothing(checkpoint: Path) -> None:
    (checkpoint / MODEL).unlink()
    (checkpoint / MODEL).symlink_to("nowhere")


def unreadable_pipe(checkpoint: Path) -> None:
    (checkpoint / MOMENTS).unlink()
    os.mkfifo(checkpoint / MOMENTS)


def other_checksum(checkpoint: Path) -> None:
    """A manifest that was written by hand to fit damaged weights still does not fit its own checksum."""
    flip(MODEL, 0.7)(checkpoint)
    tree = json.loads((checkpoint / manifest.NAME).read_text())
    tree["files"][MODEL]["xxh3_128"] = "0" * 32
    (checkpoint / manifest.NAME).write_text(json.dumps(tree))


DAMAGES: dict[str, Damage] = {
    "a byte of the weights flipped": flip(MODEL, 0.6),
    "a byte of the last weight flipped": flip(MODEL, 1.0),
    "a byte of the header flipped": flip(MODEL, 0.001),
    "a byte of the moments flipped": flip(MOMENTS, 0.5),
    "weights zeroed": fill(MODEL, lambda content: bytes(len(content))),
    "a block of moments zeroed": fill(MOMENTS, lambda c: c[:9000] + bytes(4096) + c[13096:]),
    "weights cut short": fill(MODEL, lambda content: content[: len(content) // 2]),
    "moments cut by one byte": fill(MOMENTS, lambda content: content[:-1]),
    "bytes added to the weights": fill(MODEL, lambda content: content + b"more"),
    "weights empty": fill(MODEL, lambda content: b""),
    "state empty": fill("state.json", lambda content: b""),
    "state no JSON": fill("state.json", lambda content: content[:-5]),
    "state of another step": fill("state.json", lambda content: content.replace(b'"cursor": 4', b'"cursor": 0')),
    "configuration without a brace": fill("model/config.json", lambda content: content[1:]),
    "weights missing": lambda checkpoint: (checkpoint / MODEL).unlink(),
    "moments missing": lambda checkpoint: shutil.rmtree(checkpoint / "optimizer"),
    "state missing": lambda checkpoint: (checkpoint / "state.json").unlink(),
    "manifest missing": lambda checkpoint: (checkpoint / manifest.NAME).unlink(),
    "manifest cut short": fill(manifest.NAME, lambda content: content[:40]),
    "manifest of deep nesting": fill(manifest.NAME, lambda content: b"[" * 100_000),
    "manifest changed by hand": other_checksum,
    "a folder in place of the weights": replaced_by_folder(MODEL),
    "a file in place of the checkpoint": replaced_by_file,
    "a link to nothing in place of the weights": link_to_nothing,
    "a pipe in place of the moments": unreadable_pipe,
    "an empty checkpoint": lambda checkpoint: [shutil.rmtree(checkpoint), checkpoint.mkdir()],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which no checkpoint was deleted."""
    folder = write_inputs(tmp_path_factory.mktemp("damaged"))
    write_rows(folder / "texts.jsonl", text_rows())
    changes = {"train.steps": STEPS, "train.keep_checkpoints": 9, "data.validation": []}
    assert main(["train", recipe(folder, folder / "whole", data="texts.jsonl", changes=changes)]) == 0
    return folder / "whole"


def copy_of(whole: Path, out: Path) -> list[str]:
    """The run as it was after step 2, in another place; returns the command that goes on with it."""
    shutil.copytree(whole, out)
    shutil.rmtree(out / "checkpoints" / shelf.name_of(STEPS))
    return ["train", str(whole.with_suffix(".yaml")), f"out={out}"]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_checkpoint_before_a_damaged_one_is_taken(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Damage
) -> None:
    command = copy_of(whole, tmp_path / "run")
    damage(tmp_path / "run" / "checkpoints" / shelf.name_of(2))
    assert main(command) == 0
    captured = capsys.readouterr()
    assert "step 1/3" in captured.out, "it went on from step 1"
    assert "Traceback" not in captured.err
    logged = (tmp_path / "run" / "log.txt").read_text()
    assert "checkpoints/step-000002 is damaged and not used: " in logged
    assert numbers(tmp_path / "run") == numbers(whole)
    assert weights(tmp_path / "run", STEPS) == weights(whole, STEPS)
    assert not list((tmp_path / "run" / "checkpoints").glob("damaged-*"))


def test_where_no_checkpoint_is_whole_the_run_is_refused_and_nothing_is_lost(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = copy_of(whole, tmp_path / "run")
    for step in range(STEPS):
        flip(MODEL, 0.5)(tmp_path / "run" / "checkpoints" / shelf.name_of(step))
    for _ in range(2):  # also at the second try
        assert main(command) == 3
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("error: ")
        assert "no checkpoint of this run is whole" in error
    assert numbers(tmp_path / "run") == numbers(whole)


def test_what_a_killed_process_left_is_cleared(whole: Path, tmp_path: Path) -> None:
    command = copy_of(whole, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    shutil.copytree(folder / shelf.name_of(2), folder / ".step-000003.tmp")
    shutil.copytree(folder / shelf.name_of(2), folder / ".step-000000.old.tmp")
    assert main(command) == 0
    assert not list(folder.glob(".*"))
    assert numbers(tmp_path / "run") == numbers(whole)


def test_a_damaged_checkpoint_is_not_exported(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_of(whole, tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / shelf.name_of(2)
    flip(MODEL, 0.5)(newest)
    assert main(["export", str(newest), "--out", str(tmp_path / "model")]) == 3
    assert "this checkpoint is damaged: model/model.safetensors has other bytes" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
