"""How much cheaper is the way of a video to the model? `python -m perf.data_path`

Three ways, by turns in one run on real clips, each in a process of its own:
(a) the peers': decode with qwen-vl-utils (on the fly) or load float32 frames from a `.pt` (cached), then Transformers'
    video processor, in each of the three stages of a step (rollout, old log-probs, update);
(b) ours on a cache miss: decode once and write through, patches once, handed to the three stages;
(c) ours on a cache hit: map the frames, patches once, handed to the three stages.
Ratios are of CPU seconds (all threads), ours / theirs, summed over the clips' medians. Patches are bfloat16 unless
said otherwise; theirs are float32, the cast not counted. What we give is compared with what they give.

Needs: pip install 'easyvideor1[train,zstd,bench]'; pip install --no-deps torchvision==0.28.0
The last line is JSON:
    bytes_ratio           size of a raw cache entry / their .pt of the same frames
    patches_ratio         128 cached frames of 512x512 to patches, float32; patches_ratio_bf16 the same in bfloat16;
                          patches_ratio_first in a process that has made none before, float32, once
    cached_ratio          three stages, (c) / theirs cached
    on_the_fly_ratio      three stages, (c) / theirs on the fly
    write_through_ratio   three stages, (b) / theirs on the fly
    decode_ratio          decode, sample and resize, ours / theirs, by clip
    memory_ratio          peak memory of load and patches, 128 frames of 512x512, bfloat16, the first time
    plan_cpu_s_max        planning a clip for the first time, the largest over the clips
    codec_bytes_ratio     entries of the other codecs / their .pt, the largest over the clips
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from easyvideor1.data.patches import patches
from easyvideor1.jobs.worker import Worker
from easyvideor1.model.vision import join_inputs
from easyvideor1.runs.media import DEFAULT_FAMILY
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.codecs import CODECS
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec
from perf import peers
from perf.clips import LONGEST, real_clips, repeated
from perf.measure import Measure, measured

VISION = vision_spec(DEFAULT_FAMILY)
SPEC = FrameSpec()
STAGES = 3
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
DEADLINE_S = 1800.0
Ask = tuple[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Work:
    """Where one clip and its files are."""

    video: Path
    folder: Path

    @property
    def pt(self) -> Path:
        return self.folder / "frames.pt"

    @property
    def plan(self) -> MediaPlan:
        return plan_media(Media(kind="video", path=str(self.video)), SPEC, VISION)


def ours(ask: Ask) -> Any:
    """Our side, in its own process."""
    torch.set_num_threads(1)
    name, arguments = ask
    return OURS[name](**arguments)


def theirs(ask: Ask) -> Any:
    """The peers' side, in its own process."""
    torch.set_num_threads(1)
    name, arguments = ask
    return THEIRS[name](**arguments)


def three_stages(features: torch.Tensor) -> None:
    """Rollout, old log-probs and update of one process each take the sample's tensor in as they do in training."""
    for _ in range(STAGES):
        taken = join_inputs([{"pixel_values_videos": features}])["pixel_values_videos"].to("cpu")
        assert taken.data_ptr() == features.data_ptr()  # nothing is copied between them


def our_step(work: Work, *, cache_dir: Path, dtype: str) -> Measure[None]:
    """Plan, load (or decode and write), patches, three stages."""

    def step() -> None:
        clip = FrameCache(cache_dir).load(work.plan)
        three_stages(patches(clip.frames, VISION, dtype=DTYPES[dtype]))

    return measured(step)


def our_decode(work: Work) -> Measure[None]:
    plan = work.plan
    return measured(lambda: decode(plan) and None)


def our_plan(work: Work) -> Measure[None]:
    return measured(lambda: work.plan and None)


def our_patches(entry: Path, dtype: str) -> Measure[int]:
    """A stored clip to patches."""
    return measured(lambda: patches(CODECS["raw"].read(entry).frames, VISION, dtype=DTYPES[dtype]).numel())


def our_difference(work: Work, cache_dir: Path) -> dict[str, float]:
    """How far our cached frames are from theirs."""
    mine, (frames, _) = FrameCache(cache_dir).load(work.plan).frames, peers.load(work.pt)
    difference = np.abs(frames.numpy() - mine)
    return {"max": float(difference.max()), "differ_frac": float((difference > 0).mean())}


def our_patches_are_theirs(entry: Path, pt: Path) -> bool:
    """Whether both ways give the same patches of the same frames, in float32 and rounded to bfloat16."""
    frames, expected = CODECS["raw"].read(entry).frames, peers.processed(*peers.load(pt))
    return all(torch.equal(patches(frames, VISION, dtype=dtype), expected.to(dtype)) for dtype in DTYPES.values())


def our_codecs(work: Work, cache_dir: Path) -> dict[str, dict[str, float]]:
    """Bytes of every codec against theirs, and the error of the lossy one."""
    clip, found = FrameCache(cache_dir).load(work.plan), {}
    for name, codec in CODECS.items():
        path = work.folder / f"clip.{codec.name}.v1.safetensors"
        size_bytes = codec.write(path, clip)
        reading = measured(lambda path=path, codec=codec: codec.read(path))
        error = np.abs(reading.value.frames.astype(np.int16) - clip.frames)
        found[name] = {
            "bytes_ratio": size_bytes / work.pt.stat().st_size,
            "read_mb_per_cpu_s": clip.frames.nbytes / 1e6 / max(reading.cpu_s, 1e-6),
            "error_mean": float(error.mean()),
            "error_max": float(error.max()),
        }
    return found


def their_stage_on_the_fly(work: Work, *, keep: bool) -> tuple[Measure[Any], Measure[Any]]:
    """Decode and process once; `keep` writes their cache file afterwards."""
    decoding = measured(lambda: peers.decoded(str(work.video), SPEC))
    frames, metadata = decoding.value
    processing = measured(lambda: peers.processed(frames, metadata).numel())
    if keep:
        peers.save(frames, metadata, work.pt)
    return replace(decoding, value=None), processing


def their_stages_cached(pt: Path, stages: int) -> Measure[None]:
    """Load and process, once per stage."""

    def step() -> None:
        for _ in range(stages):
            peers.processed(*peers.load(pt))

    return measured(step)


OURS = {
    "step": our_step,
    "decode": our_decode,
    "plan": our_plan,
    "patches": our_patches,
    "difference": our_difference,
    "same": our_patches_are_theirs,
    "codecs": our_codecs,
}
THEIRS = {"on_the_fly": their_stage_on_the_fly, "cached": their_stages_cached}


class Sides:
    """Both processes, and what was measured so far."""

    def __init__(self) -> None:
        self._workers = self._start()
        self.cpu_s: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.wall_s: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.peak_bytes: dict[tuple[str, str], int] = defaultdict(int)

    @staticmethod
    def _start() -> dict[str, Worker[Ask, Any]]:
        return {"ours": Worker(ours), "theirs": Worker(theirs)}

    def restart(self) -> None:
        """New processes, which hold no freed memory that would hide what a call needs."""
        self.close()
        self._workers = self._start()

    def ask(self, side: Literal["ours", "theirs"], name: str, **arguments: Any) -> Any:
        return self._workers[side].call((name, arguments), deadline_s=DEADLINE_S)

    def note(self, clip: str, what: str, measure: Measure) -> None:
        self.cpu_s[clip, what].append(measure.cpu_s)
        self.wall_s[clip, what].append(measure.wall_s)
        self.peak_bytes[clip, what] = max(self.peak_bytes[clip, what], measure.peak_bytes)

    def cpu(self, clip: str, what: str) -> float:
        return statistics.median(self.cpu_s[clip, what])

    def close(self) -> None:
        for worker in self._workers.values():
            worker.kill()


def one_round(sides: Sides, clip: str, work: Work, *, number: int) -> None:
    """Every way once, by turns; the first round also warms both sides up and is not counted by `main`."""
    cold, warm = work.folder / f"cold-{number}", work.folder / "cache"
    decoding, processing = sides.ask("theirs", "on_the_fly", work=work, keep=number == 0)
    sides.note(clip, "their decode", decoding)
    sides.note(clip, "their process", processing)
    sides.note(clip, "our decode", sides.ask("ours", "decode", work=work))
    sides.note(clip, "our write-through", sides.ask("ours", "step", work=work, cache_dir=cold, dtype="bfloat16"))
    sides.note(clip, "their cached", sides.ask("theirs", "cached", pt=work.pt, stages=STAGES))
    if number == 0:
        sides.ask("ours", "step", work=work, cache_dir=warm, dtype="bfloat16")
    for dtype in DTYPES:
        step = sides.ask("ours", "step", work=work, cache_dir=warm, dtype=dtype)
        sides.note(clip, f"our cached {dtype}", step)


def big_clip(folder: Path, source: Clip) -> tuple[Path, Path]:
    """The same 128 frames of 512x512 as our entry and as their file, cut and tiled from real frames."""
    times = -(-np.array([128, 512, 512]) // np.array([len(source.frames), *source.frames.shape[2:]]))
    frames = np.tile(source.frames, (times[0], 1, times[1], times[2]))[:128, :, :512, :512]
    clip = replace(source, frames=np.ascontiguousarray(frames), times_s=tuple(0.5 * number for number in range(128)))
    entry, pt = folder / "big.raw.v1.safetensors", folder / "big.pt"
    CODECS["raw"].write(entry, clip)
    metadata = {"fps": 2.0, "frames_indices": list(range(128)), "total_num_frames": 128, "video_backend": "decord"}
    # Their resize leaves the channels last in memory, and the file keeps it so.
    floats = torch.from_numpy(clip.frames).float().contiguous(memory_format=torch.channels_last)
    peers.save(floats, metadata, pt)
    return entry, pt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds, after one to warm up")
    parser.add_argument("--long-s", type=float, default=600.0, help="length of the long clip; 0: leave it out")
    parser.add_argument("--dir", help="folder for files (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as temporary:
        sides = Sides()
        try:
            result = run(sides, Path(temporary), rounds=args.rounds, long_s=args.long_s)
        finally:
            sides.close()
    print(json.dumps(result))


def run(sides: Sides, folder: Path, *, rounds: int, long_s: float) -> dict[str, Any]:
    """Measure everything; prints tables and returns the ratios."""
    videos = real_clips()
    if long_s:
        videos["long_720p"] = repeated(videos[LONGEST.removesuffix(".mp4")], folder / "long.mp4", duration_s=long_s)
    works = {name: Work(video=video, folder=folder / name) for name, video in videos.items()}
    for work in works.values():
        work.folder.mkdir()
    plan_s = max(sides.ask("ours", "plan", work=work).cpu_s for work in works.values())
    for number in range(rounds + 1):
        for name, work in works.items():
            one_round(sides, name, work, number=number)
        if number == 0:
            sides.cpu_s.clear()
            sides.wall_s.clear()
            sides.peak_bytes.clear()
    last = works[list(works)[-1]]
    entry, pt = big_clip(folder, FrameCache(last.folder / "cache").load(last.plan))
    sides.restart()
    for number in range(4 * rounds + 1):
        theirs = sides.ask("theirs", "cached", pt=pt, stages=1)
        ours = {dtype: sides.ask("ours", "patches", entry=entry, dtype=dtype) for dtype in DTYPES}
        turn = "big" if number else "big, first"  # the first warms both sides up, and its memory is fresh
        sides.note(turn, "theirs", theirs)
        for dtype, measure in ours.items():
            sides.note(turn, f"ours {dtype}", measure)
    assert sides.ask("ours", "same", entry=entry, pt=pt), "the patches differ from the processor's"
    differences = {
        name: sides.ask("ours", "difference", work=work, cache_dir=work.folder / "cache")
        for name, work in works.items()
    }
    codecs = {
        name: sides.ask("ours", "codecs", work=work, cache_dir=work.folder / "cache") for name, work in works.items()
    }
    print_tables(sides, works, codecs, differences)
    return ratios(sides, works, codecs, differences) | {"plan_cpu_s_max": plan_s, "rounds": rounds}


def ratios(sides: Sides, works: dict[str, Work], codecs: dict, differences: dict) -> dict[str, Any]:
    """The last line."""

    def total(*parts: str) -> float:
        return sum(sides.cpu(name, part) for name in works for part in parts)

    fly = STAGES * total("their decode", "their process")
    return {
        "benchmark": "data_path",
        "bytes_ratio": max(found["raw"]["bytes_ratio"] for found in codecs.values()),
        "patches_ratio": sides.cpu("big", "ours float32") / sides.cpu("big", "theirs"),
        "patches_ratio_bf16": sides.cpu("big", "ours bfloat16") / sides.cpu("big", "theirs"),
        "cached_ratio": total("our cached bfloat16") / total("their cached"),
        "cached_ratio_float32": total("our cached float32") / total("their cached"),
        "on_the_fly_ratio": total("our cached bfloat16") / fly,
        "write_through_ratio": total("our write-through") / fly,
        "decode_ratio": {name: sides.cpu(name, "our decode") / sides.cpu(name, "their decode") for name in works},
        "patches_ratio_first": sides.cpu("big, first", "ours float32") / sides.cpu("big, first", "theirs"),
        "memory_ratio": sides.peak_bytes["big, first", "ours bfloat16"] / sides.peak_bytes["big, first", "theirs"],
        "codec_bytes_ratio": {
            codec: max(found[codec]["bytes_ratio"] for found in codecs.values()) for codec in CODECS if codec != "raw"
        },
        "jpeg_error_mean_max": [
            max(found["jpeg"][f"error_{which}"] for found in codecs.values()) for which in ("mean", "max")
        ],
        "pixel_difference_max": max(found["max"] for found in differences.values()),
        "pixel_differ_frac_max": max(found["differ_frac"] for found in differences.values()),
        "their_reader": peers.reader(),
        "machine": platform.processor() or platform.machine(),
        "date": time.strftime("%Y-%m-%d"),
    }


def print_tables(sides: Sides, works: dict[str, Work], codecs: dict, differences: dict) -> None:
    print(f"{'clip':24}{'what':24}{'CPU s':>9}{'wall s':>9}{'peak MB':>9}")
    for (clip, what), values in sides.cpu_s.items():
        wall_s, peak = statistics.median(sides.wall_s[clip, what]), sides.peak_bytes[clip, what] / 1e6
        print(f"{clip:24}{what:24}{statistics.median(values):9.3f}{wall_s:9.3f}{peak:9.0f}")
    print(f"\n{'clip':24}{'codec':8}{'bytes':>9}{'read MB/s':>11}{'error mean':>12}{'max':>6}")
    for clip, found in codecs.items():
        for codec, values in found.items():
            numbers = (values["bytes_ratio"], values["read_mb_per_cpu_s"], values["error_mean"], values["error_max"])
            print(f"{clip:24}{codec:8}{numbers[0]:9.4f}{numbers[1]:11.0f}{numbers[2]:12.3f}{numbers[3]:6.0f}")
    for clip, found in differences.items():
        print(f"{clip:24}pixels: max difference {found['max']:g}, in {found['differ_frac']:.2e} of values")


if __name__ == "__main__":
    main()
