"""Field-coded H.264: one frame for two fields, each at its time, in every container; frame N is 20 + 4 * N grey."""

import av
import numpy as np
import pytest
from support.field_coded import coded_frames, write_field_coded
from support.sources import file_of, video_file

from easyvideor1.types import FrameSpec, Media
from easyvideor1.video import packets, probe
from easyvideor1.video.decode import decode
from easyvideor1.video.packets import scan
from easyvideor1.video.sampling import plan_media, vision_spec

VISION = vision_spec({"model_type": "qwen3_vl"})
FPS = 25


def luma(frame: np.ndarray) -> float:
    """Of the middle of uint8 [3, H, W], back from the whole range of RGB to that of video."""
    return float(frame[:, 30:34, 46:50].mean()) * 219 / 255 + 16


def seen(path, *, fps=1000.0, **media):
    plan = plan_media(Media(kind="video", path=str(path), **media), FrameSpec(min_pixels=1024, fps=fps), VISION)
    return plan, decode(plan)


def check(path, numbers, *, fps=1000.0, source_fps: float = FPS, **media):
    """These frames are seen, and each is the one of its time."""
    plan, clip = seen(path, fps=fps, **media)
    start_s = media.get("start_s", 0.0)
    assert [round((time_s + start_s) * FPS) for time_s in clip.times_s] == numbers
    assert [round((luma(frame) - 20) / 4) for frame in clip.frames] == numbers
    assert clip.warnings == ()
    assert plan.source_fps == pytest.approx(source_fps)


@pytest.mark.parametrize("structure", ["fields", "mixed"])
@pytest.mark.parametrize("one_packet_per_frame", [True, False], ids=["pairs", "fields apart"])
@pytest.mark.parametrize("suffix", ["ts", "mkv", "mp4", "mov", "avi", "flv", "h264"])
def test_every_frame_is_the_one_of_its_time(structure, one_packet_per_frame, suffix, tmp_path):
    path = tmp_path / f"clip.{suffix}"
    write_field_coded(path, structure=structure, one_packet_per_frame=one_packet_per_frame)
    check(path, list(range(50)))
    check(path, [0, 7, 14, 21, 28, 35, 42, 49], fps=4.0)
    for number in (33, 2, 12, 49, 11):
        check(path, [number], start_s=number / FPS, end_s=number / FPS + 0.02)


@pytest.mark.parametrize("suffix", ["ts", "mp4", "mov"])
def test_a_second_field_needs_no_time_of_its_own(suffix, tmp_path):
    path = write_field_coded(tmp_path / f"clip.{suffix}", second_has_time=False)
    check(path, list(range(50)))
    check(path, [0, 7, 14, 21, 28, 35, 42, 49], fps=4.0)


def test_frames_are_those_of_the_whole_stream_decoded_one_by_one(tmp_path):
    path = write_field_coded(tmp_path / "clip.ts", structure="mixed")
    with av.open(str(path)) as container:
        stamps = [frame.pts for frame in container.decode(video=0)]
    table = scan(video_file(path))
    assert table.pts[table.shown].tolist() == stamps
    assert len(table.pts) == sum(len(frame.parts) for frame in coded_frames(50, structure="mixed"))


def test_packets_are_paired_without_decoding(tmp_path, monkeypatch):
    path = write_field_coded(tmp_path / "clip.ts")

    def refuse(source, *, is_strict):
        raise AssertionError("the file was decoded to plan it")

    monkeypatch.setattr(packets, "_decoded_stamps", refuse)
    assert len(scan(video_file(path)).shown) == 50


def test_a_progressive_mp4_is_planned_from_its_tables_and_one_that_may_have_fields_is_not(tmp_path, monkeypatch):
    path = write_field_coded(tmp_path / "clip.mp4")
    monkeypatch.setattr(probe, "scan", lambda source: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        probe.probe(video_file(path))


def test_a_lost_field_costs_its_own_frame_only(tmp_path):
    path = write_field_coded(tmp_path / "clip.ts", leave_out=frozenset({(25, 1), (39, 1)}))
    check(path, [number for number in range(50) if number not in (25, 39)], source_fps=48 / 2)


def test_a_lone_field_is_no_half_of_the_frame_that_follows(tmp_path):
    # of frame 25 the second field is left; the first one of 28, next in the file, has its frame number
    path = write_field_coded(tmp_path / "clip.ts", leave_out=frozenset({(25, 0), (39, 1)}))
    check(path, [number for number in range(50) if number not in (25, 39)], source_fps=48 / 2)


def test_where_fields_do_not_tell_what_belongs_together_the_decoder_is_asked(tmp_path):
    lost = frozenset((number, 1) for number in range(18, 28))
    path = write_field_coded(tmp_path / "clip.ts", leave_out=lost)
    with av.open(str(path)) as container:
        stamps = [frame.pts for frame in container.decode(video=0)]
    assert 40 < len(stamps) < 50
    table = scan(video_file(path))
    assert table.pts[table.shown].tolist() == stamps
    assert len(seen(path)[1].frames) == len(stamps)


def test_a_recording_that_begins_with_half_a_frame_begins_at_the_next_key_frame(tmp_path):
    path = write_field_coded(tmp_path / "clip.ts", leave_out=frozenset({(0, 0)}))
    _, clip = seen(path)
    assert [round(time_s * FPS) + 12 for time_s in clip.times_s] == list(range(12, 50))
    assert [round((luma(frame) - 20) / 4) for frame in clip.frames] == list(range(12, 50))


def test_field_coded_clips_of_before_are_not_taken_from_the_cache(tmp_path):
    plan, _ = seen(write_field_coded(tmp_path / "clip.ts"))
    header = probe.probe(file_of(plan.media))
    assert header.treatment == ("fields",)
