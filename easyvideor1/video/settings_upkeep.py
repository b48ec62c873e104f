"""The entries of a frame cache by frame setting: a list of the settings, and removal of those no longer wanted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from easyvideor1.errors import UsageError
from easyvideor1.jobs.locks import locked
from easyvideor1.video.cache import Entry, entries
from easyvideor1.video.keys import shown
from easyvideor1.video.origins import read_made_of
from easyvideor1.video.upkeep import DAY_S

IN_USE_S = 3600.0
"""An entry that was used this recently is taken to be in use."""


@dataclass(kw_only=True)
class Held:
    """The entries of one setting."""

    stored: list[Entry] = field(default_factory=list)
    chosen: list[Entry] = field(default_factory=list)
    """Entries to remove."""

    def as_values(self, now_s: float) -> dict[str, object]:
        unused_s = [now_s - entry.used_at_s for entry in self.stored]
        return {
            "entries": len(self.stored),
            "bytes": sum(entry.size_bytes for entry in self.stored),
            "unused_days_min": round(min(unused_s) / DAY_S, 3),
            "chosen": len(self.chosen),
        }


def remove_by_setting(
    folder: Path, *, delete: Sequence[str], keep: Sequence[str], unused_days: float | None, is_dry: bool
) -> dict[str, object]:
    """Remove the entries of some settings, or say which those are.

    Entries that were used in the last hour stay, as do those that tell no setting (of older versions or another
    layout); both are counted.

    Args:
        delete: settings to remove, each as words such as "fps=2 max_frames=128" that it must have.
        keep: settings to keep; without `delete` all others are removed.
        unused_days: only entries that were not used for so long.
        is_dry: remove nothing.

    Raises:
        UsageError: words that no entry's setting has, or an entry that cannot be removed.
    """
    now_s = time.time()
    oldest_s = now_s - IN_USE_S if unused_days is None else min(now_s - IN_USE_S, now_s - unused_days * DAY_S)
    with locked(folder / "locks" / "evict"):
        by_setting: dict[str, Held] = {}
        not_told = Held()
        for entry in entries(folder):
            made = read_made_of(entry.path)
            held = not_told if made is None or not made.setting else by_setting.setdefault(made.setting, Held())
            held.stored.append(entry)
        wrong = [words for words in (*delete, *keep) if not any(_has(setting, words) for setting in by_setting)]
        if wrong:
            known = "; ".join(sorted(by_setting)) or "none"
            raise UsageError(f"no entry has the setting '{wrong[0]}'; settings of this cache: {known}")
        num_in_use = 0
        for setting, held in by_setting.items():
            if _is_chosen(setting, delete, keep):
                held.chosen = [entry for entry in held.stored if entry.used_at_s < oldest_s]
                num_in_use += sum(now_s - entry.used_at_s < IN_USE_S for entry in held.stored)
        chosen = [entry for held in by_setting.values() for entry in held.chosen]
        if not is_dry:
            for entry in chosen:
                _remove(entry)
    return {
        "by_setting": {setting: held.as_values(now_s) for setting, held in sorted(by_setting.items())},
        "kept_in_use": num_in_use,
        "kept_of_unknown_setting": len(not_told.stored),
        "bytes_of_unknown_setting": sum(entry.size_bytes for entry in not_told.stored),
        "chosen_entries": len(chosen),
        "chosen_bytes": sum(entry.size_bytes for entry in chosen),
        "removed_entries": 0 if is_dry else len(chosen),
    }


def _remove(entry: Entry) -> None:
    try:
        entry.path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{entry.path}: cannot be removed: {error.strerror}; correct the folder's rights") from None


def _is_chosen(setting: str, delete: Sequence[str], keep: Sequence[str]) -> bool:
    if any(_has(setting, words) for words in keep):
        return False
    return any(_has(setting, words) for words in delete) if delete else bool(keep)


def _has(setting: str, words: str) -> bool:
    """Whether a setting has all words; numbers in any spelling.

    >>> _has("video fps=2 max_frames=128", "fps=2.0 video"), _has("video fps=2 max_frames=128", "fps=1")
    (True, False)
    """
    return bool(words.split()) and {_word(word) for word in words.split()} <= set(setting.split())


def _word(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{name}={shown(value)}" if equals else name
