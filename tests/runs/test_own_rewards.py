"""Rewards of the user are tried on rows of the data before a run starts."""

import json
from pathlib import Path

import pytest

from easyvideor1.config_data import SourceConfig
from easyvideor1.config_reward import RewardConfig
from easyvideor1.data.check import CheckedData, CheckedFile
from easyvideor1.data.row_check import Columns
from easyvideor1.data.rows import RowFile
from easyvideor1.errors import UsageError
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.runs.own_rewards import try_own_rewards

TYPES = ["numerical", "numerical", "ocr"]


@pytest.fixture
def data(tmp_path: Path) -> CheckedData:
    path = tmp_path / "rows.jsonl"
    rows = [{"problem": "?", "answer": "3", "problem_type": kind, "problem_id": str(n)} for n, kind in enumerate(TYPES)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = Columns(
        ids=["0", "1", "2"], problem_types=TYPES, modalities=["text"] * 3, text_bytes=[1] * 3, questions=[0, 1, 2],
        golds=[0] * 3, unknown=[""] * 3,
    )  # fmt: skip
    file = CheckedFile(source=SourceConfig(path=str(path)), rows=RowFile(path), columns=columns, ids=columns.ids)
    return CheckedData(files=[file], seen={})


@pytest.mark.parametrize(
    ("rewards", "problem"),
    [
        ({"numercal": "good"}, r"no row is of the type 'numercal' that .*good is for; the rows are of numerical, ocr"),
        ({"numerical": "good", "ocr": "good", "*": "good"}, r"no row is of the type '\*'"),
        ({"ocr": "bad"}, r"bad cannot score the gold answer of .*rows.jsonl:3: unexpected KeyError: 'nothing'"),
        ({"*": "good", "ocr": "good"}, ""),
    ],
)
def test_a_reward_that_cannot_work_stops_the_run_before_it_starts(
    data: CheckedData, tmp_path: Path, rewards: dict[str, str], problem: str
) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "def good(reward_inputs): return [{'overall': 1.0} for _ in reward_inputs]\n"
        "def bad(reward_inputs): return [{'overall': item['nothing']} for item in reward_inputs]\n"
    )
    config = RewardConfig(rewards={kind: f"{path}:{name}" for kind, name in rewards.items()}, workers=1)
    with RewardPool.from_config(config, thinking=False, max_response_tokens=16) as pool:
        if not problem:
            try_own_rewards(pool, config, [data])
            return
        with pytest.raises(UsageError, match=problem):
            try_own_rewards(pool, config, [data])
