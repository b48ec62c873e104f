"""Rewards of the user: files that work, and mistakes in them, each with a line that says where and what to do."""

import sys
from pathlib import Path

import pytest

from easyvideor1.config_reward import RewardConfig
from easyvideor1.errors import UsageError
from easyvideor1.rewards import part, reward
from easyvideor1.rewards.own_code import load_function
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import Sample

SAMPLE = Sample(id="s1", problem_type="mine", problem="?", gold="x")
HEAD = "from easyvideor1.types import Score\n"


def write(folder: Path, text: str, name: str = "own.py") -> str:
    path = folder / name
    path.write_text(text)
    return f"{path}:judge"


def test_a_file_may_hold_dataclasses_and_import_its_neighbours(tmp_path):
    write(tmp_path, "LIMIT = 0.5\n", "neighbour_of_own.py")
    place = write(
        tmp_path,
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from easyvideor1.types import Score\n"
        "from neighbour_of_own import LIMIT\n"
        "@dataclass\nclass Move:\n    name: str\n"
        "def judge(sample, text):\n    import neighbour_of_own\n"
        "    return Score(value=LIMIT if Move(text).name == sample.gold else neighbour_of_own.LIMIT / 2)\n",
    )
    with RewardPool(rewards={"mine": place}, workers=1) as pool:
        scores = pool.score([(SAMPLE, "x"), (SAMPLE, "y")])
    assert [score.parts["accuracy"] for score in scores] == [0.5, 0.25]


def test_a_neighbour_does_not_hide_a_package(tmp_path):
    write(tmp_path, "raise RuntimeError('hidden')\n", "json.py")
    load_function(
        write(tmp_path, HEAD + "import json\ndef judge(sample, text):\n    return Score(value=json.loads('1'))\n")
    )
    assert str(tmp_path) in sys.path


def test_a_file_with_two_functions_is_imported_once_and_again_after_a_change(tmp_path):
    place = write(
        tmp_path, "COUNT = []\ndef judge(sample, text): return COUNT\ndef other(sample, text): return COUNT\n"
    )
    first, second = load_function(place), load_function(place.replace("judge", "other"))
    assert first(None, None) is second(None, None)
    Path(place.rpartition(":")[0]).write_text("def judge(sample, text): return 'new'  # longer\n")
    assert load_function(place)(None, None) == "new"


def test_a_path_is_relative_to_the_recipe(tmp_path, monkeypatch):
    folder = tmp_path / "recipes"
    folder.mkdir()
    write(folder, "")
    monkeypatch.chdir(tmp_path)
    config = RewardConfig(rewards={"mine": "own.py:judge", "gone": "gone.py:f"}, parts={"p": "own.py:p"})
    found = config.found_from(folder)
    assert found.rewards == {"mine": f"{folder}/own.py:judge", "gone": "gone.py:f"}
    assert found.parts == {"p": f"{folder}/own.py:p"}


USE = "from easyvideor1.rewards import part, reward\n"
MISTAKES = {
    "no file": (None, r"gone\.py: the file of the function 'judge' does not exist; correct the path"),
    "syntax": ("def judge(s, t)\n    return 1\n", r"own\.py:1: cannot be imported: SyntaxError.*correct the file"),
    "a missing module": ("\nimport no_such_module\n", r"own\.py:2: cannot be imported: ModuleNotFoundError"),
    "an error at import": ("x = 1\ny = x / 0\n", r"own\.py:2: cannot be imported: ZeroDivisionError"),
    "another name": ("def judges(s, t): ...\n", r"has no function 'judge'; it defines judges"),
    "a value": ("judge = 3\n", r"'judge' is no function but int; name a function"),
    "too few parameters": ("def judge(t): ...\n", r"own\.py:judge: must take a sample and a text, but takes \(t\)"),
    "too many parameters": ("def judge(a, b, c): ...\n", r"must take a sample and a text, but takes \(a, b, c\)"),
    "async": ("async def judge(s, t): ...\n", r"own\.py:judge: is async or yields; write a plain function"),
    "a generator": ("def judge(s, t):\n    yield 1\n", r"is async or yields"),
    "a part of a built-in name": (
        f"{USE}@part('accuracy')\ndef judge(s, t): ...\n",
        r"'accuracy' is a part of every score already; give yours another name",
    ),
    "a decorated lambda": (
        f"{USE}judge = reward('mine')(lambda s, t: 1)\n",
        r"own\.py:2: @reward\('mine'\): '<lambda>' cannot be imported by a worker process; define it with def",
    ),
    "a decorated inner function": (
        f"{USE}def make():\n    @reward('mine')\n    def judge(s, t): ...\n    return judge\njudge = make()\n",
        r"own\.py:3: @reward\('mine'\): 'make.<locals>.judge' cannot be imported",
    ),
    "a decorated class": (f"{USE}@reward('mine')\nclass judge: ...\n", r"decorates <class .*no function"),
    "a decorator without a name": (
        f"{USE}@reward\ndef judge(s, t): ...\n",
        r'@reward takes a name: write @reward\("my type"\)',
    ),
    "a decorated function of one parameter": (
        f"{USE}@reward('mine')\ndef judge(s): ...\n",
        r"own\.py:2: @reward\('mine'\): must take a sample and a text, but takes \(s\)",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_file_is_a_usage_error_when_it_is_named(tmp_path, name):
    text, message = MISTAKES[name]
    place = f"{tmp_path}/gone.py:judge" if text is None else write(tmp_path, text)
    with pytest.raises(UsageError, match=message) as raised:
        RewardPool(rewards={"mine": place})
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("place", ["own.py", "own:judge", "own.py:", "own.py:a b", "own.txt:judge"])
def test_a_place_that_names_no_function_is_a_usage_error(place):
    with pytest.raises(UsageError, match=r"does not name a function; write path/to/file\.py:function"):
        RewardPool(parts={"mine": place})


OUT_OF_RANGE = "the accuracy must be a number in [0, 1], got"
RUN_TIME = {
    "an exception": (
        "    return Score(value=sample.extra['depth'])",
        "unexpected KeyError: 'depth' ({file}:3: return Score(value=sample.extra['depth']))",
    ),
    "one from a library": (
        "    import json; return json.loads(text)",
        "unexpected JSONDecodeError: Expecting value: line 1 column 1 (char 0) "
        "({file}:3: import json; return json.loads(text))",
    ),
    "nothing returned": ("    Score(value=1.0)", "the reward must return a Score, got NoneType ({file}:judge)"),
    "a number returned": ("    return 1.0", "the reward must return a Score, got float ({file}:judge)"),
    "a value out of range": ("    return Score(value=7)", f"{OUT_OF_RANGE} 7 ({{file}}:judge)"),
    "not a number": ("    return Score(value=float('nan'))", f"{OUT_OF_RANGE} nan ({{file}}:judge)"),
    "a text as value": ("    return Score(value='1')", f"{OUT_OF_RANGE} '1' ({{file}}:judge)"),
}


@pytest.mark.parametrize("name", RUN_TIME)
def test_a_mistake_at_run_time_leaves_the_response_unscored_with_file_line_and_text(tmp_path, caplog, name):
    body, reason = RUN_TIME[name]
    place = write(tmp_path, HEAD + f"def judge(sample, text):\n{body}\n")
    with RewardPool(rewards={"mine": place}, workers=1) as pool:
        (score,) = pool.score([(SAMPLE, "what the model wrote")])
    assert not score.is_scored
    assert score.reason == reason.format(file=place.rpartition(":")[0])
    assert "s1" in caplog.text
    assert "what the model wrote" in caplog.text


def test_a_part_that_is_no_number_leaves_the_response_unscored(tmp_path):
    place = write(tmp_path, "def judge(sample, text):\n    return None\n")
    four = Sample(id="s", problem_type="numerical", problem="?", gold="4")
    with RewardPool(parts={"mine": place}, weights={"accuracy": 0.9, "mine": 0.1}, workers=1) as pool:
        (score,) = pool.score([(four, "<answer>4</answer>")])
    assert score.reason == f"the part 'mine' must be a number in [0, 1], got None ({place})"


def test_decorators_refuse_what_no_worker_could_import():
    with pytest.raises(UsageError, match="cannot be imported by a worker process"):

        @reward("mine")
        def inner(sample, text): ...

    namespace: dict = {"part": part}
    with pytest.raises(UsageError, match="stands in no file"):
        exec("@part('mine')\ndef typed_in(sample, text): ...\n", namespace)
