"""Rows that can be used but look wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from easyvideor1.data.check import CheckedData, CheckedFile
from easyvideor1.data.media_check import Seen
from easyvideor1.types import Media


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A row that can be used, and why it should be looked at."""

    about: str
    file: CheckedFile
    place: int
    text: str

    @property
    def where(self) -> str:
        return self.file.rows.where(self.place)


def contradictions(data: CheckedData) -> Iterator[Doubt]:
    """Rows that ask what an earlier row asks about the same media, and have another gold answer."""
    first: dict[int, tuple[CheckedFile, int]] = {}
    for file, place in _usable(data):
        question = file.columns.questions[place]
        other, before = first.setdefault(question, (file, place))
        if other.columns.golds[before] != file.columns.golds[place]:
            text = (
                f"field 'answer': another one than that of {other.rows.where(before)} to the same question (keep one)"
            )
            yield Doubt(about="gold", file=file, place=place, text=text)


def shared(training: CheckedData, validation: CheckedData) -> Iterator[Doubt]:
    """Rows of the validation that ask what a training row asks, or look at what one looks at."""
    questions: dict[int, str] = {}
    media: dict[str, str] = {}
    for file, place in _usable(training):
        questions.setdefault(file.columns.questions[place], file.rows.where(place))
        for medium in file.columns.media.get(place, ()):
            for name in _names(medium, training):
                media.setdefault(name, file.rows.where(place))
    for file, place in _usable(validation):
        if (twin := questions.get(file.columns.questions[place])) is not None:
            yield Doubt(about="row", file=file, place=place, text=f"the same question as the training row {twin}")
            continue
        for medium in file.columns.media.get(place, ()):
            twins = [media[name] for name in _names(medium, validation) if name in media]
            if twins:
                text = f"{medium.name} is also seen in the training row {twins[0]}"
                yield Doubt(about="media", file=file, place=place, text=text)
                break


def frame_rates(data: CheckedData) -> Iterator[Doubt]:
    """Rows whose `fps` is the rate of the file itself, so that every frame is looked at."""
    for file, place in _usable(data):
        for medium in file.columns.media.get(place, ()):
            seen = data.seen[medium]
            is_file = isinstance(medium.path, str) and not os.path.isdir(medium.path)
            if medium.fps and is_file and isinstance(seen, Seen) and medium.fps >= 0.99 * seen.facts.source_fps > 0:
                text = (
                    f"{medium.name}: fps {medium.fps:g} asks for every frame of the file; if it only says what the "
                    "file has, leave it out to sample at data.video.fps"
                )
                yield Doubt(about="media", file=file, place=place, text=text)


def odd_rows(data: CheckedData) -> Iterator[Doubt]:
    """Rows in which something looks wrong without a look at others."""
    for file, place in _usable(data):
        if text := file.columns.odd.get(place):
            yield Doubt(about="row", file=file, place=place, text=text)


def empty_trajectories(data: CheckedData) -> Iterator[Doubt]:
    """Rows that say that they have an offline trajectory, but hold none."""
    for file, place in _usable(data):
        if file.columns.trajectories.get(place) == 0:
            text = "field 'offline_output': empty, but has_offline_trajectory is true (give one, or write false)"
            yield Doubt(about="trajectory", file=file, place=place, text=text)


def _usable(data: CheckedData) -> Iterator[tuple[CheckedFile, int]]:
    for number, place in data.places():
        yield data.files[number], place


def _names(medium: Media, data: CheckedData) -> list[str]:
    """Names by which two media are recognised as the same: the place of their files, or their content."""
    paths = (medium.path,) if isinstance(medium.path, str) else medium.path
    seen = data.seen[medium]
    content = [seen.facts.content] if isinstance(seen, Seen) and seen.facts.content else []
    return ["\n".join(map(os.path.realpath, paths)), *content]
