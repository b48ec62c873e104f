"""Rewards of the user: `@reward("my type")` for a problem type, `@part("brevity")` for a part of every score."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from easyvideor1.errors import UsageError
from easyvideor1.problem_types import canonical
from easyvideor1.rewards.input_functions import InputFunction, takes_inputs, takes_list
from easyvideor1.rewards.own_code import load_function, require_keywords, require_signature, wanted_names
from easyvideor1.types import Score

RewardFunction = Callable[..., Score] | InputFunction
"""A sample and the whole response text -> Score; its parts["accuracy"], or else its value, is the accuracy. Or a
function that was written for another project."""
PartFunction = Callable[..., float]
"""A sample and the whole response text -> a number in [0, 1]; it may also take `accuracy` and `num_tokens`."""
Function = TypeVar("Function", bound=Callable)

BUILT_IN_PARTS = ("accuracy", "format", "overlong")
SEEN_BY_PARTS = {"accuracy", "num_tokens"}
"""Arguments that a part of the user's may take: the accuracy of the response, and its length in tokens."""
ANY_TYPE = "*"
"""The name under which a reward is for every problem type without one of its own."""


@dataclass
class Registry:
    """The functions users registered, with the places they can be loaded from again in another process."""

    rewards: dict[str, RewardFunction] = field(default_factory=dict)
    parts: dict[str, PartFunction] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    """("reward" or "part", name) -> "file.py:function"."""
    arguments: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a reward or a part -> keyword arguments of its function."""

    def reward_of(self, problem_type: str) -> RewardFunction | None:
        """The user's reward for a type: its own, or the one for all types; None: the built-in one."""
        return self.rewards.get(problem_type) or self.rewards.get(ANY_TYPE)

    def place_of(self, problem_type: str) -> str:
        """Where the user's reward for a type stands."""
        own = problem_type if problem_type in self.rewards else ANY_TYPE
        return self.places.get(("reward", own), problem_type)


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


def register_places(
    *,
    rewards: Mapping[str, str],
    parts: Mapping[str, str],
    arguments: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Load and register functions named as "file.py:function".

    Args:
        arguments: name of one of the rewards or parts -> keyword arguments of its function.

    Raises:
        UsageError: a function cannot be loaded, or does not take these arguments.
    """
    named = {canonical(name): dict(given) for name, given in arguments.items()}
    if unknown := sorted(named.keys() - {*map(canonical, rewards), *map(canonical, parts)}):
        raise UsageError(
            f"reward.arguments: '{unknown[0]}' is none of reward.rewards and reward.parts; name one of these"
        )
    for problem_type, place in rewards.items():
        name = canonical(problem_type)
        given = named.get(name, {})
        if REGISTRY.places.get(("reward", name)) != place or REGISTRY.arguments.get(name, {}) != given:
            REGISTRY.rewards[name] = _reward(place, given)
            REGISTRY.places["reward", name] = place
            REGISTRY.arguments[name] = given
    for name, place in parts.items():
        _require_free(name)
        given = named.get(canonical(name), {})
        if REGISTRY.places.get(("part", name)) != place or REGISTRY.arguments.get(name, {}) != given:
            function = load_function(place)
            require_keywords(function, given, place)
            require_signature(function, place, named=given.keys() | _seen_by(function))
            REGISTRY.parts[name] = partial(function, **given) if given else function
            REGISTRY.places["part", name] = place
            REGISTRY.arguments[name] = given


def _reward(place: str, arguments: Mapping[str, Any]) -> RewardFunction:
    """The function at a place as a reward."""
    function = load_function(place)
    if takes_inputs(function):
        require_keywords(function, arguments, place)
        return InputFunction(function, takes_list(function), arguments, place)
    require_keywords(function, arguments, place)
    require_signature(function, place, named=arguments)
    return partial(function, **arguments) if arguments else function


def _seen_by(function: Callable) -> set[str]:
    """What a part looks at beside the sample and the text."""
    return SEEN_BY_PARTS & wanted_names(function)


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
    seen = _seen_by(function) if kind == "part" else ()
    require_signature(function, f"{file}:{line}: {what}", named=seen)
    return f"{file}:{function.__qualname__}"
