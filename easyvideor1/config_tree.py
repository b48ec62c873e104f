"""Trees of plain values to frozen dataclasses and back: overrides, unknown keys, types."""

from __future__ import annotations

import dataclasses
import difflib
import os
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

from easyvideor1.config_paths import expanded
from easyvideor1.config_yaml import read_yaml
from easyvideor1.errors import UsageError

Config = TypeVar("Config")


def read_tree(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        UsageError: an unreadable file, broken YAML, a key that stands twice, or something else than a mapping.
    """
    where = f"{path}: not valid YAML"
    try:
        tree = read_yaml(path.read_text(encoding="utf-8"), where=where)
    except OSError as error:
        raise UsageError(f"{path}: cannot read the recipe: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: {error}; save the file as UTF-8") from None
    if not isinstance(tree, dict):
        raise UsageError(
            f"{path}: the file holds {_kind(tree)}; a recipe has sections with keys, such as 'train: {{steps: 100}}'"
        )
    return tree


def _kind(value: Any) -> str:
    """What a YAML value is, in words."""
    names = {list: "a list", str: "a text", dict: "a section", bool: "a truth value", type(None): "nothing"}
    return names.get(type(value), f"the number {value}")


def apply_overrides(tree: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Put each "a.b=value" into a copy of the tree.

    >>> apply_overrides({"a": {"b": 1}}, ["a.b=2", "a.c=[x, y]"])
    {'a': {'b': 2, 'c': ['x', 'y']}}
    """
    tree = _copy(tree)
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"override '{word}' is not of the form section.key=value")
        *sections, last = key.split(".")
        node = tree
        for section in sections:
            child = node.setdefault(section, {})
            if not isinstance(child, dict):
                raise UsageError(f"override '{word}': '{section}' is a value, not a section")
            node = child
        node[last] = read_yaml(text, where=f"override '{word}': not a YAML value")
        if isinstance(node[last], str) and "#" in text and "#" not in node[last]:
            raise UsageError(f"override '{word}': YAML ignores what follows ' #'; put the value in quotes")
    return tree


def to_tree(config: object) -> Any:
    """The plain mapping of a config, as it would stand in a YAML file."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {item.name: to_tree(getattr(config, item.name)) for item in dataclasses.fields(config)}
    if isinstance(config, Mapping):
        return {key: to_tree(value) for key, value in config.items()}
    if isinstance(config, (tuple, list)):
        return [to_tree(value) for value in config]
    return config


def absolute(config: Any) -> Any:
    """The same configuration with paths that mean the same in every working folder."""
    hints = typing.get_type_hints(type(config), include_extras=True)
    return dataclasses.replace(config, **{name: _absolute(hint, getattr(config, name)) for name, hint in hints.items()})


def _absolute(hint: Any, value: Any) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if value is None:
        return None
    if origin is Annotated:
        return os.path.abspath(value)
    if dataclasses.is_dataclass(value):
        return absolute(value)
    if origin in (Union, types.UnionType):
        return _absolute(next(arg for arg in args if arg is not type(None)), value)
    if origin is tuple and args[-1] is Ellipsis:
        return tuple(_absolute(args[0], item) for item in value)
    if origin is Mapping:
        return {key: _absolute(args[1], item) for key, item in value.items()}
    return value


def build(kind: type[Config], tree: Any, *, where: str, path: str = "") -> Config:
    """Fill a config dataclass from a mapping, checking every name and type.

    Raises:
        UsageError: names the file, the key, what is allowed and the nearest known key.
    """
    if not isinstance(tree, Mapping):
        first = dataclasses.fields(kind)[0].name  # type: ignore[arg-type]
        remedy = f"write {{key: value}}, such as {{{first}: ..}}" if tree is not None else "remove it for the defaults"
        raise UsageError(
            f"{where}: '{path}' is a section with keys, but {_kind(tree)} was given: {tree!r:.80}; {remedy}"
        )
    hints = typing.get_type_hints(kind, include_extras=True)
    known = {item.name: item for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in tree:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(known)}"
            raise UsageError(f"{where}: unknown key '{_join(path, key)}'; {hint}")
    values = {}
    for name, item in known.items():
        if name in tree:
            values[name] = _value(hints[name], tree[name], where=where, path=_join(path, name))
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise UsageError(f"{where}: missing key '{_join(path, name)}'")
    try:
        return kind(**values)
    except UsageError as error:
        # A rule of the section itself; the file is not known there.
        text = str(error)
        raise UsageError(text if text.startswith(f"{where}: ") else f"{where}: {text}") from None


def _value(hint: Any, value: Any, *, where: str, path: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return build(typing.cast(type, hint), value, where=where, path=path)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        if value == "None" and type(None) in args:
            raise UsageError(f"{where}: '{path}' is the text 'None'; the YAML for no value is null")
        return _value(next(arg for arg in args if arg is not type(None)), value, where=where, path=path)
    if origin is Annotated:
        text = _value(args[0], value, where=where, path=path)
        return expanded(text, where=f"{where}: '{path}'")
    if origin is Literal:
        if value in args:
            return value
        near = difflib.get_close_matches(str(value), [str(arg) for arg in args], n=1)
        hint_text = f"; did you mean '{near[0]}'?" if near else ""
        raise UsageError(f"{where}: '{path}' must be one of {', '.join(map(str, args))}, got {value!r}{hint_text}")
    if origin is tuple:
        return _tuple(args, value, where=where, path=path)
    if origin in (Mapping, dict) or hint is Mapping:
        if isinstance(value, Mapping):
            inner = args[1] if args else Any
            return {str(key): _value(inner, item, where=where, path=_join(path, key)) for key, item in value.items()}
        raise UsageError(f"{where}: '{path}' must be a mapping, got {value!r}")
    return _scalar(hint, value, where=where, path=path)


def _tuple(args: tuple, value: Any, *, where: str, path: str) -> tuple:
    if not isinstance(value, (list, tuple)):
        raise UsageError(f"{where}: '{path}' must be a list, got {value!r}; write it in brackets, [.., ..]")
    if len(args) == 2 and args[1] is Ellipsis:
        args = (args[0],) * len(value)
    if len(args) != len(value):
        raise UsageError(f"{where}: '{path}' must have {len(args)} values, got {len(value)}")
    return tuple(
        _value(arg, item, where=where, path=f"{path}[{index}]")
        for index, (arg, item) in enumerate(zip(args, value, strict=True))
    )


def _scalar(hint: Any, value: Any, *, where: str, path: str) -> Any:
    if hint is Any:
        return value
    try:
        if hint is float and isinstance(value, (int, str)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    if isinstance(value, hint) and not (hint in (int, float) and isinstance(value, bool)):
        return value
    raise UsageError(f"{where}: '{path}' must be {hint.__name__}, got {value!r:.80}{_spelling(hint, value)}")


def _spelling(hint: Any, value: Any) -> str:
    """How a value is written that was probably meant; "" where none is known."""
    if hint is str and isinstance(value, (bool, int, float)):
        return f"; a text that looks like another kind of value stands in quotes, in a command as '\"{value}\"'"
    if hint is int and isinstance(value, float) and value.is_integer():
        return f"; write {value:.0f}"
    if hint is int and isinstance(value, str) and value.isdecimal():
        return f"; write {int(value)}, without zeros in front or quotes"
    if hint is bool and str(value).lower() in ("true", "false", "1", "0"):
        return f"; write {'true' if str(value).lower() in ('true', '1') else 'false'}, without quotes"
    return ""


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _copy(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(value) for value in tree] if isinstance(tree, list) else tree
