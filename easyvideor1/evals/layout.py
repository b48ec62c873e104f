"""Benchmarks on disk: the public downloads below a data root, recognised, counted, and with their media looked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from easyvideor1.errors import DataError
from easyvideor1.evals.benchmark import Benchmark, Item, Loaded

ENDINGS = (".mp4", ".MP4", ".mkv", ".webm", ".avi", ".mov")
"""A video may have another ending than its annotation says: downloads and conversions change it."""
IGNORED = ("results.json", "protocol.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The files of a benchmark that lie on disk."""

    folder: Path
    annotations: tuple[Path, ...]
    loaded: Loaded
    media: dict[str, str]
    """Video of an item -> its path; those that are missing are not in it."""
    missing: tuple[str, ...]
    """Videos that were looked for and not found."""


def find(benchmark: Benchmark, data_root: Path) -> Found | None:
    """The benchmark below a data root; None where its folder or its annotations are not there.

    Raises:
        DataError: annotation files that are not of the benchmark's shape.
    """
    folder = folder_of(benchmark, data_root)
    annotations = () if folder is None else annotation_files(benchmark, folder)
    if folder is None or not annotations:
        return None
    loaded = benchmark.load(annotations)
    media, missing = locate(loaded.items, folder, benchmark)
    return Found(folder=folder, annotations=tuple(annotations), loaded=loaded, media=media, missing=tuple(missing))


def folder_of(benchmark: Benchmark, data_root: Path) -> Path | None:
    """The benchmark's folder: its name in the layout or in this program, capitals and marks aside."""
    if not data_root.is_dir():
        raise DataError("the data root does not exist", where=str(data_root))
    wanted = {_folded(benchmark.layout.folder), _folded(benchmark.name), _folded(benchmark.title)}
    folders = sorted(path for path in data_root.iterdir() if path.is_dir())
    return next((path for path in folders if _folded(path.name) in wanted), None)


def annotation_files(benchmark: Benchmark, folder: Path) -> list[Path]:
    """The annotation files of a folder: those of the first pattern that finds any, with ground truth beside them."""
    for pattern in benchmark.layout.annotations:
        found = [path for path in sorted(folder.glob(pattern)) if path.name not in IGNORED]
        if found:
            return found + [path for path in _companions(benchmark, folder) if path not in found]
    return []


def _companions(benchmark: Benchmark, folder: Path) -> list[Path]:
    """Files that belong to a benchmark's annotations without holding questions."""
    patterns = {"tempcompass": "**/meta_info.json", "stvg": "*annotations*.json", "mlvu_test": "*ground_truth*.json"}
    return sorted(folder.glob(patterns[benchmark.name])) if benchmark.name in patterns else []


def locate(items: Sequence[Item], folder: Path, benchmark: Benchmark) -> tuple[dict[str, str], list[str]]:
    """The paths of the videos of items, and the videos that are missing.

    A path is tried as it is below the folder and below its media folder, with other endings, and at last by its name
    alone where that is unique.
    """
    roots = [folder / benchmark.layout.media, folder]
    by_name: dict[str, list[str]] | None = None
    media: dict[str, str] = {}
    missing: list[str] = []
    for video in dict.fromkeys(item.video for item in items):
        path = next((found for root in roots if (found := _existing(root / video))), None)
        if path is None:
            by_name = _by_name(folder) if by_name is None else by_name
            named = by_name.get(_stem(video), [])
            path = named[0] if len(named) == 1 else None
        if path is None:
            missing.append(video)
        else:
            media[video] = path
    return media, missing


def _existing(path: Path) -> str | None:
    if path.exists():
        return str(path)
    return next((str(other) for ending in ENDINGS if (other := path.with_suffix(ending)).exists()), None)


def _by_name(folder: Path) -> dict[str, list[str]]:
    """Stem -> videos of that name anywhere below a folder."""
    found: dict[str, list[str]] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(ENDINGS):
                found.setdefault(_stem(name), []).append(os.path.join(place, name))
    return found


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _folded(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())
