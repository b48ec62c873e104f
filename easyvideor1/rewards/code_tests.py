"""The tests of a row about a Python program: texts to read and print, or assertions that call it.

They stand in the row's field `tests`, or in its answer. Forms: JSON with `inputs` and `outputs` and perhaps `fn_name`
(APPS, TACO); a JSON list of {`input`, `output`} or of assertions (LiveCodeBench, MBPP); Python source with assertions,
or with a function `check(candidate)` (HumanEval).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from easyvideor1.errors import DataError
from easyvideor1.rewards.registry import REGISTRY
from easyvideor1.rewards.task import bad_gold
from easyvideor1.types import Sample

FIELD = "tests"
ENTRY_POINT_FIELDS = ("entry_point", "fn_name")
PythonUse = Literal["compared", "run", "run by a command"]
"""What is done with Python answers."""
MAX_TESTS = 1000
MAX_TESTS_CHARS = 16 << 20
_ASSERTIONS = re.compile(r"^(?:assert\b|def check\()", re.MULTILINE)
_OTHER_CODE = re.compile(r"^(?:async def|class|def (?!check\())", re.MULTILINE)
_JSON_TESTS = re.compile(r'\s*[\[{].*"(?:inputs?|assert)|\s*\[\s*"\s*assert\b', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class CodeTests:
    """What a program must do: print the right texts, or pass assertions; one of the two."""

    pairs: tuple[tuple[str, str], ...] = ()
    """(text on standard input, text it must print)."""
    assertions: str = ""
    """A Python program that calls it."""
    entry_point: str = ""
    """Name of the function that is tested; "" where the assertions tell."""


def are_in_gold(sample: Sample) -> bool:
    """True where the answer of a row is tests, not a program."""
    gold = sample.gold
    if _JSON_TESTS.match(gold):
        return True
    return bool(_ASSERTIONS.search(gold)) and not _OTHER_CODE.search(gold)


def has_tests(sample: Sample) -> bool:
    """Whether a row has tests; they are not read."""
    return bool(sample.extra.get(FIELD)) or are_in_gold(sample)


def is_tried(sample: Sample) -> bool:
    """True where a Python answer can be run on tests, and no code of the user's scores it instead."""
    is_python = sample.problem_type == "python code" and REGISTRY.reward_of(sample.problem_type) is None
    return is_python and has_tests(sample)


def check_tests(sample: Sample, use: PythonUse) -> None:
    """Make sure that the tests of a row, if it has any, can be used.

    Raises:
        DataError: they cannot be read, or nothing runs them although no program would equal them.
    """
    if not is_tried(sample) or use == "run by a command":
        return
    if use == "run":
        read_tests(sample)
    elif are_in_gold(sample):
        raise bad_gold(
            sample,
            "the answer is tests, and programs are only compared as text",
            remedy="set reward.run_python: true, which runs programs in a sandbox",
        )


def tests_text(sample: Sample) -> str:
    """All that `read_tests` looks at besides the answer, as text."""
    found = [sample.extra.get(name) for name in (FIELD, *ENTRY_POINT_FIELDS)]
    return repr(found) if any(found) and sample.problem_type == "python code" else ""


def read_tests(sample: Sample) -> CodeTests:
    """The tests of a row that has some.

    Raises:
        DataError: they cannot be read, or test nothing.
    """
    given: Any = sample.extra.get(FIELD) or sample.gold
    entry_point = next((str(sample.extra[name]) for name in ENTRY_POINT_FIELDS if sample.extra.get(name)), "")
    try:
        return _tests(given, entry_point)
    except _NoTestsError as error:
        raise _bad(sample, str(error)) from None


class _NoTestsError(Exception):
    """What stands there is no tests; the text says why."""


def _bad(sample: Sample, problem: str) -> DataError:
    error = bad_gold(
        sample,
        f"tests of a program: {problem}",
        remedy='write {"inputs": [..], "outputs": [..]}, with "fn_name" for a function, or assertions in Python',
    )
    if not sample.extra.get(FIELD):
        return error
    return DataError(f"tests of a program: {problem}", where=error.where, field=FIELD, remedy=error.remedy)


def _tests(given: Any, entry_point: str) -> CodeTests:
    if isinstance(given, str):
        if len(given) > MAX_TESTS_CHARS:
            raise _NoTestsError(f"longer than {MAX_TESTS_CHARS} characters")
        if given.lstrip()[:1] not in ("{", "["):
            return _asserted(given, entry_point)
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise _NoTestsError(f"not valid JSON: {error}") from None
    if isinstance(given, Mapping):
        entry_point = str(given.get("fn_name") or entry_point)
        inputs, outputs = given.get("inputs", given.get("input")), given.get("outputs", given.get("output"))
        if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
            raise _NoTestsError("'inputs' and 'outputs' are lists of the same length")
        return _by_examples(list(zip(inputs, outputs, strict=True)), entry_point, is_text="fn_name" not in given)
    if not isinstance(given, list) or not given:
        raise _NoTestsError("neither a list, nor an object, nor text")
    if all(isinstance(item, str) for item in given):
        return _asserted("\n".join(given), entry_point)
    if not all(isinstance(item, Mapping) and "input" in item and "output" in item for item in given):
        raise _NoTestsError("a list of tests holds assertions, or objects with 'input' and 'output'")
    names = [str(item["fn_name"]) for item in given if item.get("fn_name")]
    is_text = not names and all(item.get("testtype", item.get("type", "stdin")) in _TEXT_KINDS for item in given)
    pairs = [(item["input"], item["output"]) for item in given]
    return _by_examples(pairs, names[0] if names else entry_point, is_text=is_text)


_TEXT_KINDS = ("stdin", "stdin_stdout")


def _by_examples(pairs: Sequence[tuple[Any, Any]], entry_point: str, *, is_text: bool) -> CodeTests:
    if not 0 < len(pairs) <= MAX_TESTS:
        raise _NoTestsError(f"there are {len(pairs)}, but must be 1 to {MAX_TESTS}")
    if is_text:
        return CodeTests(pairs=tuple((_text(given), _text(wanted)) for given, wanted in pairs))
    if not entry_point.isidentifier():
        raise _NoTestsError("calls need the name of a function in 'fn_name'")
    cases = json.dumps([(_arguments(given), _value(wanted)) for given, wanted in pairs])
    source = f"import json\n{_COMPARE}\n_CASES = json.loads({cases!r})\n{_CALLS.format(name=entry_point)}"
    return CodeTests(assertions=source, entry_point=entry_point)


def _text(item: Any) -> str:
    """A text, or the lines of one."""
    if isinstance(item, str):
        return item
    if isinstance(item, list) and all(isinstance(line, str) for line in item):
        return "\n".join(item)
    raise _NoTestsError("what a program reads and prints is text; calls need 'fn_name'")


def _arguments(given: Any) -> list[Any]:
    """Arguments of a call: a list, or JSON texts in lines."""
    if isinstance(given, str):
        return [_value(line) for line in given.split("\n") if line.strip()]
    if not isinstance(given, list):
        raise _NoTestsError("the input of a call is a list of its arguments")
    return given


def _value(item: Any) -> Any:
    """A value that may be written as JSON text."""
    if not isinstance(item, str):
        return item
    try:
        return json.loads(item)
    except (ValueError, RecursionError):
        return item


_COMPARE = """
def _plain(value):
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value

def _same(value, wanted):
    if isinstance(wanted, float) and isinstance(value, (int, float)):
        return value == wanted or abs(value - wanted) <= 1e-6 * max(1.0, abs(wanted))
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_same, value, wanted))
    if isinstance(wanted, dict):
        is_alike = isinstance(value, dict) and value.keys() == wanted.keys()
        return is_alike and all(_same(value[key], wanted[key]) for key in wanted)
    return value == wanted and (type(value) is type(wanted) or isinstance(value, (int, float)))
"""
_CALLS = """
for _number, (_arguments, _wanted) in enumerate(_CASES, 1):
    _found = _plain({name}(*_arguments))
    _wanted = _plain(_wanted)
    _alone = isinstance(_wanted, list) and len(_wanted) == 1
    assert _same(_found, _wanted) or _alone and _same(_found, _wanted[0]), f"test {{_number}} of {{len(_CASES)}}"
"""
"""As APPS has it, a list of one output may be that of the call or hold it; a tuple is a list, as JSON knows none."""


def _asserted(source: str, entry_point: str) -> CodeTests:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _NoTestsError(f"not valid Python: {error}") from None
    nodes = list(ast.walk(tree))
    if not any(isinstance(node, ast.Assert) for node in nodes):
        raise _NoTestsError("there is no assertion in them")
    is_check = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
    is_called = any(_is_call_of_check(node) for node in nodes)
    if is_check and not is_called:
        if not entry_point.isidentifier():
            raise _NoTestsError("check(candidate) needs the name of the function in the field 'entry_point'")
        source = f"{source}\n\ncheck({entry_point})\n"
    return CodeTests(assertions=source, entry_point=entry_point)


def _is_call_of_check(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check"


def same_text(printed: str, wanted: str) -> bool:
    """Whether a program printed what it should, as LiveCodeBench compares: line by line, without spaces at the ends,
    and numbers of a line by value.

    >>> same_text("1 2.50\\n", "1.0 2.5"), same_text("1 2", "1\\n2"), same_text("", "0"), same_text("nan", "nan")
    (True, False, False, True)
    """
    lines, wanted_lines = _lines(printed), _lines(wanted)
    return len(lines) == len(wanted_lines) and all(map(_same_line, lines, wanted_lines))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(line: str, wanted: str) -> bool:
    if line == wanted:
        return True
    words, wanted_words = line.split(), wanted.split()
    return len(words) == len(wanted_words) and all(map(_same_word, words, wanted_words))


def _same_word(word: str, wanted: str) -> bool:
    if word == wanted:
        return True
    numbers = _NUMBER.fullmatch(word), _NUMBER.fullmatch(wanted)
    if not all(numbers):
        return False
    return Decimal(word) == Decimal(wanted)


_NUMBER = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?", re.ASCII)
