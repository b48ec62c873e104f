"""Which subtitles a model sees, and between which frames."""

import json

import pytest
from support.benchmark_rows import write_files

from easyvideor1.errors import DataError
from easyvideor1.evals import subtitles
from easyvideor1.evals.protocol import load_protocol, prompt_text
from easyvideor1.evals.subtitles import Line
from easyvideor1.evals.table import BENCHMARKS

SRT = """1
00:00:01,000 --> 00:00:03,500
<font color="white" size=".72c">we start here</font>

2
00:00:04,000 --> 00:00:06,000 position:10%
{\\an8}<i>and</i> go
on

broken block
"""


def test_srt_loses_its_markup_and_nothing_else(tmp_path):
    path = tmp_path / "a.srt"
    path.write_bytes(b"\xef\xbb\xbf" + SRT.replace("\n", "\r\n").encode())
    assert subtitles.read_srt(path) == [Line(1.0, 3.5, "we start here"), Line(4.0, 6.0, "and go on")]
    with pytest.raises(DataError, match="cannot read the subtitles"):
        subtitles.read_srt(tmp_path / "gone.srt")


def test_a_line_is_listed_once_if_a_frame_was_sampled_during_it():
    lines = [Line(1.0, 3.5, "one"), Line(4.0, 6.0, "two"), Line(7.0, 8.0, "three")]
    assert subtitles.listed(lines, [0.0, 2.0, 3.0, 7.0]) == "one three"
    assert subtitles.listed(lines, [6.0], between="\n") == "two"
    assert subtitles.listed(lines, [3.7]) == ""


def test_a_prompt_with_subtitles_begins_with_them(tmp_path):
    item = BENCHMARKS["videomme"].load(write_files("videomme", tmp_path)).items[0]
    (tmp_path / "listed.yaml").write_text("subtitles: listed\n")
    text = prompt_text(item, load_protocol("videomme", str(tmp_path / "listed.yaml")), subtitles="we start here").text
    assert text.startswith(
        "This video's subtitles are listed below: \nwe start here\nSelect the best answer to the following "
        "multiple-choice question based on the video and the subtitles. Respond"
    )


@pytest.mark.parametrize("name", ["videomme", "longvideobench", "videomathqa", "videomme_v2"])
def test_a_protocol_without_subtitles_shows_none(name, tmp_path):
    for item in BENCHMARKS[name].load(write_files(name, tmp_path)).items:
        protocol = load_protocol(name)
        assert protocol.subtitles == "none"
        without, given = (prompt_text(item, protocol, subtitles=said).text for said in ("", "spoken words"))
        assert without == given
        assert "subtitles" not in without


WORDS = [
    {"text": "Hello", "start_time": 0.5, "end_time": 0.8},
    {"text": "world.", "start_time": 0.8, "end_time": 1.1},
    {"text": "Next", "start_time": 2.0, "end_time": 2.4},
]


def test_words_become_segments_that_stand_behind_each_frame_they_touch(tmp_path):
    path = tmp_path / "001.jsonl"
    path.write_text("".join(json.dumps(word) + "\n" for word in WORDS))
    found = subtitles.segments(subtitles.read_words(path))
    assert found == [Line(0.5, 1.1, "Hello world."), Line(2.0, 2.4, "Next")]
    assert subtitles.between_frames(found, [0.0, 1.0, 2.5], video_end_s=4.0) == [
        ["[Subtitle 0.50s - 1.10s]: Hello world."],
        ["[Subtitle 0.50s - 1.10s]: Hello world.", "[Subtitle 2.00s - 2.40s]: Next"],
        [],
    ]
    behind = subtitles.behind_frames(path, subtitles.read_words(path), [0.0, 1.0, 2.5], video_end_s=4.0)
    assert behind[1] == "[Subtitle 0.50s - 1.10s]: Hello world.[Subtitle 2.00s - 2.40s]: Next"


def test_a_sentence_ends_a_segment_after_a_shorter_pause():
    words = [Line(0, 1, "Yes."), Line(1.2, 2, "We"), Line(2.4, 3, "go"), Line(3.6, 4, "on")]
    assert [line.text for line in subtitles.segments(words)] == ["Yes.", "We go", "on"]


ENTRIES = [
    {"start": "00:00:01.000", "end": "00:00:03.200", "line": "between two frames"},
    {"start": "00:00:10.000", "end": "00:00:10.400", "line": "short, no frame near"},
    {"timestamp": [20.0, None], "text": "open end"},
    {"timestamp": [30.0, 33], "text": "integer end"},
    {"timestamp": [50.4, 50.9], "text": "short, widened"},
]


def test_frames_and_subtitles_stand_in_the_order_of_longvideobench(tmp_path):
    path = tmp_path / "v_en.json"
    path.write_text(json.dumps(ENTRIES))
    lines = subtitles.read_longvideobench(path, duration_s=58.0)
    times = [0.0, 7.2, 14.4, 21.6, 28.8, 36.0, 43.2, 50.4]
    assert subtitles.interleaved(lines, times) == [0, 1, 2, 3, 4, 5, "open end", 6, "integer end", 7, "short, widened"]
    behind = subtitles.behind_frames(path, lines, times, video_end_s=58.0)
    assert behind == ["", "", "", "", "", "open end", "integer end", "short, widened"]


def test_a_frame_on_the_edge_of_a_subtitle_does_not_show_it():
    assert subtitles.interleaved([Line(7.2, 14.4, "no")], [0.0, 7.2, 14.4]) == [0, 1, 2]


def test_times_count_from_where_the_subtitles_start(tmp_path):
    path = tmp_path / "v_en.json"
    path.write_text(json.dumps(ENTRIES[:1]))
    assert subtitles.read_longvideobench(path, duration_s=58.0, starts_at_s=1.0)[0] == Line(
        0.0, 2.2, "between two frames"
    )


def test_the_form_of_a_file_says_how_it_is_read(tmp_path):
    words, entries = tmp_path / "001.jsonl", tmp_path / "v_en.json"
    words.write_text("".join(json.dumps(word) + "\n" for word in WORDS))
    entries.write_text(json.dumps(ENTRIES))
    said = subtitles.read_subtitles(words, duration_s=9.0)
    assert subtitles.listed_in(words, said, [100.0]) == "Hello world. Next"  # all words, whatever is seen
    lines = subtitles.read_subtitles(entries, duration_s=58.0, starts_at_s=1.0)
    assert subtitles.listed_in(entries, lines, [1.0]) == "between two frames"


def test_a_prompt_says_that_subtitles_stand_between_its_frames(tmp_path):
    item = BENCHMARKS["videomme_v2"].load(write_files("videomme_v2", tmp_path)).items[0]
    text = prompt_text(item, load_protocol("videomme_v2"), are_interleaved=True).text
    assert text.startswith(
        "These are the frames of a video with corresponding subtitles shown between frames. The subtitles indicate "
        "what is being said during the time interval between adjacent frames.Question: "
    )
