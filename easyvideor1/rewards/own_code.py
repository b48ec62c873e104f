"""Files with rewards of the user: each is imported once and checked when it is named; errors name file and line."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from easyvideor1.errors import EasyVideoError, JobError, UsageError

SHOWN_CHARS = 200
_MODULES: dict[tuple[str, int], ModuleType] = {}
"""(file, its time of change) -> what was imported from it."""


def load_function(place: str) -> Callable:
    """The function at "path/to/file.py:function".

    The file may define dataclasses and import its neighbours.

    Raises:
        UsageError: there is no such file or function, or the file cannot be imported.
    """
    path, colon, name = place.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise UsageError(f"'{place}' does not name a function; write path/to/file.py:function")
    if not Path(path).is_file():
        raise UsageError(f"{path}: the file of the function '{name}' does not exist; correct the path")
    module = _imported(Path(path))
    function = getattr(module, name, None)
    if function is None:
        defined = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        known = f"; it defines {', '.join(defined)}" if defined else ""
        raise UsageError(f"{path}: has no function '{name}'{known}")
    if not callable(function):
        raise UsageError(f"{path}: '{name}' is no function but {type(function).__name__}; name a function")
    return function


def require_signature(function: Callable, where: str, *, named: Iterable[str] = ()) -> None:
    """Raise UsageError for a function that cannot be called with a sample and a text, or gives no result at once.

    Args:
        named: names of further arguments that it is given.
    """
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(f"{where}: is async or yields; write a plain function that returns its result")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # of compiled code, which does not tell
    try:
        signature.bind(None, None, **dict.fromkeys(named))
    except TypeError:
        raise UsageError(f"{where}: must take a sample and a text, but takes {signature}") from None


def require_keywords(function: Callable, arguments: Mapping[str, Any], where: str) -> None:
    """Raise UsageError for keyword arguments that a function does not take."""
    try:
        inspect.signature(function).bind_partial(**arguments)
    except TypeError as error:
        raise UsageError(f"reward.arguments: {where}: {error}; it takes {inspect.signature(function)}") from None
    except ValueError:
        return


@functools.lru_cache(maxsize=256)
def wanted_names(function: Callable) -> frozenset[str]:
    """Names of the parameters of a function; none where compiled code does not tell."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except ValueError:
        return frozenset()


def call(function: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """The result of a function of the user; an exception comes as a JobError with the line that raised it."""
    try:
        return function(*values, **named)
    except (EasyVideoError, MemoryError):
        raise
    except Exception as error:
        raise JobError(
            f"unexpected {type(error).__name__}: {error}"[:SHOWN_CHARS] + f" ({_raised_at(error, function)})"
        ) from error


def _imported(path: Path) -> ModuleType:
    """The module of a file, imported where that has not been done since the file changed."""
    path = path.resolve()
    key = (str(path), path.stat().st_mtime_ns)
    if key not in _MODULES:
        _MODULES[key] = _import(path)
    return _MODULES[key]


def _import(path: Path) -> ModuleType:
    name = f"easyvideor1_user_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while they are made
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last: a neighbour must not hide a package
    linecache.checkcache(str(path))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if isinstance(error, UsageError):
            raise
        # Whatever the user's file does wrong at import, the remedy is the same: correct the file.
        raise UsageError(
            f"{_import_failed_at(error, path)}: cannot be imported: {type(error).__name__}: {error}; correct the file"
        ) from error
    return module


def _import_failed_at(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename or path}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _raised_at(error: Exception, function: Callable) -> str:
    """File, line and its text: the last line of the user's own file on the way to an exception, or the very last."""
    frames = traceback.extract_tb(error.__traceback__)
    own_file = getattr(getattr(getattr(function, "func", function), "__code__", None), "co_filename", "")
    own = [frame for frame in frames if frame.filename == own_file] or list(frames)
    return f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line}"[: 2 * SHOWN_CHARS]
