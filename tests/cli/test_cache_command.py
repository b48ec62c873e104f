"""`cache stats|verify|gc|export` on small made-up entries."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from easyvideor1.cli import main
from easyvideor1.types import Clip
from easyvideor1.video.cache import entries
from easyvideor1.video.clip_file import read_clip
from easyvideor1.video.codecs import CODECS, codec_of_file
from easyvideor1.video.origins import HEADER_NAME, MadeOf, Origins

HALF_DAY_S = 43_200.0


def fill(folder: Path, num_entries: int = 3, codec: str = "raw") -> list[Path]:
    """Entries of equal size, the first unused for longest."""
    paths = []
    for number in range(num_entries):
        frames = np.random.default_rng(number).integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
        clip = Clip(frames=frames, times_s=(0.0, 0.5), source_fps=2.0, duration_s=1.0, backend="fake")
        key = f"{number}a{number}b"
        path = folder / key[:2] / f"{key}.{CODECS[codec].name}.v1.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        CODECS[codec].write(path, clip)
        used_s = time.time() - HALF_DAY_S * (num_entries - number)
        os.utime(path, (used_s, used_s))
        paths.append(path)
    return paths


def answer(capsys, *words) -> tuple[int, dict]:
    code = main(["cache", *map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_stats_count_entries_and_bytes_by_codec(capsys, tmp_path):
    paths = fill(tmp_path) + fill(tmp_path, 2, "jpeg")
    code, stats = answer(capsys, "stats", tmp_path)
    assert code == 0
    assert (stats["entries"], stats["bytes"]) == (5, sum(path.stat().st_size for path in paths))
    assert {name: counts["entries"] for name, counts in stats["by_codec"].items()} == {"raw": 3, CODECS["jpeg"].name: 2}
    assert stats["unused_for_days_max"] == pytest.approx(1.5, abs=0.01)


def test_verify_names_damaged_entries_and_removes_them_when_told(capsys, tmp_path):
    paths = fill(tmp_path)
    assert answer(capsys, "verify", tmp_path)[0] == 0
    content = bytearray(paths[1].read_bytes())
    content[-1] ^= 1
    paths[1].write_bytes(content)
    code, found = answer(capsys, "verify", tmp_path)
    assert (code, list(found["damaged"]), found["entries"]) == (1, [str(paths[1])], 3)
    assert paths[1].exists()
    code, found = answer(capsys, "verify", tmp_path, "--remove")
    assert (code, found["removed"]) == (0, 1)
    assert not paths[1].exists()


def test_gc_removes_by_age_by_size_and_what_no_version_reads(capsys, tmp_path):
    paths = fill(tmp_path)
    stale = paths[2].with_name("2a2b.raw.v0.safetensors")
    stale.write_bytes(b"old")
    leftover = paths[0].with_name(".x.host-1-ab.tmp")
    leftover.write_bytes(b"part")
    os.utime(leftover, (0, 0))
    _, result = answer(capsys, "gc", tmp_path)
    assert (result["removed_entries"], result["removed_leftovers"]) == (1, 1)
    assert not stale.exists()
    _, result = answer(capsys, "gc", tmp_path, "--unused-days", "1.2")
    assert result["removed_entries"] == 1
    assert [path.exists() for path in paths] == [False, True, True]
    _, result = answer(capsys, "gc", tmp_path, "--max-bytes", "1K")
    assert [path.exists() for path in paths] == [False, False, True]


def test_export_repacks_without_changing_a_pixel(capsys, tmp_path):
    paths = fill(tmp_path / "a")
    code, result = answer(capsys, "export", tmp_path / "a", "--out", tmp_path / "b", "--codec", "zstd")
    assert (code, result["copied_entries"]) == (0, 3)
    assert (
        answer(capsys, "export", tmp_path / "a", "--out", tmp_path / "b", "--codec", "zstd")[1]["copied_entries"] == 0
    )
    back = sorted(
        (codec_of_file(entry.path).read(entry.path) for entry in entries(tmp_path / "b")), key=lambda c: c.frames.sum()
    )
    there = sorted((read_clip(path) for path in paths), key=lambda c: c.frames.sum())
    assert all(np.array_equal(one.frames, other.frames) for one, other in zip(back, there, strict=True))


def test_lossy_entries_are_not_passed_off_as_exact(capsys, tmp_path):
    fill(tmp_path / "a", codec="jpeg")
    assert main(["cache", "export", str(tmp_path / "a"), "--out", str(tmp_path / "b")]) == 1
    assert "lossy" in capsys.readouterr().err
    assert main(["cache", "export", str(tmp_path / "a"), "--out", str(tmp_path / "b"), "--codec", "jpeg"]) == 0


def test_a_folder_that_is_not_there_is_wrong_usage(capsys, tmp_path):
    assert main(["cache", "stats", str(tmp_path / "none")]) == 2
    assert main(["cache", "gc", str(tmp_path), "--max-bytes", "1K"]) == 0
    with pytest.raises(SystemExit) as exit_:
        main(["cache", "gc", str(tmp_path), "--max-bytes", "much"])
    assert exit_.value.code == 2


@pytest.mark.parametrize("size", ["1e400", "-5", "nan", "G"])
def test_a_size_that_is_none_is_wrong_usage(size, tmp_path):
    with pytest.raises(SystemExit) as exit_:
        main(["cache", "gc", str(tmp_path), f"--max-bytes={size}"])
    assert exit_.value.code == 2


def test_export_to_a_place_that_cannot_be_written_names_it(capsys, tmp_path):
    fill(tmp_path / "a")
    (tmp_path / "file").write_text("x")
    assert main(["cache", "export", str(tmp_path / "a"), "--out", str(tmp_path / "file" / "b")]) == 2
    assert "file/b: cannot be written: Not a directory" in capsys.readouterr().err


def test_stats_as_text_put_a_codec_on_a_line(capsys, tmp_path):
    fill(tmp_path)
    assert main(["cache", "stats", str(tmp_path)]) == 0
    assert "\n  raw: entries 3, bytes 0.0 MB\n" in capsys.readouterr().out


SETTINGS = ("video fps=2 max_frames=128", "video fps=1 max_frames=128", "video fps=2 max_frames=64")


def fill_settings(folder: Path) -> dict[str, list[Path]]:
    """Two entries of each setting, and two that tell none; all unused for half a day or more."""
    paths = fill(folder, 2 * len(SETTINGS) + 2)
    by_setting: dict[str, list[Path]] = {}
    for place, path in enumerate(paths):
        setting = SETTINGS[place % len(SETTINGS)] if place < 2 * len(SETTINGS) else ""
        by_setting.setdefault(setting, []).append(path)
        if setting:
            made = MadeOf(origin="abcd", setting=setting, frame_numbers=(0, 1), is_plain=True)
            CODECS["raw"].write(path, read_clip(path), extra={HEADER_NAME: made.text})
            Origins(folder).note(made, path.name.partition(".")[0])
            used_s = time.time() - HALF_DAY_S * (1 + place)
            os.utime(path, (used_s, used_s))
    return by_setting


def left(folder: Path) -> set[Path]:
    return {entry.path for entry in entries(folder)}


def test_gc_lists_settings_and_removes_those_that_are_chosen_once_it_is_told_so(capsys, tmp_path):
    paths = fill_settings(tmp_path)
    everything = left(tmp_path)
    _, found = answer(capsys, "gc", tmp_path, "--settings")
    assert {setting: held["entries"] for setting, held in found["by_setting"].items()} == dict.fromkeys(SETTINGS, 2)
    size = sum(path.stat().st_size for path in paths[SETTINGS[0]])
    assert found["by_setting"][SETTINGS[0]]["bytes"] == size
    assert (found["kept_of_unknown_setting"], found["chosen_entries"]) == (2, 0)

    _, found = answer(capsys, "gc", tmp_path, "--delete", "fps=2.0 max_frames=128")
    assert (found["chosen_entries"], found["chosen_bytes"], found["removed_entries"]) == (2, size, 0)
    assert left(tmp_path) == everything
    assert main(["cache", "gc", str(tmp_path), "--delete", "fps=2.0 max_frames=128"]) == 0
    assert "with --yes" in capsys.readouterr().out

    _, found = answer(capsys, "gc", tmp_path, "--delete", "fps=2 max_frames=128", "--yes")
    assert found["removed_entries"] == 2
    assert left(tmp_path) == everything - {*paths[SETTINGS[0]]}


def test_gc_keeps_settings_by_name_and_what_tells_none(capsys, tmp_path):
    paths = fill_settings(tmp_path)
    others = [tmp_path / name for name in ("failed.jsonl", "files/ab/x.json", ".sizes.v1.json", "ab/notes.txt")]
    for other in others:  # of the cache's own and of somebody else's
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text("{}")
        os.utime(other, (0, 0))
    _, found = answer(capsys, "gc", tmp_path, "--keep", "fps=1", "--yes")
    assert all(other.exists() for other in others)
    assert (found["removed_entries"], found["kept_of_unknown_setting"]) == (4, 2)
    assert left(tmp_path) == {*paths[SETTINGS[1]], *paths[""]}
    assert len(Origins(tmp_path).keys("abcd")) == 6
    answer(capsys, "gc", tmp_path)  # which also takes what is gone off the lists
    assert len(Origins(tmp_path).keys("abcd")) == 2


def test_gc_leaves_what_is_in_use_or_younger_than_asked(capsys, tmp_path):
    paths = fill_settings(tmp_path)
    os.utime(paths[SETTINGS[0]][0])
    _, found = answer(capsys, "gc", tmp_path, "--delete", "max_frames=128", "--older-than", "1.75", "--yes")
    assert (found["removed_entries"], found["kept_in_use"]) == (2, 1)
    # Unused for half a day, one day, ..: of the four with 128 frames, those of 2 and 2.5 days are older.
    assert left(tmp_path) & {*paths[SETTINGS[0]]} == {paths[SETTINGS[0]][0]}
    assert left(tmp_path) & {*paths[SETTINGS[1]]} == {paths[SETTINGS[1]][0]}


@pytest.mark.parametrize(
    ("words", "says"),
    [(("--delete", "fps=3"), SETTINGS[0]), (("--keep", "fps=1", "--max-bytes", "1G"), "--max-bytes goes by last use")],
)
def test_gc_refuses_settings_that_no_entry_has_and_two_rules_at_once(capsys, tmp_path, words, says):
    fill_settings(tmp_path)
    assert main(["cache", "gc", str(tmp_path), *words, "--yes"]) == 2
    assert says in capsys.readouterr().err
    assert len(left(tmp_path)) == 8


def test_export_takes_along_what_the_frames_are(capsys, tmp_path):
    fill_settings(tmp_path / "one")
    answer(capsys, "export", tmp_path / "one", "--out", tmp_path / "other", "--codec", "zstd")
    _, found = answer(capsys, "gc", tmp_path / "other", "--settings")
    assert list(found["by_setting"]) == sorted(SETTINGS)
    assert Origins(tmp_path / "other").keys("abcd") == Origins(tmp_path / "one").keys("abcd")
