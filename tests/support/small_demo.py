"""The demo with a dozen clips instead of 240: everything else is as users have it."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from easyvideor1.demo import dataset
from easyvideor1.demo.dataset import SplitSize

SPLITS = {
    "train": SplitSize(videos=8, images=3, texts=2),
    "validation": SplitSize(videos=4, images=2, texts=2),
}


def run_script(script: Path, folder: Path, words: Sequence[str]) -> int:
    """A script of the user's, started in a folder; for a process of its own."""
    dataset.SPLITS = SPLITS
    os.chdir(folder)
    sys.argv = [script.name, *words]
    runpy.run_path(str(script), run_name="__main__")
    return 0
