"""A lock between processes that a crash releases: flock on a file, also on shared file systems that support it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from easyvideor1.errors import RunError

log = logging.getLogger(__name__)

MAX_HOLDER_BYTES = 4096
UNSUPPORTED = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock `path` (made if missing, removed afterwards); waits for other processes and threads.

    The kernel frees the lock when its holder dies. On a file system without flock, and where another user's process
    died with the lock, the block runs unlocked, with a warning: the cache's writes are atomic, so the price is work
    done twice, never a wrong result.

    Raises:
        RunError: its folder cannot be written, the disk is full, or what stands in its place is no file of locks.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _acquire(path)
    except OSError as error:
        raise RunError(
            f"{path.parent}: cannot make a lock file: {_reason(error, path)} "
            "(the folder must be writable and have space)"
        ) from error
    try:
        yield
    finally:
        if descriptor is not None:
            # Removed while still held: whoever waits on the old file sees the change and opens the new one.
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            os.close(descriptor)


class Held(Exception):
    """Another process holds the lock; the text is what it wrote about itself."""


@contextlib.contextmanager
def held(path: Path, *, holder: str) -> Iterator[None]:
    """Hold the lock `path` for the time of the block, without waiting; the file stays, its text says who held it last.

    Args:
        holder: description of this process, for others that want the lock.

    Raises:
        Held: another process has it.
        OSError: the file cannot be made.
    """
    descriptor = _open_own(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Held(os.pread(descriptor, MAX_HOLDER_BYTES, 0).decode(errors="replace").strip()) from None
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            log.warning("%s: this file system has no locks; nothing stops a second process from writing here", path)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{holder}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path) -> int | None:
    """A descriptor that holds the lock; None where there can be none, with a warning."""
    while True:
        try:
            descriptor = _open_own(path)
        except PermissionError:
            if not _is_anothers(path):
                raise
            log.warning("%s: a lock of another user; several processes may do the same work", path)
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_same_file(descriptor, path):
                os.truncate(descriptor, 0)
                os.write(descriptor, f"{socket.gethostname()} {os.getpid()}\n".encode())
                return descriptor
        except OSError as error:
            if error.errno in UNSUPPORTED:
                log.warning("%s: this file system has no locks; several processes may decode the same video", path)
                return descriptor
            os.close(descriptor)
            raise
        except BaseException:  # an interrupt while waiting must not leak the descriptor
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open_own(path: Path) -> int:
    """A descriptor of a lock file, which is written: never what a link leads to, never a file that has another name."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EEXIST, "something else stands in its place", str(path))


def _reason(error: OSError, path: Path) -> str | None:
    return f"{path.name} is a link" if error.errno == errno.ELOOP and path.is_symlink() else error.strerror


def _is_anothers(path: Path) -> bool:
    try:
        return path.lstat().st_uid != os.geteuid()
    except OSError:
        return False


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (here.st_ino, here.st_dev) == (there.st_ino, there.st_dev)
