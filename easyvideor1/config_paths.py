"""Paths in a recipe: which values are paths, and what `~` and `$NAME` in them stand for."""

from __future__ import annotations

import os
import re
from typing import Annotated

from easyvideor1.errors import UsageError

IS_PATH = "path"
PathText = Annotated[str, IS_PATH]
"""The path of a file or folder, in a field of a configuration."""
VARIABLE = re.compile(r"\$(?:\{([^{}]*)\}|([A-Za-z_]\w*))")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def expanded(path: str, *, where: str) -> str:
    """A path with the home folder for a `~` in front and the values of environment variables ($NAME, ${NAME}), which
    the shell leaves to us in a recipe and behind the `=` of `out=~/runs`.

    What is there under the name as it is written is meant.

    Args:
        where: file and key, the beginning of an error.

    Raises:
        UsageError: a variable that is not set, a user without a home, or a control character.
    """
    if found := CONTROL.search(path):
        raise UsageError(
            f"{where} holds the control character {found.group()!r}: {path!r}; in double quotes YAML reads a backslash "
            "as an escape, so write the path without quotes or in single ones"
        )
    if os.path.lexists(path):
        return path

    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        if not os.environ.get(name):
            raise UsageError(
                f"{where}: {path} names the environment variable '{name}', which is not set; set it, or write the path"
            )
        return os.environ[name]

    filled = VARIABLE.sub(value, path)
    home = os.path.expanduser(filled)
    if home.startswith("~"):
        raise UsageError(f"{where}: {path}: no home folder is known for '{home.split('/')[0]}'; write the whole path")
    return home
