"""Mistakes in reward files, cases and settings: each ends with its exit code and a line saying where and what to do."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from easyvideor1.cli import main
from easyvideor1.rewards.registry import REGISTRY

CASE = {"id": "c1", "problem_type": "numerical", "ground_truth": "3", "response": "<answer>3</answer>"}
ROW = {"problem_id": 1, "problem_type": "numerical", "problem": "How many?", "answer": "3"}
HEAD = "from easyvideor1.types import Score\n\n"
GOOD = HEAD + "def own(sample, text):\n    return Score(value=1.0)\n"
OWN = "reward.rewards={numerical: own.py:own}"
JUDGE = (
    "reward.judge={base_url: 'http://127.0.0.1:PORT/v1', model: m, problem_types: [numerical], cache_dir: judged, "
    "retries: 0}"
)


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A mistake, and what the command must say about it."""

    says: tuple[str, ...]
    """Texts that stand in one line of the output."""
    code: int = 1
    cases: str = json.dumps(CASE) + "\n"
    """The file of cases, or of rows."""
    own: str = GOOD
    """The reward file own.py."""
    settings: tuple[str, ...] = ()
    action: str = "score"


def case(**changes: object) -> str:
    return json.dumps(CASE | changes) + "\n"


def own(body: str) -> str:
    """A reward file with one function of that body; it starts in line 4."""
    return HEAD + f"def own(sample, text):\n    {body}\n"


MISTAKES = {
    "a line that is no JSON": Mistake(cases=case() + '{"id": "c2",\n', says=("cases.jsonl:2", "JSON")),
    "a line that is no object": Mistake(cases=case() + "[1, 2]\n", says=("cases.jsonl:2", "object")),
    "no problem_type": Mistake(
        cases='{"id": "c1", "ground_truth": "3", "response": ""}\n',
        says=("cases.jsonl:1", "field 'problem_type'", "a case has a problem_type, a ground_truth and a response"),
    ),
    "no ground_truth": Mistake(
        cases='{"id": "c1", "problem_type": "ocr", "response": ""}\n', says=("cases.jsonl:1", "field 'ground_truth'")
    ),
    "no response": Mistake(
        cases=case() + '{"id": "c2", "problem_type": "ocr", "ground_truth": "x"}\n',
        says=("cases.jsonl:2", "field 'response'", "missing"),
    ),
    "an unknown type": Mistake(
        cases=case(problem_type="numercial"),
        says=("cases.jsonl:1", "field 'problem_type'", "did you mean 'numerical'?", "register a reward of your own"),
    ),
    "a gold answer that is no number": Mistake(
        cases=case(ground_truth="many"), says=("cases.jsonl:1", "field 'answer'", "one finite number", "'many'")
    ),
    "several letters for one choice": Mistake(
        cases=case(problem_type="multiple choice", ground_truth="A,C", options=["a", "b", "c"]),
        says=("cases.jsonl:1", "one of the letters A, B, C", "problem_type 'multiple select'"),
    ),
    "an empty gold answer": Mistake(cases=case(ground_truth=""), says=("cases.jsonl:1", "field 'answer'")),
    "a length in quotes": Mistake(
        cases=case(response_length="5", max_response_length=9),
        says=("cases.jsonl:1", "field 'response_length'", "must be a number, got '5'", "without quotes"),
    ),
    "a length without its limit": Mistake(
        cases=case(response_length=5), says=("cases.jsonl:1", "field 'max_response_length'", "must be a number")
    ),
    "no file of cases": Mistake(cases="", says=("cases.jsonl",), action="missing"),
    "no reward file": Mistake(
        code=2, settings=("reward.rewards={numerical: none.py:own}",),
        says=("none.py", "does not exist", "correct the path")
    ),
    "a reward that is no place": Mistake(
        code=2, settings=("reward.rewards={numerical: own}",), says=("'own'", "write path/to/file.py:function")
    ),
    "an unknown function": Mistake(
        code=2, settings=("reward.rewards={numerical: own.py:mine}",),
        says=("own.py", "no function 'mine'", "defines own")
    ),
    "a function that is none": Mistake(
        code=2, own="own = 3\n", settings=(OWN,), says=("own.py", "'own' is no function but int", "name a function")
    ),
    "a signature that does not fit": Mistake(
        code=2, own="def own(prompts, completions, answer):\n    return 1.0\n", settings=(OWN,),
        says=("own.py:own", "must take a sample and a text", "(prompts, completions, answer)"),
    ),
    "an async function": Mistake(
        code=2, own="async def own(sample, text):\n    return 1.0\n", settings=(OWN,),
        says=("own.py:own", "is async", "write a plain function"),
    ),
    "a syntax error": Mistake(
        code=2, own="def own(sample, text)\n    return 1.0\n", settings=(OWN,),
        says=("own.py:1", "SyntaxError", "correct the file"),
    ),
    "an import that fails": Mistake(
        code=2, own="import json\nimport no_such_module\n", settings=(OWN,),
        says=("own.py:2", "No module named 'no_such_module'", "correct the file"),
    ),
    "an exception": Mistake(
        own=own("return Score(value=sample.extra['depth'])"), settings=(OWN,),
        says=("c1", "unexpected KeyError: 'depth'", "own.py:4", "return Score(value=sample.extra['depth'])"),
    ),
    "a number for a Score": Mistake(
        own=own("return 1.0"), settings=(OWN,), says=("c1", "must return a Score, got float", "own.py:own")
    ),
    "nothing for a Score": Mistake(
        own=own("pass"), settings=(OWN,), says=("c1", "must return a Score, got NoneType", "own.py:own")
    ),
    "an accuracy above one": Mistake(
        own=own("return Score(value=2.0)"), settings=(OWN,),
        says=("c1", "must be a number in [0, 1], got 2.0", "own.py:own")
    ),
    "a reward that hangs": Mistake(
        own="import time\n" + own("time.sleep(60)"), settings=(OWN, "reward.deadline_s=1"),
        says=("c1", "not done within 1 s"),
    ),
    "a part that is no number": Mistake(
        own="def brief(sample, text):\n    return 'short'\n", settings=("reward.parts={brief: own.py:brief}",),
        says=("c1", "the part 'brief' must be a number in [0, 1], got 'short'", "own.py:brief"),
    ),
    "a part with a name that is taken": Mistake(
        code=2, own="def own(sample, text):\n    return 1.0\n", settings=("reward.parts={format: own.py:own}",),
        says=("reward.parts", "'format' is a part of every score already", "another name"),
    ),
    "a weight of no part": Mistake(
        code=2, settings=("reward.weights={accuracy: 0.9, brief: 0.1}",),
        says=("reward.weights", "'brief'", "register it with @part"),
    ),
    "weights that are not one": Mistake(
        code=2, settings=("reward.weights={accuracy: 0.9, format: 0.3}",), says=("reward.weights", "sum to 1")
    ),
    "a setting that does not exist": Mistake(
        code=2, settings=("reward.deadline=3",), says=("reward.deadline", "did you mean", "deadline_s")
    ),
    "a decorator on what no worker can import": Mistake(
        code=2, own="from easyvideor1.rewards import reward\n\nown = reward('depth')(lambda sample, text: None)\n",
        settings=(OWN,), says=("own.py:3", "@reward('depth')", "define it with def at the top level"),
    ),
    "a judge that is not there": Mistake(
        code=2, settings=(JUDGE,), says=("reward.judge: m at http://127.0.0.1:", "APIConnectionError")
    ),
    "a judge that may ask nothing": Mistake(
        code=2, settings=(JUDGE[:-1] + ", concurrency: 0}",), says=("reward.judge", "concurrency", "at least 1")
    ),
    "a sandbox that is not there": Mistake(
        cases=case(problem_type="python code", ground_truth="x = 1", response="<answer>x = 1</answer>"),
        settings=("reward.sandbox=[./no-such-command]",), says=("c1", "sandbox", "no-such-command"),
    ),
    "a reward that fails its own golds": Mistake(
        action="test", cases=json.dumps(ROW) + "\n", own=own("return Score(value=0.25)"), settings=(OWN,),
        says=("cases.jsonl:1", "its own gold answer scores 0.25"),
    ),
    "a reward that pays nothing said": Mistake(
        action="test", cases=json.dumps(ROW) + "\n", own=own("return Score(value=1.0)"), settings=(OWN,),
        says=("cases.jsonl:1", "an empty answer scores 1.0"),
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to stand in; whatever a test registers is forgotten after it."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for table in (REGISTRY.rewards, REGISTRY.parts, REGISTRY.places):
        table.clear()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_place_and_a_remedy(
    mistake: Mistake, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "own.py").write_text(mistake.own)
    if mistake.action != "missing":
        (folder / "cases.jsonl").write_text(mistake.cases)
    out = () if mistake.action == "test" else ("--out", "scores.jsonl")
    settings = [setting.replace("PORT", str(free_port())) for setting in mistake.settings]
    action = mistake.action.replace("missing", "score")
    code = main(["reward", action, "cases.jsonl", *settings, *out])
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).splitlines()
    assert code == mistake.code, lines
    assert any(all(text in line for text in mistake.says) for line in lines), "\n".join(lines)
    assert "Traceback" not in printed.out + printed.err
