"""What is found before a model is loaded: items, media, counts beside the official ones, and room on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from easyvideor1.evals.benchmark import Benchmark, Item, Loaded
from easyvideor1.evals.layout import Found
from easyvideor1.evals.scoring import counts_beside_official
from easyvideor1.types import FrameSpec, Media

SHOWN = 20


class Facts(Protocol):
    """What a plan says of a medium."""

    @property
    def duration_s(self) -> float: ...

    @property
    def num_tokens(self) -> int: ...

    @property
    def num_bytes(self) -> int: ...


Seen = tuple[Media, FrameSpec]


@dataclass(kw_only=True)
class Looks:
    """What a look at each medium gave."""

    facts: dict[Seen, Any] = field(default_factory=dict)
    faults: dict[Seen, str] = field(default_factory=dict)
    """Why a medium cannot be planned."""

    def length_s(self, media: Media, spec: FrameSpec) -> float | None:
        facts: Facts | None = self.facts.get((media, spec))
        return None if facts is None else facts.duration_s


def preflight(
    benchmarks: Sequence[tuple[Benchmark, Found, Sequence[Item]]], looks: Looks, *, cache_dir: str
) -> dict[str, Any]:
    """What a run will ask and look at.

    Args:
        benchmarks: each with what lies on disk and the items that are asked.
    """
    facts: list[Facts] = list(looks.facts.values())
    cache_bytes = sum(item.num_bytes for item in facts)
    free_bytes = shutil.disk_usage(_existing(Path(cache_dir))).free
    found: dict[str, Any] = {
        "benchmarks": {
            benchmark.name: _of_benchmark(benchmark, on_disk, items) for benchmark, on_disk, items in benchmarks
        },
        "media": {
            "readable": len(looks.facts),
            "unreadable": len(looks.faults),
            "faults": list(looks.faults.values())[:SHOWN],
            "video_s": sum(item.duration_s for item in facts),
            "vision_tokens": sum(item.num_tokens for item in facts),
            "most_vision_tokens": max((item.num_tokens for item in facts), default=0),
        },
        "cache_bytes": cache_bytes,
        "free_bytes": free_bytes,
    }
    warnings = []
    if cache_bytes > free_bytes:
        warnings.append(
            f"the frames take up to {cache_bytes / 1e9:.1f} GB, the disk of {cache_dir} has {free_bytes / 1e9:.1f} GB "
            "free: set --cache to another disk"
        )
    return found | {"warnings": warnings}


def _of_benchmark(benchmark: Benchmark, found: Found, items: Sequence[Item]) -> dict[str, Any]:
    counts: Mapping[str, Mapping[str, Sequence[int | None]]] = counts_beside_official(
        benchmark, Loaded(items=tuple(items))
    )
    videos = dict.fromkeys(item.video for item in items)
    missing = [video for video in videos if video not in found.media]
    return {
        "annotations": [str(path) for path in found.annotations],
        "num_items": len(items),
        "num_videos": len(videos),
        "num_missing": len(missing),
        "missing": missing[:SHOWN],
        "errata": found.loaded.erratum_counts(),
        "counts": counts,
        "num_judged": sum(bool(item.judge) for item in items),
    }


def _existing(path: Path) -> Path:
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
