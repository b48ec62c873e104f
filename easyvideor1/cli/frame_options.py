"""Options of commands that look at media: which data, which frames, which model family, how many processes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import get_args, get_type_hints

from easyvideor1.config import CacheConfig, DataConfig, RunConfig, SourceConfig, load_config
from easyvideor1.errors import UsageError
from easyvideor1.jobs.worker import usable_cores
from easyvideor1.types import FrameSpec, MediaKind, VisionSpec
from easyvideor1.video.sampling import vision_spec

DEFAULT_FAMILY: Mapping[str, object] = {
    "model_type": "qwen3_vl",
    "vision_config": {"patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2},
}
"""What tokens are counted for where no model is named: Qwen3-VL and Qwen3.5."""
IMAGE_DEFAULTS = DataConfig(train=()).image


@dataclass(frozen=True, kw_only=True)
class FrameOptions:
    """What the options say, resolved."""

    specs: Mapping[MediaKind, FrameSpec]
    vision: VisionSpec
    recipe: RunConfig | None
    model_path: str | None

    def cache(self, folder: str | None) -> CacheConfig | None:
        """The recipe's frame cache, in `folder` if that is given; None if neither is."""
        if self.recipe is None:
            return CacheConfig(dir=folder) if folder is not None else None
        return replace(self.recipe.cache, dir=folder) if folder is not None else self.recipe.cache


def add_frame_arguments(parser: argparse.ArgumentParser) -> None:
    """--fps and its kin, --model and --recipe; read them with `frame_options`."""
    group = parser.add_argument_group("frames", "Options given here come before those of the recipe.")
    group.add_argument("--recipe", help="take data, frame settings, model and cache folder from a training recipe")
    group.add_argument("--model", help="folder of the model whose patch sizes count (default: those of Qwen3-VL)")
    group.add_argument("--fps", type=float, help="frames per second to sample")
    group.add_argument("--min-frames", type=int)
    group.add_argument("--max-frames", type=int)
    group.add_argument("--min-pixels", type=int, help="smallest height*width of a video frame after resizing")
    group.add_argument("--max-pixels", type=int, help="largest height*width of a video frame after resizing")
    group.add_argument("--total-pixels", type=int, help="largest frames*height*width of a video")
    group.add_argument("--deinterlace", action=argparse.BooleanOptionalAction, help="of interlaced video")
    group.add_argument("--tone-map", action=argparse.BooleanOptionalAction, help="of video of high dynamic range")
    group.add_argument("--backend", choices=get_args(get_type_hints(FrameSpec)["backend"]), help="decoder of videos")
    group.add_argument("--image-min-pixels", type=int, help="smallest height*width of an image after resizing")
    group.add_argument("--image-max-pixels", type=int, help="largest height*width of an image after resizing")


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """DATA files and --media-root; read them with `data_sources`."""
    parser.add_argument("data", nargs="*", metavar="DATA", help="JSONL or JSON file of rows (default: the recipe's)")
    parser.add_argument("--media-root", help="folder that relative media paths start from (default: the file's own)")


def add_cache_argument(parser: argparse.ArgumentParser) -> None:
    """--cache; read it with `FrameOptions.cache`."""
    parser.add_argument("--cache", metavar="DIR", help="folder of the frame cache (default: the recipe's)")


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """--workers and --deadline-s."""
    cores = usable_cores()
    parser.add_argument("--workers", type=int, default=cores, help=f"processes of one core each (default: {cores})")
    parser.add_argument(
        "--deadline-s", type=float, default=600.0, help="seconds one file may take before its process is killed"
    )


def frame_options(args: argparse.Namespace) -> FrameOptions:
    """Resolve the options of `add_frame_arguments`.

    Raises:
        UsageError: unreadable recipe or model folder.
    """
    recipe = load_config(args.recipe) if args.recipe else None
    video = recipe.data.video if recipe else FrameSpec()
    image = recipe.data.image if recipe else IMAGE_DEFAULTS
    given = {item.name: getattr(args, item.name) for item in fields(FrameSpec)}
    image_given = {"min_pixels": args.image_min_pixels, "max_pixels": args.image_max_pixels}
    model_path = args.model or (recipe.model.path if recipe else None)
    return FrameOptions(
        specs={"video": replace(video, **_set(given)), "image": replace(image, **_set(image_given))},
        vision=model_vision(model_path) if model_path else vision_spec(DEFAULT_FAMILY),
        recipe=recipe,
        model_path=model_path,
    )


def data_sources(args: argparse.Namespace, recipe: RunConfig | None) -> list[SourceConfig]:
    """The data files named on the command line, or else the recipe's.

    Raises:
        UsageError: neither is there.
    """
    if args.data:
        return [SourceConfig(path=path, media_root=args.media_root) for path in args.data]
    if recipe is None:
        raise UsageError("name at least one data file, or a --recipe that does")
    return [*recipe.data.train, *recipe.data.validation]


def model_vision(model_path: str) -> VisionSpec:
    """How the model in a folder cuts pixels into tokens; the model is not loaded."""
    path = Path(model_path) / "config.json"
    try:
        return vision_spec(json.loads(path.read_text()))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the model's configuration: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not valid JSON: {error}") from None


def _set(options: Mapping[str, object]) -> dict:
    return {name: value for name, value in options.items() if value is not None}
