"""Rewards of one's own: `@reward("my type")` for a problem type, `@part("brevity")` for a part of every score."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from easyvideor1.errors import UsageError
from easyvideor1.problem_types import canonical
from easyvideor1.types import Sample, Score

RewardFunction = Callable[[Sample, str], Score]
"""A sample and the whole response text -> Score; its parts["accuracy"], or else its value, is the accuracy."""
PartFunction = Callable[[Sample, str], float]
"""A sample and the whole response text -> a number in [0, 1]."""
Function = TypeVar("Function", bound=Callable)


@dataclass
class Registry:
    """The functions users registered, with the places they can be loaded from again in another process."""

    rewards: dict[str, RewardFunction] = field(default_factory=dict)
    parts: dict[str, PartFunction] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    """("reward" or "part", name) -> "file.py:function"."""


REGISTRY = Registry()


def reward(problem_type: str) -> Callable[[Function], Function]:
    """Register a function `(sample, text) -> Score` as the reward of a problem type; it replaces a built-in one."""

    def register(function: Function) -> Function:
        _add("reward", canonical(problem_type), function, REGISTRY.rewards)
        return function

    return register


def part(name: str) -> Callable[[Function], Function]:
    """Register a function `(sample, text) -> float` as a part of every score; reward.weights gives its weight."""

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
        if REGISTRY.places.get(("part", name)) != place:
            REGISTRY.parts[name] = load_function(place)
            REGISTRY.places["part", name] = place


def load_function(place: str) -> Callable:
    """The function at "path/to/file.py:function"."""
    path, colon, name = place.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise UsageError(f"'{place}' does not name a function; write path/to/file.py:function")
    if not Path(path).is_file():
        raise UsageError(f"{path}: the file of the function '{name}' does not exist")
    spec = importlib.util.spec_from_file_location(f"easyvideor1_user_{Path(path).stem}", path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        # Whatever the user's file does wrong at import, the remedy is the same: mend the file.
        raise UsageError(f"{path}: cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{path}: has no function '{name}'")
    return function


def _add(kind: str, name: str, function: Callable, functions: dict) -> None:
    functions[name] = function
    REGISTRY.places[kind, name] = f"{inspect.getsourcefile(function)}:{function.__qualname__}"
