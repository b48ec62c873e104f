"""The frame cache: one decode, the same bytes for everybody, damage seen, room kept."""

import errno
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.values import present

from easyvideor1.errors import MediaError, MismatchError, RunError, UsageError
from easyvideor1.jobs import locks
from easyvideor1.jobs.locks import locked
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan
from easyvideor1.video import cache as cache_module
from easyvideor1.video.cache import FrameCache, entries, evict
from easyvideor1.video.clip_file import DamagedClip, read_clip, write_clip, write_tensors

SPAWN = multiprocessing.get_context("spawn")


def plan_of(key: str = "ab12cd34", num_frames: int = 4) -> MediaPlan:
    return MediaPlan(
        media=Media(kind="video", path="clips/a.mp4"),
        times_s=tuple(0.1 * index for index in range(num_frames)),
        height=32,
        width=64,
        grid_thw=(num_frames // 2, 2, 4),
        num_tokens=num_frames // 2 * 2,
        spec=FrameSpec(),
        source_fps=29.97,
        duration_s=0.4,
        cache_key=key,
    )


def clip_of(plan: MediaPlan) -> Clip:
    shape = (len(plan.times_s), 3, plan.height, plan.width)
    frames = np.random.default_rng(len(plan.cache_key)).integers(0, 256, shape, dtype=np.uint8)
    return Clip(
        frames=frames,
        times_s=plan.times_s,
        source_fps=29.97,
        duration_s=plan.duration_s,
        backend="fake 1.0",
        warnings=("a frame was repeated",),
    )


class CountingDecoder:
    """Writes a line for each decode, so that decodes of other processes count too."""

    def __init__(self, log_path: Path, *, seconds: float = 0.0) -> None:
        self.log_path, self.seconds = log_path, seconds

    def __call__(self, plan: MediaPlan) -> Clip:
        with self.log_path.open("a") as log:
            log.write(f"{plan.cache_key}\n")
        time.sleep(self.seconds)
        return clip_of(plan)

    @property
    def num_decodes(self) -> int:
        return len(self.log_path.read_text().splitlines()) if self.log_path.exists() else 0


@pytest.fixture
def decoder(tmp_path):
    return CountingDecoder(tmp_path / "decodes.log")


def same(one: Clip, other: Clip) -> bool:
    return np.array_equal(one.frames, other.frames) and all(
        getattr(one, name) == getattr(other, name)
        for name in ("times_s", "source_fps", "duration_s", "backend", "warnings")
    )


def test_a_miss_decodes_and_stores_and_a_hit_maps_the_same_clip(tmp_path, decoder):
    cache, plan = FrameCache(tmp_path / "c", decode=decoder), plan_of()
    assert not cache.contains(plan)
    first = cache.load(plan)
    second = FrameCache(tmp_path / "c", decode=decoder).load(plan)
    assert decoder.num_decodes == 1
    assert same(first, clip_of(plan))
    assert same(second, clip_of(plan))
    assert cache.contains(plan)
    assert (cache.counters.misses, cache.counters.decodes, cache.counters.hits) == (1, 1, 0)
    assert cache.counters.written_bytes == cache.path(plan).stat().st_size


def test_cached_frames_are_a_read_only_map_and_not_a_copy(tmp_path, decoder):
    cache, plan = FrameCache(tmp_path, decode=decoder), plan_of()
    cache.load(plan)
    frames = cache.load(plan).frames
    assert not frames.flags.writeable
    assert not frames.flags.owndata
    assert frames.flags.c_contiguous
    # A byte changed in the file shows up in frames that are already mapped.
    with cache.path(plan).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(bytes([int(frames[-1, -1, -1, -1]) ^ 255]))
    assert frames[-1, -1, -1, -1] == clip_of(plan).frames[-1, -1, -1, -1] ^ 255


def test_any_safetensors_reader_opens_an_entry(tmp_path, decoder):
    safetensors_numpy = pytest.importorskip("safetensors.numpy")
    cache, plan = FrameCache(tmp_path, decode=decoder), plan_of()
    cache.load(plan)
    tensors = safetensors_numpy.load_file(cache.path(plan))
    assert np.array_equal(tensors["frames"], clip_of(plan).frames)
    assert tuple(tensors["times_s"]) == plan.times_s


def test_another_key_is_another_entry(tmp_path, decoder):
    cache = FrameCache(tmp_path, decode=decoder)
    cache.load(plan_of("ab12"))
    cache.load(plan_of("ab12cd"))
    assert decoder.num_decodes == 2
    assert len(list(entries(tmp_path))) == 2


def test_preprocessed_only_refuses_a_miss_and_names_the_command(tmp_path, decoder):
    cache, plan = FrameCache(tmp_path, mode="preprocessed_only", decode=decoder), plan_of()
    with pytest.raises(MediaError, match=r"clips/a.mp4.*easyvideor1 preprocess DATA --cache"):
        cache.load(plan)
    assert decoder.num_decodes == 0
    FrameCache(tmp_path, decode=decoder).load(plan)
    assert same(cache.load(plan), clip_of(plan))


def test_realtime_only_neither_reads_nor_writes(tmp_path, decoder):
    cache, plan = FrameCache(tmp_path / "c", mode="realtime_only", decode=decoder), plan_of()
    cache.load(plan)
    cache.load(plan)
    assert decoder.num_decodes == 2
    assert not (tmp_path / "c").exists()


def test_an_unknown_mode_or_codec_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="preprocessed_only"):
        FrameCache(tmp_path, mode="cached")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="raw"):
        FrameCache(tmp_path, codec="gzip")


def damage(path: Path, how: str) -> None:
    if how in ODD:
        ODD[how](path)
        return
    content = bytearray(path.read_bytes())
    if how == "cut":
        content = content[:-100]
    elif how == "empty":
        content = bytearray()
    elif how == "zero block":
        content[-5000:-4000] = bytes(1000)
    elif how == "one bit of a pixel":
        content[-7777] ^= 4
    elif how == "longer":
        content += b"x"
    elif how == "foreign":
        content = bytearray(b"<html><body>404</body></html>")
    path.write_bytes(content)


def with_header(text: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(len(text).to_bytes(8, "little") + text)


def without_times(path: Path) -> None:
    write_tensors(path, {"frames": np.zeros((4, 3, 32, 64), np.uint8)}, {"times_s": "{}", "source_fps": "[]"})


def in_place(make: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda path: (path.unlink(), make(path))


ODD: dict[str, Callable[[Path], object]] = {
    "deep header": with_header(b"[" * 200_000),
    "a list for a header": with_header(b"[]"),
    "text for metadata": with_header(b'{"__metadata__": "format 1"}'),
    "no times": without_times,
    "other frames": lambda path: write_clip(path, clip_of(plan_of(num_frames=2))),
    "a folder": in_place(Path.mkdir),
    "a link to itself": in_place(lambda path: path.symlink_to(path)),
}
"""What may stand in the place of an entry, though no damage of a disk makes it."""


@pytest.mark.parametrize(
    "how",
    ["cut", "empty", "zero block", "one bit of a pixel", "longer", "foreign", *ODD],
)
def test_a_damaged_entry_is_named_and_rebuilt(tmp_path, decoder, caplog, how):
    cache, plan = FrameCache(tmp_path / "c", decode=decoder), plan_of()
    cache.load(plan)
    damage(cache.path(plan), how)
    with caplog.at_level(logging.WARNING):
        assert same(cache.load(plan), clip_of(plan))
    assert str(cache.path(plan)) in caplog.text
    assert cache.counters.rebuilt == 1
    assert decoder.num_decodes == 2
    assert same(read_clip(cache.path(plan)), clip_of(plan))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_an_entry_that_cannot_be_read_is_named_and_rebuilt(tmp_path, decoder, caplog, monkeypatch, number):
    cache, plan = FrameCache(tmp_path / "c", decode=decoder), plan_of()
    cache.load(plan)
    path, inode = cache.path(plan), cache.path(plan).stat().st_ino
    real_open = Path.open

    def refuse(self, *args, **options):
        if self == path and self.stat().st_ino == inode:
            raise OSError(number, os.strerror(number), str(path))
        return real_open(self, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert not cache.contains(plan)
    with caplog.at_level(logging.WARNING):
        assert same(cache.load(plan), clip_of(plan))
    assert f"{path}: it cannot be read: {os.strerror(number)}" in caplog.text
    assert decoder.num_decodes == 2


def test_a_folder_with_something_in_it_is_not_removed_but_named(tmp_path, decoder):
    cache, plan = FrameCache(tmp_path / "c", decode=decoder), plan_of()
    (cache.path(plan) / "mine").mkdir(parents=True)
    assert not cache.contains(plan)
    assert list(entries(tmp_path / "c")) == []
    with pytest.raises(RunError, match=rf"{cache.path(plan)}: a folder stands where an entry .* belongs; remove it"):
        cache.load(plan)
    with pytest.raises(MediaError, match=r"stored frames are damaged: .*cannot be read: Is a directory"):
        FrameCache(tmp_path / "c", mode="preprocessed_only").load(plan)
    assert (cache.path(plan) / "mine").is_dir()


def test_a_damaged_entry_is_an_error_where_nothing_may_be_decoded(tmp_path, decoder):
    FrameCache(tmp_path, decode=decoder).load(plan_of())
    cache = FrameCache(tmp_path, mode="preprocessed_only", decode=decoder)
    damage(cache.path(plan_of()), "one bit of a pixel")
    with pytest.raises(MediaError, match=r"damaged.*checksum"):
        cache.load(plan_of())


def test_no_changed_byte_of_a_header_goes_unseen(tmp_path):
    path, clip = tmp_path / "x.safetensors", clip_of(plan_of())
    write_clip(path, clip)
    content = path.read_bytes()
    header_end = 8 + int.from_bytes(content[:8], "little")
    for position in range(header_end):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(DamagedClip, match=str(path)):
            read_clip(path)


def test_frames_that_differ_from_the_plan_are_refused(tmp_path):
    cache = FrameCache(tmp_path, decode=lambda plan: clip_of(replace(plan, times_s=plan.times_s[:-1])))
    with pytest.raises(MismatchError, match=r"planned frames \[4, 3, 32, 64\], decoded \[3, 3, 32, 64\]"):
        cache.load(plan_of())
    assert not list(entries(tmp_path))


def test_a_failed_decode_leaves_nothing_and_can_be_tried_again(tmp_path, decoder):
    def broken(plan: MediaPlan) -> Clip:
        raise MediaError("no frames", where=plan.media.name)

    with pytest.raises(MediaError, match="no frames"):
        FrameCache(tmp_path / "c", decode=broken).load(plan_of())
    assert not [path for path in (tmp_path / "c").rglob("*") if path.is_file()]
    assert same(FrameCache(tmp_path / "c", decode=decoder).load(plan_of()), clip_of(plan_of()))


def test_a_full_disk_stops_with_a_remedy_and_leaves_no_part(tmp_path, decoder, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"full.*cache\.max_bytes"):
        FrameCache(tmp_path / "c", decode=decoder).load(plan_of())
    assert not [path for path in (tmp_path / "c").rglob("*") if path.is_file()]


def load_in_child(dir: Path, decoder: CountingDecoder, num_plans: int, results) -> None:
    cache = FrameCache(dir, decode=decoder)
    plans = [plan_of(f"k{index}" * 4) for index in range(num_plans)]
    results.put([int(cache.load(plan).frames.sum()) for plan in plans])


def test_four_processes_that_want_the_same_videos_decode_each_once(tmp_path):
    decoder = CountingDecoder(tmp_path / "decodes.log", seconds=0.05)
    results = SPAWN.Queue()
    children = [SPAWN.Process(target=load_in_child, args=(tmp_path / "c", decoder, 5, results)) for _ in range(4)]
    for child in children:
        child.start()
    sums = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    assert decoder.num_decodes == 5
    assert all(one == sums[0] for one in sums)


def test_threads_of_one_process_decode_once_too(tmp_path):
    decoder = CountingDecoder(tmp_path / "decodes.log", seconds=0.05)
    cache = FrameCache(tmp_path / "c", decode=decoder)
    threads = [threading.Thread(target=cache.load, args=(plan_of(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert decoder.num_decodes == 1
    assert cache.counters.hits == 7


@pytest.mark.timeout(60)
def test_a_lock_of_a_killed_process_does_not_block(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from easyvideor1.jobs.locks import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    with locked(tmp_path / "lock"):
        pass


def test_a_lock_is_held_by_one_thread_at_a_time(tmp_path):
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            with locked(tmp_path / "lock"):
                inside += 1
                most = max(most, inside)
                time.sleep(0.0002)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_the_entries_unused_for_longest_make_room(tmp_path, decoder):
    cache = FrameCache(tmp_path, decode=decoder)
    plans = [plan_of(f"k{index}" * 4) for index in range(5)]
    for age, plan in enumerate(plans):
        cache.load(plan)
        os.utime(cache.path(plan), (0, 1_000_000 + age))
    cache.load(plans[0])  # used again: now the newest
    size_bytes = cache.path(plans[0]).stat().st_size
    removed, left_bytes = evict(tmp_path, max_bytes=3 * size_bytes + size_bytes // 2)
    assert removed == 2
    assert left_bytes == 3 * size_bytes
    assert [cache.contains(plan) for plan in plans] == [True, False, False, True, True]


def test_a_cache_with_a_limit_stays_below_it(tmp_path, decoder):
    size_bytes = FrameCache(tmp_path / "one", decode=decoder)
    size_bytes.load(plan_of())
    one = size_bytes.counters.written_bytes
    cache = FrameCache(tmp_path / "c", max_bytes=3 * one + one // 2, decode=decoder)
    for index in range(10):
        cache.load(plan_of(f"k{index}" * 4))
        assert sum(entry.size_bytes for entry in entries(tmp_path / "c")) <= present(cache.max_bytes)
    assert cache.counters.evicted == 7
    assert cache.contains(plan_of("k9" * 4))


def test_a_clip_in_use_outlives_its_eviction(tmp_path, decoder):
    cache = FrameCache(tmp_path, decode=decoder)
    clip = cache.load(plan_of())
    cache.path(plan_of()).unlink()
    assert same(clip, clip_of(plan_of()))


def test_only_old_temporary_files_are_swept(tmp_path):
    (tmp_path / "ab").mkdir()
    old, fresh = tmp_path / "ab" / ".a.host-1-ff.tmp", tmp_path / "ab" / ".b.host-2-ff.tmp"
    (tmp_path / "files" / "ab").mkdir(parents=True)
    known = tmp_path / "files" / "ab" / ".c.host-1-ff.tmp"
    for path in (old, fresh, known):
        path.write_bytes(b"x")
    for path in (old, known):
        os.utime(path, (0, 0))
    assert cache_module.remove_abandoned(tmp_path) == 2
    assert fresh.exists()
    assert not old.exists()


def test_a_file_in_the_place_of_the_folder_is_wrong_usage(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(UsageError, match="file is a file"):
            FrameCache(folder)


def test_a_folder_without_room_for_a_lock_is_named_with_the_remedy(tmp_path, decoder, monkeypatch):
    def refuse(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(locks.os, "open", refuse)
    with pytest.raises(RunError, match=r"cache/locks: cannot make a lock file: No space left .* writable"):
        FrameCache(tmp_path / "cache", decode=decoder).load(plan_of())


def test_a_damaged_entry_that_must_be_there_names_the_command_that_removes_it(tmp_path, decoder):
    cache = FrameCache(tmp_path, decode=decoder)
    cache.load(plan_of())
    cache.path(plan_of()).write_bytes(b"x" * 100)
    with pytest.raises(MediaError, match=r"damaged: .*cache verify .* --remove`, then `easyvideor1 preprocess"):
        FrameCache(tmp_path, mode="preprocessed_only").load(plan_of())
