"""What ranks tell each other, with real processes."""

from __future__ import annotations

import socket
from contextlib import nullcontext

import pytest
from support.on_ranks import results
from support.rank_cases import lose_the_other, part_ways, talk, wait_in_vain

from easyvideor1.errors import DataError, RunError, UsageError
from easyvideor1.training.ranks import Ranks, TorchRanks, joined


def test_one_process_is_its_own_sum_and_its_errors_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined(timeout_s=1) as ranks:
        assert type(ranks) is Ranks
        assert (ranks.rank, ranks.size, ranks.is_first, ranks.group) == (0, 1, True, None)
        assert ranks.gather("a", of="letters") == ["a"]
        assert (ranks.sum(2.5, of="loss"), ranks.most(3, of="packs")) == (2.5, 3)
        assert ranks.share([1, 2, 3]) == [1, 2, 3]
        error = DataError("broken", where="7.mp4")
        with pytest.raises(DataError) as raised, ranks.agree("work"):
            raise error
        assert raised.value is error


def test_two_ranks_have_the_same_numbers_and_the_same_errors() -> None:
    first, second = results(talk)
    assert (first.pop("rank"), second.pop("rank")) == ((0, 2, True), (1, 2, False))
    assert (first.pop("share"), second.pop("share")) == ([10, 12, 14], [11, 13])
    assert (first.pop("bug"), second.pop("bug")) == (
        "ZeroDivisionError: division by zero",
        "RunError: rank 0 failed: ZeroDivisionError: division by zero",
    )
    assert first == second
    assert first == {
        "gather": [{"rank": 0, "ids": [0, 1, 2]}, {"rank": 1, "ids": [0, 1, 2, 3]}],
        "sum": 0.1 + 0.2,
        "most": 5,
        "well": "",
        "data": "DataError: 7.mp4: broken (replace it)",
        "both": "RunError: rank 0 stops",
        "after": 2.0,
    }


def test_ranks_that_gather_different_things_are_told_so() -> None:
    first, second = results(part_ways)
    assert "rank 0 of 2 is at 'packs' while rank 1 is at 'losses'" in first
    assert "rank 1 of 2 is at 'losses' while rank 0 is at 'packs'" in second


def test_a_rank_that_does_not_come_is_named_with_its_last_call() -> None:
    (exchange, first), _ = results(wait_in_vain)
    assert exchange.startswith("rank 0 waited in vain for rank 1, with which it computes a pack (parallel.sequence): ")
    assert exchange.endswith("raise parallel.timeout_s")
    assert "waited in vain at 'packs': rank 1 did not come, its last call was 'rollouts'" in first
    first, second = results(lose_the_other)
    assert second == "left"
    tensors, values = first.split("\n")
    assert "waited in vain for tensors of another; last heard of: rank 1 at 'rollouts'" in tensors
    assert "Run the same command again to go on; where a rank was only slower than parallel.timeout_s=60" in tensors
    assert "waited in vain at 'packs'" in values


def test_an_error_of_the_work_itself_is_not_taken_for_a_lost_rank() -> None:
    ranks = TorchRanks.__new__(TorchRanks)  # not connected to any
    with pytest.raises(RuntimeError, match="shapes differ"), ranks.losses_told():
        raise RuntimeError("shapes differ")


def test_ranks_that_do_not_find_each_other_are_told_what_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("easyvideor1.training.ranks.START_S", 2.0)
    with (
        pytest.raises(RunError, match=rf"did not find each other within 2 s .*MASTER_PORT={port}"),
        joined(timeout_s=9),
    ):
        pass


PLACE = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}


@pytest.mark.parametrize(
    ("local_rank", "told"),
    [("2", r"3 or more ranks .* has 2 GPUs.* set LOCAL_RANK=0"), (None, r"LOCAL_RANK is not set .* of the 2 GPUs")],
)
def test_more_ranks_than_gpus_are_named(monkeypatch: pytest.MonkeyPatch, local_rank: str | None, told: str) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    for name, value in (PLACE if local_rank is None else PLACE | {"LOCAL_RANK": local_rank}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=told), joined(timeout_s=9):
        pass


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ({"WORLD_SIZE": "many"}, "WORLD_SIZE=many in the environment is no number of ranks"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0 in the environment is no number"),
        ({"WORLD_SIZE": "2"}, "RANK and MASTER_ADDR and MASTER_PORT are not set; start them by torchrun"),
        (PLACE | {"RANK": ""}, "4 ranks train together, but RANK is not set"),
        ({"WORLD_SIZE": ""}, None),
        ({"RANK": "3", "LOCAL_RANK": "3"}, None),
    ],
)
def test_what_a_scheduler_left_in_the_environment_is_no_launcher(
    monkeypatch: pytest.MonkeyPatch, there: dict[str, str], told: str | None
) -> None:
    for name in PLACE:
        monkeypatch.delenv(name, raising=False)
    for name, value in there.items():
        monkeypatch.setenv(name, value)
    with nullcontext() if told is None else pytest.raises(UsageError, match=told), joined(timeout_s=9) as ranks:
        assert ranks.size == 1
