"""The size of a cache is known without looking at every entry: counted by hand here, and by the table there."""

import json
import time
from pathlib import Path

import pytest

from easyvideor1.video import cache_size as module
from easyvideor1.video.cache import entries, evict
from easyvideor1.video.cache_size import COUNT_FILES, TABLE_NAME, CacheSize, set_sizes

LIMIT = 10**9


def fill(dir: Path, *, folders: int, files: int, num_bytes: int = 100) -> int:
    for number in range(folders):
        folder = dir / f"{number:02x}"
        folder.mkdir(parents=True)
        for file in range(files):
            (folder / f"{number:02x}{file}.raw.v1.safetensors").write_bytes(bytes(num_bytes))
    return folders * files * num_bytes


def write(dir: Path, name: str, num_bytes: int) -> Path:
    path = dir / name[:2] / f"{name}.raw.v1.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(num_bytes))
    return path


@pytest.fixture
def looks(monkeypatch):
    """Number of files looked at, call by call."""
    numbers: list[int] = []
    real = module._file_sizes

    def counted(folder):
        sizes = real(folder)
        numbers.append(len(sizes))
        return sizes

    monkeypatch.setattr(module, "_file_sizes", counted)
    return numbers


def test_a_small_cache_is_known_exactly_at_once(tmp_path):
    expected = fill(tmp_path, folders=5, files=4)
    path = write(tmp_path, "ff1", 1234)
    assert CacheSize(tmp_path).add(path, 1234, limit_bytes=LIMIT) == expected + 1234


def test_no_write_looks_at_more_than_a_few_folders_and_a_hundred_writes_know_them_all(tmp_path, looks, monkeypatch):
    expected = fill(tmp_path, folders=200, files=20)
    monkeypatch.setattr(module, "SHARE_EVERY_S", -1.0)  # every write
    guesses = []
    for number in range(100):
        looks.clear()
        # as every worker and every clip has it: nothing is known but the table
        guesses.append(CacheSize(tmp_path).add(write(tmp_path, f"00x{number}", 50), 50, limit_bytes=LIMIT))
        assert sum(looks) <= COUNT_FILES + 20 + number + 1
    assert guesses[-1] == expected + 100 * 50
    assert guesses[0] == pytest.approx(expected, rel=0.1)
    assert sum(looks) == 0  # nothing is left to count


def test_between_two_looks_at_the_table_a_write_costs_nothing(tmp_path, looks, monkeypatch):
    expected = fill(tmp_path, folders=3, files=3)
    size = CacheSize(tmp_path)
    size.add(write(tmp_path, "00x", 10), 10, limit_bytes=LIMIT)
    monkeypatch.setattr(module, "_read", lambda dir: pytest.fail("the table was read"))
    assert size.add(write(tmp_path, "00y", 10), 10, limit_bytes=LIMIT) == expected + 20


def test_near_the_limit_every_write_is_shared(tmp_path, monkeypatch):
    fill(tmp_path, folders=2, files=5)
    size = CacheSize(tmp_path)
    size.add(write(tmp_path, "00x", 10), 10, limit_bytes=1100)
    write(tmp_path, "01x", 500)
    set_sizes(tmp_path, {"00": 510, "01": 1000})  # another process has told
    assert size.add(write(tmp_path, "00y", 10), 10, limit_bytes=1100) == 1520


def test_what_was_removed_or_written_by_others_is_found_out_in_time(tmp_path, monkeypatch):
    expected = fill(tmp_path, folders=2, files=5)
    assert CacheSize(tmp_path).look() == expected
    (tmp_path / "00" / "000.raw.v1.safetensors").unlink()
    write(tmp_path, "01foreign", 900)
    assert CacheSize(tmp_path).look() == expected
    later_s = time.time() + module.RECOUNT_AFTER_S + 1
    monkeypatch.setattr(module.time, "time", lambda: later_s)
    assert CacheSize(tmp_path).look() == expected - 100 + 900


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"00": 5}', '{"00": [1e999, 0]}', '{"00": ["x", 0]}', "[" * 100_000, '{"zz": [9, 9]}']
)
def test_a_table_that_makes_no_sense_is_counted_anew(content, tmp_path):
    expected = fill(tmp_path, folders=2, files=5)
    (tmp_path / TABLE_NAME).write_text(content)
    assert CacheSize(tmp_path).look() == expected
    assert json.loads((tmp_path / TABLE_NAME).read_text()).keys() == {"00", "01"}


def test_a_table_that_lies_is_corrected_when_entries_would_have_to_go(tmp_path):
    expected = fill(tmp_path, folders=2, files=5)
    now_s = time.time()
    (tmp_path / TABLE_NAME).write_text(json.dumps({"00": [10**9, now_s], "01": [0, now_s]}))
    assert CacheSize(tmp_path).look() == 10**9
    assert evict(tmp_path, max_bytes=2000) == (0, expected)
    assert CacheSize(tmp_path).look() == expected


def test_a_process_that_finds_room_made_by_another_removes_nothing(tmp_path):
    fill(tmp_path, folders=2, files=5)
    assert evict(tmp_path, max_bytes=10, only_if=lambda: False) == (0, 0)
    assert len(list(entries(tmp_path))) == 10
