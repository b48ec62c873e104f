"""The one time span an answer names, in seconds."""

import pytest

from easyvideor1.errors import DataError
from easyvideor1.rewards.measures import interval_iou
from easyvideor1.rewards.numbers.times import read_interval
from easyvideor1.rewards.router import check, score
from easyvideor1.types import Sample

READS_12_TO_30 = (
    '{"time": [12, 30]}', '{"time": [12.0, 30.0]}', '{"time": ["12", "30"]}', '{"time": ["12s", "30s"]}',
    "{'time': [12, 30]}", '{"time": (12, 30)}', '{"time": [[12, 30]]}', '{"time": ["00:12", "00:30"]}',
    '{"time": "12 to 30"}', '{"timestamp": [12, 30]}', '{"start": 12, "end": 30}',
    '{"start_time": "00:12", "end_time": "00:30"}', '[{"start": 12, "end": 30}]', "[12, 30]", "[12.0,30.0]",
    "(12, 30)", "[[12, 30]]", "12 to 30", "12.0 to 30.0", "12 - 30", "12-30", "12\u201330", "12 \u2014 30 s",
    "12~30", "12s - 30s", "12s-30s", "from 12s to 30s", "From 12 seconds to 30 seconds.",
    "between 12 and 30 seconds", "00:12 - 00:30", "0:12-0:30", "00:00:12 - 00:00:30", "00:12 to 00:30",
    "\u4ece12\u79d2\u523030\u79d2", "12\u79d2\u81f330\u79d2", "12\u79d2-30\u79d2", "\uff11\uff12\uff0d\uff13\uff10",
    "The man sings from 12 to 30 seconds.", "start: 12, end: 30", '```json\n{"time": [12, 30]}\n```',
    'The span is {"time": [12, 30]}.', "\\boxed{12 - 30}", "**12 - 30**", "12,30", "12 sec to 30 sec",
    '{time: [12, 30]}', '{"time": [12, 30],}', '{"time_range": [12, 30]}', '{"time": [1.2e1, 3e1]}', "- 12 to 30",
    "0.2 min to 0.5 min", "12to30", "\\boxed{12\\text{ to }30}", "\\boxed{12 - 30\\text{ s}}", "12s to30s",
    '{"start_second": 12, "end_second": 30}',
    '{"begin": 12, "finish": 30}',
    '{"start_sec": 12, "end_sec": 30}', '{"segments": [[12, 30]]}', "{\u201ctime\u201d: [12, 30]}", "\u200b12 to 30",
    "00:00:12,000 --> 00:00:30,000", '{"Time": [12, 30]}',
    # Brackets of words beside the JSON, and the keys of the field's models.
    'The span (see there) is {"time": [12, 30]}', '{"time": [12, 30]} (in seconds)',
    '```json\n{"query": "a man sings", "relevant_windows": [["00:12", "00:30"]]}\n```', '{"t_start": 12, "t_end": 30}',
    '{"time_start": 12, "time_end": 30}', '{"start_s": 12, "end_s": 30}', '{"startTime": 12, "endTime": 30}',
    '{"event": {"start": 12, "end": 30}}', '{"pred_window": [12, 30], "score": 0.8}', '{"st": 12, "ed": 30}',
    '{"answer": {"from": "0:12", "to": "0:30"}}', "It starts at 12 seconds and ends at 30 seconds.",
    "from twelve to thirty seconds", "twelve seconds to thirty seconds",
    "\u4ece\u5341\u4e8c\u79d2\u5230\u4e09\u5341\u79d2",
    "The given query happens in 12.0 - 30.0 seconds.", "frames seen at 12 s to 30 s",
)  # fmt: skip
READS = {
    "1:05 to 2:10": (65, 130),
    "00:01:05 - 01:00:00": (65, 3600),
    "1 min 5 s to 2 min": (65, 120),
    "1m5s - 1m20s": (65, 80),
    "1 to 2 minutes": (60, 120),
    "\u4ece1\u52065\u79d2\u52301\u520620\u79d2": (65, 80),
    "00:10.5 to 00:12.25": (10.5, 12.25),
    "75:00 - 76:30": (4500, 4590),
}
READS_NOTHING = (
    "", "12", "[12]", '{"time": [12]}', '{"time": null}', '{"time": [30, 12]}', '{"time": [12, 12]}',
    '{"time": [NaN, 30]}', '{"time": [-Infinity, Infinity]}', '{"time": [true, 30]}', '{"time": [12, 30, 40]}',
    '{"time": [-5, 30]}', "-5 to 30", "30 to 12", "12 to 30, then 40 to 50", '{"time": [12, 1e999]}',
    '{"time": ["a", "b"]}', '{"time": {}}', '{"other": [12, 30]}', '{"time": [12, 30]} {"time": [40, 50]}',
    "[[12, 30], [40, 50]]", "soon", "at the start", "{" * 3000, "[" * 9000, "12 30 40", '{"time": [12, 30',
    "from 12 to the end", '{"start_frame": 12, "end_frame": 30}', "00:12,5 to 00:30,5 to 1",
    '{"time": [[12, 30], [1, 2]]}',
    "frame 12 to frame 30", "frames 12-30", '{"frame_start": 12, "frame_end": 30}', "\u5e2712\u523030",
    "not 12 to 30", "it is not from 12 to 30", '{"start": 12, "end": 30} or {"start": 1, "end": 2}',
)  # fmt: skip


@pytest.mark.parametrize("text", READS_12_TO_30)
def test_span_is_read(text):
    assert read_interval(text) == (12, 30)


@pytest.mark.parametrize("text", READS)
def test_minutes_and_hours_are_seconds(text):
    assert read_interval(text) == READS[text]


@pytest.mark.parametrize("text", READS_NOTHING)
def test_no_single_span(text):
    assert read_interval(text) is None


@pytest.mark.parametrize(
    ("span", "iou"),
    [
        ((12, 30), 1.0),
        ((12, 21), 0.5),
        ((3, 39), 0.5),
        ((21, 39), 1 / 3),
        ((30, 40), 0.0),
        ((41, 50), 0.0),
        ((0, 12), 0.0),
        ((0, 1.8e6), 1e-5),
    ],
)
def test_interval_iou_by_hand_and_in_both_orders(span, iou):
    assert interval_iou(span, (12, 30)) == interval_iou((12, 30), span) == pytest.approx(iou, rel=1e-12)


def test_span_is_clipped_to_a_known_duration():
    sample = Sample(id="s", problem_type="temporal grounding", problem="", gold="20 to 40", extra={"duration_s": 40.0})
    assert score(sample, "<answer>20 to 900</answer>").parts["accuracy"] == 1
    assert score(sample, "<answer>50 to 900</answer>").parts["accuracy"] == 0


@pytest.mark.parametrize("gold", ["", "[5, 5]", "[9, 5]", "soon", "[1]"])
def test_gold_without_length_is_a_data_error(gold):
    with pytest.raises(DataError, match="time span"):
        check([Sample(id="s", problem_type="temporal grounding", problem="", gold=gold)])
