"""The tests of a row about a program: every form that public data sets write, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from easyvideor1.config_data import DataConfig
from easyvideor1.config_reward import RewardConfig
from easyvideor1.errors import DataError, UsageError
from easyvideor1.rewards.code_tests import CodeTests, has_tests, read_tests, same_text
from easyvideor1.rewards.code_trial import tried
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rewards.registry import REGISTRY
from easyvideor1.runs.steps import row_check
from easyvideor1.sandbox.probe import isolation_here
from easyvideor1.sandbox.runs import Limits, Sandbox
from easyvideor1.types import Sample

LIMITS = Limits(cpu_s=10.0, wall_s=60.0, memory_bytes=512 << 20)
CHECK = "def check(candidate):\n    assert candidate([3, 1]) == [1, 3]\n"
SORTS = "def order(xs): return sorted(xs)"
PRINTS = "print(int(input()) * 2)"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(isolation_here()) as opened:
        yield opened


def sample(gold: str = "x = 1", **extra: Any) -> Sample:
    return Sample(id="s", problem_type="coding", problem="Write it.", gold=gold, where="rows.jsonl:1", extra=extra)


FORMS = {
    "texts (APPS)": (sample(json.dumps({"inputs": ["1", "2\n"], "outputs": ["2", "4"]})), PRINTS),
    "lines of texts": (sample(tests={"inputs": [["1"]], "outputs": [["2"]]}), PRINTS),
    "a list of texts (LiveCodeBench)": (
        sample(json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}])),
        PRINTS,
    ),
    "calls (APPS)": (
        sample(json.dumps({"fn_name": "order", "inputs": [[[3, 1]]], "outputs": [[[1, 3]]]})),
        SORTS,
    ),
    "calls with bare outputs": (sample(tests={"fn_name": "order", "inputs": [[[3, 1]]], "outputs": [[1, 3]]}), SORTS),
    "calls in text (LiveCodeBench)": (
        sample(tests=[{"input": "[3, 1]", "output": "[1, 3]", "testtype": "functional"}], fn_name="order"),
        SORTS,
    ),
    "calls of a method": (
        sample(tests=[{"input": [[3, 1]], "output": [1, 3], "fn_name": "order"}]),
        "class Solution:\n    def order(self, xs): return tuple(sorted(xs))",
    ),
    "assertions (MBPP)": (sample(json.dumps(["assert order([3, 1]) == [1, 3]", "assert order(()) == []"])), SORTS),
    "assertions in Python": (sample("import math\nassert math.isclose(order([3, 1])[0], 1)"), SORTS),
    "check (HumanEval)": (sample(SORTS, tests=CHECK, entry_point="order"), SORTS),
    "check that is called": (sample(CHECK + "check(order)"), SORTS),
    "a name of Python's": (sample(CHECK, entry_point="sorted"), "def sorted(xs): return [1, 3]"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_a_right_program_from_a_wrong_one(form, sandbox):
    row, right = FORMS[form]
    assert has_tests(row)
    tests = read_tests(row)
    assert tried(right, tests, sandbox, LIMITS) == (1.0, "")
    wrong = right.replace("* 2", "* 3").replace("sorted(xs)", "list(xs)" if "def sorted" not in right else "sorted(xs)")
    wrong = wrong.replace("return [1, 3]", "return [3, 1]")
    accuracy, why = tried(wrong, tests, sandbox, LIMITS)
    assert accuracy == 0
    assert why


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (sample('{"inputs": [1], "outputs": []}'), "same length"),
        (sample('{"inputs": [], "outputs": []}'), "there are 0"),
        (sample('{"inputs": [[1]], "outputs": [2]}'), "text"),
        (sample(tests='{"inputs": '), "not valid JSON"),
        (sample(tests=CHECK), "entry_point"),
        (sample(tests="order([1])"), "no assertion"),
        (sample(tests="assert ("), "not valid Python"),
        (sample(tests=[1, 2]), "holds assertions, or objects"),
        (sample(tests=[{"input": [1], "output": 2}]), "'fn_name'"),
        (sample(tests=7), "neither a list"),
    ],
)
def test_what_tests_nothing_is_named_with_its_place(row, says):
    with pytest.raises(DataError) as caught:
        read_tests(row)
    text = str(caught.value)
    assert says in text
    assert "rows.jsonl:1: field '" in text


def test_a_program_is_no_tests():
    assert not has_tests(sample("def f(x):\n    assert x\n    return x"))
    assert not has_tests(sample("def f(x): return x\n\nassert f(1) == 1"))
    assert not has_tests(sample("print([1, 2])"))


@pytest.mark.parametrize("wanted", [None, "", False, 0, []])
def test_a_call_that_fails_is_no_empty_result(wanted, sandbox):
    tests = read_tests(sample(tests={"fn_name": "f", "inputs": [[1]], "outputs": [wanted]}))
    results = [
        tried(source, tests, sandbox, LIMITS)[0]
        for source in (f"def f(x): return {wanted!r}", "def f(x): raise ValueError", "import os\nos._exit(0)")
    ]
    assert results == [1, 0, 0]


def test_a_program_that_fails_prints_nothing_right(sandbox):
    tests = read_tests(sample(tests={"inputs": ["1"], "outputs": [""]}))
    assert tried("pass", tests, sandbox, LIMITS) == (1.0, "")
    assert tried("raise ValueError", tests, sandbox, LIMITS)[0] == 0


def test_arguments_come_by_value_and_errors_as_what_they_are(sandbox):
    source = "def take(xs):\n    if not xs: raise ValueError('empty')\n    return xs.pop()"
    tests = (
        "xs = [1, 2]\nassert take(xs) == 2 and xs == [1, 2]\n"
        "try:\n    take([])\n    assert False\nexcept ValueError:\n    pass"
    )
    assert tried(source, CodeTests(assertions=tests), sandbox, LIMITS) == (1.0, "")


def test_values_keep_their_kinds_and_objects_stay_where_they_are(sandbox):
    source = (
        "from collections import Counter, namedtuple\n"
        "Pair = namedtuple('Pair', 'a b')\n"
        "def same(x): return x\n"
        "def count(text): return Counter(text)\n"
        "def pair(): return Pair(1, 2)\n"
        "def numbers():\n    yield 1\n    yield 2\n"
        "class Box:\n    def __init__(self, content): self.content = content\n"
        "    def __len__(self): return len(self.content)\n"
        "    def __getitem__(self, place): return self.content[place]\n"
        "    def __str__(self): return 'a box'\n"
        "    def put(self, item):\n        self.content.append(item)\n        return self\n"
    )
    tests = (
        "from collections import deque\nfrom fractions import Fraction\nfrom decimal import Decimal\n"
        "for value in (None, True, 3, 1 << 90, -5, 2.5, float('inf'), 'text', b'bytes', 1j, (1, 2), [1, (2,)],\n"
        "        {1, 2}, frozenset({1}), {1: {2: 'x'}}, deque([1]), Fraction(1, 3), Decimal('1.50')):\n"
        "    found = same(value)\n    assert found == value and type(found) is type(value), value\n"
        "assert count('aab') == {'a': 2, 'b': 1} and pair() == (1, 2)\n"
        "assert list(numbers()) == [1, 2] and next(numbers()) == 1\n"
        "box = Box([1])\n"
        "assert len(box) == 1 and box[0] == 1 and str(box) == 'a box' and 1 in box.content\n"
        "assert box.put(2).content == [1, 2] and same(box).content == [1, 2] and len(box) == 2\n"
    )
    assert tried(source, CodeTests(assertions=tests), sandbox, LIMITS) == (1.0, "")


@pytest.mark.parametrize(
    ("printed", "wanted", "is_same"),
    [
        ("1\n2\n", "1\n2", True),
        (" a  b \n\n", "a  b", True),
        ("a b", "a  b", True),
        ("1.0", "1", True),
        ("0.1000", "1e-1", True),
        ("1 2", "1\n2", False),
        ("1.0000001", "1", False),
        ("", "0", False),
        ("1e999999999", "1", False),
        ("9" * 10**5, "1", False),
        ("Infinity", "inf", False),
    ],
)
def test_texts_are_compared_by_lines_and_numbers_by_value(printed, wanted, is_same):
    assert same_text(printed, wanted) is is_same


ADD = sample(tests="assert add(2, 3) == 5", gold="def add(a, b): return a + b")
DOUBLE = sample('{"inputs": ["1"], "outputs": ["2"]}')


def test_the_pool_runs_answers_where_it_is_switched_on_and_late_ones_are_wrong():
    texts = [
        (ADD, "<answer>```python\ndef add(a, b):\n    return b + a\n```</answer>"),
        (ADD, "<answer>def add(a, b): return 6</answer>"),
        (ADD, "<answer>def add(a, b</answer>"),
        (ADD, "def add(a, b): return a + b"),
        (DOUBLE, "<answer>print(2 * int(input()))</answer>"),
        (sample("x = 1"), "<answer>x=1</answer>"),
        *[(DOUBLE, f"<answer>while True: {number}</answer>") for number in range(3)],
    ]
    with RewardPool(run_python=True, deadline_s=1.0, workers=1) as pool:
        pool.check([ADD, DOUBLE])
        scores = pool.score(texts)
        assert [score.parts["accuracy"] for score in scores] == [1, 0, 0, 0, 1, 1] + 3 * [0]
        assert [score.is_scored for score in scores] == [True] * len(texts)
        assert pool.cut["time"] == 3
        with pytest.raises(DataError, match="same length"):
            pool.check([sample('{"inputs": ["1"], "outputs": []}')])


PART = """
from easyvideor1.types import Sample

def brevity(sample: Sample, text: str) -> float:
    return 0.5
"""


def test_a_late_answer_is_wrong_beside_parts_of_the_users_own(tmp_path):
    (tmp_path / "mine.py").write_text(PART)
    weights = {"accuracy": 0.5, "brevity": 0.5}
    try:
        with RewardPool(
            run_python=True,
            deadline_s=1.0,
            workers=1,
            weights=weights,
            parts={"brevity": f"{tmp_path}/mine.py:brevity"},
        ) as pool:
            texts = ["<answer>print(2 * int(input()))</answer>", "<answer>while True: pass</answer>"]
            scores = pool.score([(DOUBLE, text) for text in texts])
    finally:
        REGISTRY.parts.clear()
        REGISTRY.places.clear()
        REGISTRY.arguments.clear()
    assert [score.parts["accuracy"] for score in scores] == [1, 0]
    assert [score.parts["brevity"] for score in scores] == [0.5, 0.5]
    # On a busy machine the clock may be first.
    assert any(why in scores[1].reason for why in ("processor time", "not done within"))


LOOKS_FOR_OTHERS = """
import gc, sys
frame, found = sys._getframe(), []
while frame:
    found += [str(value) for value in frame.f_locals.values()]
    frame = frame.f_back
found += [str(value) for value in gc.get_objects() if type(value) in (dict, list, tuple)]
print(5 if any("".join(["MAR", "KER"]) in text for text in found) else 0)
"""


def test_an_answer_finds_nothing_of_the_one_before(sandbox):
    tests = CodeTests(pairs=(("2 3", "5"),))
    assert tried("print(sum(map(int, input().split())))  # MARKER", tests, sandbox, LIMITS)[0] == 1
    adds = CodeTests(assertions="assert add(2, 3) == 5  # MARKER")
    assert tried("def add(a, b): return a + b  # MARKER", adds, sandbox, LIMITS)[0] == 1
    assert tried(LOOKS_FOR_OTHERS, tests, sandbox, LIMITS)[0] == 0
    assert tried(LOOKS_FOR_OTHERS + "# MAR" + "KER", tests, sandbox, LIMITS)[0] == 1  # it would find one


def test_tests_that_nothing_runs_are_an_error_of_the_row():
    with RewardPool() as pool:
        pool.check([ADD])
        with pytest.raises(DataError, match=r"reward\.run_python"):
            pool.check([DOUBLE])
    with RewardPool(sandbox=["./mine"]) as pool:
        pool.check([ADD, DOUBLE, sample(tests="of another kind")])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (RewardConfig(), {"DOUBLE": "reward.run_python"}),
        (RewardConfig(run_python=True), {"BAD": "no assertion"}),
        (RewardConfig(sandbox=("./mine",)), {}),
    ],
)
def test_the_check_before_a_run_says_the_same(settings, says):
    check = row_check(DataConfig(), settings).check_gold
    found = {}
    for name, row in {"ADD": ADD, "DOUBLE": DOUBLE, "BAD": sample(tests="f(1)")}.items():
        try:
            check(row)
        except DataError as error:
            found[name] = str(error)
    assert found.keys() == says.keys()
    assert all(text in found[name] for name, text in says.items())


def test_two_sandboxes_are_refused():
    with pytest.raises(UsageError, match=r"reward.run_python and reward\.sandbox"):
        RewardConfig(run_python=True, sandbox=("./mine",))
