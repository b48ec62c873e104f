"""The manifest of a checkpoint: size and checksum of each of its files, written last, so that what has one is whole."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import xxhash

from easyvideor1.disk import sync
from easyvideor1.training.tensor_file import WRITE_BYTES, Written

NAME = "manifest.json"
MOST_BYTES = 16 << 20
"""Most bytes of a manifest; more is damage."""
THREADS = 8
"""Files that are read at once."""


def seal(folder: Path, files: Mapping[str, Written]) -> None:
    """Write the manifest of a folder and make sure that all of it is on the disk.

    Args:
        files: path in the folder -> what was written; the files that are not named are read.
    """
    listed = {
        str(path.relative_to(folder)): None for path in sorted(folder.rglob("*")) if path.is_file()
    } | dict.fromkeys(files)
    found = {name: files.get(name) or _read(folder / name) for name in listed}
    content = {name: {"bytes": item.num_bytes, "xxh3_128": item.digest} for name, item in found.items()}
    text = json.dumps({"files": content, "xxh3_128": _digest(content)}, indent=1)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")
    for path in [*folder.rglob("*"), folder]:
        sync(path)


def fault_of(folder: Path) -> str | None:
    """What is wrong with the files of a folder by its manifest; None: every byte is as it was written."""
    try:
        listed = _listed(folder)
    except FileNotFoundError:
        return f"it has no {NAME}: it was not finished, or comes from another version of easyvideor1"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return f"{NAME} cannot be read ({error})"
    with ThreadPoolExecutor(max_workers=THREADS) as threads:
        faults = threads.map(lambda item: _fault(folder / item[0], item[1]), listed.items())
        return next((f"{name} {fault}" for name, fault in zip(listed, faults, strict=True) if fault), None)


def _listed(folder: Path) -> dict[str, Written]:
    path = folder / NAME
    if not stat.S_ISREG(path.stat().st_mode) or path.stat().st_size > MOST_BYTES:
        raise ValueError("no regular file of a fitting size")
    tree = json.loads(path.read_bytes())
    if _digest(tree["files"]) != tree["xxh3_128"]:
        raise ValueError("its own checksum does not fit")
    return {name: Written(num_bytes=item["bytes"], digest=item["xxh3_128"]) for name, item in tree["files"].items()}


def _digest(content: object) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(content, sort_keys=True).encode())


def _fault(path: Path, expected: Written) -> str | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "is no regular file"
        if status.st_size != expected.num_bytes:
            return f"has {status.st_size} bytes instead of {expected.num_bytes}"
        if _read(path).digest != expected.digest:
            return "has other bytes than were written (its checksum does not fit)"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def _read(path: Path) -> Written:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while piece := file.read(WRITE_BYTES):
            digest.update(piece)
        return Written(num_bytes=file.tell(), digest=digest.hexdigest())
