"""Where a command runs."""

from __future__ import annotations

import os

from easyvideor1.errors import UsageError


def require_working_folder() -> None:
    """Raise UsageError where the working folder was removed: libraries end the process there without a word of it."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError("the working folder was removed; go into one that is there") from None
