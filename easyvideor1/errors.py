"""Errors a person can act on: each names the place, what is wrong there and the remedy."""

from __future__ import annotations


class EasyVideoError(Exception):
    """Base of all errors this package raises on purpose; `exit_code` is what the command line returns."""

    exit_code = 3


class UsageError(EasyVideoError):
    """The command line or the configuration is wrong."""

    exit_code = 2


class DataError(EasyVideoError):
    """A row, a media file or a stored result is wrong.

    Args:
        problem: what is wrong, in plain words.
        where: "file:line", a media path or a sample id.
        field: the field of the row, if one is to blame.
        remedy: what the reader can do about it.
    """

    exit_code = 1

    def __init__(self, problem: str, *, where: str = "", field: str = "", remedy: str = "") -> None:
        self.problem, self.where, self.field, self.remedy = problem, where, field, remedy
        place = ": ".join(part for part in (where, f"field '{field}'" if field else "") if part)
        super().__init__(": ".join(part for part in (place, problem) if part) + (f" ({remedy})" if remedy else ""))

    def __reduce__(self) -> tuple:
        # Exceptions cross process borders; the default reduction would lose the keyword fields.
        return (_rebuild, (type(self), self.problem, self.where, self.field, self.remedy))


def _rebuild(kind: type[DataError], problem: str, where: str, field: str, remedy: str) -> DataError:
    return kind(problem, where=where, field=field, remedy=remedy)


class MediaError(DataError):
    """A media file is missing, unreadable, not what it claims to be, or took too long."""


class JobError(DataError):
    """A worker process could not finish an item: its function raised something unforeseen, or see below."""


class JobTimeout(JobError):
    """The item outlasted its deadline and its process was killed."""


class JobOutOfMemory(JobError):
    """The item ran into the memory limit of its process."""


class JobDied(JobError):
    """The process ended in the middle of the item: a crash in compiled code, or a kill from outside."""


class MismatchError(DataError):
    """Two stages disagree about the same sample (placeholders and features, plan and pixels)."""


class RunError(EasyVideoError):
    """A run cannot go on: too many bad samples, a non-finite loss, a dead worker."""


class Ended(KeyboardInterrupt):
    """A signal ended the run; the text says what became of it. No Exception, like the interrupt by Ctrl-C."""

    def __init__(self, signal_number: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = 128 + signal_number
