"""The nouns of the project; every stage takes and returns these values.

Shape suffixes: T frames, C channels, H W pixels, L tokens of a sequence, N response tokens, G rollouts of a prompt.
Nothing heavy is imported here; arrays and tensors appear in annotations only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from easyvideor1.problem_types import canonical

if TYPE_CHECKING:
    import numpy as np
    import torch

MediaKind = Literal["image", "video"]
Modality = Literal["text", "image", "video"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Media:
    """One image or one video of a sample."""

    kind: MediaKind
    path: str | tuple[str, ...]
    """A file, a `file://` or `data:` address, a folder of frames, or the frames of one video in order."""
    data: bytes | None = field(default=None, repr=False)
    """The content of the file, where it is at hand; `path` is then only a name."""
    start_s: float | None = None
    end_s: float | None = None
    """Clip range in seconds of the file; None means from its start / to its end."""
    fps: float | None = None
    """Frames per second. For a video file: sample it at this rate instead of that of the FrameSpec. For a frame folder
    or frame list, which carry no times of their own: the rate at which its frames were taken."""
    times_s: tuple[float, ...] | None = None
    """Times of a frame folder or frame list; instead of `fps`."""
    budget: tuple[tuple[str, Any], ...] = ()
    """What of the FrameSpec is otherwise for this medium, by name."""

    @property
    def name(self) -> str:
        """What messages call it; the content in a `data:` address is left out."""
        first = self.path if isinstance(self.path, str) else self.path[0]
        first = f"{first[:40]}.." if first.startswith("data:") and len(first) > 40 else first
        return first if isinstance(self.path, str) else f"{first} .. ({len(self.path)} frames)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """Something that was said before the problem is put."""

    role: Literal["user", "assistant"]
    content: str
    """`<image>` and `<video>` tags mark where media go, as in the problem."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One validated row of a data set."""

    id: str
    problem_type: str
    """Whatever spelling is given, here stands the canonical name (e.g. "multiple choice"; see problem_types)."""
    problem: str
    """Question text; `<image>` and `<video>` tags mark where the media go (see data.tags)."""
    gold: str
    """Gold answer, without `<answer>` tags."""
    options: tuple[str, ...] = ()
    media: tuple[Media, ...] = ()
    system: str | None = None
    """System message of this sample; None: that of the run, or of the chat template."""
    turns: tuple[Turn, ...] = ()
    """The conversation so far; the problem is what the user says next."""
    trajectories: tuple[str, ...] = ()
    """Stored responses (offline rollouts), as text."""
    source: str = ""
    """Name of the data set the row comes from."""
    where: str = ""
    """ "file:line" of the row, for error messages."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the row that a reward may need (duration_s, image size, ...)."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """problem_type, answer, data_type and problem_id as the row writes them, for templates and rewards that were
    written for another project."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "problem_type", canonical(self.problem_type))

    @property
    def modality(self) -> Modality:
        kinds = {media.kind for media in self.media}
        return "video" if "video" in kinds else "image" if "image" in kinds else "text"


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameSpec:
    """How media are looked at, in training, evaluation and preprocessing; of an image only the pixel limits count."""

    fps: float = 2.0
    """Frames per second to sample."""
    min_frames: int = 4
    """Short videos are sampled more densely to have at least this many frames (where they hold as many)."""
    max_frames: int = 128
    """Long videos are sampled more sparsely to have at most this many frames."""
    min_pixels: int = 16_384
    """Smallest height*width of one frame after resizing."""
    max_pixels: int = 262_144
    """Largest height*width of one frame after resizing."""
    total_pixels: int | None = None
    """Largest frames*height*width of one medium; None: no budget beyond the two limits above."""
    deinterlace: bool = False
    """Make whole pictures of the two half pictures of interlaced video (every frame is then decoded)."""
    tone_map: bool = False
    """Make pictures of high dynamic range (PQ, HLG) fit for a standard screen (see video.tone_map for the rule)."""
    backend: Literal["pyav", "torchcodec"] = "pyav"
    """What decodes video files; torchcodec is optional and for intact files only (see video.torchcodec_decoder)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisionSpec:
    """How a model family cuts pixels into tokens, read from the model's own configuration."""

    family: str
    """Transformers `model_type`: qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5, ..."""
    patch_px: int
    merge: int
    """Spatial merge: merge*merge patches become one token."""
    temporal_patch: int
    """Frames per patch in time."""
    image_mean: tuple[float, float, float]
    image_std: tuple[float, float, float]

    @property
    def factor_px(self) -> int:
        """Height and width of every frame are multiples of this."""
        return self.patch_px * self.merge


@dataclass(frozen=True, kw_only=True, slots=True)
class MediaPlan:
    """The frames of a medium that will be seen, known before anything is decoded."""

    media: Media
    times_s: tuple[float, ...]
    """Time of each frame that is decoded, in seconds from the start of the clip; one 0.0 for an image."""
    height: int
    width: int
    """Size after resizing, in pixels, upright."""
    grid_thw: tuple[int, int, int]
    """Patches in time, height and width; time counts frames after padding to whole temporal patches."""
    num_tokens: int
    """Tokens this medium takes in the prompt (vision tokens only, without timestamps and markers)."""
    spec: FrameSpec
    frame_numbers: tuple[int, ...] = ()
    """Which frames of the file in display order (or which pictures of a list) these are; for the decoder alone."""
    source_fps: float
    source_size: tuple[int, int] = (0, 0)
    """Width and height of the file's pictures, upright, with square pixels; (0, 0): unknown."""
    duration_s: float
    cache_key: str
    content: str = ""
    """Digest of the file's content when it was planned: the decoder refuses another; "" is not compared."""
    origin: str = ""
    """Digest of everything that a single frame depends on (see video.keys.origin_of); "": unknown."""
    setting: str = ""
    """The frame setting in words (see video.keys.setting_of); "": unknown."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Clip:
    """Decoded and resized frames; there is no way to sample or resize it again."""

    frames: np.ndarray
    """uint8 [T, C=3, H, W], RGB, contiguous; may be a read-only memory map."""
    times_s: tuple[float, ...]
    source_fps: float
    duration_s: float
    backend: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prompt:
    """A sample made into token ids once; rollout, actor, reference and evaluation all use this value."""

    sample: Sample
    text: str
    """The rendered chat, each medium as one placeholder (not expanded)."""
    input_ids: np.ndarray
    """int64 [L], vision placeholders expanded."""
    token_types: np.ndarray
    """int64 [L]: 0 text, 1 image, 2 video (Transformers' `mm_token_type_ids`)."""
    position_ids: np.ndarray
    """int64 [3, L]: time, height, width."""
    plans: tuple[MediaPlan, ...]
    """One plan for each medium, in the order of `sample.media`."""

    @property
    def next_position(self) -> int:
        """Position (all three axes) of the first response token."""
        return int(self.position_ids.max()) + 1

    def __len__(self) -> int:
        return len(self.input_ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """A prompt with its pixels: what the rollout engine and the actor both look at."""

    prompt: Prompt
    clips: tuple[Clip, ...]
    """One clip for each plan, in the order of `prompt.plans`."""
    features: dict[str, torch.Tensor]
    """pixel_values, image_grid_thw, pixel_values_videos, video_grid_thw; only those the sample has."""

    @property
    def sample(self) -> Sample:
        return self.prompt.sample


class StopReason(StrEnum):
    """Why a response ended."""

    EOS = "eos"
    """The model ended its turn."""
    LENGTH = "length"
    """The token limit cut it."""
    ABORT = "abort"
    """The engine gave up on the request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollout:
    """One response to a prompt, sampled from the policy or stored beforehand."""

    token_ids: tuple[int, ...]
    """Response tokens, the end token included where the model wrote one."""
    text: str
    """Response without special tokens."""
    logprobs: tuple[float, ...] | None
    """[N] log-probabilities under the sampler at its temperature, or None where unknown (offline)."""
    stop_reason: StopReason
    source: Literal["policy", "offline"] = "policy"
    weights_version: int = 0
    """Update count of the weights that sampled it."""


ScoreStatus = Literal["scored", "unscored"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """Judgement of one response: a value in [0, 1], or the reason why there is none."""

    value: float
    """Weighted sum of the parts, or what a reward of `reward_input` dictionaries calls overall, which may be any finite
    number; NaN where unscored."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """accuracy, format, overlong, ... each by its own name, before weighting."""
    parsed: str | None = None
    """What was read out of the response, for people to look at."""
    status: ScoreStatus = "scored"
    reason: str = ""
    """Why it is unscored, or why nothing could be parsed."""

    @classmethod
    def unscored(cls, reason: str) -> Score:
        return cls(value=math.nan, status="unscored", reason=reason)

    @property
    def is_scored(self) -> bool:
        return self.status == "scored"


Scorer = Callable[[Sequence[tuple[Sample, str, int]]], list[Score]]
"""(sample, response, its length in tokens) -> scores, in order: the same for training and evaluation."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenCredit:
    """Advantages, returns and values of the tokens of a rollout, with a value head; float64 [L] each."""

    advantages: np.ndarray
    returns: np.ndarray
    """The targets of the values."""
    values: np.ndarray
    """The value of the state before each token, before the update."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Group:
    """A prompt with its G rollouts and, as the stages add them, scores and advantages."""

    prompt: Prompt
    rollouts: tuple[Rollout, ...]
    scores: tuple[Score, ...] = ()
    advantages: tuple[float, ...] = ()
    """[G], one per rollout; 0.0 where unscored. With `tokens` their means, for people to look at."""
    weights: tuple[float, ...] = ()
    """[G] loss weight per rollout: 1.0, or 0.0 for a rollout that must not train (unscored)."""
    tokens: tuple[TokenCredit, ...] = ()
    """[G], one per rollout, which take the place of `advantages`; empty without a value head."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredResponse:
    """One scored response to a validation question."""

    sample: Sample
    index: int | None
    """None for the greedy response, k for the k-th sampled one, counted from 1."""
    response: str
    score: Score
    is_asked: bool = True
    """False: the question could not be asked, because of its media or its prompt; the score is unscored."""
