"""The YAML of recipes: YAML 1.1 as PyYAML reads it, without the readings that surprise people."""

from __future__ import annotations

import re
from typing import Any

import yaml

from easyvideor1.errors import UsageError

BOOL, FLOAT, INT, MERGE, NULL = (f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "merge", "null"))
# Whole numbers have no zero in front: 010 is 8 in YAML 1.1 and 10 in YAML 1.2, so it is neither. A number that is
# written with colons (1:30 is 90 in YAML 1.1) and a date stay text, and 1e-6 needs no dot.
INTS = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)\Z")
FLOATS = re.compile(
    r"(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
WITHOUT_DOT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+\Z")
REMEDIES = {
    "'\\t' that cannot start": "indent with spaces, not with tabs",
    "unhashable key": "a key is a word",
    "another document": "a recipe has one document, so remove what follows the line '---'",
    "could not determine a constructor": "a recipe has no objects of Python; if it is a text, put it in quotes",
    "undefined alias": "if it is a text, put it in quotes",
    "cannot start any token": "if it is a text, put it in quotes",
    "expected '<document start>'": "if it is a text, put it in quotes",
}
"""A part of an error of PyYAML -> what to do."""


class _Loader(yaml.SafeLoader):
    """YAML without pickles, without keys that silently replace an earlier one of the same mapping, and without sections
    that hold themselves."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own way

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.deep_construct = True  # so that a section that holds itself is an error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in lines:
                text = f"key '{key.value}' stands twice, first on line {lines[key.value]}"
                raise yaml.MarkedYAMLError(problem=text, problem_mark=key.start_mark)
            if isinstance(key, yaml.ScalarNode):
                lines[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """YAML that PyYAML reads as it was, and this module too."""


for _tag, _pattern, _first in (
    (BOOL, re.compile(r"(?:yes|no|true|false|on|off)\Z", re.IGNORECASE), "yYnNtTfFoO"),
    (INT, INTS, "-+0123456789"),
    (FLOAT, FLOATS, "-+0123456789."),
    (NULL, re.compile(r"(?:~|null|Null|NULL|)\Z"), "~nN"),
    (MERGE, re.compile(r"<<\Z"), "<"),
):
    _Loader.add_implicit_resolver(_tag, _pattern, list(_first) + [""] * (_tag == NULL))
_Dumper.add_implicit_resolver(FLOAT, WITHOUT_DOT, list("-+0123456789"))  # a text such as 1e5 gets quotes


def read_yaml(text: str, *, where: str) -> Any:
    """The value of a YAML text.

    Args:
        where: the beginning of an error, such as "a.yaml: not valid YAML".

    Raises:
        UsageError: it is none.
    """
    try:
        return _load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        remedy = next((f" ({remedy})" for part, remedy in REMEDIES.items() if part in str(error)), "")
        raise UsageError(f"{where}: {error}{remedy}") from None


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def dump_yaml(tree: Any) -> str:
    """The YAML of plain values, which reads as they are."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
