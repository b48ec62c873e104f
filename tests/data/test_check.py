"""The check of a data set: every wrong row is named, every medium looked at once."""

import json
from dataclasses import dataclass
from pathlib import Path

from easyvideor1.config_data import CacheConfig, SourceConfig
from easyvideor1.data import row_check
from easyvideor1.data.check import Steps, Workers, check_sources
from easyvideor1.data.length_check import LengthCheck, LengthLimit
from easyvideor1.data.media_check import DecodeMedium, VerdictFile
from easyvideor1.data.report import report_of
from easyvideor1.data.row_check import CheckRows, chunks_of
from easyvideor1.data.rows import RowFile
from easyvideor1.errors import DataError, MediaError
from easyvideor1.types import FrameSpec, VisionSpec
from easyvideor1.video.cache import entries
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media

HALF = (0.5, 0.5, 0.5)
VISION = VisionSpec(family="qwen3_vl", patch_px=16, merge=2, temporal_patch=2, image_mean=HALF, image_std=HALF)
SPEC = FrameSpec(max_frames=8, min_pixels=4096)


class LoggedDecode:
    """The real decoder, with a line in a file for each decode, also in other processes."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __call__(self, plan):
        with self.log.open("a") as log:
            log.write(f"{plan.media.name}\n")
        if "refused" in plan.media.name:
            raise MediaError("too few frames", where=plan.media.name)
        return decode(plan, threads=1)


def row(number: int, *videos: Path | str, **fields) -> dict:
    return {
        "problem_id": number,
        "problem": f"Question {number}?",
        "problem_type": "numerical",
        "answer": str(number),
        "videos": [str(video) for video in videos],
    } | fields


@dataclass(frozen=True)
class GoldIsANumber:
    def __call__(self, sample):
        if not sample.gold.isdigit():
            raise DataError(f"gold answer {sample.gold!r} is no number", where=sample.where)


def check(tmp_path: Path, data: Path, *, cache_dir: str | None = None, max_prompt_tokens: int = 10_000):
    verdicts = VerdictFile(tmp_path / "verdicts.jsonl")
    checked = check_sources(
        [SourceConfig(path=str(data))],
        Steps(
            rows=CheckRows(check_gold=GoldIsANumber(), thinking=False, templates=None),
            look=DecodeMedium(
                specs={"video": SPEC, "image": SPEC},
                vision=VISION,
                known=verdicts.known,
                cache=CacheConfig(dir=cache_dir) if cache_dir else None,
                decode=LoggedDecode(tmp_path / "decodes.log"),
            ),
            lengths=LengthCheck(limit=LengthLimit(tokens=max_prompt_tokens), exact=prompt_tokens),
            note=verdicts.note,
        ),
        workers=Workers(processes=1, deadline_s=60),
    )
    return report_of(checked)


def prompt_tokens(sample) -> int:
    return 100 + sum(plan_media(media, SPEC, VISION).num_tokens for media in sample.media)


def decodes(tmp_path: Path) -> int:
    log = tmp_path / "decodes.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_every_problem_of_every_row_is_found_in_one_go(tmp_path, write_video, write_rows):
    good = write_video("good.mp4")
    (tmp_path / "page.mp4").write_text("<html>404</html>")
    refused = write_video("refused.mp4", seed=3)
    data = write_rows(
        [
            row(1, good),
            row(2, "gone.mp4"),
            row(3, tmp_path / "page.mp4"),
            row(4, refused),
            row(5, good, answer="many"),
            row(6, good, problem="<video><video> Which?"),
            row(7, good, problem=""),
            row(1, good),
        ]
    )
    with data.open("a") as file:
        file.write('{"problem": "cut\n')
    report = check(tmp_path, data)
    errors = [problem for problem in report.problems if problem.level == "error"]
    found = {(problem.where.rpartition(":")[2], problem.about) for problem in errors}
    assert found == {
        ("2", "media"),
        ("3", "media"),
        ("4", "media"),
        ("5", "gold"),
        ("6", "row"),
        ("7", "row"),
        ("9", "row"),
    }
    assert report.num_errors == 7
    assert report.num_rows == 9
    assert report.media == {"ok": 1, "error": 3}
    texts = {problem.where.rpartition(":")[2]: problem.text for problem in report.problems}
    assert "gone.mp4" in texts["2"]
    assert "too few frames" in texts["4"]
    (repeated,) = (problem for problem in report.problems if problem.level == "warning")
    assert (repeated.about, repeated.where.rpartition(":")[2]) == ("row", "1")
    assert "1 id occurs on 2 rows (1)" in repeated.text


def test_a_video_is_decoded_once_and_with_known_verdicts_never(tmp_path, write_video, write_rows):
    videos = [write_video(f"{number}.mp4", seed=number) for number in range(3)]
    refused = write_video("refused.mp4", seed=9)
    data = write_rows([row(number, ([*videos, refused])[number % 4]) for number in range(40)])
    first = check(tmp_path, data)
    assert (first.num_decoded, decodes(tmp_path)) == (4, 4)
    second = check(tmp_path, data)
    assert (second.num_decoded, decodes(tmp_path)) == (0, 4)
    assert second.problems == first.problems
    assert second.num_errors == 10
    write_video("0.mp4", seed=77)  # other content: its verdict no longer counts
    assert check(tmp_path, data).num_decoded == 1


def test_with_a_frame_cache_the_check_fills_it(tmp_path, write_video, write_rows):
    data = write_rows([row(1, write_video("a.mp4")), row(2, "a.mp4")])
    check(tmp_path, data, cache_dir=str(tmp_path / "cache"))
    assert len(list(entries(tmp_path / "cache"))) == 1


def test_long_prompts_are_found_from_the_plan(tmp_path, write_video, write_rows):
    # 8 frames of 64x64 pixels: 4 time patches of 2x2 tokens.
    data = write_rows([row(1, write_video("a.mp4", num_frames=24)), row(2, videos=[])])
    report = check(tmp_path, data, max_prompt_tokens=115)
    assert report.num_tokens == [116, 100]
    (problem,) = report.problems
    assert (problem.about, problem.where.rpartition(":")[2]) == ("length", "1")
    assert "116 tokens (16 of them vision), the limit is 115" in problem.text


def test_a_verdict_file_with_a_torn_line_is_still_read(tmp_path, write_video, write_rows):
    data = write_rows([row(1, write_video("a.mp4")), row(2, write_video("b.mp4", seed=2))])
    check(tmp_path, data)
    verdicts = tmp_path / "verdicts.jsonl"
    lines = verdicts.read_text().splitlines()
    assert set(json.loads(lines[0])) == {"key", "reason", "warnings"}
    verdicts.write_text(lines[0] + "\n" + lines[1][:20])
    assert check(tmp_path, data).num_decoded == 1


def test_pieces_of_work_are_bounded_in_rows_and_in_bytes(tmp_path, write_rows, monkeypatch):
    monkeypatch.setattr(row_check, "CHUNK_ROWS", 4)
    monkeypatch.setattr(row_check, "CHUNK_BYTES", 100)
    path = write_rows([{"x": "y" * (200 if number % 5 == 0 else 1)} for number in range(12)])
    places = list(range(1, 12))
    chunks = list(chunks_of(SourceConfig(path=str(path)), RowFile(path), places))
    assert [(chunk.start, len(chunk.rows)) for chunk in chunks] == [(0, 4), (4, 1), (5, 4), (9, 1), (10, 1)]
    assert [where.rpartition(":")[2] for chunk in chunks for where, _ in chunk.rows] == [str(n + 1) for n in places]
