"""Prompts that are too long, found from plans: exactly in small sets, by bounds first in large ones (data.lengths)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from easyvideor1.config_data import SourceConfig
from easyvideor1.data.lengths import CountText, PromptShape, slack
from easyvideor1.data.media_check import MediumFacts
from easyvideor1.data.row_check import PARALLEL_ROWS, Columns, Fault, chunks_of
from easyvideor1.data.rows import RowFile
from easyvideor1.data.samples import read_row
from easyvideor1.errors import DataError
from easyvideor1.jobs.pool import Pool
from easyvideor1.types import Media, Sample

UNCOUNTED = -1
TRIED_ROWS = 8
"""Estimates are compared with the truth on so many rows before they are believed."""
DEADLINE_S = 120.0
"""Longest time for the texts of a chunk, in seconds."""


@dataclass(frozen=True, kw_only=True)
class LengthLimit:
    """How long prompts may be, and why."""

    tokens: int
    reason: str = ""
    """Why the prompt is that long: words that stand in brackets after the number."""
    remedy: str = "lower data.video.max_frames or max_pixels, or raise data.max_prompt_tokens"


@dataclass(frozen=True, kw_only=True)
class LengthCheck:
    """How long prompts may be, and how that is found."""

    limit: LengthLimit
    exact: Callable[[Sample], int] | None = None
    """Length of the prompt of a sample; raises DataError where it cannot be made. None: its vision tokens alone."""
    shape: PromptShape | None = None
    """None: every prompt is made."""
    count: CountText | None = None
    count_all: bool = False
    """Estimate the length of every prompt, also of those that fit for sure."""


@dataclass(kw_only=True)
class Lengths:
    """Lengths of the prompts of a file's rows."""

    tokens: list[int] = field(default_factory=list)
    """[N]; UNCOUNTED where it fits but was not counted, or the row cannot be used."""
    too_long: dict[int, Fault] = field(default_factory=dict)


def measure_lengths(
    rows: RowFile,
    source: SourceConfig,
    columns: Columns,
    *,
    facts: Mapping[Media, MediumFacts],
    bad: set[int],
    known: Mapping[int, tuple[int, Fault | None]],
    check: LengthCheck,
    is_large: bool,
    workers: int,
    progress: Callable[[str, int, int], object],
) -> Lengths:
    """The lengths of a file's prompts.

    Args:
        facts: of every medium of the rows that can be used.
        bad: places of rows that cannot be used.
        known: (tokens, fault) of rows that were measured before.
    """
    measuring = _Measuring(rows, source, columns, facts, check)
    todo = []
    for place in range(len(rows)):
        if place in bad:
            continue
        tokens, fault = known.get(place, (UNCOUNTED, None))
        if place in known and not (check.count_all and tokens == UNCOUNTED and fault is None):
            measuring.note(place, tokens, fault)
        else:
            todo.append(place)
    if check.exact is None or check.shape is None or check.count is None or not is_large:
        for place in todo:
            measuring.measure(place)
        return measuring.found
    near = [place for place in todo if check.count_all or not measuring.fits_for_sure(place)]
    if near and measuring.can_estimate(near):
        for place, tokens in _counted(rows, source, near, check.count, workers, progress):
            measuring.settle(place, tokens)
    else:
        for place in near:
            measuring.measure(place)
    return measuring.found


class _Measuring:
    """The rows of one file, being measured."""

    def __init__(
        self,
        rows: RowFile,
        source: SourceConfig,
        columns: Columns,
        facts: Mapping[Media, MediumFacts],
        check: LengthCheck,
    ) -> None:
        self._rows, self._source, self._columns, self._facts, self._check = rows, source, columns, facts, check
        self.found = Lengths(tokens=[UNCOUNTED] * len(rows))

    def note(self, place: int, tokens: int, fault: Fault | None) -> None:
        self.found.tokens[place] = tokens
        if fault is not None:
            self.found.too_long[place] = fault

    def measure(self, place: int) -> None:
        """Exactly, by making the prompt."""
        try:
            tokens = self._exact(place)
        except DataError as error:
            self.found.too_long[place] = Fault.of(error, "length", row=self._rows.where(place))
        else:
            self._judge(place, tokens, str(tokens))

    def fits_for_sure(self, place: int) -> bool:
        """Whether a prompt fits even if every byte of its texts is a token."""
        shape = self._check.shape
        assert shape is not None
        most = self._around(place, shape) + self._columns.text_bytes[place] + self._slack(place)
        return shape.is_of_bytes and most <= self._check.limit.tokens

    def settle(self, place: int, text_tokens: int) -> None:
        """Measure by an estimate where that decides, else exactly."""
        assert self._check.shape is not None
        tokens = self._around(place, self._check.shape) + text_tokens
        if abs(tokens - self._check.limit.tokens) <= self._slack(place):
            self.measure(place)
        else:
            self._judge(place, tokens, f"about {tokens}")

    def can_estimate(self, places: Sequence[int]) -> bool:
        """Whether estimates are right where they are tried: a chat template may do anything."""
        assert self._check.shape is not None
        assert self._check.count is not None
        for place in places[:: max(1, len(places) // TRIED_ROWS)][:TRIED_ROWS]:
            (text_tokens,) = self._check.count(next(chunks_of(self._source, self._rows, [place])))
            try:
                exact = self._exact(place)
            except DataError:
                return False
            if abs(self._around(place, self._check.shape) + text_tokens - exact) > self._slack(place):
                return False
        return True

    def _exact(self, place: int) -> int:
        if self._check.exact is None:
            return self._vision(place)
        row = self._rows.row(place)
        if isinstance(row, DataError):
            raise row
        return self._check.exact(read_row(row, self._source))

    def _judge(self, place: int, tokens: int, shown: str) -> None:
        self.found.tokens[place] = tokens
        limit = self._check.limit
        if tokens > limit.tokens:
            text = f"the prompt has {shown} tokens ({self._vision(place)} of them vision), the limit is {limit.tokens}"
            self.found.too_long[place] = Fault("length", text + limit.reason, "", "", limit.remedy)

    def _media(self, place: int) -> Sequence[Media]:
        return self._columns.media.get(place, ())

    def _vision(self, place: int) -> int:
        return sum(self._facts[media].num_tokens for media in self._media(place))

    def _around(self, place: int, shape: PromptShape) -> int:
        media = self._media(place)
        return shape.around(
            media, [self._facts[medium] for medium in media], num_messages=self._columns.turns.get(place, 0)
        )

    def _slack(self, place: int) -> int:
        return slack(len(self._media(place)), self._columns.turns.get(place, 0))


def _counted(
    rows: RowFile,
    source: SourceConfig,
    places: Sequence[int],
    count: CountText,
    workers: int,
    progress: Callable[[str, int, int], object],
) -> list[tuple[int, int]]:
    """(place, tokens of its texts) of some rows."""
    chunks = chunks_of(source, rows, places)
    if len(places) < PARALLEL_ROWS:
        return list(zip(places, (tokens for chunk in chunks for tokens in count(chunk)), strict=True))
    found: list[tuple[int, int]] = []
    with Pool(count, workers=workers, deadline_s=DEADLINE_S) as pool:
        for outcome in pool.run(chunks):
            if outcome.result is None:
                assert outcome.error is not None
                raise outcome.error
            start = outcome.item.start
            found += zip(places[start : start + len(outcome.result)], outcome.result, strict=True)
            progress("prompts", len(found), len(places))
    return found
