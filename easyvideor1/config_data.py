"""The sections of a recipe that say what is read: sources, the samples and their pixels, the frame cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from easyvideor1.config_checks import check_frames, check_pixels, check_positive, check_range, check_text, check_time
from easyvideor1.config_paths import PathText
from easyvideor1.config_tree import build, to_tree
from easyvideor1.errors import UsageError
from easyvideor1.types import FrameSpec, Modality


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """One data file."""

    path: PathText
    """File of rows (docs/data.md): JSON objects, one per line or in one list, plain or gzipped."""
    media_root: PathText | None = None
    """Folder that relative media paths start from; None: the folder of the data file."""
    name: str | None = None
    """Name in metrics; None: the file's name without its ending."""
    video: Mapping[str, Any] = field(default_factory=dict)
    """Keys of data.video that differ for the videos of this file, e.g. {fps: 1, max_frames: 64}."""
    image: Mapping[str, Any] = field(default_factory=dict)
    """Keys of data.image that differ for the images of this file, e.g. {max_pixels: 262144}."""
    weight: float | None = None
    """Share of the training samples that come from this file, relative to the other weights; None everywhere: every
    sample once per epoch."""

    def __post_init__(self) -> None:
        check_text("data.train", self, "path")
        if self.weight is not None and not 0 < self.weight < float("inf"):
            raise UsageError(
                f"data.train: the weight of {self.path} must be a number > 0, got {self.weight:g}; "
                "to take nothing from a file, leave it out"
            )

    @property
    def label(self) -> str:
        return self.name or Path(self.path).stem


CacheMode = Literal["prefer_preprocessed", "preprocessed_only", "realtime_only"]


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """The frame cache."""

    dir: PathText
    """Folder of the frame cache; may be shared by runs and machines."""
    mode: CacheMode = "prefer_preprocessed"
    """prefer_preprocessed decodes what is missing and stores it; preprocessed_only takes a missing clip for a bad
    sample; realtime_only always decodes and stores nothing."""
    codec: Literal["raw", "zstd", "jpeg"] = "raw"
    """raw is memory-mapped; zstd (lossless) and jpeg (lossy) are for small disks and cost CPU time at every read."""
    max_bytes: int | None = None
    """Size above which the entries unused for longest are removed; None: no limit."""
    deadline_s: float = 300.0
    """Wall time that decoding one file may take; then it is a bad sample, and its process is killed."""

    def __post_init__(self) -> None:
        check_text("cache", self, "dir")
        check_positive("cache", self, "max_bytes")
        check_time("cache", self, "deadline_s")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Samples, and how they become prompts."""

    train: tuple[SourceConfig, ...] = ()
    """Files of training samples, e.g. [{path: data/train.jsonl}]."""
    validation: tuple[SourceConfig, ...] = ()
    """Files of validation questions; none: no validation."""
    video: FrameSpec = field(default_factory=FrameSpec)
    """Budget of one video."""
    image: FrameSpec = field(default_factory=lambda: FrameSpec(max_pixels=1_048_576))
    """Budget of one image; only the pixel limits count."""
    shuffle: bool = True
    """Ask the samples of each epoch in a new order; False: in the order of their rows, such as a curriculum."""
    problem_types: tuple[str, ...] | None = None
    """Only rows of these problem types are used, in training and validation, e.g. for an ablation; None: all."""
    system: str | None = None
    """System message of rows that have none of their own; None: that of the chat template."""
    max_prompt_tokens: int = 16_384
    """Longest prompt; longer ones are bad samples, found from the plan before any decode."""
    workers: int = 2
    """Samples that each rank plans, decodes and cuts into patches at once, each decoder in a process of its own."""
    ahead_mb: int = 8192
    """Memory, in MiB on each rank, for samples of the next step that are made ready while this one samples and trains
    (the first always is); 0: none is."""
    on_bad_sample: Literal["error", "skip"] = "error"
    """What a sample does that cannot be used (a wrong row, a broken file, too long a prompt): stop the run, or be left
    out, counted and noted in bad_samples.jsonl."""
    allow_shared_validation: bool = False
    """Let validation ask questions or look at media that training has too; False: that is an error."""
    thinking: bool = True
    """Ask for `<think>..</think>` before `<answer>..</answer>`."""
    templates: PathText | None = None
    """Prompt templates: a file for all types, or a folder whose files TYPE.jinja (spaces as "_") come before the
    package's own."""
    problem_type_ratios: Mapping[str, float] | None = None
    """Share of the training samples of each problem type, relative to each other; None: as they come."""
    modality_ratios: Mapping[str, float] | None = None
    """Share of the training samples of each modality (video, image, text), relative to each other; None: as they
    come."""

    def __post_init__(self) -> None:
        check_range("data", self, low=1, names=("max_prompt_tokens", "workers"))
        check_range("data", self, low=0, names=("ahead_mb",))
        if self.problem_types is not None and not self.problem_types:
            raise UsageError("data.problem_types names no type, so no row would be used; leave it out for all")
        check_frames("data.video", self.video)
        check_pixels("data.image", self.image)
        for source in (*self.train, *self.validation):
            self._check_budgets(source)
        labels = [source.label for source in self.train]
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise UsageError(f"data.train: two files are called '{twice}'; give one of them another `name`")
        if len({source.weight is None for source in self.train}) > 1:
            missing = next(source.path for source in self.train if source.weight is None)
            raise UsageError(f"data.train: {missing} has no weight, but others have; give every file one, or none")
        if weighted := next((source.path for source in self.validation if source.weight is not None), None):
            raise UsageError(f"data.validation: {weighted} has a weight, but every question is asked; remove it")
        self._check_ratios()

    def _check_budgets(self, source: SourceConfig) -> None:
        """Raise UsageError for a source whose own budgets are none."""
        for kind, spec in (("video", self.video), ("image", self.image)):
            where = f"data: {kind} of {source.path}"
            own = build(FrameSpec, {**to_tree(spec), **getattr(source, kind)}, where=where)
            if kind == "video":
                check_frames(where, own)
            else:
                check_pixels(where, own)

    def _check_ratios(self) -> None:
        if self.problem_type_ratios is not None and self.modality_ratios is not None:
            raise UsageError(
                "data.problem_type_ratios and data.modality_ratios: shares are of problem types or of modalities; keep "
                "one of the two"
            )
        for name, ratio in (self.problem_type_ratios or {}).items():
            if not 0 < ratio < float("inf"):
                raise UsageError(
                    f"data.problem_type_ratios: {name} must be a number > 0, got {ratio:g}; to leave a type out, name "
                    "the others in data.problem_types"
                )
        for modality, ratio in (self.modality_ratios or {}).items():
            if modality not in get_args(Modality):
                raise UsageError(
                    f"data.modality_ratios: unknown modality '{modality}'; known: {', '.join(get_args(Modality))}"
                )
            if not 0 < ratio < float("inf"):
                raise UsageError(
                    f"data.modality_ratios: {modality} must be a number > 0, got {ratio:g}; "
                    "to take nothing of a modality, keep its rows in a file of their own"
                )
