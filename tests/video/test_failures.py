"""The list of failures is shared: every run says what is true of its own data and leaves the rest alone."""

import json
import threading

import pytest

from easyvideor1.errors import MediaError, UsageError
from easyvideor1.jobs.pool import Outcome
from easyvideor1.types import Media
from easyvideor1.video.failures import FailureList
from easyvideor1.video.preprocess import Job, failure_row


def row_of(name: str, *rows: str, **media):
    job = Job(media=Media(kind="video", path=name, **media), rows=rows, source_bytes=0)
    outcome = Outcome(item=job.media, result=None, error=MediaError("damaged", where=name), wall_s=0.1)
    return failure_row(job, outcome)


def media_in(path) -> list[str]:
    return [json.loads(line)["media"] for line in path.read_text().splitlines()]


def test_a_run_over_other_data_leaves_the_list_alone(tmp_path):
    path = tmp_path / "cache" / "failed.jsonl"
    FailureList(path).add(row_of("a.mp4", "one.jsonl:3"))
    other = FailureList(path)
    other.settle([Media(kind="video", path="b.mp4")], data=["two.jsonl"])
    assert media_in(path) == ["a.mp4"]
    other.add(row_of("c.mp4", "two.jsonl:1"))
    other.settle([], data=["two.jsonl"])
    assert media_in(path) == ["a.mp4", "c.mp4"]


def test_what_is_stored_now_or_gone_from_the_data_is_taken_out_and_an_empty_list_vanishes(tmp_path):
    path = tmp_path / "failed.jsonl"
    first = FailureList(path)
    for row in (row_of("a.mp4", "one.jsonl:1"), row_of("b.mp4", "one.jsonl:2"), row_of("c.mp4", "two.jsonl:1")):
        first.add(row)
    first.settle([], data=["one.jsonl", "two.jsonl"])  # its own lines stay
    assert media_in(path) == ["a.mp4", "b.mp4", "c.mp4"]
    second = FailureList(path)  # over one.jsonl, where b.mp4 is not any more
    second.add(row_of("a.mp4", "one.jsonl:1"))
    second.settle([], data=["one.jsonl"])
    assert media_in(path) == ["a.mp4", "c.mp4"]
    FailureList(path).settle([Media(kind="video", path="c.mp4"), Media(kind="video", path="a.mp4")], data=[])
    assert not path.exists()


def test_clip_ranges_of_a_video_and_lines_of_others_are_kept_apart(tmp_path):
    path = tmp_path / "failed.jsonl"
    path.write_text('not json\n[1]\n{"media": "x"}\n' + "[" * 100_000 + "\n")
    failures = FailureList(path)
    failures.add(row_of("a.mp4", "one.jsonl:1", start_s=1.0))
    failures.add(row_of("a.mp4", "one.jsonl:1", start_s=2.0))
    failures.settle([Media(kind="video", path="a.mp4", start_s=3.0)], data=["two.jsonl"])
    assert len(path.read_text().splitlines()) == 6
    FailureList(path).settle([Media(kind="video", path="a.mp4", start_s=1.0)], data=["two.jsonl"])
    assert json.loads(path.read_text().splitlines()[-1])["start_s"] == 2.0
    assert len(path.read_text().splitlines()) == 5


def test_runs_at_the_same_time_lose_no_line(tmp_path):
    path = tmp_path / "failed.jsonl"

    def run(number: int) -> None:
        failures = FailureList(path)
        for index in range(20):
            failures.add(row_of(f"{number}-{index}.mp4", f"{number}.jsonl:{index}"))
            failures.settle([], data=[f"{number}.jsonl"])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(media_in(path)) == sorted(f"{number}-{index}.mp4" for number in range(4) for index in range(20))
    assert [item.name for item in tmp_path.iterdir()] == ["failed.jsonl"]


def test_a_list_that_cannot_be_written_is_wrong_usage(tmp_path):
    (tmp_path / "failed.jsonl").mkdir()
    with pytest.raises(UsageError, match=r"failed\.jsonl: cannot write the list of failures: .* \(use --failed FILE\)"):
        FailureList(tmp_path / "failed.jsonl").add(row_of("a.mp4", "one.jsonl:1"))
