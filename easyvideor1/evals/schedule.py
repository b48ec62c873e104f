"""Which questions are asked when: those about one video together, the longest first once the pipe is full."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from easyvideor1.errors import UsageError
from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.protocol import PromptText, Protocol, prompt_text
from easyvideor1.types import FrameSpec, Media


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Task:
    """An item to be asked, by a protocol."""

    item: Item
    """With the paths of its media as they lie on this machine."""
    protocol: Protocol
    prompt: PromptText
    prompt_hash: str
    """See `hash_of`; of the prompt without its subtitles, which depend on the frames."""
    repeats: tuple[int, ...] = (0,)
    """Numbers of the responses that are wanted."""

    @property
    def benchmark(self) -> str:
        return self.protocol.benchmark


def hash_of(item: Item, prompt: PromptText) -> str:
    """Hash of what is said around a question, and of which stretch of which file it is about, wherever that lies."""
    media = [[medium.kind, medium.start_s, medium.end_s, medium.fps] for medium in item.sample.media]
    said = [prompt.system, prompt.text, prompt.prefix, item.video, item.image, media]
    return hashlib.sha256(json.dumps(said, ensure_ascii=False).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Group:
    """All tasks about the same frames, in order."""

    media: tuple[Media, ...]
    spec: FrameSpec
    tasks: tuple[Task, ...] = field(repr=False)
    length_s: float | None = None
    """Length of the video; None: unknown."""

    @property
    def name(self) -> str:
        return ", ".join(medium.name for medium in self.media)


def groups_of(tasks: Iterable[Task], *, length_s: Callable[[Media, FrameSpec], float | None]) -> list[Group]:
    """Tasks by what they look at, and how."""
    together: dict[tuple[tuple[Media, ...], FrameSpec], list[Task]] = {}
    for task in tasks:
        together.setdefault((task.item.sample.media, task.protocol.video), []).append(task)
    return [
        Group(media=media, spec=spec, tasks=tuple(found), length_s=length_s(media[0], spec) if media else 0.0)
        for (media, spec), found in together.items()
    ]


def ordered(groups: Sequence[Group], *, num_first: int) -> list[Group]:
    """Groups of unknown length first (they may be the longest, or hang), a few short ones to fill the pipe, then the
    longest and so on down: no long video is begun last.

    Args:
        num_first: short ones to begin with.
    """
    unknown = [group for group in groups if group.length_s is None]
    known = sorted((group for group in groups if group.length_s is not None), key=lambda group: group.length_s or 0.0)
    return [*unknown, *known[:num_first], *reversed(known[num_first:])]


def shard_of(groups: Sequence[Group], shard: str) -> list[Group]:
    """The groups of shard "i/n", i from 1 to n: every n-th by name, so that it does not depend on what is done.

    Args:
        groups: all of them.

    Raises:
        UsageError: not of that form.
    """
    index, slash, count = shard.partition("/")
    if not (slash and index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise UsageError(f"--shard is i/n with i from 1 to n (the first of four: 1/4), got '{shard}'")
    by_name = sorted(groups, key=lambda group: (group.name, str(group.media), str(group.spec)))
    return by_name[int(index) - 1 :: int(count)]


def without(tasks: Iterable[Task], done: Mapping[tuple[str, str], set[int]]) -> list[Task]:
    """The tasks with the repeats that are still wanted.

    Args:
        done: (benchmark, id) -> numbers of the repeats that are there.
    """
    left = []
    for task in tasks:
        repeats = tuple(repeat for repeat in task.repeats if repeat not in done.get((task.benchmark, task.item.id), ()))
        if repeats:
            left.append(replace(task, repeats=repeats))
    return left


def tasks_of(items: Iterable[Item], protocol: Protocol) -> list[Task]:
    """A task per item, by a protocol."""
    repeats = tuple(range(protocol.decoding.n))
    tasks = []
    for item in items:
        prompt = prompt_text(item, protocol)
        known = hash_of(item, prompt)
        tasks.append(Task(item=item, protocol=protocol, prompt=prompt, prompt_hash=known, repeats=repeats))
    return tasks
