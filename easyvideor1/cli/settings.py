"""How every command takes settings: `--recipe RECIPE section.key=value ..`, data files beside them."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from easyvideor1.config import Settings
from easyvideor1.config_data import SourceConfig
from easyvideor1.errors import UsageError
from easyvideor1.jobs.worker import usable_cores
from easyvideor1.recipe import data_files, load_settings

SECTIONS = {item.name for item in dataclasses.fields(Settings)}


def add_settings(parser: argparse.ArgumentParser, *, data: bool = True) -> None:
    """--recipe and words; read them with `read_settings` and, where there are data files, `data_sources`."""
    if data:
        metavar = "DATA | section.key=value"
        words_help = "data files of rows (default: those of the recipe), and settings"
    else:
        metavar, words_help = "section.key=value", "settings"
    parser.add_argument("words", nargs="*", metavar=metavar, help=f"{words_help} (`easyvideor1 config` lists them)")
    parser.add_argument("--recipe", help="take settings from a recipe; settings on the command line override it")
    if data:
        parser.add_argument("--media-root", help="folder that relative media paths start from (default: the file's)")
        parser.add_argument("--cache", metavar="DIR", help="folder of the frame cache, the same as cache.dir=DIR")
        parser.add_argument("--model", metavar="DIR", help="folder of the model, the same as model.path=DIR")


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    cores = usable_cores()
    parser.add_argument("--workers", type=int, default=cores, help=f"processes of one core each (default: {cores})")


def read_settings(args: argparse.Namespace) -> Settings:
    """The settings of a command.

    Raises:
        UsageError: no such recipe, an unknown key or a value that cannot be.
    """
    named = {"cache.dir": getattr(args, "cache", None), "model.path": getattr(args, "model", None)}
    overrides = [word for word in args.words if is_setting(word)]
    overrides += [f"{key}={json.dumps(value)}" for key, value in named.items() if value is not None]
    if getattr(args, "workers", 1) < 1:
        raise UsageError(f"--workers must be at least 1, got {args.workers}")
    return load_settings(args.recipe, overrides)


def data_sources(args: argparse.Namespace, settings: Settings, *, training_only: bool = False) -> list[SourceConfig]:
    """The data files named on the command line, or else the recipe's.

    Raises:
        UsageError: neither is there.
    """
    files = [word for word in args.words if not is_setting(word)]
    if files:
        named = [SourceConfig(path=path, media_root=args.media_root) for path in files]
        return [file for source in named for file in data_files(source)]
    sources = [*settings.data.train, *(() if training_only else settings.data.validation)]
    if not sources:
        raise UsageError("name at least one data file, or a --recipe that does")
    return sources


def only_settings(words: Sequence[str]) -> None:
    """Refuse words that are no settings."""
    for word in words:
        if not is_setting(word):
            raise UsageError(f"'{word}' is no setting; write section.key=value (`easyvideor1 config` lists them)")


def is_setting(word: str) -> bool:
    """Whether a word of the command line is a setting and not a file.

    >>> is_setting("data.video.fps=1"), is_setting("data/train.jsonl"), is_setting("seed=3")
    (True, False, True)
    """
    key, equals, _ = word.partition("=")
    is_key = key.split(".")[0] in SECTIONS or all(part.isidentifier() for part in key.split("."))
    return bool(equals) and is_key and not Path(word).exists()
