"""The process of the tests: a program of assertions. Names that it lacks are asked for in the process of the answer.

Only plain data crosses, so the answer sees what it is called with and never what is expected of it, and comparisons
are those of built-in types. An object of a class of the answer's stays where it is; it can be called, read and
iterated over from here, and equals nothing but itself.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

from easyvideor1.sandbox.frames import BrokenFrameError, read_frame, write_frame
from easyvideor1.sandbox.values import decoded, encoded


class AnswerError(Exception):
    """The answer raised something that is no built-in exception."""


class AnswerGoneError(BaseException):
    """The process of the answer has ended; no Exception, so that no test takes it for an expected one."""


class Answer:
    """The process of the answer, behind two pipes."""

    def __init__(self, *, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        self._numbers: dict[int, int] = {}
        """id of a Held object -> its number."""

    def ask(self, what: str, *arguments: Any) -> Any:
        """What the answer's process says; raises what was raised there."""
        try:
            write_frame(self._writer, encoded([what, *arguments], _number))
            reply = read_frame(self._reader)
        except (OSError, BrokenFrameError) as error:
            raise AnswerGoneError(f"the answer stopped: {error}") from None
        if not isinstance(reply, dict):
            raise AnswerGoneError("the program ended while it was called")
        if "error" in reply:
            raise _raised(str(reply["error"]), str(reply.get("text", "")))
        return decoded(reply.get("value"), lambda number: Held(self, number))


class Held:
    """An object that stays in the process of the answer."""

    def __init__(self, answer: Answer, number: int) -> None:
        self.__dict__["_held"] = (answer, number)

    def _ask(self, what: str, *arguments: Any) -> Any:
        return self.__dict__["_held"][0].ask(what, self, *arguments)

    def __getattr__(self, name: str) -> Any:
        return self._ask("attribute", name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._ask("call", list(arguments), named)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ask("iter"))

    def __next__(self) -> Any:
        return self._ask("next")

    def __len__(self) -> int:
        return self._ask("len")

    def __getitem__(self, key: Any) -> Any:
        return self._ask("getitem", key)

    def __contains__(self, item: Any) -> bool:
        return self._ask("contains", item)

    def __bool__(self) -> bool:
        return self._ask("bool")

    def __str__(self) -> str:
        return self._ask("str")

    def __repr__(self) -> str:
        return self._ask("repr")


class Names(dict[str, Any]):
    """The names of the tests: their own, those of Python and its library, and only then those of the answer, which
    could stand in for what compares.

    Args:
        entry_point: a name that is the answer's even where Python has one like it, "" for none.
        called: names that are called; no module of Python's library is.
    """

    def __init__(self, answer: Answer, entry_point: str, called: set[str]) -> None:
        super().__init__({"__name__": "tests"})
        self._answer = answer
        self._entry_point = entry_point
        self._modules = sys.stdlib_module_names - called

    def __missing__(self, name: str) -> Any:
        if name == self._entry_point:
            self[name] = _entry(self._answer, name)
        elif hasattr(builtins, name):
            raise KeyError(name)  # Python then looks there
        elif name in self._modules:
            self[name] = importlib.import_module(name)
        else:
            self[name] = self._answer.ask("name", name)
        return self[name]


def passed(tests: str, entry_point: str, *, reader: int, writer: int) -> tuple[bool, str]:
    """Run tests against an answer: whether all hold, and what did not."""
    try:
        tree = ast.parse(tests)
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = {function.id for function in calls if isinstance(function, ast.Name)}
        exec(compile(tree, "tests.py", "exec"), Names(Answer(reader=reader, writer=writer), entry_point, called))
    except BaseException as error:  # noqa: BLE001 - whatever a test raises is its verdict
        return False, f"{type(error).__name__}: {error}"[:200].rstrip(": ")
    return True, ""


def _entry(answer: Answer, name: str) -> Any:
    """The function of the answer with a name, or the method of its `Solution`."""
    try:
        return answer.ask("name", name)
    except NameError:
        solution = answer.ask("name", "Solution")
        return getattr(solution(), name)


def _number(value: Any) -> int:
    if isinstance(value, Held):
        return value.__dict__["_held"][1]
    raise TypeError(f"an answer is given plain data, not {type(value).__name__}")


def _raised(kind: str, text: str) -> Exception:
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        with contextlib.suppress(TypeError):  # of those that take more than a text, such as UnicodeDecodeError
            return found(text)
    return AnswerError(f"{kind}: {text}")
