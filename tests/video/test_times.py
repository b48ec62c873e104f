"""Display times that are doubled, missing or start anew: what is wrong with one frame moves no other."""

from fractions import Fraction

import av
import numpy as np
import pytest
from support.kinds import animation, with_stamps, x264
from support.make_clips import numbered, read_number, write_clip
from support.sources import video_file
from support.values import present

from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.decode import decode
from easyvideor1.video.packets import NO_TIME, _parted, _stored_times_s, scan
from easyvideor1.video.sampling import plan_media, vision_spec
from easyvideor1.video.stray_times import stray_places

VISION = vision_spec({"model_type": "qwen3_vl"})
EVERY = FrameSpec(min_pixels=1024, fps=1000.0)
B_FRAMES = x264("b0.mkv", bf="3", **{"x264-params": "b-adapt=0:scenecut=0:b-pyramid=none"})


def seen(path):
    plan = plan_media(Media(kind="video", path=str(path)), EVERY, VISION)
    clip = decode(plan)
    return clip.times_s, [round(read_number(frame)) for frame in clip.frames]


def test_frames_of_one_time_share_what_is_left_up_to_the_next():
    times_s = np.array([0.0, 0.1, 0.1, 0.1, 0.4, 0.5, 0.5])
    assert _parted(times_s, 0.1) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    even = np.array([0.0, 0.1, 0.3])
    assert (_parted(even, 0.1) == even).all()


def test_one_doubled_time_moves_no_other_frame_and_the_two_come_in_the_order_of_the_decoder(tmp_path):
    # in the file: I0 P4 b1 b2 b3 ..; b1 says it is shown with b3
    path = with_stamps(B_FRAMES, "b.mkv", {2: 300})(tmp_path)
    times_s, numbers = seen(path)
    assert times_s == pytest.approx([0.0, 0.2, 0.3, 0.35, *(0.1 * number for number in range(4, 30))], abs=1e-3)
    assert numbers == [0, 2, 1, 3, *range(4, 30)]
    plan = plan_media(Media(kind="video", path=str(path), start_s=0.34, end_s=0.36), FrameSpec(min_pixels=1024), VISION)
    assert round(read_number(decode(plan).frames[0])) == 3


def test_one_doubled_time_of_a_variable_rate_moves_no_other_frame(tmp_path):
    times_ms = [0, 40, 90, 500, 560, 900, 1600, 1640, 2900, 3000]

    def source(folder):
        options = {"crf": "10", "bf": "2", "x264-params": "b-adapt=0:scenecut=0:b-pyramid=none"}
        return write_clip(folder / "v0.mkv", map(numbered, range(10)), times_ms=times_ms, codec_options=options)

    place = _file_order(source(tmp_path)).index(900)
    times_s, numbers = seen(with_stamps(source, "v.mkv", {place: 560})(tmp_path))
    expected = [0, 40, 90, 500, 560, 1080, 1600, 1640, 2900, 3000]  # 1080: half-way from 560 to 1600
    assert times_s == pytest.approx([time_ms / 1000 for time_ms in expected], abs=1e-3)
    assert numbers == list(range(10))


def _file_order(path):
    with av.open(str(path)) as container:
        base = present(container.streams.video[0].time_base)
        return [round(present(packet.pts) * base * 1000) for packet in container.demux(video=0) if packet.size]


def test_missing_places_in_the_file_are_evened_out_between_those_that_are_known():
    base = Fraction(1, 10)
    dts = np.array([0, 1, NO_TIME, 9, 10, NO_TIME, NO_TIME])
    durations = np.zeros(7, np.int64)
    # usual step: the median of 1, 4 (twice 8 / 2) and 1 tenths
    assert _stored_times_s(dts, durations, base, None) == pytest.approx([0, 0.1, 0.5, 0.9, 1.0, 1.1, 1.2])
    late = np.array([NO_TIME, 5, 6, 7])
    assert _stored_times_s(late, durations[:4], base, None) == pytest.approx([0, 0.1, 0.2, 0.3])
    unknown = np.full(3, NO_TIME)
    assert _stored_times_s(unknown, durations[:3], base, Fraction(5)) == pytest.approx([0, 0.2, 0.4])
    anew = np.array([100, 101, 0, 1])
    assert _stored_times_s(anew, durations[:4], base, None) == pytest.approx([0, 0.1, 0.2, 0.3])


@pytest.mark.parametrize(("delay_ms", "step_s"), [(0, 0.1), (10, 0.1), (20, 0.02), (30, 0.03)])
def test_a_gif_runs_as_browsers_run_it(delay_ms, step_s, tmp_path):
    table = scan(video_file(animation("a.gif", delay_ms)(tmp_path)))
    assert table.times_s == pytest.approx(step_s * np.arange(20))
    assert table.duration_s == pytest.approx(20 * step_s)
    assert table.treatment == (("slowed",) if delay_ms == 10 else ())


def test_only_the_shortest_frames_of_a_gif_are_slowed(tmp_path):
    table = scan(video_file(animation("a.gif", [10, 50, 10, 200])(tmp_path)))
    assert table.times_s == pytest.approx([0, 0.1, 0.15, 0.25])
    assert table.duration_s == pytest.approx(0.45)


def test_other_files_keep_the_keys_of_their_entries(tmp_path):
    """The key of a plain file is what it was; a treatment makes another one of it."""
    plain = x264("plain.mp4")(tmp_path)
    assert scan(video_file(plain)).treatment == ()
    doubled = with_stamps(B_FRAMES, "b.mkv", {2: 300})(tmp_path)
    assert scan(video_file(doubled)).treatment == ("times",)


@pytest.mark.parametrize("stray_ms", [36_000_000, 60_000])
@pytest.mark.parametrize("places", [(12,), (12, 13)])
def test_a_stray_time_in_the_middle_moves_no_frame(places, stray_ms, tmp_path):
    """NVIDIA's VideoProcessingFramework #452: one packet of a stream says that it is shown in hours."""
    plain = x264("plain.mkv", bf="0")
    path = with_stamps(plain, "stray.mkv", {place: stray_ms + 100 * place for place in places})(tmp_path)
    times_s, numbers = seen(path)
    assert times_s == pytest.approx(0.1 * np.arange(30), abs=1e-3)
    assert numbers == list(range(30))
    assert scan(video_file(path)).duration_s == pytest.approx(3.0, abs=2e-3)
    assert not scan(video_file(path)).is_cut


def test_pauses_and_slow_slides_are_no_strays():
    slides = np.arange(0, 60 * 40, 60)
    paused = np.concatenate([np.arange(20), 5000 + np.arange(20)])
    reordered = np.concatenate([np.arange(20), [5003, 20, 21, 22], 5004 + np.arange(20)])
    for stamps in (slides, paused, reordered, np.append(np.arange(20), 5000)):
        assert list(stray_places(stamps, 1.0)) == []
    assert stray_places(np.where(np.arange(40) == 25, 3600, np.arange(40)), 1.0).keys() == {25}
    assert stray_places(np.where(np.arange(40) == 25, -3600, np.arange(40)), 1.0).keys() == {25}
