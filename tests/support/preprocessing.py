"""Preprocessing with a decoder that notes what it decodes."""

import time
from pathlib import Path

from easyvideor1.config_data import CacheConfig
from easyvideor1.jobs.pool import run_all
from easyvideor1.types import FrameSpec, Media, MediaKind, VisionSpec
from easyvideor1.video.decode import decode
from easyvideor1.video.preprocess import StoreFrames, Summary, distinct_jobs, store_all

HALF = (0.5, 0.5, 0.5)
VISION = VisionSpec(family="qwen3_vl", patch_px=16, merge=2, temporal_patch=2, image_mean=HALF, image_std=HALF)
SPEC = FrameSpec(max_frames=8, min_pixels=4096)


class LoggedDecode:
    """The real decoder, with a line in a file for each video it decodes, also in other processes."""

    def __init__(self, log: Path, *, slow_s: float = 0.0) -> None:
        self.log, self.slow_s = log, slow_s

    def __call__(self, plan):
        clip = decode(plan, threads=1)
        time.sleep(self.slow_s)
        with self.log.open("a") as log:
            log.write(f"{plan.media.name}\n")
        return clip

    @property
    def names(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def work_of(tmp_path: Path, *, slow_s: float = 0.0) -> StoreFrames:
    decoder = LoggedDecode(tmp_path / "decodes.log", slow_s=slow_s)
    specs: dict[MediaKind, FrameSpec] = {"video": SPEC, "image": SPEC}
    return StoreFrames(specs=specs, vision=VISION, cache=CacheConfig(dir=str(tmp_path / "cache")), decode=decoder)


def video(path: Path, **settings) -> Media:
    return Media(kind="video", path=str(path), **settings)


def decoded_names(work: StoreFrames) -> list[str]:
    """Names of the media that were decoded, in any process."""
    assert isinstance(work.decode, LoggedDecode)
    return work.decode.names


def store(work: StoreFrames, media: list[Media], *, workers: int = 2) -> Summary:
    jobs = distinct_jobs((medium, f"rows:{number}") for number, medium in enumerate(media))
    summary = Summary(total=len(jobs), total_source_bytes=0)
    outcomes = run_all(work, [job.media for job in jobs], workers=workers, deadline_s=60)
    list(store_all(jobs, outcomes, summary))
    return summary
