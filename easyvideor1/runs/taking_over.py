"""`easyvideor1 cache import`: frames that EasyVideoR1 stored as `.pt` files become entries of our cache.

Such a file holds `frames` (float32 [T, 3, H, W], whole numbers from 0 to 255, resized already) and `metadata` with
`frames_indices` and `fps`: frame i is shown at frames_indices[i] / fps seconds. A row names it in `preprocessed_video`.

Where the video is there, the entry gets the key that our own decoding has, and is written only if number, size and
times of the frames are those of our plan. Where it is gone, the frames stand in for it (see video.taken_over).
"""

from __future__ import annotations

import hashlib
import itertools
import math
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from easyvideor1.config import Settings
from easyvideor1.config_data import CacheConfig, SourceConfig
from easyvideor1.data.media_fields import STORED_FRAMES
from easyvideor1.data.samples import ReadRow, read_sources
from easyvideor1.errors import DataError, MediaError, UsageError
from easyvideor1.jobs.pool import Pool, naming
from easyvideor1.runs.media import media_specs, model_vision
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan, VisionSpec
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.keys import cache_key
from easyvideor1.video.known_files import FOLDER as FILES_FOLDER
from easyvideor1.video.known_files import KnownFiles
from easyvideor1.video.sampling import plan_media
from easyvideor1.video.source import locate
from easyvideor1.video.taken_over import FOLDER, TakenOver, grid_of

MOST_FILE_BYTES = 16 << 30
MEMORY_BYTES = 48 << 30
"""Address space of a process that reads such files; the library alone takes some GB of it."""
MOST_FRAMES = 1 << 16
SAME_SETTINGS = "give the settings that the frames were made with: data.video.fps, max_frames, min_pixels, max_pixels"


@dataclass(frozen=True, kw_only=True)
class StoredFrames:
    """A medium, and the file with its frames."""

    media: Media
    path: str
    where: str = field(compare=False)
    """ "file:line" of a row that names them."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What became of one file."""

    is_new: bool
    """The entry was not there before."""
    is_gone: bool
    """The video itself is missing."""


@dataclass(frozen=True, kw_only=True)
class TakeOver:
    """Reads such a file and writes the entry; picklable, to run in processes that can be killed."""

    spec: FrameSpec
    vision: VisionSpec
    cache: CacheConfig

    def __call__(self, item: StoredFrames) -> Imported:
        """
        Raises:
            MediaError: the file is none of this kind, or its frames are not those that these settings ask for.
        """
        clip = read_frames(Path(item.path))
        plan = self._planned(item, clip)
        is_gone = plan is None
        if plan is None:
            plan = self._plan_of_frames(item, clip)
        clip = replace(clip, times_s=plan.times_s, source_fps=plan.source_fps, duration_s=plan.duration_s)
        config = replace(self.cache, mode="prefer_preprocessed")
        cache = FrameCache.open(config, decode=lambda _: clip)
        is_new = not cache.contains(plan)
        cache.load(plan)
        TakenOver(Path(self.cache.dir) / FOLDER).note(plan, self.vision)
        return Imported(is_new=is_new, is_gone=is_gone)

    def _planned(self, item: StoredFrames, clip: Clip) -> MediaPlan | None:
        """The plan of the video; None where its file is missing."""
        try:
            locate(item.media)
        except MediaError:
            return None
        plan = plan_media(item.media, self.spec, self.vision, files=KnownFiles(Path(self.cache.dir) / FILES_FOLDER))
        planned, stored = (len(plan.times_s), plan.height, plan.width), (len(clip.times_s), *clip.frames.shape[2:])
        if planned != stored:
            raise MediaError(
                f"holds {_told(stored)}, but these settings ask for {_told(planned)}",
                where=item.path,
                remedy=SAME_SETTINGS,
            )
        step_s = plan.duration_s / len(plan.times_s)
        apart_s = max(abs(mine - theirs) for mine, theirs in zip(plan.times_s, clip.times_s, strict=True))
        if apart_s > step_s:
            raise MediaError(
                f"its times differ by {apart_s:.2f} s from those of {item.media.name}",
                where=item.path,
                remedy="is it of another video, or of another stretch of it? leave it out, and the video is decoded",
            )
        return plan

    def _plan_of_frames(self, item: StoredFrames, clip: Clip) -> MediaPlan:
        count, _, height, width = clip.frames.shape
        spec, factor = self.spec, self.vision.factor_px
        fits = height % factor == 0 and width % factor == 0 and spec.min_pixels <= height * width <= spec.max_pixels
        if not fits or count > spec.max_frames:
            raise MediaError(
                f"holds {_told((count, height, width))}, which these settings do not allow (at most {spec.max_frames} "
                f"frames, {spec.min_pixels} to {spec.max_pixels} pixels, sides of whole {factor} pixels)",
                where=item.path,
                remedy=SAME_SETTINGS,
            )
        content = hashlib.sha256(np.asarray(clip.times_s).tobytes() + clip.frames.tobytes()).hexdigest()
        grid = grid_of(count, (height, width), self.vision)
        return MediaPlan(
            media=item.media,
            times_s=clip.times_s,
            height=height,
            width=width,
            grid_thw=grid,
            num_tokens=math.prod(grid) // self.vision.merge**2,
            spec=spec,
            frame_numbers=tuple(range(count)),
            source_fps=clip.source_fps,
            source_size=(width, height),
            duration_s=clip.duration_s,
            cache_key=cache_key(item.media, content, spec, self.vision, is_list=False),
            content=content,
        )


def read_frames(path: Path) -> Clip:
    """The frames and times in a `.pt` file; nothing in it is run, and it is mapped, not copied.

    Raises:
        MediaError: missing, no such file, or frames that are none.
    """
    import torch  # only where such a file is read: the command itself starts without it

    try:
        size = path.stat().st_size
    except OSError as error:
        raise MediaError(f"cannot be read: {error.strerror}", where=str(path), remedy="check the folder") from None
    if size > MOST_FILE_BYTES:
        raise MediaError(f"{size} bytes, the most is {MOST_FILE_BYTES}", where=str(path))
    try:
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, pickle.UnpicklingError, ValueError, EOFError, KeyError) as error:
        raise MediaError(
            f"cannot be read as frames: {str(error).splitlines()[0] if str(error) else type(error).__name__:.200}",
            where=str(path),
            remedy="leave it out, and the video is decoded",
        ) from None
    frames, metadata = (held.get(name) if isinstance(held, dict) else None for name in ("frames", "metadata"))
    is_video = isinstance(frames, torch.Tensor) and frames.ndim == 4 and frames.shape[1] == 3
    if not isinstance(frames, torch.Tensor) or not is_video or not isinstance(metadata, dict):
        raise _unlike("it has no 'frames' [T, 3, H, W] and 'metadata'", path)
    if not 0 < len(frames) <= MOST_FRAMES or min(frames.shape) < 1:
        raise _unlike(f"frames {list(frames.shape)}", path)
    times_s, fps = _times(metadata, len(frames), path)
    pixels = np.empty(tuple(frames.shape), np.uint8)
    for number, frame in enumerate(frames):  # one at a time: as float32 they take four times the room
        whole = frame.to(torch.float32)
        if not bool((whole == whole.round()).all()) or float(whole.min()) < 0 or float(whole.max()) > 255:
            raise _unlike("pixels that are no whole numbers from 0 to 255", path)
        pixels[number] = whole.to(torch.uint8).numpy()
    step_s = (times_s[-1] - times_s[0]) / max(1, len(times_s) - 1) or 1.0 / fps
    return Clip(frames=pixels, times_s=times_s, source_fps=fps, duration_s=times_s[-1] + step_s, backend="taken over")


def _times(metadata: dict[str, Any], count: int, path: Path) -> tuple[tuple[float, ...], float]:
    """The second of each frame, and the rate that their numbers count by."""
    numbers, fps = metadata.get("frames_indices"), metadata.get("fps")
    try:
        rate = float(fps)  # type: ignore[arg-type] - what it is, is told below
        times_s = tuple(float(number) / rate for number in numbers)  # type: ignore[union-attr]
    except (TypeError, ValueError, ZeroDivisionError, RuntimeError):
        raise _unlike(f"metadata without numbers in 'fps' and 'frames_indices': {fps!r:.40}", path) from None
    if not times_s or len(times_s) != count:
        raise _unlike(f"{len(times_s)} times for {count} frames", path)
    rises = all(later > earlier for earlier, later in itertools.pairwise(times_s))
    if not rises or not 0 <= times_s[0] <= times_s[-1] < math.inf or not 0 < rate < math.inf:
        raise _unlike("times that do not rise", path)
    return times_s, rate


def _unlike(problem: str, path: Path) -> MediaError:
    remedy = "only what EasyVideoR1 stored is read; leave it out, and the video is decoded"
    return MediaError(f"is no file of stored frames: {problem}", where=str(path), remedy=remedy)


def _told(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} frames of {shape[2]}x{shape[1]} pixels"


@dataclass(frozen=True, kw_only=True)
class TakenOverAll:
    """The result of the command."""

    rows: int
    """Rows that name stored frames."""
    imported: int
    reused: int
    """Entries that were there already."""
    gone: int
    """Media among the two above whose video is missing."""
    failed: tuple[str, ...]
    """What could not be taken over, with the reason."""


def take_over(sources: Sequence[SourceConfig], settings: Settings, folder: Path, *, workers: int) -> TakenOverAll:
    """Take the frames over that the rows of some data files name.

    Args:
        folder: that the names start from.

    Raises:
        UsageError: no cache is named, the folder is none, or no row names stored frames.
        DataError: a wrong row.
    """
    if settings.cache is None:
        raise UsageError("name the folder of the frame cache: --cache DIR, or a --recipe that does")
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder of stored frames")
    named = [item for item in read_sources(sources) if item.row.fields.get(STORED_FRAMES)]
    if not named:
        raise UsageError(f"no row of {', '.join(source.path for source in sources)} names frames in '{STORED_FRAMES}'")
    found: dict[StoredFrames, None] = {}
    failed = []
    for row in named:
        try:
            found.setdefault(_stored(row, folder))
        except DataError as error:
            failed.append(str(error))
    data = settings.data
    work = TakeOver(spec=media_specs(data)["video"], vision=model_vision(settings.model), cache=settings.cache)
    done: list[Imported] = []
    deadline_s = settings.cache.deadline_s
    with Pool(work, workers=workers, deadline_s=deadline_s, memory_bytes=MEMORY_BYTES) as pool:
        for outcome in pool.run(found):
            if outcome.error is not None and not isinstance(outcome.error, DataError):
                raise outcome.error  # a full disk, contradicting settings: they stop every other too
            if outcome.result is None and outcome.error is not None:
                failed.append(f"{outcome.item.where}: {naming(outcome.error, outcome.item.path)}")
                sys.stderr.write(f"failed: {failed[-1]}\n")
            elif outcome.result is not None:
                done.append(outcome.result)
    new = sum(item.is_new for item in done)
    return TakenOverAll(
        rows=len(named),
        imported=new,
        reused=len(done) - new,
        gone=sum(item.is_gone for item in done),
        failed=tuple(failed),
    )


def _stored(row: ReadRow, folder: Path) -> StoredFrames:
    """The frames that a row names."""
    name, videos = row.row.fields[STORED_FRAMES], [media for media in row.sample.media if media.kind == "video"]
    if not isinstance(name, str) or len(videos) != 1:
        raise DataError(
            f"names one file of frames for {len(videos)} videos, got {name!r:.60}",
            where=row.row.where,
            field=STORED_FRAMES,
            remedy="a row with frames stored elsewhere has one video",
        )
    return StoredFrames(media=replace(videos[0], data=None), path=str(folder / name), where=row.row.where)
