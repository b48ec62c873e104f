"""The samples of a run in order, ready to be asked. Those of the next step are planned, read and cut into patches in
other threads while the present ones are sampled and trained on.

What was made ahead changes no result: who has which prompt follows from the prompts of a step alone, and an error waits
for the step that its sample belongs to.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from typing import TypeVar

from easyvideor1.config import RunConfig
from easyvideor1.data.order import order, strata
from easyvideor1.data.prepare import Preparer
from easyvideor1.errors import DataError, EasyVideoError, RunError
from easyvideor1.records.stopwatch import Stopwatch
from easyvideor1.training.balance import karmarkar_karp
from easyvideor1.training.costs import Share, prompt_cost
from easyvideor1.types import Example, Prompt, Sample

Tell = Callable[[str, int, int], None]
"""Takes what is counted, how many are done, and of how many."""
Reading = Future[tuple[Example, float]]
"""An example, and the seconds that it took."""
MIB = 1 << 20
Item = TypeVar("Item")


class Usable:
    """A sample that can be asked: its prompt, and the rank that samples its responses."""

    def __init__(
        self,
        prompt: Prompt,
        *,
        rank: int,
        read: Callable[[Reading | None], Example],
        begin: Callable[[], Reading],
    ) -> None:
        """
        Args:
            read: waits for what was begun, or reads.
            begin: begins to read in another thread.
        """
        self.prompt, self.rank = prompt, rank
        self._read, self._begin = read, begin
        self._begun: Reading | None = None

    def begin(self) -> None:
        """Have the example read beside other things, where it is not there yet."""
        if "example" not in vars(self) and self._begun is None:
            self._begun = self._begin()

    @cached_property
    def example(self) -> Example:
        """The prompt with its pixels; read when it is asked for, or before, and kept.

        Raises:
            DataError: a medium cannot be read.
        """
        return self._read(self._begun)


class Supply:
    """Gives samples by their places in the run's order."""

    def __init__(
        self,
        config: RunConfig,
        *,
        samples: Sequence[Sample],
        prepare: Preparer,
        share: Share,
        rollouts_per_prompt: int,
        watch: Stopwatch,
        note_bad: Callable[[DataError], None],
        tell: Tell = lambda what, done, total: None,
        beat: Callable[[str], object] = lambda doing: None,
    ) -> None:
        """
        Args:
            share: the part of a step that this rank makes.
            watch: is charged with the time that a step waits for its samples: "process" for prompts, "decode" for
                pixels.
            note_bad: called with every sample that was skipped, on every rank.
        """
        self._config, self._samples, self._prepare = config, samples, prepare
        self._strata = strata(samples, config.data)
        self._costs, self._ranks = share.costs, share.ranks
        self._rollouts_per_prompt = rollouts_per_prompt
        self._watch, self._note_bad, self._tell, self._beat = watch, note_bad, tell, beat
        self._threads = ThreadPoolExecutor(config.data.workers, thread_name_prefix="supply")
        self._planning: dict[int, Future[Prompt | EasyVideoError]] = {}
        """Prompts that this rank makes, by place."""
        self._prompts: dict[int, Prompt | EasyVideoError] = {}
        """Prompts that all ranks have."""
        self._reading: dict[int, Reading] = {}
        """Examples that this rank makes, with the seconds that they took."""

    def take(self, count: int, cursor: int, *, goes_on: bool) -> tuple[dict[int, Usable], int]:
        """The next `count` usable samples in the run's order by their places in it, and the place after them; bad ones
        by the run's policy.

        Args:
            goes_on: another step comes, whose samples are worth being made ready.

        Raises:
            DataError: a bad sample, where the run does not skip them.
            RunError: no sample is usable.
        """
        usable: dict[int, Usable] = {}
        num_bad = 0
        while len(usable) < count:
            # As many as are missing: so the last of them is the last that is taken, on any number of ranks.
            num_taken = count - len(usable)
            found = self._tried(cursor, num_taken, goes_on=goes_on)
            cursor += num_taken
            for place, item in found.items():
                if isinstance(item, Usable):
                    usable[place] = item
                    continue
                if not isinstance(item, DataError) or self._config.data.on_bad_sample == "error":
                    raise item
                num_bad += 1
                self._note_bad(item)
                if num_bad > len(self._samples):
                    raise RunError(f"no usable sample is left; the last error: {item}") from item
        return usable, cursor

    def close(self) -> None:
        """Begin nothing further; what is under way is left to itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _tried(self, start: int, count: int, *, goes_on: bool) -> dict[int, Usable | EasyVideoError]:
        """Samples by their places -> whether they can be used, in the same order and the same on all ranks."""
        ahead = self._config.train.prompts_per_step if goes_on and self._config.data.ahead_mb else 0
        taken = itertools.islice(
            order(self._strata, seed=self._config.seed, start=start, shuffle=self._config.data.shuffle),
            count + 2 * ahead,
        )
        samples = {start + offset: self._samples[index] for offset, index in enumerate(taken)}
        wanted, following = range(start, start + count), range(start + count, start + count + ahead)
        self._forget_before(start)
        # Two steps ahead: who reads which media can only be said when all prompts of a step are there.
        self._plan(samples)
        found = self._dealt(self._prompts_at(wanted, samples))
        self._read_ahead(found)
        if ahead:
            room_bytes = self._config.data.ahead_mb * MIB
            self._read_ahead(self._dealt(self._prompts_at(following, samples)), room_bytes=room_bytes)
        with self._ranks.agree("media"):
            errors: dict[int, EasyVideoError] = {}
            own = [
                (place, item)
                for place, item in found.items()
                if isinstance(item, Usable) and item.rank == self._ranks.rank
            ]
            for number, (place, item) in enumerate(own, start=1):
                if error := _unreadable(item):
                    errors[place] = error
                self._tell("samples prepared", number, len(own))
        return found | joined(self._ranks.gather(errors, of="media"))

    def _forget_before(self, start: int) -> None:
        """Drop what was made for places that are past, by a rank that another one was faster than."""
        for made in (self._planning, self._prompts, self._reading):
            for place in [place for place in made if place < start]:
                del made[place]

    def _plan(self, samples: Mapping[int, Sample]) -> None:
        """Begin with this rank's part of the prompts of some places."""
        for place, sample in samples.items():
            is_own = place % self._ranks.size == self._ranks.rank
            if is_own and place not in self._planning and place not in self._prompts:
                self._planning[place] = self._threads.submit(self._prompt, sample)

    def _prompts_at(self, places: Sequence[int], samples: Mapping[int, Sample]) -> dict[int, Prompt | EasyVideoError]:
        """The prompts of some places; all ranks have them all."""
        with self._ranks.agree("prompts"):
            made = {}
            own = [place for place in places if place in self._planning]
            with self._watch.part("process"):
                for place in own:
                    self._beat(f"the prompt of sample {samples[place].id}")
                    made[place] = self._planning.pop(place).result()
                    self._tell("prompts made", len(made), len(own))
        self._prompts |= joined(self._ranks.gather(made, of="prompts"))
        return {place: self._prompts[place] for place in places}

    def _dealt(self, prompts: Mapping[int, Prompt | EasyVideoError]) -> dict[int, Usable | EasyVideoError]:
        """The prompts with the rank that samples their responses, which are taken to be of middling length."""
        length = self._config.rollout.max_response_tokens // 2
        good = {place: prompt for place, prompt in prompts.items() if isinstance(prompt, Prompt)}
        costs = [
            prompt_cost(prompt, self._costs)
            + self._rollouts_per_prompt * self._costs.response(length, num_prompt=len(prompt))
            for prompt in good.values()
        ]
        parts = karmarkar_karp(costs, num_parts=self._ranks.size)
        rank_of = {number: rank for rank, part in enumerate(parts) for number in part}
        usable = {
            place: Usable(
                prompt,
                rank=rank_of[number],
                read=partial(self._example, place, prompt),
                begin=partial(self._reading_of, prompt),
            )
            for number, (place, prompt) in enumerate(good.items())
        }
        return {place: usable.get(place, prompt) for place, prompt in prompts.items()}  # type: ignore[misc]

    def _read_ahead(self, dealt: Mapping[int, Usable | EasyVideoError], *, room_bytes: int | None = None) -> None:
        """Begin with the media of this rank's samples, in order.

        Args:
            room_bytes: what they may need in all, the first one apart; None: they are needed now.
        """
        own = [
            (place, item.prompt)
            for place, item in dealt.items()
            if isinstance(item, Usable) and item.rank == self._ranks.rank
        ]
        held = 0
        for number, (place, prompt) in enumerate(own):
            held += self._prepare.num_bytes(prompt)
            if room_bytes is not None and number and held > room_bytes:
                return
            if place not in self._reading:
                self._reading[place] = self._reading_of(prompt)

    def _reading_of(self, prompt: Prompt) -> Reading:
        return self._threads.submit(self._read, prompt)

    def _prompt(self, sample: Sample) -> Prompt | EasyVideoError:
        try:
            return self._prepare.prompt(sample)
        except EasyVideoError as error:
            return error

    def _read(self, prompt: Prompt) -> tuple[Example, float]:
        """A prompt with its pixels, and the seconds that they took."""
        start_s = time.perf_counter()
        example = self._prepare.example(prompt, self._prepare.clips(prompt))
        return example, time.perf_counter() - start_s

    def _example(self, place: int, prompt: Prompt, begun: Reading | None) -> Example:
        """The same as soon as it is there; read here where no thread does.

        Args:
            begun: of an update, whose own clock runs, maybe while another thread takes the samples of the next step.
        """
        self._beat(f"reading the media of sample {prompt.sample.id}")
        if begun is not None:
            return begun.result()[0]
        reading = self._reading.pop(place, None)
        with self._watch.part("decode"):
            example, seconds = reading.result() if reading else self._read(prompt)
        self._watch.note_item("decode", item=prompt.sample.id, seconds=seconds)
        return example


def joined(parts: Sequence[Mapping[int, Item]]) -> dict[int, Item]:
    """What several ranks have by place, in one."""
    return {place: item for part in parts for place, item in part.items()}


def _unreadable(usable: Usable) -> DataError | None:
    """Read the media of a sample, and say why where that cannot be done."""
    try:
        usable.example  # noqa: B018 - it is kept
    except DataError as error:
        return error
    return None
