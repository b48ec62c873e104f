"""Official metrics against numbers worked by hand from their published formulas."""

import math

import pytest

from easyvideor1.evals import metrics
from easyvideor1.evals.benchmark import Item, Outcome
from easyvideor1.evals.judging import worth_of
from easyvideor1.types import Sample


def outcome(value, *, id="i", group="", form="choice", video="v", parts=None, fields=None, **labels):
    sample = Sample(id=id, problem_type="multiple choice", problem="?", gold="A")
    item = Item(
        sample=sample,
        form=form,
        video=video,
        group=group,
        fields=fields or {},
        labels={name: (text,) for name, text in labels.items()},
    )
    return Outcome(item=item, value=value, parts=parts or {})


@pytest.mark.parametrize(
    ("value", "gold", "expected"),
    [(4, 4, 1.0), (3, 4, 0.6), (5, 4, 0.6), (2, 4, 0.1), (1, 4, 0.0), (2.4, 2.5, 1.0), (30, 26.4, 0.8), (8, 4, 0.0),
     (1.1, 1, 0.9), (1.35, 1, 0.4), (0, 0, 1.0), (1, 0, 0.0)],
)  # fmt: skip
def test_relative_accuracy_counts_its_thresholds_in(value, gold, expected):
    assert metrics.mean_relative_accuracy(value, gold) == expected


SWAP, PAIR, CHAIN = "[1, [2, 3], 4]", "[[1, 2], 3, 4]", "[1, 2, 3, 4]"


@pytest.mark.parametrize(
    ("kind", "structure", "right", "expected"),
    [
        ("relevance", "None", "0000", 0), ("relevance", "None", "1000", 6.25), ("relevance", "None", "0110", 25),
        ("relevance", "None", "1101", 56.25), ("relevance", "None", "1111", 100),
        ("logic", CHAIN, "1101", 25), ("logic", CHAIN, "0111", 0), ("logic", CHAIN, "1111", 100),
        ("logic", SWAP, "1010", 100 / 3), ("logic", SWAP, "1011", 100 / 3), ("logic", SWAP, "1100", 100 / 3),
        ("logic", SWAP, "1110", 700 / 12), ("logic", SWAP, "0110", 0),
        ("logic", PAIR, "0100", 10), ("logic", PAIR, "0111", 10), ("logic", PAIR, "1110", 50),
        ("logic", PAIR, "1111", 100),
    ],
)  # fmt: skip
def test_linked_questions_score_their_chain(kind, structure, right, expected):
    found = metrics.linked_score([digit == "1" for digit in right], group_type=kind, structure=structure)
    assert found == pytest.approx(expected)


def test_a_question_that_is_missing_breaks_its_group():
    fields = {"group_type": "logic", "group_structure": CHAIN}
    outcomes = [outcome(1.0, id=f"g-{n}", group="g", fields=fields | {"place": n}, level=str(n)) for n in (1, 3, 4)]
    assert metrics.linked_metrics(outcomes)["overall"] == 6.25
    assert metrics.linked_label_scores(outcomes) == {"level": {"4": 6.25}}  # the labels of the last question


def test_a_spatial_score_is_the_mean_of_its_tasks_and_directions_are_one():
    outcomes = [
        outcome(0.5, question_type="object_counting"),
        outcome(1.0, question_type="object_rel_direction_easy"),
        outcome(0.0, question_type="object_rel_direction_easy"),
        outcome(0.0, question_type="object_rel_direction_hard"),
    ]
    found = metrics.spatial_metrics(outcomes)
    assert found["object_rel_direction"] == 25.0  # of 50 and 0, whatever their numbers
    assert found["overall"] == 37.5


def test_pairs_are_right_only_all_together():
    pairs = [outcome(float(right), id=f"{q}{n}", group=q, split="mbin")
             for q, row in (("q1", "1111"), ("q2", "1101")) for n, right in enumerate(map(int, row))]  # fmt: skip
    found = metrics.pair_metrics([*pairs, outcome(1.0, id="m", split="mcq")])
    assert (found["mbin"], found["mcq"]) == (50.0, 100.0)
    assert metrics.pair_metrics(pairs)["accuracy"] == 87.5


def test_streams_are_means_of_tracks_of_tasks():
    tasks = {"EPM": 50, "ASI": 70, "HLD": 30, "STU": 50, "OJR": 60, "ATR": 70, "ACR": 50, "OCR": 80, "FPD": 50,
             "REC": 30, "SSR": 60, "CRR": 60}  # fmt: skip
    found = metrics.track_averages({task: float(score) for task, score in tasks.items()})
    assert found == pytest.approx({"total": 160 / 3, "backward": 50, "realtime": 60, "forward": 50})


def test_forward_tasks_are_over_probes_and_beside_it_over_rows():
    rows = [("a", 1.0)] * 4 + [("b", 0.0)] * 2
    outcomes = [outcome(value, id=f"{row}{n}", group=row, task="SSR") for n, (row, value) in enumerate(rows)]
    found = metrics.streaming_metrics(outcomes)
    assert found["forward"] == pytest.approx(200 / 3)
    assert found["forward_over_rows"] == 50.0


def test_spans_have_a_mean_and_recalls_that_count_their_level_in():
    found = metrics.span_metrics([outcome(iou) for iou in (0.890625, 0.3, 0.5, 0.69, 0.0)])
    assert found == pytest.approx({"miou": 47.6125, "r1@0.3": 80.0, "r1@0.5": 60.0, "r1@0.7": 20.0})


def test_tubes_without_boxes_count_in_time_only():
    outcomes = [outcome(0.5, parts={"tiou": 0.5, "siou": 1.0, "viou": 0.25}), outcome(1.0, parts={"tiou": 1.0})]
    found = metrics.tube_metrics(outcomes)
    assert (found["m_tiou"], found["m_siou"], found["m_viou"], found["viou@0.3"]) == (75.0, 100.0, 25.0, 0.0)


def test_macro_averages_weigh_tasks_alike():
    outcomes = [outcome(1.0, task="a"), outcome(1.0, task="a"), outcome(0.0, task="b")]
    assert metrics.macro_metrics("task", "accuracy")(outcomes) == pytest.approx(
        {"accuracy": 50.0, "accuracy_over_items": 200 / 3}
    )
    assert metrics.macro_metrics("task", "accuracy")([outcome(1.0), outcome(0.0)]) == {"accuracy": 50.0}
    assert metrics.mlvu_metrics(outcomes)["m_avg"] == 50.0


def test_written_answers_of_mlvu_are_worth_two_to_ten():
    sub_scene, summary = worth_of("RATINGS: 3 4"), worth_of("RATINGS: 2 3")
    outcomes = [outcome(sub_scene, form="open", task="sub_scene"), outcome(summary, form="open", task="summary")]
    assert metrics.mlvu_metrics(outcomes) == {"g_avg": 6.0}


def test_lecture_tracks_average_to_the_overall_score():
    outcomes = [outcome(1.0, track="perception"), outcome(0.0, track="adaptation"), outcome(0.0, track="adaptation")]
    found = metrics.track_metrics(outcomes)
    assert (found["overall"], found["perception"], found["adaptation"]) == (50.0, 100.0, 0.0)
    assert metrics.delta_knowledge(50.0, 40.0) == pytest.approx(100 / 6)
    assert metrics.delta_knowledge(30.0, 40.0) == pytest.approx(-100 / 6)
    assert math.isnan(metrics.delta_knowledge(100.0, 100.0))
