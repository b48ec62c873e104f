"""The process of the answer: its program is run once, and then its names are looked up, read and called as asked."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from easyvideor1.sandbox.frames import read_frame, write_frame
from easyvideor1.sandbox.values import decoded, encoded

MOST_ITEMS = 1_000_000
"""Most items that are taken of an iterator."""


def serve(source: str, *, reader: int, writer: int) -> None:
    """Run a program and answer questions about it until nobody asks any more.

    A question is [what, arguments..]; a reply {"value": ..} or {"error": kind, "text": ..}.
    """
    names: dict[str, Any] = {"__name__": "answer"}
    held: list[Any] = []
    failure: BaseException | None = None
    try:
        exec(compile(source, "answer.py", "exec"), names)
    except BaseException as error:  # noqa: BLE001 - SystemExit too: what is asked later is told why there is nothing
        failure = error

    def hold(value: Any) -> int:
        held.append(value)
        return len(held) - 1

    def look_up(name: str) -> Any:
        if name in names:
            return names[name]
        raise failure or NameError(f"the answer defines no '{name}'")

    actions = _ACTIONS | {"name": look_up}
    while (question := read_frame(reader)) is not None:
        try:
            what, *arguments = decoded(question, held.__getitem__)
            reply: dict[str, Any] = {"value": encoded(actions[what](*arguments), hold)}
        except BaseException as error:  # noqa: BLE001 - whatever the answer raises is the reply
            reply = {"error": type(error).__name__, "text": str(error)[:200]}
        write_frame(writer, reply)


def _call(function: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> Any:
    return function(*arguments, **named)


def _all_of(value: Any) -> list[Any]:
    found = []
    for item in value:
        found.append(item)
        if len(found) > MOST_ITEMS:
            raise ValueError(f"more than {MOST_ITEMS} items")
    return found


_ACTIONS: dict[str, Callable[..., Any]] = {
    "attribute": getattr,
    "call": _call,
    "iter": _all_of,
    "next": next,
    "len": len,
    "getitem": operator.getitem,
    "contains": operator.contains,
    "bool": bool,
    "str": str,
    "repr": repr,
}
