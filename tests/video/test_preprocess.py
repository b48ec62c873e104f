"""Preprocessing: each video once, by any number of processes, through kills and failures."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.preprocessing import SPEC, VISION, decoded_names, store, video, work_of

from easyvideor1.config_data import CacheConfig
from easyvideor1.errors import MediaError, RunError, UsageError
from easyvideor1.jobs.pool import Outcome, run_all
from easyvideor1.types import FrameSpec, Media, MediaKind
from easyvideor1.video.cache import FrameCache, entries
from easyvideor1.video.clip_file import read_tensors
from easyvideor1.video.decode import decode
from easyvideor1.video.preprocess import StoreFrames, Summary, distinct_jobs, shard_of, source_bytes, store_all
from easyvideor1.video.sampling import plan_media


def test_the_same_video_in_fifty_rows_is_decoded_once(tmp_path, write_video):
    path = write_video("a.mp4")
    work = work_of(tmp_path)
    summary = store(work, [video(path)] * 50)
    assert (summary.total, summary.done, summary.reused, summary.failed) == (1, 1, 0, 0)
    assert len(decoded_names(work)) == 1


def test_copies_and_clip_ranges_of_a_video_share_what_is_the_same(tmp_path, write_video):
    path = write_video("a.mp4")
    copy = tmp_path / "copy.mp4"
    copy.write_bytes(path.read_bytes())
    work = work_of(tmp_path)
    stored = [work(medium) for medium in (video(path), video(copy), video(path, start_s=1.0))]
    assert [each.reused for each in stored] == [False, True, False]
    assert len(list(entries(tmp_path / "cache"))) == 2


def test_stored_frames_equal_freshly_decoded_ones(tmp_path, write_video):
    path = write_video("a.mp4")
    work_of(tmp_path)(video(path))
    plan = plan_media(video(path), SPEC, VISION)
    cached = FrameCache(tmp_path / "cache", mode="preprocessed_only").load(plan)
    fresh = decode(plan)
    assert np.array_equal(cached.frames, fresh.frames)
    assert (cached.times_s, cached.source_fps, cached.duration_s) == (fresh.times_s, fresh.source_fps, fresh.duration_s)


def test_a_replaced_video_gets_a_new_entry(tmp_path, write_video):
    path = write_video("a.mp4", seed=1)
    work = work_of(tmp_path)
    assert not work(video(path)).reused
    assert work(video(path)).reused
    write_video("a.mp4", seed=2)
    assert not work(video(path)).reused
    assert len(list(entries(tmp_path / "cache"))) == 2


def test_a_file_replaced_between_plan_and_decode_is_refused(tmp_path, write_video):
    plan = plan_media(video(write_video("a.mp4", seed=1)), SPEC, VISION)
    write_video("a.mp4", seed=2)  # as long, and at the same times
    with pytest.raises(MediaError, match="not the one that was planned"):
        FrameCache(tmp_path / "cache").load(plan)
    assert not list(entries(tmp_path / "cache"))


def test_a_bad_file_costs_only_itself_and_says_why(tmp_path, write_video):
    (tmp_path / "bad.mp4").write_text("<html>not found</html>")
    good, missing = write_video("a.mp4"), tmp_path / "gone.mp4"
    jobs = distinct_jobs([(video(tmp_path / "bad.mp4"), "d:1"), (video(good), "d:2"), (video(missing), "d:3")])
    summary = Summary(total=3, total_source_bytes=0)
    outcomes = run_all(work_of(tmp_path), [job.media for job in jobs], workers=2, deadline_s=60)
    errors = {job.rows[0]: str(outcome.error) for job, outcome in store_all(jobs, outcomes, summary) if outcome.error}
    assert (summary.done, summary.failed) == (1, 2)
    assert set(errors) == {"d:1", "d:3"}
    assert "bad.mp4" in errors["d:1"]
    assert "gone.mp4" in errors["d:3"]


def test_a_full_disk_stops_the_job_instead_of_failing_each_file(tmp_path):
    jobs = distinct_jobs([(video(tmp_path / "a.mp4"), "d:1")])
    outcome = Outcome(item=jobs[0].media, result=None, error=RunError("the disk is full"), wall_s=0.0)
    with pytest.raises(RunError, match="full"):
        list(store_all(jobs, [outcome], Summary(total=1, total_source_bytes=0)))


def test_shards_are_a_partition_with_the_largest_files_spread(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}.mp4").write_bytes(bytes(number))
    jobs = distinct_jobs((video(tmp_path / f"{number}.mp4"), "d:1") for number in range(10))
    assert [job.source_bytes for job in jobs] == list(range(9, -1, -1))
    shards = [shard_of(jobs, f"{index}/3") for index in (1, 2, 3)]
    assert [[job.source_bytes for job in shard] for shard in shards] == [[9, 6, 3, 0], [8, 5, 2], [7, 4, 1]]


@pytest.mark.parametrize("shard", ["0/4", "5/4", "1", "a/b", "1/0", "-1/4", ""])
def test_a_shard_that_is_none_is_wrong_usage(shard):
    with pytest.raises(UsageError, match="1/4"):
        shard_of([], shard)


JOB = """
import sys
from pathlib import Path
from support.preprocessing import store, video, work_of
folder = Path(sys.argv[1])
summary = store(work_of(folder, slow_s=0.1), [video(path) for path in sorted(folder.glob("*.mp4"))])
print(summary.done, summary.reused, summary.failed)
"""


def test_a_killed_job_goes_on_where_it_was(tmp_path, write_video):
    for number in range(8):
        write_video(f"{number}.mp4", seed=number)
    script = tmp_path / "job.py"
    script.write_text(JOB)
    command = [sys.executable, str(script), str(tmp_path)]
    paths = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=paths) as job:
        while len(list(entries(tmp_path / "cache"))) < 2:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.2))
        os.kill(job.pid, signal.SIGKILL)
    stored = len(list(entries(tmp_path / "cache")))
    done, reused, failed = map(
        int, subprocess.run(command, stdout=subprocess.PIPE, check=True, env=paths).stdout.split()
    )
    assert failed == 0
    assert done + reused == 8
    assert reused >= stored  # orphaned workers may have finished the file they were at
    for entry in entries(tmp_path / "cache"):
        read_tensors(entry.path)  # raises on a damaged one
    decoded = (tmp_path / "decodes.log").read_text().splitlines()
    # The kill may take a decode with it whose entry was not written yet: one per worker, never more.
    assert len(set(decoded)) == 8
    assert len(decoded) <= 8 + 2


def test_the_same_over_ray(tmp_path, write_video):
    ray = pytest.importorskip("ray")
    from easyvideor1.jobs.cluster import run_all_on_ray

    media = [video(write_video(f"{number}.mp4", seed=number)) for number in range(3)]
    media.append(video(tmp_path / "gone.mp4"))
    jobs, summary = distinct_jobs((medium, "d:1") for medium in media), Summary(total=4, total_source_bytes=0)
    specs: dict[MediaKind, FrameSpec] = {"video": SPEC, "image": SPEC}
    work = StoreFrames(specs=specs, vision=VISION, cache=CacheConfig(dir=str(tmp_path / "cache")))
    try:
        list(store_all(jobs, run_all_on_ray(work, media, deadline_s=60), summary))
    finally:
        ray.shutdown()
    assert (summary.done, summary.failed) == (3, 1)


def test_entries_that_a_small_cache_removes_again_are_counted(tmp_path, write_video):
    work = work_of(tmp_path)
    entry_bytes = store(work, [video(write_video("0.mp4"))]).written_bytes
    small = replace(work, cache=replace(work.cache, dir=str(tmp_path / "small"), max_bytes=int(2.5 * entry_bytes)))
    summary = store(small, [video(write_video(f"{number}.mp4", seed=number)) for number in range(6)], workers=1)
    assert summary.done == 6
    assert summary.evicted == 6 - len(list(entries(tmp_path / "small"))) > 0


def test_a_killed_job_is_named(tmp_path):
    jobs = distinct_jobs([(video(tmp_path / "a.mp4"), "rows:1")])
    outcome = Outcome(item=jobs[0].media, result=None, error=MediaError("not done within 1 s"), wall_s=1.0)
    ((_, named),) = store_all(jobs, [outcome], Summary(total=1, total_source_bytes=0))
    assert str(named.error) == f"{tmp_path}/a.mp4: not done within 1 s"


def test_sizes_of_addresses_are_those_of_their_files(tmp_path):
    (tmp_path / "a b.mp4").write_bytes(b"x" * 10)
    media = [
        Media(kind="video", path=f"file://{tmp_path}/a%20b.mp4"),
        video(tmp_path / "gone"),
        Media(kind="video", path="https://host/a.mp4"),
    ]
    assert [source_bytes(medium) for medium in media] == [10, 0, 0]
