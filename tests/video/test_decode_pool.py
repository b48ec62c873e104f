"""Decoding in killable processes: hangs and crashes cost their own file only."""

import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest
from support.dying import KilledOnce, always_killed
from support.make_clips import numbered, write_clip

from easyvideor1.errors import JobDied, MediaError, UsageError
from easyvideor1.jobs.pool import run_all
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan
from easyvideor1.video.decode import decode
from easyvideor1.video.pool import DecodePool, Unplanned, look
from easyvideor1.video.preprocess import tried_twice
from easyvideor1.video.sampling import plan_media, vision_spec

QWEN3 = vision_spec({"model_type": "qwen3_vl", "vision_config": {}})


def stubborn_decode(plan: MediaPlan) -> Clip:
    """Stands in for a decoder that never returns on one file and takes its process down on another."""
    if "never" in plan.media.name:
        time.sleep(3600)
    if "crash" in plan.media.name:
        os.abort()
    return decode(plan, threads=1)


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    paths = {name: write_clip(folder / f"{name}.mp4", map(numbered, range(30))) for name in ("good", "never", "crash")}
    spec = FrameSpec(min_pixels=1024)
    return {name: plan_media(Media(kind="video", path=str(path)), spec, QWEN3) for name, path in paths.items()}


def test_a_file_that_hangs_or_crashes_is_named_and_not_tried_again_and_the_pool_goes_on(plans):
    with DecodePool(1, 1.5, function=stubborn_decode) as pool:
        with pytest.raises(MediaError, match=r"never\.mp4: not done within 1\.5 s"):
            pool.decode(plans["never"])
        with pytest.raises(MediaError, match=r"never\.mp4: not tried again: not done within"):
            pool.decode(plans["never"])
        with pytest.raises(MediaError, match=r"crash\.mp4: the process that worked on it died"):
            pool.decode(plans["crash"])
        assert np.array_equal(pool.decode(plans["good"]).frames, decode(plans["good"]).frames)
        assert {os.path.basename(name) for name in pool.quarantine} == {"never.mp4", "crash.mp4"}


def test_a_process_that_is_killed_from_outside_costs_no_file(plans, tmp_path):
    with DecodePool(1, 60.0, function=KilledOnce(tmp_path)) as pool:
        assert np.array_equal(pool.decode(plans["good"]).frames, decode(plans["good"]).frames)
        assert pool.plan(plans["never"].media, plans["never"].spec, QWEN3) == plans["never"]
        assert not pool.quarantine


def test_a_list_of_files_is_gone_through_once_more_where_processes_died(tmp_path):
    media = [Media(kind="video", path=f"{number}.mp4") for number in range(3)]
    (tmp_path / "1.mp4").touch()  # the others kill their first process
    run = partial(run_all, KilledOnce(tmp_path), workers=2, deadline_s=60.0)
    outcomes = list(tried_twice(run, media))
    assert outcomes[0].item == media[1]
    assert {outcome.result for outcome in outcomes} == {"0.mp4", "1.mp4", "2.mp4"}
    assert [outcome.error for outcome in outcomes] == [None] * 3


def test_a_file_whose_processes_die_twice_is_blamed(tmp_path):
    media = [Media(kind="video", path="a.mp4")]
    (outcome,) = tried_twice(partial(run_all, always_killed, workers=1, deadline_s=60.0), media)
    assert isinstance(outcome.error, JobDied)


def test_four_processes_at_once_give_the_frames_of_this_one(plans):
    expected, results = decode(plans["good"]).frames, []
    with DecodePool(4, 60.0) as pool:
        threads = [threading.Thread(target=lambda: results.append(pool.decode(plans["good"]).frames)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 4
    assert all(np.array_equal(frames, expected) for frames in results)


def test_a_process_that_died_while_idle_costs_no_file(plans):
    with DecodePool(1, 60.0) as pool:
        first = pool.decode(plans["good"])
        (worker,) = pool._pool._workers
        os.kill(worker.pid, signal.SIGKILL)
        while worker.is_alive:
            time.sleep(0.01)
        assert np.array_equal(pool.decode(plans["good"]).frames, first.frames)
        assert not pool.quarantine


def stubborn_look(item):
    """Stands in for a header that is never read to its end."""
    if isinstance(item, Unplanned) and "never" in item.media.name:
        time.sleep(3600)
    return look(item)


def test_planning_is_that_of_this_process_and_a_header_that_hangs_costs_its_own_file_only(plans):
    good, never = plans["good"], plans["never"]
    with DecodePool(1, 1.5, function=stubborn_look) as pool:
        assert pool.plan(good.media, good.spec, QWEN3) == good
        with pytest.raises(MediaError, match=r"never\.mp4: not done within 1\.5 s"):
            pool.plan(never.media, never.spec, QWEN3)
        with pytest.raises(MediaError, match=r"never\.mp4: not tried again"):
            pool.decode(never)
        with pytest.raises(UsageError, match="fps must be a number > 0"):
            pool.plan(good.media, FrameSpec(fps=0), QWEN3)
        assert np.array_equal(pool.decode(good).frames, decode(good).frames)
