"""Rewards of the user: `@reward("my type")` for a problem type, `@part("brevity")` for a part of every score."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from easyvideor1.errors import UsageError
from easyvideor1.problem_types import canonical
from easyvideor1.rewards.own_code import load_function, require_signature
from easyvideor1.types import Sample, Score

RewardFunction = Callable[[Sample, str], Score]
"""A sample and the whole response text -> Score; its parts["accuracy"], or else its value, is the accuracy."""
PartFunction = Callable[[Sample, str], float]
"""A sample and the whole response text -> a number in [0, 1]."""
Function = TypeVar("Function", bound=Callable)

BUILT_IN_PARTS = ("accuracy", "format", "overlong")


@dataclass
class Registry:
    """The functions users registered, with the places they can be loaded from again in another process."""

    rewards: dict[str, RewardFunction] = field(default_factory=dict)
    parts: dict[str, PartFunction] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    """("reward" or "part", name) -> "file.py:function"."""


REGISTRY = Registry()


def reward(problem_type: str) -> Callable[[Function], Function]:
    """Register a function `(sample, text) -> Score` as the reward of a problem type; it replaces a built-in one.

    Raises:
        UsageError: the function cannot be a reward, or no other process could import it.
    """
    _require_name(problem_type, "reward", "my type")

    def register(function: Function) -> Function:
        _add("reward", canonical(problem_type), function, REGISTRY.rewards)
        return function

    return register


def part(name: str) -> Callable[[Function], Function]:
    """Register a function `(sample, text) -> float` as a part of every score; reward.weights gives its weight.

    Raises:
        UsageError: the name is taken, or the function cannot be a part, or no other process could import it.
    """
    _require_name(name, "part", "brevity")

    def register(function: Function) -> Function:
        _add("part", name, function, REGISTRY.parts)
        return function

    return register


def register_places(*, rewards: Mapping[str, str], parts: Mapping[str, str]) -> None:
    """Load and register functions named as "file.py:function"; raises UsageError for one that cannot be loaded."""
    for problem_type, place in rewards.items():
        name = canonical(problem_type)
        if REGISTRY.places.get(("reward", name)) != place:
            REGISTRY.rewards[name] = load_function(place)
            REGISTRY.places["reward", name] = place
    for name, place in parts.items():
        _require_free(name)
        if REGISTRY.places.get(("part", name)) != place:
            REGISTRY.parts[name] = load_function(place)
            REGISTRY.places["part", name] = place


def _require_name(name: object, decorator: str, example: str) -> None:
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f'@{decorator} takes a name: write @{decorator}("{example}"), got {name!r}')
    if decorator == "part":
        _require_free(name)


def _require_free(name: str) -> None:
    if name in BUILT_IN_PARTS:
        raise UsageError(f"reward.parts: '{name}' is a part of every score already; give yours another name")


def _add(kind: str, name: str, function: Callable, functions: dict) -> None:
    functions[name] = function
    REGISTRY.places[kind, name] = _place(kind, name, function)


def _place(kind: str, name: str, function: Callable) -> str:
    """The place from which another process can import a function; raises UsageError where there is none."""
    what = f"@{kind}({name!r})"
    if not inspect.isfunction(function):
        raise UsageError(f"{what}: decorates {function!r}, which is no function; decorate a function (sample, text)")
    file, line = function.__code__.co_filename, function.__code__.co_firstlineno
    if not Path(file).is_file():
        raise UsageError(
            f"{what}: the function '{function.__name__}' stands in no file that a worker process could import; "
            "put it into a file"
        )
    if "." in function.__qualname__ or not function.__qualname__.isidentifier():
        raise UsageError(
            f"{file}:{line}: {what}: '{function.__qualname__}' cannot be imported by a worker process; "
            "define it with def at the top level of its file"
        )
    require_signature(function, f"{file}:{line}: {what}")
    return f"{file}:{function.__qualname__}"
