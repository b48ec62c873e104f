"""Offline trajectories become rollouts at load."""

import json

import pytest

from easyvideor1.errors import DataError
from easyvideor1.rollout.offline import Trajectory, offline_trajectories, read_trajectories, sample_trajectories
from easyvideor1.types import Sample, StopReason

END = 0


def ids(text: str) -> tuple[int, ...]:
    return (*map(ord, text.removesuffix("<end>")), END)


def text(token_ids) -> str:
    return "".join(chr(token_id) for token_id in token_ids if token_id != END)


def offline(trajectories, limit=100):
    return offline_trajectories(trajectories, response_ids=ids, response_text=text, max_response_tokens=limit)


def test_a_trajectory_becomes_an_offline_rollout_that_ends_its_turn():
    rollout = offline({"a": [Trajectory(response="yes<end>")]}).pick("a", turn=0)
    assert rollout is not None
    assert rollout.token_ids == (*b"yes", END)
    assert (rollout.text, rollout.source, rollout.stop_reason) == ("yes", "offline", StopReason.EOS)
    assert rollout.logprobs is None


def test_what_exceeds_the_response_limit_is_left_out_and_counted():
    # "four" has five tokens with the end token.
    found = offline(
        {"a": [Trajectory(response="four"), Trajectory(response="fives")], "b": [Trajectory(response="sixsix")]}, 5
    )
    assert found.num_too_long == 2
    assert [rollout.text for rollout in found.by_sample["a"]] == ["four"]
    assert found.pick("b", turn=0) is None


def test_several_trajectories_of_a_sample_take_turns():
    found = offline({"a": [Trajectory(response="x"), Trajectory(response="y")]})
    picked = [found.pick("a", turn=turn) for turn in range(4)]
    assert [rollout.text for rollout in picked if rollout] == ["x", "y", "x", "y"]
    assert found.pick("none", turn=0) is None


def test_samples_carry_their_own_trajectories():
    samples = [
        Sample(id="a", problem_type="x", problem="?", gold="!", trajectories=("one", "two"), where="d.jsonl:1"),
        Sample(id="b", problem_type="x", problem="?", gold="!"),
    ]
    found = sample_trajectories(samples)
    assert list(found) == ["a"]
    assert [(item.response, item.where) for item in found["a"]] == [("one", "d.jsonl:1"), ("two", "d.jsonl:1")]


def test_a_data_file_with_trajectories_is_read_as_it_stands(tmp_path):
    path = tmp_path / "collected.jsonl"
    row = {"problem": "What is 1 + 2?", "answer": "3", "problem_type": "numerical"}
    rows = [row | {"problem_id": "a", "offline_output": "one"}, row | {"problem_id": "b"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_trajectories(path)
    assert {sample_id: [item.response for item in items] for sample_id, items in found.items()} == {"a": ["one"]}


def test_a_file_of_trajectories_is_read_by_id(tmp_path):
    path = tmp_path / "offline.jsonl"
    path.write_text(
        '{"id": "a", "response": "no"}\n{"id": "b", "response": "x"}\n'
        '{"id": "a", "response": "y", "logprobs": [-0.5, -1]}\n'
    )
    found = read_trajectories(path)
    assert [item.response for item in found["a"]] == ["no", "y"]
    rollout = offline(found).pick("a", turn=1)
    assert rollout is not None
    assert rollout.logprobs == (-0.5, -1.0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"response": "x"}', r"offline\.jsonl:1: field 'id': must be a text, got None"),
        ('{"id": "a", "response": " "}', r"offline\.jsonl:1: field 'response': must be a text"),
        ('{"id": "a", "response": "x", "logprobs": [0.5, -1]}', "must be a list of finite numbers <= 0"),
        ('{"id": "a", "response": "x", "logprobs": [-Infinity, -1]}', "must be a list of finite numbers <= 0"),
        ('{"id": "a", "response": "x", "logprobs": [true]}', "must be a list of finite numbers <= 0"),
        ('{"id": "a", "response": "x", "logprobs": [-0.5]}', "1 log-probabilities for 2 tokens.*end token included"),
    ],
)
def test_a_wrong_row_names_line_and_field(tmp_path, row, message):
    path = tmp_path / "offline.jsonl"
    path.write_text(row + "\n")
    with pytest.raises(DataError, match=message):
        offline(read_trajectories(path))
