"""What a benchmark is: annotation files -> items, and what is made of the scores of these items.

A benchmark parses no response and scores none: items carry Samples, which the grader of training scores, and name the
official reader of their protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from easyvideor1.types import Media, Sample

Labels = Mapping[str, tuple[str, ...]]
"""Breakdown -> values; an item with several values of one breakdown counts in each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One question of a benchmark."""

    sample: Sample
    """The question, its media and its gold answer. The problem is the question as the annotation has it; a protocol
    makes the prompt of it."""
    form: str
    """Which prompt and reader of a protocol it takes: choice, open, number, yes_no, ..."""
    video: str
    """Path in the benchmark's folder of media."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What the prompt templates and the official readers name: question, stem, options, lines, ..."""
    labels: Labels = field(default_factory=dict)
    group: str = ""
    """Items of one group are scored together where the metric says so."""
    judge: str = ""
    """What the judge has to decide about the response; "": the item needs no judge."""
    subtitles: str = ""
    """Path of its subtitles in the benchmark's folder of media; "": it has none."""
    image: str = ""
    """Path of an image that stands beside the video."""

    @property
    def id(self) -> str:
        return self.sample.id


@dataclass(frozen=True, kw_only=True, slots=True)
class Erratum:
    """Something known to be wrong in an annotation file; it never stops a load."""

    kind: str
    where: str
    """File and row, or the id of the item."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """The items of annotation files, in file order, and what is wrong with the files."""

    items: tuple[Item, ...]
    errata: tuple[Erratum, ...] = ()

    def erratum_counts(self) -> dict[str, int]:
        return dict(Counter(erratum.kind for erratum in self.errata))


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The worth of one response to one item."""

    item: Item
    value: float | None
    """What the response is worth, in [0, 1]; None: unscored."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Further measures, each in [0, 1], by name."""
    parsed: str | None = None
    reason: str = ""


Metrics = Callable[[Sequence[Outcome]], Mapping[str, float]]
"""Scored outcomes -> metrics by name, in percent unless the benchmark says otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A score that somebody published."""

    model: str
    score: float
    metric: str
    source: str
    """Where it is published, and under which conditions as far as they are known."""
    is_verified: bool = True
    """False for a score that was recalled and not checked at its source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How the public download of a benchmark lies on disk, below its own folder."""

    folder: str
    """Name of the folder in a data root."""
    annotations: tuple[str, ...]
    """Glob patterns of the annotation files."""
    media: str = "."
    """Folder that the media paths of items start from."""
    source: str = ""
    """Where the authors offer it."""
    archives: tuple[str, ...] = ()
    """Glob patterns of the archives of a download."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A public video benchmark."""

    name: str
    title: str
    category: Literal["general", "long", "reasoning", "STEM", "spatial", "temporal", "streaming"]
    paper_items: int
    """Items in Table 2 of the EasyVideoR1 report."""
    load: Callable[[Sequence[Path]], Loaded]
    metrics: Metrics
    metric: tuple[str, ...]
    """Names of the headline metric, the preferred one first; a later one is taken where a file lacks the labels."""
    formula: str
    """The headline in words."""
    layout: Layout
    official_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Breakdown -> value -> items in the authors' files; "" -> name of a split -> items of the split."""
    label_scores: Callable[[Sequence[Outcome]], Mapping[str, Mapping[str, float]]] | None = None
    """Breakdown -> value -> score in percent, where that is no mean over items."""
    published: tuple[Published, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader of a score must know: splits, quirks of the official reader, known errata."""


def video_media(
    path: str, *, start_s: float | None = None, end_s: float | None = None, fps: float | None = None, image: str = ""
) -> tuple[Media, ...]:
    """The media of an item: its video, and an image behind it where there is one."""
    video = Media(kind="video", path=path, start_s=start_s, end_s=end_s, fps=fps)
    return (video, Media(kind="image", path=image)) if image else (video,)
