"""What was found out about a file is found again on disk: the same answers, without reading the file."""

import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from support.field_coded import write_field_coded
from support.kinds import KINDS, clip, with_stamps, x264
from support.make_clips import write_clip

from easyvideor1.config_data import CacheConfig
from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video import known_files as module
from easyvideor1.video.decode import decode
from easyvideor1.video.known_files import FRESH, KnownFiles, known_files
from easyvideor1.video.pool import DecodePool
from easyvideor1.video.sampling import plan_media, vision_spec
from easyvideor1.video.source import Source, locate

VISION = vision_spec({"model_type": "qwen3_vl"})
SPEC = FrameSpec(min_pixels=1024)
VP9 = clip("a.webm", codec="libvpx-vp9", codec_options={"crf": "15", "b": "0"})
READABLE = [kind for kind in KINDS if kind.verdict != "error" and kind.fps is None]


def source_of(path: Path) -> Source:
    found = locate(Media(kind="video", path=str(path)))
    assert isinstance(found, Source)
    return found


def settle(path: Path) -> None:
    """Let the clock go on, so that a change of the file shows in its times."""
    while time.time() - path.stat().st_ctime < 2 * module.YOUNG_S:
        time.sleep(0.005)


@pytest.fixture
def files(tmp_path):
    return KnownFiles(tmp_path / "cache" / "files")


def forbid(monkeypatch, *names):
    for name in names:
        monkeypatch.setattr(module, name, lambda source, name=name: pytest.fail(f"{name} was asked"))


def equal(one, other) -> bool:
    return all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        if isinstance(getattr(one, field.name), np.ndarray)
        else getattr(one, field.name) == getattr(other, field.name)
        for field in fields(one)
    )


@pytest.mark.parametrize("kind", READABLE, ids=lambda kind: kind.name)
def test_every_kind_of_file_is_remembered_as_it_is(kind, tmp_path, files, monkeypatch):
    source = source_of(kind.make(tmp_path))
    settle(Path(source.name))
    fresh = files.header(source)
    forbid(monkeypatch, "header_of", "identity")
    known = files.header(source)
    assert equal(known, fresh)
    assert known.times_s.dtype == np.float64
    if source.content != "picture":
        packets = files.packets(source)
        forbid(monkeypatch, "scan")
        assert equal(files.packets(source), packets)


@pytest.mark.parametrize(
    "make",
    [VP9, x264("a.ts", bf="2"), with_stamps(x264("b0.mkv", bf="2"), "b.mkv", {4: 300}), clip("c.avi", codec="mpeg4")],
    ids=["webm", "transport", "doubled time", "avi"],
)
def test_a_plan_and_its_frames_are_the_same_by_what_is_known(make, tmp_path, files, monkeypatch):
    path = make(tmp_path)
    settle(path)
    media = Media(kind="video", path=str(path))
    fresh = plan_media(media, SPEC, VISION)
    expected = decode(fresh)
    assert plan_media(media, SPEC, VISION, files=files) == fresh
    forbid(monkeypatch, "header_of", "scan")
    with monkeypatch.context() as patch:
        forbid(patch, "identity")  # which is read anew when frames are
        plan = plan_media(media, SPEC, VISION, files=files)
    assert plan == fresh
    assert np.array_equal(decode(plan, files=files).frames, expected.frames)


def test_field_coded_packets_are_remembered_with_their_pairs(tmp_path, files, monkeypatch):
    path = write_field_coded(tmp_path / "a.ts", structure="mixed")
    settle(path)
    plan = plan_media(Media(kind="video", path=str(path)), SPEC, VISION, files=files)
    expected = decode(plan, files=files)
    forbid(monkeypatch, "header_of", "scan")
    again = decode(plan_media(Media(kind="video", path=str(path)), SPEC, VISION, files=files), files=files)
    assert np.array_equal(again.frames, expected.frames)


PLAN = """
import sys
from pathlib import Path
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.known_files import KnownFiles
from easyvideor1.video.sampling import plan_media, vision_spec
def num_read():
    return int(Path("/proc/self/io").read_text().split()[1])
before = num_read()
plan = plan_media(
    Media(kind="video", path=sys.argv[1]), FrameSpec(), vision_spec({"model_type": "qwen3_vl"}),
    files=KnownFiles(Path(sys.argv[2])),
)
print(num_read() - before, plan.cache_key)
"""


def large_webm(path: Path, num_bytes: int) -> Path:
    """One key frame of noise, again and again."""
    noise = np.random.default_rng(0).integers(0, 256, (360, 640, 3), np.uint8)
    write_clip(path.with_suffix(".one.webm"), [noise], codec="libvpx", codec_options={"b": "90M", "qmax": "4"})
    with av.open(str(path.with_suffix(".one.webm"))) as reader, av.open(str(path), "w") as writer:
        stream = writer.add_stream_from_template(reader.streams.video[0])
        content = next(bytes(packet) for packet in reader.demux(video=0) if packet.size)
        for number in range(-(-num_bytes // len(content))):
            packet = av.Packet(content)
            packet.pts = packet.dts = 40 * number
            packet.time_base, packet.stream, packet.is_keyframe = Fraction(1, 1000), stream, True
            writer.mux(packet)
    return path


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not count what a process reads")
def test_a_webm_of_43_megabytes_is_read_once(tmp_path):
    path = large_webm(tmp_path / "large.webm", 43_000_000)
    num_bytes = path.stat().st_size
    assert num_bytes > 43_000_000
    settle(path)
    answers = []
    for _ in range(2):
        command = [sys.executable, "-c", PLAN, str(path), str(tmp_path / "files")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        num_read, key = done.stdout.split()
        answers.append((int(num_read), key))
    assert answers[0][0] > num_bytes
    assert answers[1][0] < 100_000
    assert answers[0][1] == answers[1][1]


def test_a_copy_is_known_by_its_content(tmp_path, files, monkeypatch):
    path = VP9(tmp_path)
    files.header(source_of(path))
    shutil.copy(path, tmp_path / "copy.webm")
    forbid(monkeypatch, "header_of", "scan")
    assert files.header(source_of(tmp_path / "copy.webm")).times_s[-1] == pytest.approx(2.9)


def test_a_file_that_was_touched_or_replaced_is_looked_at_again(tmp_path, files):
    path = VP9(tmp_path)
    settle(path)
    content = files.identity(source_of(path))
    other = clip("b.webm", 20, codec="libvpx-vp9", codec_options={"crf": "15", "b": "0"})(tmp_path)
    size, times = path.stat().st_size, (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    other.write_bytes(other.read_bytes().ljust(size, b"\0")[:size])
    os.utime(other, ns=times)
    os.replace(other, path)  # as long, as old, in the same place
    assert files.identity(source_of(path)) != content


def test_an_answer_about_a_file_that_was_replaced_meanwhile_is_not_kept(tmp_path, files, monkeypatch):
    path = VP9(tmp_path)
    settle(path)
    source = source_of(path)
    files.identity(source)
    other = clip("b.webm", 20, codec="libvpx-vp9", codec_options={"crf": "15", "b": "0"})(tmp_path)
    real = module.header_of

    def replaced_before(source):
        os.replace(other, path)
        return real(source)

    monkeypatch.setattr(module, "header_of", replaced_before)
    assert len(files.header(source).times_s) == 20
    assert not list(files.dir.rglob("*.header"))
    assert not list(files.dir.rglob("*.packets"))


def test_a_file_that_may_still_change_unseen_is_not_remembered_by_its_place(tmp_path, files, monkeypatch):
    path = VP9(tmp_path)
    status = path.stat()
    monkeypatch.setattr(module.time, "time", lambda: status.st_ctime + module.YOUNG_S / 2)
    files.header(source_of(path))
    assert not list(files.dir.rglob("*.place"))
    monkeypatch.setattr(module.time, "time", lambda: status.st_ctime + 2)
    coarse = Source(name="a", path=str(path), data=None, num_bytes=1, mtime_ns=10**9, place=(1, 1, 1700 * 10**9))
    monkeypatch.setattr(module.time, "time", lambda: 1702.0)
    assert not module._is_settled(coarse)  # whole seconds: such a clock may stand still for two
    monkeypatch.setattr(module.time, "time", lambda: 1703.0)
    assert module._is_settled(coarse)


def test_whatever_is_done_to_what_is_remembered_the_answers_stay_right(tmp_path, files):
    path = with_stamps(x264("b0.mkv", bf="2"), "b.mkv", {4: 300})(tmp_path)
    settle(path)
    source = source_of(path)
    header, packets, content = files.header(source), files.packets(source), files.identity(source)
    kept = {item: item.read_bytes() for item in files.dir.rglob("*") if item.is_file()}
    assert len(kept) == 3
    rng = random.Random(2)
    for _ in range(200):
        item = rng.choice(list(kept))
        data = bytearray(kept[item])
        change = rng.randrange(4)
        if change == 0:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif change == 1:
            data = data[: rng.randrange(len(data))]
        elif change == 2:
            data[rng.randrange(len(data)) :] = rng.randbytes(30)
        else:
            data = bytearray(rng.randbytes(rng.randrange(200)))
        item.write_bytes(data)
        assert files.identity(source) == content
        assert equal(files.header(source), header)
        assert equal(files.packets(source), packets)
    for item in kept:
        item.unlink()
        item.mkdir()
        assert equal(files.header(source), header)


HOSTILE = [
    {"num_frames": 10**12}, {"num_frames": -1}, {"num_frames": "9"}, {"num_frames": 3}, {"num_frames": 0},
    {"width": 0}, {"height": -5}, {"duration_s": 0.1}, {"duration_s": "NaN"}, {"source_fps": 0}, {"hdr": "SDR"},
    {"orientation": [1]}, {"treatment": 5}, {"warnings": None}, {"width": "x" * 100},
]  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE, ids=str)
def test_a_header_that_makes_no_sense_is_not_believed_whatever_its_checksum_says(change, tmp_path, files, monkeypatch):
    path = VP9(tmp_path)
    settle(path)
    source = source_of(path)
    header = files.header(source)
    (kept,) = files.dir.rglob("*.header")
    real = module.json.dumps
    with monkeypatch.context() as patch:
        patch.setattr(
            module.json, "dumps", lambda text, **how: real(text | change if "num_frames" in text else text, **how)
        )
        module._write_header(kept, header)
    assert equal(files.header(source), header)


def test_where_nothing_can_be_kept_files_are_asked(tmp_path):
    path = VP9(tmp_path)
    (tmp_path / "file").write_text("x")
    files = KnownFiles(tmp_path / "file" / "files")
    assert equal(files.header(source_of(path)), FRESH.header(source_of(path)))


def test_content_in_memory_is_not_remembered(tmp_path, files):
    media = Media(kind="video", path="upload", data=VP9(tmp_path).read_bytes())
    plan = plan_media(media, SPEC, VISION, files=files)
    decode(plan, files=files)
    assert not files.dir.exists()


def test_a_file_that_cannot_be_read_is_not_remembered(tmp_path, files):
    (tmp_path / "a.webm").write_bytes(b"\x1aE\xdf\xa3" + bytes(100))
    with pytest.raises(MediaError, match=r"a\.webm"):
        files.header(source_of(tmp_path / "a.webm"))
    assert not list(files.dir.rglob("*.header"))


def test_a_folder_that_is_neither_read_nor_written_or_must_be_there_and_is_not_knows_no_files(tmp_path):
    assert known_files(CacheConfig(dir=str(tmp_path), mode="realtime_only")) is FRESH
    assert known_files(CacheConfig(dir=str(tmp_path / "gone"), mode="preprocessed_only")) is FRESH
    for mode in ("prefer_preprocessed", "preprocessed_only"):
        assert known_files(CacheConfig(dir=str(tmp_path), mode=mode)) == KnownFiles(tmp_path / "files")


def test_the_processes_of_a_pool_know_files_too(tmp_path, files):
    path = VP9(tmp_path)
    settle(path)
    with DecodePool(1, 60.0, files=files) as pool:
        plan = pool.plan(Media(kind="video", path=str(path)), SPEC, VISION)
        assert np.array_equal(pool.decode(plan).frames, decode(plan).frames)
    assert {item.suffix for item in files.dir.rglob("*.*")} == {".place", ".header", ".packets"}
