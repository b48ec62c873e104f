"""High dynamic range: said, and made fit for a standard screen by the published formulas where it is asked for."""

from fractions import Fraction
from math import exp

import av
import numpy as np
import pytest
from support.make_clips import numbered, write_clip

from easyvideor1.errors import UsageError
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec
from easyvideor1.video.tone_map import tone_map

VISION = vision_spec({"model_type": "qwen3_vl"})
CODES = {"PQ": 16, "HLG": 18}
X265 = "crf=4:log-level=0:colorprim=bt2020:colormatrix=bt2020nc:transfer="


def pq_to_light(signal: float) -> float:
    """cd/m2; SMPTE ST 2084, written out from the standard."""
    m1, m2, c1, c2, c3 = 0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875
    root = signal ** (1 / m2)
    return 10_000 * (max(root - c1, 0) / (c2 - c3 * root)) ** (1 / m1)


def light_to_pq(light: float) -> float:
    m1, m2, c1, c2, c3 = 0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875
    power = (light / 10_000) ** m1
    return ((c1 + c2 * power) / (1 + c3 * power)) ** m2


def hlg_to_light(red: float, green: float, blue: float) -> list[float]:
    """cd/m2 on a screen of 1000; ITU-R BT.2100, table 5."""
    scene = [value**2 / 3 if value <= 0.5 else (exp((value - 0.55991073) / 0.17883277) + 0.28466892) / 12
             for value in (red, green, blue)]  # fmt: skip
    luminance = 0.2627 * scene[0] + 0.6780 * scene[1] + 0.0593 * scene[2]
    return [1000 * luminance**0.2 * value if luminance else 0.0 for value in scene]


def eetf(light: float) -> float:
    """From 0 .. 1000 to 0 .. 203 cd/m2; ITU-R BT.2390-11, 5.4.1, without lifted black."""
    peak = light_to_pq(1000)
    top = light_to_pq(203) / peak
    knee = 1.5 * top - 0.5
    signal = min(light_to_pq(light) / peak, 1.0)
    if signal >= knee:
        t = (signal - knee) / (1 - knee)
        signal = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (-2 * t**3 + 3 * t**2) * top
    return pq_to_light(signal * peak)


def expected(transfer: str, red: float, green: float, blue: float) -> list[float]:
    """Levels of 0 .. 255 for a signal in [0, 1]."""
    lights = hlg_to_light(red, green, blue) if transfer == "HLG" else [pq_to_light(v) for v in (red, green, blue)]
    rows = ((1.6605, -0.5876, -0.0728), (-0.1246, 1.1329, -0.0083), (-0.0182, -0.1006, 1.1187))
    lights = [max(0.0, sum(weight * light for weight, light in zip(row, lights, strict=True))) for row in rows]
    most = max(lights)
    factor = eetf(most) / most if most else 0.0
    return [255 * min(1.0, light * factor / 203) ** (1 / 2.4) for light in lights]


@pytest.mark.parametrize("transfer", ["PQ", "HLG"])
def test_levels_are_those_of_the_formulas(transfer):
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 1 << 16, (40, 50, 3), dtype=np.uint16)
    pixels[0] = np.linspace(0, 65_535, 50).astype(np.uint16)[:, None]  # greys
    pixels[1] = pixels[1] // 8  # dark ones
    found = tone_map(pixels, transfer=transfer)
    wanted = [[expected(transfer, *(value / 65_535 for value in pixel)) for pixel in row] for row in pixels.tolist()]
    off = np.abs(found - np.array(wanted))
    assert off.max() <= 0.75  # rounded: 0.5; and what the tables and float32 cost
    assert off.mean() <= 0.26


def test_black_stays_black_paper_white_is_light_and_what_is_above_the_peak_is_white():
    for transfer in ("PQ", "HLG"):
        ends = np.array([[[0, 0, 0], [65_535] * 3]], np.uint16)
        assert tone_map(ends, transfer=transfer).tolist() == [[[0, 0, 0], [255, 255, 255]]]
    paper = round(65_535 * light_to_pq(203))
    level = tone_map(np.full((1, 1, 3), paper, np.uint16), transfer="PQ")[0, 0, 0]
    assert 215 < level < 235


def plan_of(path, *, is_mapped):
    return plan_media(Media(kind="video", path=str(path)), FrameSpec(min_pixels=1024, tone_map=is_mapped), VISION)


def deep_clip(path, transfer, signal):
    """FFV1 in planar RGB of 16 bits, nothing lost."""
    pixels = np.full((64, 96, 3), np.array(signal) * 65_535, np.uint16)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "gbrp16le"
        stream.codec_context.color_trc = CODES[transfer]
        stream.codec_context.color_primaries = 9
        for number in range(4):
            frame = av.VideoFrame.from_ndarray(pixels, "rgb48le").reformat(format="gbrp16le")
            frame.pts, frame.time_base = number, Fraction(1, 10)
            frame.color_trc, frame.color_primaries = CODES[transfer], 9
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize("transfer", ["PQ", "HLG"])
def test_a_clip_is_mapped_where_it_is_asked_for_and_the_key_tells(transfer, tmp_path):
    signal = (0.55, 0.48, 0.4)
    path = deep_clip(tmp_path / "deep.mkv", transfer, signal)
    plain, mapped = plan_of(path, is_mapped=False), plan_of(path, is_mapped=True)
    assert plain.cache_key != mapped.cache_key
    assert decode(plain).warnings == plain.warnings
    assert f"high dynamic range ({transfer}), shown as it is" in plain.warnings[0]
    assert mapped.warnings == ()
    assert decode(plain).frames[0, :, 32, 48] == pytest.approx([255 * value for value in signal], abs=1)
    assert decode(mapped).frames[0, :, 32, 48] == pytest.approx(expected(transfer, *signal), abs=1)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hevc.mp4", {"codec": "libx265", "pix_fmt": "yuv420p10le", "codec_options": {"x265-params": X265}}),
        ("hevc.mkv", {"codec": "libx265", "pix_fmt": "yuv420p10le", "codec_options": {"x265-params": X265}}),
        ("hevc.ts", {"codec": "libx265", "pix_fmt": "yuv420p10le", "codec_options": {"x265-params": X265}}),
        ("h264.mp4", {"pix_fmt": "yuv420p10le", "codec_options": {"x264-params": "transfer="}}),
        ("8bit.mp4", {"codec_options": {"x264-params": "transfer="}}),
        (
            "av1.mp4",
            {
                "codec": "libsvtav1",
                "pix_fmt": "yuv420p10le",
                "codec_options": {"preset": "10", "svtav1-params": "color-primaries=9:transfer-characteristics="},
            },
        ),
    ],
)
@pytest.mark.parametrize("transfer", ["PQ", "HLG"])
def test_it_is_said_of_every_codec_and_container(name, options, transfer, tmp_path):
    names = {"PQ": "smpte2084", "HLG": "arib-std-b67"}
    option, text = next((key, value) for key, value in options["codec_options"].items() if value.endswith("="))
    text += str(CODES[transfer]) if "svtav1" in option else names[transfer]
    options = options | {"codec_options": options["codec_options"] | {option: text}}
    path = write_clip(tmp_path / name, map(numbered, range(6)), **options)
    assert [f"({transfer})" in warning for warning in plan_of(path, is_mapped=False).warnings] == [True]
    grey = numbered(5)[32, 48, 0] / 255
    mapped = decode(plan_of(path, is_mapped=True)).frames[-1, :, 32, 48]
    assert mapped == pytest.approx(expected(transfer, grey, grey, grey), abs=3)  # codecs lose a little


def test_a_standard_clip_is_not_touched(tmp_path):
    path = write_clip(tmp_path / "a.mp4", map(numbered, range(6)))
    plain, mapped = plan_of(path, is_mapped=False), plan_of(path, is_mapped=True)
    assert plain.cache_key == mapped.cache_key
    assert np.array_equal(decode(plain).frames, decode(mapped).frames)
    assert plain.warnings == ()


def test_torchcodec_does_not_do_it(tmp_path):
    path = write_clip(tmp_path / "a.mp4", map(numbered, range(6)))
    spec = FrameSpec(min_pixels=1024, tone_map=True, backend="torchcodec")
    with pytest.raises(UsageError, match="torchcodec cannot tone-map; use backend pyav"):
        decode(plan_media(Media(kind="video", path=str(path)), spec, VISION))
