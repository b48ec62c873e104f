"""The walls around an untrusted program (bubblewrap, Landlock, seccomp), and the command that puts them up."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo")
BUBBLEWRAP = ("--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--tmpfs", "/tmp")
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from easyvideor1.sandbox.inside import main; del sys.path[0]; main()"
)


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """The walls in force around a program; with each come limits on memory, time, output and open files."""

    bubblewrap: str | None
    """Path of that program; None: without it."""
    landlock: bool
    """The kernel limits which files can be read."""
    seccomp: bool
    """The kernel limits what can be asked of it."""

    @property
    def may_open(self) -> bool:
        """Whether files may be opened for reading: where a wall keeps a program to those of Python."""
        return self.landlock or self.bubblewrap is not None

    @property
    def text(self) -> str:
        """The walls in words."""
        walls = [
            "bubblewrap (files, processes and network of its own)" if self.bubblewrap else "",
            "Landlock (reads Python's files only)" if self.landlock else "",
            "seccomp (writes no files, no network, no processes)" if self.seccomp else "",
            "no module but the commonest, as no file is opened" if self.seccomp and not self.may_open else "",
            "limits on memory, time and processes alone" if not self.seccomp else "",
        ]
        return ", ".join(filter(None, walls))

    def command(self) -> list[str]:
        """The command that starts Python behind the outer wall, if there is one.

        No environment reaches it, and no folder but that of its library (-S: no installed packages). Hashes are the
        same every time, so that a program that prints a set prints the same.
        """
        python = os.path.realpath(sys.executable)
        start = [python, "-P", "-s", "-S", "-B", "-X", "utf8", "-c", START, str(HERE.parents[1])]
        if self.bubblewrap is None:
            return start
        walls = [self.bubblewrap, *BUBBLEWRAP]
        for path in [*readable_paths(), python, str(HERE), str(HERE.parent / "__init__.py")]:
            if os.path.islink(path):
                walls += ["--symlink", os.readlink(path), path]
            elif os.path.exists(path):
                walls += ["--ro-bind", path, path]
        return [*walls, "--chdir", "/", "--", *start]


def readable_paths() -> list[str]:
    """The files of Python and the system's libraries."""
    own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), f"{sys.base_prefix}/lib"}
    return [*SYSTEM_LIBRARIES, *sorted(path for path in own if not path.startswith("/usr/lib"))]
