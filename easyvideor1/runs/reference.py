"""Every key of a recipe with its type, default, unit and meaning, read from the configuration's own source."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Union

from easyvideor1.algo.algorithms import NOT_OPTIONS, Algorithm
from easyvideor1.config import RunConfig

UNITS = {
    "_s": "seconds",
    "_tokens": "tokens",
    "_frac": "share, 0 to 1",
    "_mb": "MiB",
    "_bytes": "bytes",
    "_pixels": "pixels",
    "_frames": "frames",
    "_steps": "steps",
    "fps": "frames per second",
    "max_kl": "nats per token",
}
"""End of a key -> its unit."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of a recipe."""

    name: str
    """Name of the key with its sections: "data.video.fps"."""
    type: str
    default: str
    """Default in YAML; "required" where there is none."""
    unit: str
    """ "" where it has none."""
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a recipe with its own keys; deeper sections follow it."""

    name: str
    meaning: str
    keys: tuple[Key, ...]


def sections() -> list[Section]:
    """All sections in the order of a recipe, the top level first under the name ""."""
    found = list(_walk(RunConfig, "", _first_line(RunConfig)))
    place = next(place for place, section in enumerate(found) if section.name == "algorithm")
    options = next(_walk(Algorithm, "algorithm.options", "Changes of the named algorithm; defaults are each its own."))
    keys = tuple(replace(key, default="by name") for key in options.keys if key.name.split(".")[-1] not in NOT_OPTIONS)
    return [*found[: place + 1], replace(options, keys=keys), *found[place + 1 :]]


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").split("\n\n")[0]


def _walk(kind: type, name: str, meaning: str) -> Iterator[Section]:
    docs, hints = field_docs(kind), typing.get_type_hints(kind)
    keys, deeper = [], []
    for item in dataclasses.fields(kind):
        path = f"{name}.{item.name}" if name else item.name
        inner = _section_of(hints[item.name])
        if inner is not None:
            is_list = typing.get_origin(hints[item.name]) is tuple
            deeper.append((inner, f"{path}[]" if is_list else path, docs[item.name]))
        if inner is None or typing.get_origin(hints[item.name]) is not None:  # a list of sections is a key itself
            keys.append(
                Key(
                    name=path,
                    type=_type(hints[item.name]),
                    default=_default(item),
                    unit=next((unit for end, unit in UNITS.items() if item.name.endswith(end)), ""),
                    meaning=docs[item.name],
                )
            )
    yield Section(name=name, meaning=meaning, keys=tuple(keys))
    for inner, path, text in deeper:
        yield from _walk(inner, path, text)


def field_docs(kind: type) -> dict[str, str]:
    """Field of a dataclass -> the text under it in the source, on one line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {item.name: "" for item in dataclasses.fields(kind)}
    name = None
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found[name] = " ".join(str(node.value.value).split()).replace("None:", "null:")
            name = None
        else:
            name = None
    return found


def _section_of(hint: Any) -> type | None:
    """The dataclass a hint holds, alone, in a tuple or beside None."""
    for candidate in (hint, *typing.get_args(hint)):
        if dataclasses.is_dataclass(candidate):
            return typing.cast(type, candidate)
    return None


def _type(hint: Any) -> str:
    """A type in words of YAML.

    >>> _type(tuple[str, ...]), _type(int | None), _type(Literal["a", "b"])
    ('list of text', 'whole number or null', 'a | b')
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if arg is type(None) else _type(arg) for arg in args)
    if origin is Literal:
        return " | ".join(map(str, args))
    if origin is tuple:
        return f"list of {_type(args[0])}" if args[-1] is Ellipsis else f"list of {len(args)} {_type(args[0])}s"
    if origin is not None:
        return f"mapping of {_type(args[0])} to {_type(args[1])}"
    if dataclasses.is_dataclass(hint):
        return "section"
    return {str: "text", int: "whole number", float: "number", bool: "true | false"}.get(hint, "any value")


def _default(item: dataclasses.Field) -> str:
    if item.default is not dataclasses.MISSING:
        return _yaml(item.default)
    return "required" if item.default_factory is dataclasses.MISSING else _yaml(item.default_factory())


def _yaml(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def markdown() -> str:
    """The reference page (docs/configuration.md)."""
    parts = [
        "# Configuration: every key of a recipe",
        "",
        "Generated from the source by `easyvideor1 config --markdown`; a test keeps this page and the source equal.",
        "A recipe is a YAML file with these sections. Every key can be overridden on the command line as",
        "`section.key=value`, in every command that takes settings.",
    ]
    for section in sections():
        parts += ["", f"## {section.name or 'top level'}", "", section.meaning, ""]
        if section.keys:
            parts += ["| key | type | default | unit | meaning |", "|---|---|---|---|---|"]
        for key in section.keys:
            cells = (f"`{key.name}`", key.type, f"`{key.default}`", key.unit, key.meaning)
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(parts) + "\n"
