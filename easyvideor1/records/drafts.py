"""Folders that are there whole or not at all, and failures to write in words."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from easyvideor1.errors import UsageError

REMEDIES = {
    errno.ENOSPC: "make room there, or choose another place",
    errno.EDQUOT: "your quota there is used up: make room, or choose another place",
    errno.EROFS: "it is mounted read-only: choose another place",
    errno.EACCES: "you may not write there: change its permissions, or choose another place",
    errno.EPERM: "you may not write there: change its permissions, or choose another place",
    errno.ENOTDIR: "a file stands where a folder is needed: choose another place",
    errno.EEXIST: "something else stands there: choose another place",
    errno.EISDIR: "a folder stands where a file is needed: choose another name",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENOENT: "it is missing or was removed meanwhile: look at the path",
}


def cannot_write(place: str | Path, error: OSError) -> str:
    """Why a place cannot be written and what to do about it."""
    return f"{place}: cannot be written: {reason(error)}"


def reason(error: OSError) -> str:
    """What the system says is wrong, with the remedy."""
    remedy = REMEDIES.get(error.errno or 0)
    return f"{error.strerror or error}" + (f" ({remedy})" if remedy else "")


@contextmanager
def drafted(out: Path) -> Iterator[Path]:
    """A folder to write into that becomes `out` when the block ends well; otherwise nothing is left of it.

    Its files get the permissions of new files.

    Raises:
        UsageError: `out` is there and not an empty folder, or it cannot be written.
    """
    draft = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        if out.exists() and not out.is_dir():
            raise UsageError(f"{out} is a file; name a new folder with --out")
        if out.exists() and any(out.iterdir()):
            raise UsageError(f"{out} is not empty; name a new folder with --out")
        made = [parent for parent in out.parents if not parent.exists()]
        try:
            draft.mkdir(parents=True)
            yield draft
            readable = stat.S_IMODE(draft.stat().st_mode) & 0o666  # as new files are: safetensors are made for one only
            for path in draft.rglob("*"):
                if path.is_file():
                    path.chmod(readable)
            if out.exists():
                out.rmdir()
            draft.rename(out)
        except BaseException:  # an interrupt too must leave nothing half-written
            shutil.rmtree(draft, ignore_errors=True)
            for parent in made:  # the innermost first
                if parent.exists() and not any(parent.iterdir()):
                    parent.rmdir()
            raise
    except OSError as error:
        raise UsageError(cannot_write(f"--out {out}", error)) from error
