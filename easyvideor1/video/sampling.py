"""From a medium and a budget to a plan: which frames, at which size, in how many tokens; nothing is decoded.

Resolved in this order:
1. clip range: frames with start <= time <= end, both clamped to the file;
2. number of frames: duration * fps, raised to min_frames, capped by max_frames and by what there is, rounded down to
   whole temporal patches (clips shorter than min_frames give all their frames; the last is repeated by the encoder);
3. which: evenly spread from the first to the last frame of the range, by number where the frame rate is constant, by
   time where it is not;
4. size: nearest multiples of patch * merge; capped by max_pixels and by total_pixels / frames, raised to min_pixels.
   The caps hold: where min_pixels cannot, it is an error.
Steps 2-4 are the rule of qwen-vl-utils 0.0.14 wherever that one keeps its own limits.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from easyvideor1.errors import MediaError, UsageError
from easyvideor1.model.families import family
from easyvideor1.types import FrameSpec, Media, MediaPlan, VisionSpec
from easyvideor1.video.keys import TONE_RULE, cache_key, origin_of, setting_of
from easyvideor1.video.known_files import FRESH, Files
from easyvideor1.video.probe import Header
from easyvideor1.video.source import Source, identity, locate
from easyvideor1.video.stills import picture_header
from easyvideor1.video.taken_over import grid_of

MAX_ASPECT = 200
"""Largest ratio of the longest side to the shortest, as in qwen-vl-utils."""
EPSILON_S = 1e-6
ROUNDING = 1e-6
"""A number of frames that is this little below a whole one is that one."""


def vision_spec(config: Mapping[str, Any], preprocessor: Mapping[str, Any] | None = None) -> VisionSpec:
    """How a model cuts pixels into tokens.

    Args:
        config: the model's config.json.
        preprocessor: its preprocessor_config.json, for mean and std; None: those of the family.

    Raises:
        UsageError: not a vision model of a known family, or the two files contradict each other.
    """
    model_type = str(config.get("model_type", ""))
    usual = family(model_type)
    vision, preprocessor = config.get("vision_config") or {}, preprocessor or {}
    mean, std = usual.mean_std
    names = {"patch_size": usual.patch_px, "spatial_merge_size": 2, "temporal_patch_size": 2}
    sizes = {name: int(vision.get(name, default)) for name, default in names.items()}
    for name, other in (("patch_size",) * 2, ("spatial_merge_size", "merge_size"), ("temporal_patch_size",) * 2):
        if other in preprocessor and int(preprocessor[other]) != sizes[name]:
            raise UsageError(
                f"config.json says {name} = {sizes[name]}, "
                f"preprocessor_config.json says {other} = {preprocessor[other]}"
            )
    return VisionSpec(
        family=model_type,
        patch_px=sizes["patch_size"],
        merge=sizes["spatial_merge_size"],
        temporal_patch=sizes["temporal_patch_size"],
        image_mean=_triple(preprocessor.get("image_mean", mean)),
        image_std=_triple(preprocessor.get("image_std", std)),
    )


def plan_media(media: Media, spec: FrameSpec, vision: VisionSpec, *, files: Files = FRESH) -> MediaPlan:
    """The plan of a medium: which frames will be seen, at which size.

    Args:
        files: who is asked about a video file; `KnownFiles` remembers the answers on disk.

    Raises:
        MediaError: it cannot be read or is not what it should be; the message names it.
        UsageError: the limits of `spec` contradict each other for this medium.
    """
    if media.budget:
        spec = replace(spec, **dict(media.budget))
    try:
        located = locate(media)
    except MediaError:
        plan = files.stand_in(media, spec, vision) if media.kind == "video" else None
        if plan is None:
            raise
        return plan
    if media.kind == "image":
        return _plan_image(media, located, spec, vision)
    if media.fps is not None and not isinstance(located, tuple):
        spec = replace(spec, fps=media.fps)  # of a list of frames it is the rate they were taken at
    header = video_header(media, located, files)
    first, last, origin_s, notes = _clip_range(media, header)
    clip_times_s = header.times_s[first : last + 1]
    count = num_frames(
        len(clip_times_s),
        wanted=wanted_frames(clip_times_s, header.source_fps, fps=spec.fps),
        spec=spec,
        temporal_patch=vision.temporal_patch,
    )
    numbers = choose_frames(clip_times_s, count) + first
    padded = math.ceil(len(numbers) / vision.temporal_patch) * vision.temporal_patch
    height, width = frame_size(
        header.height, header.width, num_frames=padded, spec=spec, vision=vision, where=media.name
    )
    whole_clip = media.start_s is None and media.end_s is None
    return _plan(
        media,
        content_digest(located, files),
        spec,
        vision,
        times_s=tuple(max(0.0, float(time)) for time in header.times_s[numbers] - origin_s),
        frame_numbers=tuple(int(number) for number in numbers),
        size=(height, width),
        source_fps=header.source_fps,
        source_size=(header.width, header.height),
        duration_s=header.duration_s if whole_clip else _clip_duration_s(media, header, origin_s),
        is_list=isinstance(located, tuple),
        treatment=header.treatment + ((TONE_RULE,) if header.hdr and spec.tone_map else ()),
        warnings=header.warnings + (() if spec.tone_map else _about_hdr(header)) + notes,
    )


def _about_hdr(header: Header) -> tuple[str, ...]:
    if not header.hdr:
        return ()
    return (f"high dynamic range ({header.hdr}), shown as it is: pale and flat; tone_map makes it look right",)


def _plan_image(media: Media, located: Source | tuple[Source, ...], spec: FrameSpec, vision: VisionSpec) -> MediaPlan:
    if isinstance(located, tuple):
        raise MediaError("a folder or list of pictures stands where one image is expected", where=media.name)
    picture = picture_header(located)
    size = frame_size(picture.height, picture.width, num_frames=1, spec=spec, vision=vision, where=media.name)
    notes = ("an animation, taken as an image: only its first frame is seen",) if picture.num_frames > 1 else ()
    return _plan(
        media,
        content_digest(located),
        spec,
        vision,
        times_s=(0.0,),
        frame_numbers=(0,),
        size=size,
        source_fps=0.0,
        source_size=(picture.width, picture.height),
        duration_s=0.0,
        warnings=notes,
    )


def _plan(
    media: Media,
    content: str,
    spec: FrameSpec,
    vision: VisionSpec,
    *,
    times_s: tuple[float, ...],
    frame_numbers: tuple[int, ...],
    size: tuple[int, int],
    source_fps: float,
    source_size: tuple[int, int],
    duration_s: float,
    is_list: bool = False,
    treatment: tuple[str, ...] = (),
    warnings: tuple[str, ...],
) -> MediaPlan:
    grid = grid_of(len(times_s), size, vision)
    return MediaPlan(
        media=media,
        times_s=times_s,
        height=size[0],
        width=size[1],
        grid_thw=grid,
        num_tokens=math.prod(grid) // vision.merge**2,
        spec=spec,
        frame_numbers=frame_numbers,
        source_fps=source_fps,
        source_size=source_size,
        duration_s=duration_s,
        cache_key=cache_key(media, content, spec, vision, is_list=is_list, treatment=treatment),
        content=content,
        origin=origin_of(media, content, spec, size, is_list=is_list, treatment=treatment),
        setting=setting_of(media.kind, spec, vision),
        warnings=warnings,
    )


def video_header(media: Media, located: Source | tuple[Source, ...], files: Files = FRESH) -> Header:
    """Times and size of a video: of a file, an animated picture, or a list of frames."""
    if isinstance(located, tuple):
        return _list_header(media, located)
    if media.times_s is not None:
        raise MediaError("a video file has its own times; times_s is for lists of frames", where=media.name)
    return files.header(located)


def _list_header(media: Media, pictures: tuple[Source, ...]) -> Header:
    first = picture_header(pictures[0])
    for source in pictures[1:]:
        other = picture_header(source)
        if (other.width, other.height) != (first.width, first.height):
            raise MediaError(
                f"frames differ in size: {pictures[0].name} is {first.width}x{first.height}, "
                f"{source.name} is {other.width}x{other.height}",
                where=media.name,
            )
    times_s = _list_times(media, len(pictures))
    steps = np.diff(times_s)
    last_s = float(np.median(steps)) if len(steps) else 1.0 / (media.fps or 1.0)
    duration_s = float(times_s[-1]) + last_s
    fps = media.fps or (1.0 / float(steps.mean()) if len(steps) else 1.0)
    return Header(width=first.width, height=first.height, times_s=times_s, duration_s=duration_s, source_fps=fps)


def _list_times(media: Media, count: int) -> np.ndarray:
    if media.times_s is not None and media.fps is not None:
        raise MediaError("give fps or times_s, not both", where=media.name, field="fps")
    if media.times_s is not None:
        times_s = np.array(media.times_s, float)
        if len(times_s) != count or (np.diff(times_s) <= 0).any() or not np.isfinite(times_s).all() or times_s[0] < 0:
            raise MediaError(f"times_s must be {count} rising numbers >= 0", where=media.name, field="times_s")
        return times_s
    if media.fps is None:
        raise MediaError(
            "a list of frames carries no times", where=media.name, field="fps", remedy="give fps or times_s with it"
        )
    if not (math.isfinite(media.fps) and media.fps > 0):
        raise MediaError(f"fps must be a number > 0, got {media.fps}", where=media.name, field="fps")
    return np.arange(count) / media.fps


def _clip_range(media: Media, header: Header) -> tuple[int, int, float, tuple[str, ...]]:
    """First and last frame of the clip, the time its clock starts at, and notes about clamping."""
    times_s, notes = header.times_s, []
    start_s = 0.0 if media.start_s is None else media.start_s
    end_s = header.duration_s if media.end_s is None else media.end_s
    if not (math.isfinite(start_s) and math.isfinite(end_s) and start_s >= 0):
        raise MediaError(f"not a clip range: {start_s:g} to {end_s:g} s", where=media.name, field="start_s")
    if start_s >= header.duration_s:
        raise MediaError(
            f"start_s = {start_s:g} is beyond its end at {header.duration_s:.3f} s",
            where=media.name,
            field="start_s",
            remedy="give seconds of the file; is it the right file?",
        )
    if start_s >= end_s:
        raise MediaError(f"start_s = {start_s:g} is not before end_s = {end_s:g}", where=media.name, field="start_s")
    if end_s > header.duration_s + EPSILON_S:
        notes.append(f"end_s = {end_s:g} is beyond its end; the clip stops at {header.duration_s:.3f} s")
    first = int(np.searchsorted(times_s, start_s - EPSILON_S, side="left"))
    last = int(np.searchsorted(times_s, end_s + EPSILON_S, side="right")) - 1
    if last < first:
        # Nothing starts in the range: what is on screen is the frame before it.
        first = last = max(last, 0)
        notes.append("no frame starts in the clip range; the one on screen is taken")
    return first, last, start_s, tuple(notes)


def _clip_duration_s(media: Media, header: Header, origin_s: float) -> float:
    end_s = header.duration_s if media.end_s is None else min(media.end_s, header.duration_s)
    return end_s - origin_s


def wanted_frames(times_s: np.ndarray, source_fps: float, *, fps: float) -> float:
    """How many frames a clock of `fps` asks for, before any limit.

    At a constant rate that is duration * fps; otherwise the ticks between the first and the last frame, because the
    average rate of the file says nothing about the clip.
    """
    if is_even(times_s):
        return len(times_s) / source_fps * fps
    return math.floor(float(times_s[-1] - times_s[0]) * fps + EPSILON_S) + 1


def num_frames(available: int, *, wanted: float, spec: FrameSpec, temporal_patch: int) -> int:
    """How many frames to take of `available` ones.

    >>> num_frames(300, wanted=20.9, spec=FrameSpec(), temporal_patch=2)
    20
    >>> num_frames(3, wanted=0.2, spec=FrameSpec(), temporal_patch=2)
    3
    """
    _check_counts(spec)
    least = math.ceil(spec.min_frames / temporal_patch) * temporal_patch
    if available < least and available <= spec.max_frames:
        return available
    most = math.floor(spec.max_frames / temporal_patch) * temporal_patch
    count = min(max(wanted, least), most, available)
    whole = math.floor(count / temporal_patch + ROUNDING) * temporal_patch
    return whole or min(available, spec.max_frames, temporal_patch)


def _check_counts(spec: FrameSpec) -> None:
    if not (math.isfinite(spec.fps) and spec.fps > 0):
        raise UsageError(f"fps must be a number > 0, got {spec.fps}")
    if spec.min_frames < 1 or spec.max_frames < 1:
        raise UsageError(f"min_frames and max_frames must be >= 1, got {spec.min_frames} and {spec.max_frames}")


def is_even(times_s: np.ndarray) -> bool:
    """Whether every frame lies within half a frame of a constant rate."""
    if len(times_s) < 3:
        return True
    step = (times_s[-1] - times_s[0]) / (len(times_s) - 1)
    return bool(np.abs(times_s - times_s[0] - step * np.arange(len(times_s))).max() <= step / 2)


def choose_frames(times_s: np.ndarray, count: int) -> np.ndarray:
    """int64 [count], rising: which of the frames at `times_s` to take."""
    available = len(times_s)
    if is_even(times_s):
        return spread(available - 1, count)
    # By time: the frame nearest to each tick, but no frame twice.
    ticks = np.linspace(times_s[0], times_s[-1], count)
    after = np.clip(np.searchsorted(times_s, ticks), 1, available - 1)
    numbers = np.where(ticks - times_s[after - 1] <= times_s[after] - ticks, after - 1, after)
    steps = np.arange(count)
    numbers = np.maximum.accumulate(numbers - steps) + steps
    return np.minimum(numbers, available - count + steps)


def spread(last: int, count: int) -> np.ndarray:
    """int64 [count], the whole numbers nearest to `count` even steps from 0 to `last`.

    >>> spread(29, 6).tolist()
    [0, 6, 12, 17, 23, 29]
    """
    gaps = max(count - 1, 1)
    return (2 * last * np.arange(count) + gaps) // (2 * gaps)


def frame_size(
    height: int, width: int, *, num_frames: int, spec: FrameSpec, vision: VisionSpec, where: str
) -> tuple[int, int]:
    """Height and width after resizing.

    Args:
        height, width: upright size in square pixels.
        num_frames: frames that share `total_pixels`, padding included.
        where: the medium, for messages.

    Raises:
        MediaError: longer than MAX_ASPECT times its width (or the other way round).
        UsageError: the limits contradict each other.
    """
    factor = vision.factor_px
    if max(height, width) > MAX_ASPECT * min(height, width):
        ratio = max(height, width) / min(height, width)
        raise MediaError(
            f"{width}x{height} pixels: aspect ratio {ratio:g} is above the limit {MAX_ASPECT}", where=where
        )
    most = spec.max_pixels
    if spec.total_pixels is not None and spec.total_pixels // num_frames < most:
        most = spec.total_pixels // num_frames
        if most < max(spec.min_pixels, factor**2):
            raise UsageError(
                f"{where}: total_pixels = {spec.total_pixels} leaves {most} pixels for each of {num_frames} frames, "
                f"below min_pixels = {spec.min_pixels} (and one token is {factor**2}); "
                "raise total_pixels, or lower max_frames or min_pixels"
            )
    if most < spec.min_pixels or most < factor**2:
        raise UsageError(
            f"max_pixels = {spec.max_pixels} is below min_pixels = {spec.min_pixels} or below one token, {factor**2}; "
            "raise max_pixels or lower min_pixels"
        )
    h, w = _nearest(height, factor), _nearest(width, factor)
    if h * w < spec.min_pixels:
        scale = math.sqrt(spec.min_pixels / (height * width))
        h, w = (math.ceil(side * scale / factor) * factor for side in (height, width))
    elif h * w > most:
        scale = math.sqrt((height * width) / most)
        h, w = (max(factor, math.floor(side / scale / factor) * factor) for side in (height, width))
    if h * w > most:
        # Rounding broke the cap (a very long picture, or min_pixels close to it): the longer side gives way.
        longest = max(factor, most // min(h, w) // factor * factor)
        h, w = (longest, w) if h > w else (h, longest)
    return h, w


def _nearest(side: int, factor: int) -> int:
    return max(factor, round(side / factor) * factor)


def content_digest(located: Source | tuple[Source, ...], files: Files = FRESH) -> str:
    """Hex digest that changes when the content of a file, or of one of several, does."""
    if not isinstance(located, tuple):
        return files.identity(located)
    return hashlib.sha256(" ".join(identity(source) for source in located).encode()).hexdigest()


def _triple(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in values)
    return red, green, blue
