"""The samples of a run: read, checked, and the usable ones kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.progress import track

from easyvideor1.config import SourceConfig
from easyvideor1.data.schema import read_samples
from easyvideor1.errors import DataError
from easyvideor1.types import Sample

log = logging.getLogger(__name__)


def load_samples(
    sources: Sequence[SourceConfig],
    check: Callable[[Sample], object],
    *,
    on_bad: Callable[[DataError], None] | None,
) -> list[Sample]:
    """The usable samples of some data files; nothing is decoded.

    Args:
        check: raises DataError for a sample that cannot be used (gold answer, media headers, length of the prompt).
        on_bad: is told what is wrong with each of the others; None: the first error is raised.

    Raises:
        DataError: see `on_bad`; or no sample is left.
    """
    num_bad = 0

    def note(error: DataError) -> None:
        nonlocal num_bad
        num_bad += 1
        assert on_bad is not None
        on_bad(error)

    skip = note if on_bad is not None else None
    samples: list[Sample] = []
    for source in sources:
        samples += read_samples(source.path, media_root=source.media_root, source=source.label, on_bad=skip)
    shown = track(samples, f"checking {len(samples)} samples", console=Console(stderr=True), transient=True)
    good = usable(shown, check, on_bad=skip)
    if num_bad:
        log.warning("skipped %d samples of %s", num_bad, ", ".join(source.path for source in sources))
    return good


def usable(
    samples: Iterable[Sample], check: Callable[[Sample], object], *, on_bad: Callable[[DataError], None] | None
) -> list[Sample]:
    """The samples that pass the check.

    Args:
        on_bad: is told what is wrong with the others; None: the first error is raised.

    Raises:
        DataError: see `on_bad`; or no sample is left.
    """
    good, last = [], None
    for sample in samples:
        try:
            check(sample)
        except DataError as error:
            if on_bad is None:
                raise
            on_bad(error)
            last = error
        else:
            good.append(sample)
    if not good:
        raise last or DataError("no usable sample")
    return good
