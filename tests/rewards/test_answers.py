"""Answers as they are out there: `answers.yaml` says for each gold answer what is right and what is wrong."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from easyvideor1.rewards.router import score
from easyvideor1.types import Sample

# libyaml: the file is large, and every process of the tests reads it.
ROWS = yaml.load((Path(__file__).parent / "answers.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['type']}: {row['gold'][:40]}" for row in ROWS])
def test_answers_are_worth_what_they_say(row: dict[str, Any]) -> None:
    sample = Sample(
        id="s", problem_type=row["type"], problem="?", gold=row["gold"], options=tuple(row.get("options", ()))
    )
    answers = [(answer, 1.0) for answer in row.get("right", ())] + [(answer, 0.0) for answer in row.get("wrong", ())]
    assert answers
    judged = [(answer, score(sample, f"<answer>{answer}</answer>").parts["accuracy"]) for answer, _ in answers]
    assert judged == answers
