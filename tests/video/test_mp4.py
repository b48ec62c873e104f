"""The tables of an MP4 say what its packets say, or nothing."""

import random
import struct
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from support.make_clips import numbered, write_clip
from support.sources import video_bytes, video_file
from support.values import present

from easyvideor1.types import FrameSpec, Media
from easyvideor1.video import probe
from easyvideor1.video.mp4 import Index, read_index
from easyvideor1.video.sampling import plan_media, vision_spec

PLAIN = {
    "B-frames": {"codec_options": {"bf": "3", "g": "12"}},
    "no B-frames": {"codec_options": {"bf": "0"}},
    "uneven times": {"times_ms": [0, 50, 100, 150, 700, 1250, 1300, 2900], "codec_options": {"bf": "0"}},
    "uneven times with B-frames": {"times_ms": [0, 50, 100, 150, 700, 1250, 1300, 2900], "codec_options": {"bf": "2"}},
    "30000/1001": {"rate": Fraction(30000, 1001)},
    "index first": {"container_options": {"movflags": "faststart"}},
    "no index of key frames": {"codec": "mpeg4", "codec_options": {"g": "1"}},
    "MOV": {"container_format": "mov"},
}


def make(path, **how):
    count = len(how.get("times_ms", range(20)))
    return write_clip(path, [numbered(number) for number in range(count)], **how)


def index_or_none(content: bytes) -> Index | None:
    source = video_bytes(content)
    with source.open() as file:
        return read_index(file, source.num_bytes)


def index_of(content: bytes) -> Index:
    return present(index_or_none(content))


def with_count(content: bytes, box: bytes, count: int) -> bytes:
    """The file with another number of rows promised in the first box of this kind."""
    at = content.index(box) + (12 if box == b"stsz" else 8)
    return content[:at] + struct.pack(">I", count) + content[at + 4 :]


@pytest.mark.parametrize("how", PLAIN.values(), ids=PLAIN)
def test_a_plain_file_is_planned_without_reading_its_packets(how, tmp_path, monkeypatch):
    path = make(tmp_path / "clip.mp4", **how)
    packets = probe.scan(video_file(path))

    def refuse(source):
        raise AssertionError("packets were read")

    monkeypatch.setattr(probe, "scan", refuse)
    header = probe.probe(video_file(path))
    assert header.times_s == pytest.approx(packets.times_s, abs=1e-9)
    assert header.duration_s == pytest.approx(packets.duration_s, abs=1e-6)


def test_fragments_are_not_understood(tmp_path):
    path = make(tmp_path / "clip.mp4", container_options={"movflags": "frag_keyframe+empty_moov"})
    index = index_of(path.read_bytes())
    assert index is not None
    assert index.frames(1) is None


def test_an_edit_that_cuts_is_not_understood(tmp_path):
    content = make(tmp_path / "clip.mp4", codec_options={"bf": "0"}).read_bytes()
    at = content.index(b"elst") + 4
    assert index_of(content).frames(1) is not None
    late = content[: at + 12] + struct.pack(">i", 5000) + content[at + 16 :]
    short = content[: at + 8] + struct.pack(">I", 500) + content[at + 12 :]
    assert index_of(late).frames(1) is None
    assert index_of(short).frames(1) is None


@pytest.mark.parametrize("box", [b"stts", b"stsz", b"stsc", b"stco", b"elst"])
@pytest.mark.parametrize("count", [0, 3, 2**31, 2**32 - 1])
def test_tables_that_lie_about_their_length_are_not_understood(box, count, tmp_path):
    content = make(tmp_path / "clip.mp4").read_bytes()
    assert index_of(content).frames(1) is not None
    assert index_of(with_count(content, box, count)).frames(1) is None


def test_a_constant_frame_size_may_not_promise_more_frames_than_there_can_be(tmp_path):
    content = make(tmp_path / "clip.mp4").read_bytes()
    at = content.index(b"stsz") + 8
    lying = content[:at] + struct.pack(">II", 96, 2**32 - 1) + content[at + 8 :]
    assert index_of(lying).frames(1) is None


def test_boxes_in_boxes_without_end_cost_no_memory_and_no_time():
    body = b"".join(struct.pack(">I4s", 8 * depth, b"mdia") for depth in range(20_000, 0, -1))
    track = struct.pack(">I", 8 + len(body)) + b"trak" + body
    content = struct.pack(">I4s", 8 + len(track), b"moov") + track
    tracemalloc.start()
    index = index_of(content)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert index.frames(1) is None
    assert peak_bytes < 20e6


def test_damage_of_the_index_is_nothing_or_a_table_and_never_costs_memory(tmp_path):
    hows = [{"codec_options": {"bf": "3"}}, PLAIN["uneven times"], {"codec": "mjpeg", "pix_fmt": "yuvj420p"}]
    contents = [make(tmp_path / f"{number}.mp4", **how).read_bytes() for number, how in enumerate(hows)]
    rng = random.Random(3)
    tracemalloc.start()
    for _ in range(600):
        content = rng.choice(contents)
        start = content.index(b"moov") - 4
        for _ in range(rng.choice([1, 2, 8])):
            content = mutated(content, rng.randrange(start, len(content)), rng)
        index = index_or_none(content)
        if index is not None:
            table = index.frames(1)
            assert index.is_turned in (True, False)
            assert table is None or (np.diff(table.pts) > 0).all()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5e6


def mutated(content: bytes, at: int, rng: random.Random) -> bytes:
    """With one bit, one byte or one number changed, or a piece left out."""
    change = rng.randrange(4)
    if change == 0:
        return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
    if change == 1:
        return content[:at] + bytes([rng.choice([0, 127, 128, 255])]) + content[at + 1 :]
    if change == 2:
        return content[:at] + struct.pack(">I", rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1])) + content[at + 4 :]
    return content[:at] + content[at + rng.randrange(1, 40) :]


@pytest.mark.parametrize("kept_frac", [0.2, 0.5, 0.9, 0.99])
def test_a_cut_index_gives_nothing_or_a_file_that_is_too_short(kept_frac, tmp_path):
    content = make(tmp_path / "clip.mp4", container_options={"movflags": "faststart"}).read_bytes()
    start = content.index(b"moov")
    end = start + int.from_bytes(content[start - 4 : start], "big")
    cut = content[: start + int((end - start) * kept_frac)]
    table = index_of(cut).frames(1)
    assert table is None or table.end_bytes > len(cut)


def test_the_table_says_up_to_where_the_file_must_reach(tmp_path):
    content = make(tmp_path / "clip.mp4", container_options={"movflags": "faststart"}).read_bytes()
    table = index_of(content).frames(1)
    assert table is not None
    assert table.end_bytes == len(content)
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(content[:-100])
    plan = plan_media(Media(kind="video", path=str(cut)), FrameSpec(), vision_spec({"model_type": "qwen3_vl"}))
    assert plan.warnings


def test_frames_are_in_display_order(tmp_path):
    table = index_of(make(tmp_path / "clip.mp4", codec_options={"bf": "3"}).read_bytes()).frames(1)
    assert table is not None
    assert (np.diff(table.pts) == np.diff(table.pts)[0]).all()
    assert table.last_duration == np.diff(table.pts)[0]
