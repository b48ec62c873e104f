"""The frame cache: a video is decoded once in its life, and every stage of every run maps the same pixels.

An entry is one clip file named by its plan's key (content, clip range, frame and size rules, decoder) and the codec,
so a changed video or setting never meets an old entry. Many processes on many machines may share a folder.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import re
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from easyvideor1.config_data import CacheConfig, CacheMode
from easyvideor1.errors import MediaError, MismatchError, RunError, UsageError
from easyvideor1.jobs.locks import locked
from easyvideor1.types import Clip, MediaPlan
from easyvideor1.video.cache_size import cache_size, set_sizes
from easyvideor1.video.clip_file import FORMAT, TEMP_SUFFIX, DamagedClip, read_tensors
from easyvideor1.video.codecs import codec_named
from easyvideor1.video.origins import HEADER_NAME, Origins, derived, made_of

log = logging.getLogger(__name__)

ENTRY_NAME = re.compile(r"(?P<key>[\w-]+)\.(?P<codec>\w+)\.v\d+\.safetensors")
TOUCH_EVERY_S = 60.0
"""A hit renews an entry's time of last use at most this often."""
EVICT_TO_FRAC = 0.9
"""Eviction goes a little below the limit, so that it does not run at every write."""
ABANDONED_AFTER_S = 24 * 3600.0
"""Age at which a temporary file belongs to nobody."""


@dataclass(kw_only=True)
class CacheCounters:
    """Counts and times of a cache since it was opened."""

    hits: int = 0
    misses: int = 0
    decodes: int = 0
    derived: int = 0
    """Clips made of the frames of another entry instead of decoded."""
    rebuilt: int = 0
    """Damaged entries that were decoded again."""
    evicted: int = 0
    read_bytes: int = 0
    """Bytes of the clips that hits gave."""
    written_bytes: int = 0
    decode_s: float = 0.0
    """Wall time spent decoding."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A stored clip file, as the folder shows it."""

    path: Path
    size_bytes: int
    used_at_s: float
    """Time of last use, seconds since 1970."""


class FrameCache:
    """Clips by plan, from disk where they are there, decoded and stored where they are not.

    Args:
        dir: folder of the entries; made at the first write.
        mode: prefer_preprocessed decodes a missing clip and stores it; preprocessed_only refuses a missing clip;
            realtime_only always decodes and neither reads nor writes entries.
        codec: "raw" (memory-mapped) or a name of `video.codecs`, for small disks.
        max_bytes: size of the folder above which the entries unused for longest are removed; None: no limit.
        decode: makes the clip of a plan; None: `video.decode.decode` in this process.
    """

    def __init__(
        self,
        dir: str | Path,
        *,
        mode: CacheMode = "prefer_preprocessed",
        codec: str = "raw",
        max_bytes: int | None = None,
        decode: Callable[[MediaPlan], Clip] | None = None,
    ) -> None:
        if mode not in get_args(CacheMode):
            raise UsageError(f"cache mode '{mode}' is not one of {', '.join(get_args(CacheMode))}")
        self.dir = Path(dir)
        if mode != "realtime_only":
            _check_folder(self.dir)
        self.mode = mode
        self.codec = codec_named(codec)
        self.max_bytes = max_bytes
        self.counters = CacheCounters()
        self._decode = decode if decode is not None else _decode_here
        self._lock = threading.Lock()

    @classmethod
    def open(cls, config: CacheConfig, *, decode: Callable[[MediaPlan], Clip] | None = None) -> FrameCache:
        """The cache that a configuration describes."""
        return cls(config.dir, mode=config.mode, codec=config.codec, max_bytes=config.max_bytes, decode=decode)

    def path(self, plan: MediaPlan) -> Path:
        """The path of the entry of a plan, whether it exists or not."""
        return self._path_of(plan.cache_key)

    def holds(self, key: str) -> bool:
        """Whether there is a file for a key; nothing of it is read."""
        return self._path_of(key).is_file()

    def _path_of(self, key: str) -> Path:
        name = f"{key}.{self.codec.name}.v{FORMAT}.safetensors"
        assert ENTRY_NAME.fullmatch(name), f"a cache key is letters, digits, '-' and '_', got {key!r}"
        return self.dir / key[:2] / name

    def contains(self, plan: MediaPlan) -> bool:
        """Whether an entry of the right size is there (its bytes are compared with the checksum when it is loaded)."""
        try:
            read_tensors(self.path(plan), verify=False)
        except (FileNotFoundError, DamagedClip):
            return False
        return True

    def load(self, plan: MediaPlan) -> Clip:
        """The clip of a plan: frames uint8 [T, 3, H, W], read-only, memory-mapped where the codec is "raw".

        Raises:
            MediaError: the medium cannot be decoded, or the entry is missing in mode preprocessed_only.
            MismatchError: the decoder gave another number or size of frames than planned.
            RunError: the disk is full or the folder cannot be written.
        """
        if self.mode == "realtime_only":
            return self._decoded(plan)
        path = self.path(plan)
        clip, damage = self._stored(path, plan)
        if clip is not None:
            return clip
        if self.mode == "preprocessed_only":
            clean = f"run `easyvideor1 cache verify {self.dir} --remove`, then" if damage else "run"
            raise MediaError(
                f"the stored frames are damaged: {damage}" if damage else f"no stored frames in {self.dir}",
                where=plan.media.name,
                remedy=f"{clean} `easyvideor1 preprocess DATA --cache {self.dir}` with the same frame settings, "
                "or set cache.mode (of validation: validation.cache_mode) to prefer_preprocessed",
            )
        with locked(self.dir / "locks" / path.name):
            clip, _ = self._stored(path, plan)  # another process may have stored it while this one waited
            if clip is not None:
                return clip
            if damage is not None:
                log.warning("rebuilding a damaged cache entry: %s", damage)
            self._count(misses=1, rebuilt=int(damage is not None))
            return self._write(plan, self._derived(plan) or self._decoded(plan))

    def _stored(self, path: Path, plan: MediaPlan) -> tuple[Clip | None, DamagedClip | None]:
        """The clip of an entry, or what is wrong with it; (None, None) if there is none."""
        try:
            clip = self.codec.read(path)
        except FileNotFoundError:
            return None, None
        except DamagedClip as damage:
            return None, damage
        if clip.frames.shape != _shape_of(plan):
            shapes = f"{list(clip.frames.shape)}, planned {list(_shape_of(plan))}"
            return None, DamagedClip(f"it holds frames {shapes}", where=str(path))
        self._count(hits=1, read_bytes=clip.frames.nbytes)
        _touch(path)
        return clip, None

    def _derived(self, plan: MediaPlan) -> Clip | None:
        """The clip of a plan out of another entry; None where none holds all its frames."""
        keys = Origins(self.dir).keys(plan.origin) if plan.origin else []
        clip = derived(plan, self.codec, (self._path_of(key) for key in keys if key != plan.cache_key))
        self._count(derived=int(clip is not None))
        return clip

    def _decoded(self, plan: MediaPlan) -> Clip:
        started = time.perf_counter()
        try:
            clip = self._decode(plan)
        finally:  # what fails has cost its time too
            self._count(decodes=1, decode_s=time.perf_counter() - started)
        expected = _shape_of(plan)
        if clip.frames.shape != expected:
            raise MismatchError(
                f"planned frames {list(expected)}, decoded {list(clip.frames.shape)}", where=plan.media.name
            )
        clip.frames.flags.writeable = False
        return clip

    def _write(self, plan: MediaPlan, clip: Clip) -> Clip:
        """Store a clip and give it back as the entry holds it (the same bytes that every later hit gives)."""
        path, made = self.path(plan), made_of(plan, clip)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _clear_folder(path)
            written_bytes = self.codec.write(path, clip, extra={HEADER_NAME: made.text} if made else None)
            if made is not None:
                Origins(self.dir).note(made, plan.cache_key)
            clip = self.codec.read(path)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                remedy = "free some space, set cache.max_bytes, or run `easyvideor1 cache gc`"
                raise RunError(f"{self.dir}: the disk of the frame cache is full ({remedy})") from error
            raise RunError(f"{path}: cannot write the frame cache: {error.strerror}") from error
        self._count(written_bytes=written_bytes)
        if self.max_bytes is not None:
            self._make_room(path, written_bytes, max_bytes=self.max_bytes)
        return clip

    def _make_room(self, path: Path, written_bytes: int, *, max_bytes: int) -> None:
        size = cache_size(self.dir.absolute())
        try:
            if size.add(path, written_bytes, limit_bytes=max_bytes) > max_bytes:
                self._count(evicted=evict(self.dir, max_bytes=max_bytes, only_if=lambda: size.look() > max_bytes)[0])
        except OSError as error:
            raise RunError(f"{self.dir}: cannot keep the size of the frame cache: {error.strerror}") from error

    def _count(self, **amounts: float) -> None:
        with self._lock:
            for name, amount in amounts.items():
                setattr(self.counters, name, getattr(self.counters, name) + amount)


def _shape_of(plan: MediaPlan) -> tuple[int, int, int, int]:
    return len(plan.times_s), 3, plan.height, plan.width


def _clear_folder(path: Path) -> None:
    """Make way for an entry where an empty folder has its name.

    Raises:
        RunError: it is not empty.
    """
    try:
        path.rmdir()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if not path.is_dir():
            return
        raise RunError(f"{path}: a folder stands where an entry of the frame cache belongs; remove it") from error


def _check_folder(dir: Path) -> None:
    """Raises UsageError where a file stands in the way of the folder."""
    there = next((path for path in (dir, *dir.parents) if path.exists()), None)
    if there is not None and not there.is_dir():
        raise UsageError(f"the frame cache {dir} cannot be a folder: {there} is a file")


def entries(dir: str | Path) -> Iterator[Entry]:
    """Every entry of a cache folder, in no particular order; what is no file is none."""
    for folder in Path(dir).glob("??"):
        try:
            found = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for item in found:
            if not ENTRY_NAME.fullmatch(item.name):
                continue
            try:
                status = item.stat()
            except FileNotFoundError:
                continue  # removed by another process since it was listed
            if stat.S_ISREG(status.st_mode):
                yield Entry(path=folder / item.name, size_bytes=status.st_size, used_at_s=status.st_mtime)


def evict(dir: str | Path, *, max_bytes: int, only_if: Callable[[], bool] = lambda: True) -> tuple[int, int]:
    """Remove the entries unused for longest if a cache is above its limit; returns (entries removed, bytes left).

    A clip that is mapped somewhere stays readable there: the file vanishes when its last reader is done.

    Args:
        only_if: asked once this process has the lock, since another may have made room meanwhile; where it says no,
            nothing is removed and (0, 0) returned.
    """
    with locked(Path(dir) / "locks" / "evict"):
        if not only_if():
            return 0, 0
        stored = sorted(entries(dir), key=lambda entry: entry.used_at_s, reverse=True)
        size_bytes = sum(entry.size_bytes for entry in stored)
        removed = 0
        if size_bytes > max_bytes:
            # The newest entry stays whatever the limit: it is the one being used.
            while len(stored) > 1 and size_bytes > max_bytes * EVICT_TO_FRAC:
                entry = stored.pop()
                entry.path.unlink(missing_ok=True)
                size_bytes -= entry.size_bytes
                removed += 1
            log.info("%s: removed %d cache entries, %d bytes left", dir, removed, size_bytes)
        sizes: Counter[str] = Counter()
        for entry in stored:
            sizes[entry.path.parent.name] += entry.size_bytes
        set_sizes(Path(dir), sizes)
    return removed, size_bytes


def remove_abandoned(dir: str | Path) -> int:
    """Remove temporary files that killed writers left behind; returns how many."""
    removed = 0
    for path in itertools.chain(Path(dir).glob(f"??/.*{TEMP_SUFFIX}"), Path(dir).glob(f"*/??/.*{TEMP_SUFFIX}")):
        with contextlib.suppress(FileNotFoundError):  # it got its name, or another process removed it
            if time.time() - path.stat().st_mtime > ABANDONED_AFTER_S:
                path.unlink()
                removed += 1
    return removed


def _touch(path: Path) -> None:
    try:
        if time.time() - path.stat().st_mtime > TOUCH_EVERY_S:
            os.utime(path)
    except (FileNotFoundError, PermissionError):
        pass  # evicted meanwhile, or somebody else's cache: reading it is still fine
    except OSError as error:
        if error.errno != errno.EROFS:
            raise


def _decode_here(plan: MediaPlan) -> Clip:
    # Here, because a run that only reads entries needs no decoder.
    from easyvideor1.video.decode import decode

    return decode(plan)
