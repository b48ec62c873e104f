"""What a run will need hours from now, looked at before it begins."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from easyvideor1.config import RunConfig
from easyvideor1.config_data import CacheConfig
from easyvideor1.errors import RunError, UsageError
from easyvideor1.records.drafts import reason

LEAST_FREE_BYTES = 64 << 20
"""A disk with less room than this ends any run soon."""


def look_at_places(config: RunConfig) -> None:
    """Make sure that the folders a run writes to can be written and have room.

    Raises:
        UsageError: the frame cache cannot be written, or is not there where it has to be.
        RunError: a disk is full.
    """
    places = {"out": Path(config.out)}
    for cache in (config.cache, *([config.question_cache] if config.data.validation else [])):
        if cache.mode != "realtime_only":
            look_at_cache(cache)
            places["cache.dir"] = Path(cache.dir)
    for key, folder in places.items():
        free_bytes = shutil.disk_usage(folder).free
        if free_bytes < LEAST_FREE_BYTES:
            raise RunError(
                f"{key}={folder}: the disk is full ({free_bytes >> 20} MiB are free): make room there, or choose "
                "another folder"
            )


def look_at_cache(cache: CacheConfig) -> None:
    """Make sure that clips can be kept, or read where they only are.

    Raises:
        UsageError: they cannot; names the key and the remedy.
    """
    folder = Path(cache.dir)
    if cache.mode == "preprocessed_only":
        if not folder.is_dir():
            raise UsageError(
                f"cache.dir={folder}: no such folder, but cache.mode=preprocessed_only takes every clip from it; run "
                "`easyvideor1 preprocess` first, or name the right folder"
            )
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        raise UsageError(
            f"cache.dir={folder}: cannot be written: {reason(error)}; a cache that may only be read goes with "
            "cache.mode=preprocessed_only"
        ) from None
