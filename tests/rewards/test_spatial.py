"""Boxes, tracks, tubes and segmentation prompts."""

import json
import math

import pytest

from easyvideor1.errors import DataError
from easyvideor1.rewards.boxes import frames_of, read_box
from easyvideor1.rewards.measures import box_iou, mean_frame_iou, point_similarity
from easyvideor1.rewards.router import check, score
from easyvideor1.types import Sample

BOX = (20, 40, 120, 90)
READS_BOX = (
    '{"boxes": [20, 40, 120, 90]}', '{"boxes": [20.0, 40.0, 120.0, 90.0]}', '{"boxes": ["20", "40", "120", "90"]}',
    '{"boxes": [[20, 40, 120, 90]]}', '{"bbox_2d": [20, 40, 120, 90]}', '{"bbox": [20, 40, 120, 90]}',
    '{"box": [20, 40, 120, 90]}', '[{"bbox_2d": [20, 40, 120, 90], "label": "boat"}]', "[20, 40, 120, 90]",
    "[[20, 40, 120, 90]]", "(20,40),(120,90)", "(20, 40), (120, 90)", "[20, 40], [120, 90]", "[[20, 40], [120, 90]]",
    "<|box_start|>(20,40),(120,90)<|box_end|>", "<box>(20,40),(120,90)</box>", "```json\n[20, 40, 120, 90]\n```",
    "The boat is at [20, 40, 120, 90].", "{'boxes': [20, 40, 120, 90]}", '{"boxes": (20, 40, 120, 90)}',
    "20, 40, 120, 90", "20 40 120 90", "(20, 40, 120, 90)", '{"x1": 20, "y1": 40, "x2": 120, "y2": 90}',
    '{"boxes": {"x1": 20, "y1": 40, "x2": 120, "y2": 90}}', '{"boxes": [20, 40, 120, 90],}', "**[20, 40, 120, 90]**",
    '{"boxes": [2e1, 4e1, 1.2e2, 9e1]}', "\\boxed{[20, 40, 120, 90]}", '{boxes: [20, 40, 120, 90]}',
    '{"bounding_box": [20, 40, 120, 90], "label": "a boat"}', "\uff3b20\uff0c40\uff0c120\uff0c90\uff3d",
    '{"xmin": 20, "ymin": 40, "xmax": 120, "ymax": 90}', '{"Boxes": [20, 40, 120, 90]}', "[20 40 120 90]",
    "top left (20, 40), bottom right (120, 90)", "x1=20, y1=40, x2=120, y2=90",
    "\u200b[20, 40, 120, 90]", "{\u201cboxes\u201d: [20, 40, 120, 90]}",
    'The cup (red): {"bbox_2d": [20, 40, 120, 90]}', '{"box": [20, 40, 120, 90]} (pixels)',
    '{"left": 20, "top": 40, "right": 120, "bottom": 90}', '{"bounding_boxes": [[20, 40, 120, 90]]}',
    '{"objects": [{"bbox": [20, 40, 120, 90], "label": "boat", "score": 0.9}]}', '{"boundingBox": [20, 40, 120, 90]}',
    "[{'Position': [20, 40, 120, 90], 'Confidence': 0.9}]", '{"x": 20, "y": 40, "width": 100, "height": 50}',
    '{"cx": 70, "cy": 65, "w": 100, "h": 50}', '{"top_left": [20, 40], "bottom_right": [120, 90]}',
    '{"result": {"bbox_2d": [20, 40, 120, 90]}}', '{"x_min": 20, "y_min": 40, "x_max": 120, "y_max": 90}',
    '{"label": "boat"} {"bbox": [20, 40, 120, 90]}', '{"bbox": [20, 40, 120, 90], "score": 0.7}',
)  # fmt: skip
READS_NO_BOX = (
    "", "no boat", '{"boxes": [20, 40, 120]}', '{"boxes": [20, 40, 120, 90, 1]}', '{"boxes": null}', '{"boxes": []}',
    '{"boxes": [NaN, 40, 120, 90]}', '{"boxes": [20, 40, Infinity, 90]}', '{"boxes": [true, 40, 120, 90]}',
    '{"boxes": [[20, 40, 120, 90], [0, 0, 9, 9]]}', '{"boxes": "20"}', '{"other": [20, 40, 120, 90]}',
    "[1e999, 0, 1, 1]", '{"boxes": [20, 40, 120, 90], "bbox": [0, 0, 1, 1]}', "[20, 40, 120, 90] or [0, 0, 9, 9]",
    "[" * 9000, "{" * 9000, '[{"bbox_2d": [1, 2, 3, 4]}, {"bbox_2d": [5, 6, 7, 8]}]', '{"boxes": [20, 40, 120, 90',
    "20, 40, 120", '{"boxes": 5}', "(20, 40) to (70, 50) to (120, 90)",
)  # fmt: skip


@pytest.mark.parametrize("text", READS_BOX)
def test_box_is_read(text):
    assert read_box(text) == BOX


@pytest.mark.parametrize("text", READS_NO_BOX)
def test_no_single_box(text):
    assert read_box(text) is None


@pytest.mark.parametrize(
    ("box", "iou"),
    [
        ((20, 40, 120, 90), 1.0),
        ((20, 40, 120, 65), 0.5),  # the upper half
        ((70, 40, 170, 90), 1 / 3),  # shifted by half its width
        ((0, 40, 140, 90), 5 / 7),  # 100 of 140 wide
        ((300, 300, 400, 400), 0.0),
        ((120, 40, 220, 90), 0.0),  # touching
        ((120, 90, 20, 40), 0.0),  # inverted
        ((50, 60, 50, 60), 0.0),  # a point
        ((-1e308, -1e308, 1e308, 1e308), 0.0),
    ],
)
def test_box_iou_by_hand_and_in_both_orders(box, iou):
    assert box_iou(box, BOX) == box_iou(BOX, box) == pytest.approx(iou, rel=1e-12)


def test_mean_frame_iou_counts_every_gold_frame_and_no_other():
    gold = {1.0: BOX, 2.0: BOX, 3.0: BOX, 4.0: BOX}
    assert mean_frame_iou({1.0: BOX}, gold) == 0.25
    assert mean_frame_iou({1.0: BOX, 2.0: (20, 40, 120, 65)}, gold) == 0.375
    assert mean_frame_iou(dict.fromkeys(map(float, range(4000)), BOX), gold) == 1
    assert mean_frame_iou({7.0: BOX}, gold) == 0


def test_frames_have_one_name_however_they_are_written():
    for name in ("2", "2.0", "02", "2s", "2.00", "frame 2", "frame_2", " 2 ", "00:02"):
        assert frames_of({name: list(BOX)}) == {2.0: BOX}
    assert frames_of({"1:05": list(BOX)}) == {65.0: BOX}
    assert frames_of([{"time": 2, "bbox_2d": list(BOX)}]) == {2.0: BOX}
    assert frames_of({"first": list(BOX), "3": None, "4": [1], "5": "x"}) == {}


def judge(problem_type: str, gold: object, answer: object, **extra: object) -> float:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    sample = Sample(id="s", problem_type=problem_type, problem="", gold=json.dumps(gold), extra=extra)
    return score(sample, f"<answer>{text}</answer>").parts["accuracy"]


B = [10, 10, 60, 110]
HALF = [10, 10, 60, 60]
FAR = [700, 700, 800, 800]
TRACK = {"boxes": {"1": B, "2": B, "3": B, "4": B, "5": B}}


@pytest.mark.parametrize(
    ("answer", "accuracy"),
    [
        (TRACK, 1.0),
        ({"boxes": {"1": B}}, 0.2),
        ({"boxes": {"1": B, "2": HALF}}, 0.3),
        ({"boxes": {"1": FAR, "2": FAR, "3": FAR, "4": FAR, "5": FAR}}, 0.0),
        ({"boxes": {"01": B, "2.0": B, "3s": B, "4": None, "5": "x"}}, 0.6),
        ({"boxes": [B, B, B, B, B]}, 1.0),
        ({"boxes": [B, B]}, 0.4),
        ([B, B, B, B, B], 1.0),
        ({"1": B, "2": B, "3": B, "4": B, "5": B}, 1.0),
        ([{"frame": 1, "bbox_2d": B}, {"frame": 4, "bbox_2d": B}], 0.4),
        ({"boxes": {"1": [0, 0, 0, 0], "2": [9, 9, 1, 1]}}, 0.0),
        ({"boxes": {}}, 0.0),
        ({"boxes": None}, 0.0),
        ("{'boxes': {1: [10, 10, 60, 110], 2: [10, 10, 60, 110]}}", 0.4),
        ('{"boxes": {"1": [NaN, 10, 60, 110], "2": [10, 10, 60, 110]}}', 0.2),
        ("```json\n" + json.dumps(TRACK) + "\n```", 1.0),
        ({"boxes": {str(second): B for second in range(1, 800)}}, 1.0),
        ('{"frame": 1, "bbox_2d": [10, 10, 60, 110]}\n{"frame": 2, "bbox_2d": [10, 10, 60, 110]}', 0.4),  # a line each
        ('{"1": [10, 10, 60, 110]}\n{"2": [10, 10, 60, 110]}\n{"3": [10, 10, 60, 110]}', 0.6),
        ('{"time": "00:01", "box": [10, 10, 60, 110]}', 0.2),
        ('{"frame": 1, "box": [10, 10, 60, 110]}\n{"frame": 1, "box": [9, 9, 20, 20]}', 0.0),  # two boxes for one
        ({"answer": {"boxes": {"1": B, "2": B}}}, 0.4),
        ({"tracking": [{"frame_id": 1, "bbox": B}, {"frame_id": 3, "bbox": B}]}, 0.4),
        ("The man (left): " + json.dumps(TRACK), 1.0),
        ("five boxes", 0.0),
        ("", 0.0),
    ],
)
def test_tracking_by_hand(answer, accuracy):
    assert judge("tracking", TRACK, answer) == pytest.approx(accuracy, abs=1e-12)


TUBE = {"time": [4, 8], "boxes": {"4": B, "5": B, "6": B, "7": B}}


@pytest.mark.parametrize(
    ("answer", "accuracy"),
    [
        (TUBE, 1.0),
        ({"time": [4, 6], "boxes": TUBE["boxes"]}, 0.75),
        ({"time": [4, 8], "boxes": {}}, 0.5),
        ({"time": [4, 8]}, 0.5),
        ({"time": [4, 8], "boxes": {"4": B}}, 0.625),
        ({"time": [4, 8], "boxes": {"04": HALF, "5.0": HALF, "6": HALF, "7": HALF}}, 0.75),
        ({"time": [20, 30], "boxes": TUBE["boxes"]}, 0.5),
        ({"boxes": TUBE["boxes"]}, 0.5),
        ({"time": [4, 8], "boxes": [B, B, B, B]}, 1.0),
        ({"time": [8, 4], "boxes": {"4": B}}, 0.125),
        ({"time": [4, 8], "boxes": {"70": B}}, 0.5),
        ({"time": ["00:04", "00:08"], "boxes": TUBE["boxes"]}, 1.0),
        ({"time": [4, 8], "boxes": {"4": None, "5": [1], "6": "x", "7": B}}, 0.625),
        ({"start_time": 4, "end_time": 8, "boxes": TUBE["boxes"]}, 1.0),
        ("Here (in seconds): " + json.dumps(TUBE), 1.0),
        (json.dumps({"time": [4, 8]}) + "\n" + json.dumps({"boxes": TUBE["boxes"]}), 1.0),
        ({"time": None, "boxes": None}, 0.0),
        ([4, 8], 0.0),
        ("4 to 8", 0.0),
        ("", 0.0),
    ],
)
def test_spatial_temporal_grounding_by_hand(answer, accuracy):
    assert judge("spatio-temporal_grounding", TUBE, answer) == pytest.approx(accuracy, abs=1e-12)


ON, BESIDE = [[30, 30], [40, 60], [50, 90]], [[200, 10], [300, 20], [5, 400]]
MASK = {"boxes": B, "positive_points": ON, "negative_points": BESIDE}


@pytest.mark.parametrize(
    ("change", "accuracy"),
    [
        ({}, 1.0),
        ({"positive_points": ON[::-1]}, 1.0),  # order is free
        ({"boxes": FAR}, 0.5),
        ({"boxes": HALF}, 0.75),
        ({"boxes": None}, 0.5),
        ({"positive_points": [[x + 50, y] for x, y in ON]}, 0.75 + 0.25 * math.exp(-0.5)),  # 50 away
        ({"positive_points": [[9000, 9000]] * 3}, 0.75),
        ({"positive_points": [[None, 1], [40, 60], [50, 90]]}, 0.75),
        ({"negative_points": []}, 0.0),
        ({"negative_points": None}, 0.0),
        ({"negative_points": BESIDE[:2]}, 0.0),
        ({"positive_points": [[1e308, 1e308]] * 3}, 0.75),
    ],
)
def test_segmentation_of_an_image_by_hand(change, accuracy):
    assert judge("segmentation", MASK, MASK | change) == pytest.approx(accuracy, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "accuracy"),
    [
        ({}, 1.0),
        ({"time": 5.0}, 0.7 + 0.3 * math.exp(-1)),
        ({"time": None}, 0.7),
        ({"time": 1e300}, 0.7),
        ({"boxes": FAR}, 0.7),
    ],
)
def test_segmentation_of_a_video_counts_the_time(change, accuracy):
    gold = MASK | {"time": 3.0}
    assert judge("segmentation", gold, gold | change) == pytest.approx(accuracy, abs=1e-9)


def test_points_are_matched_by_the_best_assignment():
    gold = [(0.0, 0.0), (100.0, 0.0), (200.0, 0.0)]
    assert point_similarity([(201.0, 0.0), (2.0, 0.0), (103.0, 0.0)], gold) == pytest.approx(math.exp(-4 / 5000))


@pytest.mark.parametrize(
    ("problem_type", "gold"),
    [
        ("spatial grounding", {"boxes": [5, 5, 5, 9]}),
        ("spatial grounding", {"boxes": [1, 2, 3]}),
        ("tracking", {"boxes": {}}),
        ("tracking", {"boxes": {"1": B, "2": None}}),
        ("spatial-temporal grounding", {"time": [4, 4], "boxes": {"4": B}}),
        ("spatial-temporal grounding", {"time": [4, 8], "boxes": {}}),
        ("segmentation", {"boxes": B, "positive_points": ON}),
        ("segmentation", {"positive_points": ON, "negative_points": BESIDE}),
    ],
)
def test_gold_that_nothing_could_match_is_a_data_error(problem_type, gold):
    with pytest.raises(DataError, match="field 'answer'"):
        check([Sample(id="s", problem_type=problem_type, problem="", gold=json.dumps(gold))])
