"""Packed clips: lossless is bit for bit, lossy says how far off, and the codec is part of an entry's name."""

from pathlib import Path

import numpy as np
import pytest

from easyvideor1.errors import UsageError
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.clip_file import DamagedClip, read_tensors, write_tensors
from easyvideor1.video.codecs import CODECS, codec_named, codec_of_file

PACKED = [name for name in CODECS if name != "raw"]


def smooth_clip(num_frames: int = 6, height: int = 96, width: int = 128) -> Clip:
    """A moving colour gradient with a little noise: the kind of thing codecs are made for."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(0)
    frames = np.stack(
        [
            np.stack([(x + 3 * t) % 256, (y + 2 * t) % 256, (x + y) // 2]) + noise.integers(0, 3, (3, height, width))
            for t in range(num_frames)
        ]
    ).clip(0, 255)
    return Clip(
        frames=frames.astype(np.uint8),
        times_s=tuple(0.3 * t for t in range(num_frames)),
        source_fps=10.0,
        duration_s=1.7,
        backend="fake",
        warnings=("w",),
    )


def round_trip(name: str, clip: Clip, folder: Path) -> tuple[Clip, int]:
    codec = codec_named(name)
    path = folder / f"k.{codec.name}.v1.safetensors"
    size_bytes = codec.write(path, clip)
    assert size_bytes == path.stat().st_size
    return codec.read(path), size_bytes


@pytest.mark.parametrize("name", list(CODECS))
def test_everything_but_the_pixels_survives_any_codec(tmp_path, name):
    clip = smooth_clip()
    back, _ = round_trip(name, clip, tmp_path)
    assert (back.times_s, back.source_fps, back.duration_s) == (clip.times_s, clip.source_fps, clip.duration_s)
    assert (back.backend, back.warnings) == (clip.backend, clip.warnings)
    assert back.frames.shape == clip.frames.shape
    assert back.frames.dtype == np.uint8
    assert not back.frames.flags.writeable


@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (2, 3, 1, 7), (2, 3, 5, 1), (3, 3, 32, 64)])
def test_zstd_gives_random_frames_back_bit_for_bit(tmp_path, shape):
    frames = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    times_s = tuple(float(t) for t in range(shape[0]))
    clip = Clip(frames=frames, times_s=times_s, source_fps=1.0, duration_s=1.0, backend="fake")
    assert np.array_equal(round_trip("zstd", clip, tmp_path)[0].frames, frames)


def test_packed_clips_are_smaller_than_raw_and_jpeg_is_close(tmp_path):
    clip = smooth_clip()
    zstd, zstd_bytes = round_trip("zstd", clip, tmp_path)
    jpeg, jpeg_bytes = round_trip("jpeg", clip, tmp_path)
    assert np.array_equal(zstd.frames, clip.frames)
    assert zstd_bytes < 0.5 * clip.frames.nbytes
    assert jpeg_bytes < 0.25 * clip.frames.nbytes
    error = np.abs(jpeg.frames.astype(int) - clip.frames)
    assert 0 < error.mean() < 2  # red wraps from 255 to 0 within the gradient, so single pixels are farther off


@pytest.mark.parametrize("name", PACKED)
def test_a_cut_packed_clip_is_damaged(tmp_path, name):
    clip = smooth_clip()
    round_trip(name, clip, tmp_path)
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedClip):
        codec_named(name).read(path)


def test_a_raw_clip_under_a_packed_name_is_refused(tmp_path):
    path = tmp_path / f"k.{CODECS['jpeg'].name}.v1.safetensors"
    CODECS["raw"].write(path, smooth_clip())
    with pytest.raises(DamagedClip, match="codec"):
        CODECS["jpeg"].read(path)


def test_each_codec_has_its_own_entries_and_a_file_tells_its_codec(tmp_path):
    clip = smooth_clip()
    plan = MediaPlan(
        media=Media(kind="video", path="a.mp4"),
        times_s=clip.times_s,
        height=96,
        width=128,
        grid_thw=(3, 6, 8),
        num_tokens=36,
        spec=FrameSpec(),
        source_fps=10.0,
        duration_s=1.7,
        cache_key="abcd",
    )
    for name in CODECS:
        cache = FrameCache(tmp_path, codec=name, decode=lambda _: smooth_clip())
        first = cache.load(plan)
        assert cache.counters.decodes == 1
        assert np.array_equal(cache.load(plan).frames, first.frames)  # also where the codec is lossy
        assert cache.counters.hits == 1
        assert codec_of_file(cache.path(plan)) is CODECS[name]
    assert len(list(tmp_path.glob("ab/*"))) == len(CODECS)


def test_a_file_of_a_codec_nobody_knows_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"webp.*zstd"):
        codec_of_file(tmp_path / "k.webp.v1.safetensors")


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize(
    "change", ["other shape", "huge shape", "no shape", "noise", "no ends", "piece of another size"]
)
def test_a_packed_clip_that_does_not_unpack_is_damaged_whatever_its_checksum_says(tmp_path, name, change):
    codec = codec_named(name)
    path = tmp_path / f"k.{codec.name}.v1.safetensors"
    codec.write(path, smooth_clip())
    tensors, metadata = read_tensors(path)
    metadata = {key: text for key, text in metadata.items() if key not in ("checksum", "format")}
    shapes = {"other shape": "[6, 3, 95, 128]", "huge shape": "[6, 3, 1000000, 1000000]", "no shape": "{}"}
    metadata["shape"] = shapes.get(change, metadata["shape"])
    if change == "noise":
        tensors["pieces"] = np.random.default_rng(0).integers(0, 256, len(tensors["pieces"]), dtype=np.uint8)
    if change == "no ends":
        del tensors["piece_ends"]
    if change == "piece of another size":
        small = smooth_clip(height=48)
        other = tmp_path / "other"
        codec.write(other, small)
        tensors = read_tensors(other)[0]
    write_tensors(path, tensors, metadata)
    with pytest.raises(DamagedClip, match=f"{path.name}: its frames cannot be unpacked"):
        codec.read(path)
