"""Saved responses scored: what counts, what is missing, what no judge has seen, and how sure a number is."""

import json

import pytest
from support.benchmark_rows import FILES, write_files, write_responses
from support.values import present

from easyvideor1.errors import DataError
from easyvideor1.evals.benchmark import Item, Outcome
from easyvideor1.evals.differences import differences, read_folder
from easyvideor1.evals.export import submission
from easyvideor1.evals.intervals import metric_interval, paired_change
from easyvideor1.evals.metrics import accuracy
from easyvideor1.evals.table import BENCHMARKS
from easyvideor1.runs.benchmarks import score_file, score_saved
from easyvideor1.types import Sample

KEYS = {"benchmark", "metric", "score", "official_score", "metrics", "num_items", "num_scored", "num_unscored",
        "num_missing", "breakdown"}  # fmt: skip


def load_all(name, tmp_path):
    return BENCHMARKS[name].load(write_files(name, tmp_path)).items


def scored(name, answers, tmp_path, **options):
    path = write_responses(answers, tmp_path / "responses.jsonl")
    return score_file(name, write_files(name, tmp_path), path, **options)


def right(name, tmp_path):
    said = {}
    for item in load_all(name, tmp_path):
        gold = str(item.fields.get("answer") or item.sample.gold)
        said[item.id] = "Final Answer: right" if item.form == "plan" else gold
    return said


@pytest.mark.parametrize("name", sorted(FILES))
def test_gold_answers_are_right_by_both_readings(name, tmp_path):
    found, more = scored(name, right(name, tmp_path), tmp_path)
    assert set(found) == KEYS
    assert found["benchmark"] == name
    assert found["num_missing"] == 0
    assert found["num_scored"] + found["num_unscored"] == found["num_items"]
    if name == "mlvu_dev":  # one answer is no candidate
        assert found["score"] == found["official_score"] == pytest.approx(200 / 3)
    else:
        assert found["score"] == found["official_score"] == 100.0
    assert found["metrics"][found["metric"]] == found["score"]
    assert more["num_different"] == 0


@pytest.mark.parametrize("name", sorted(FILES))
def test_no_response_at_all_is_worth_nothing(name, tmp_path):
    found, _ = scored(name, {}, tmp_path)
    assert (found["score"], found["official_score"]) == (0.0, 0.0)
    assert found["num_missing"] == found["num_items"]


HEADLINES = {
    "videomme_v2": "overall", "mlvu_dev": "m_avg", "mlvu_test": "m_avg", "videommmu": "overall", "videomathqa": "mcq",
    "vsibench": "overall", "charades_sta": "miou", "stvg": "m_tiou", "ovobench": "total",
}  # fmt: skip
METRICS = {
    "videommmu": {"overall", "perception", "comprehension", "adaptation"},
    "tempcompass": {"multi-choice", "yes_no", "caption_matching"},
    "charades_sta": {"miou", "r1@0.3", "r1@0.5", "r1@0.7"},
    "stvg": {"m_tiou", "m_viou"},
    "ovobench": {"total", "backward", "forward"},
    "videomathqa": {"mcq", "mbin"},
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_metrics_have_the_names_that_scripts_rely_on(name, tmp_path):
    found, _ = scored(name, right(name, tmp_path), tmp_path)
    assert found["metric"] == HEADLINES.get(name, "accuracy")
    assert METRICS.get(name, set()) <= set(found["metrics"])


def test_scoring_again_in_the_same_process_changes_nothing(tmp_path):
    first, again = (scored("ovobench", {"1": "A", "2_0": "1"}, tmp_path)[0] for _ in range(2))
    assert first == again


def test_missing_empty_and_unreadable_answers_count_as_wrong(tmp_path):
    found, more = scored("videomme", {"001-1": "A", "001-2": ""}, tmp_path)
    assert found["score"] == pytest.approx(100 / 3)
    assert (found["num_items"], found["num_scored"], found["num_missing"]) == (3, 3, 1)
    assert found["breakdown"]["duration"] == {
        "short": {"score": 50.0, "num_items": 2},
        "long": {"score": 0.0, "num_items": 1},
    }
    assert more["counts"]["duration"]["short"] == [2, 900]


def test_the_two_scores_differ_where_the_official_reader_is_looser(tmp_path):
    answers = {"001-1": "A person walks", "001-2": "I think it is C", "002-1": "D"}
    found, more = scored("videomme", answers, tmp_path)
    assert (found["official_score"], found["score"]) == (pytest.approx(200 / 3 + 100 / 3), pytest.approx(200 / 3))
    assert more["num_different"] == 1


def test_items_that_need_a_judge_are_unscored_and_outside_of_the_mean(tmp_path):
    found, more = scored("vcrbench", {"0": "B", "1": "B", "2": "From 17 to 46"}, tmp_path)
    assert (found["score"], found["num_scored"], found["num_unscored"]) == (50.0, 2, 1)
    assert more["coverage"]["unscored_reasons"] == {"needs a judge": 1}
    assert found["breakdown"]["kind"]["open"] == {"score": None, "num_items": 1}


def test_a_hidden_gold_is_asked_and_exported_but_not_scored(tmp_path):
    question, _ = write_files("mlvu_test", tmp_path)
    path = write_responses({"O_0": "(C)"}, tmp_path / "r.jsonl")
    found, more = score_file("mlvu_test", [question], path)
    assert (found["score"], found["num_unscored"]) == (None, 1)
    assert more["coverage"]["unscored_reasons"] == {"its gold answer is not public": 1}
    kept = score_saved("mlvu_test", [question], path, "official")
    assert submission(kept) == [{"question_id": "O_0", "question_type": "order", "option": "C"}]


def test_video_mme_is_exported_as_its_authors_take_it(tmp_path):
    path = write_responses({"001-1": "A", "002-1": "I say D"}, tmp_path / "r.jsonl")
    first, second = submission(score_saved("videomme", write_files("videomme", tmp_path), path, "official"))
    assert (first["video_id"], first["duration"], second["video_id"]) == ("001", "short", "002")
    assert [question["response"] for question in first["questions"]] == ["A", ""]
    assert second["questions"][0] | {"question": "", "options": []} == {
        "question_id": "002-1", "task_type": "Counting Problem", "question": "", "options": [], "answer": "D",
        "response": "I say D",
    }  # fmt: skip
    grouped = tmp_path / "submission.json"
    grouped.write_text(json.dumps([first, second]))
    assert [item.id for item in BENCHMARKS["videomme"].load([grouped]).items] == ["001-1", "001-2", "002-1"]


def test_letters_by_id_are_the_form_of_the_others(tmp_path):
    path = write_responses({"m1": "B. Right", "m2_1": "none"}, tmp_path / "r.jsonl")
    kept = score_saved("motionbench", write_files("motionbench", tmp_path), path, "official")
    assert submission(kept) == {"m1": "B", "m2_1": ""}


def test_two_folders_are_compared_by_protocol_items_and_pairs(tmp_path):
    answers = right("videomme", tmp_path)
    for name, protocol, said in (("a", "official", {**answers, "001-1": "C"}), ("b", "fast", answers)):
        scored("videomme", said, tmp_path, protocol=protocol, out=tmp_path / name)
    found = differences(read_folder(tmp_path / "a"), read_folder(tmp_path / "b"))
    assert found["protocol"]["family"] == ["official", "fast"]
    assert found["protocol"]["video.max_frames"] == [2048, 64]
    assert found["results"]["score"] == [pytest.approx(200 / 3), 100.0]
    assert (found["gained"], found["lost"], found["num_compared"]) == (["001-1"], [], 3)
    assert found["change_of_item_mean"]["value"] == pytest.approx(100 / 3)
    same = differences(read_folder(tmp_path / "a"), read_folder(tmp_path / "a"))
    assert not same["protocol"]
    assert not same["results"]
    with pytest.raises(DataError, match="eval score --out"):
        read_folder(tmp_path)


def test_what_a_lecture_adds_is_told_from_two_folders(tmp_path):
    loaded = BENCHMARKS["videommmu"].load(write_files("videommmu", tmp_path))
    asked = [item.id for item in loaded.items if item.labels["track"] == ("adaptation",)]
    gold = right("videommmu", tmp_path)
    for name, known in (("before", asked[:1]), ("after", asked[1:])):
        scored("videommmu", {id_: gold[id_] for id_ in known}, tmp_path, out=tmp_path / name)
    found = differences(read_folder(tmp_path / "before"), read_folder(tmp_path / "after"))["knowledge"]
    before, after = 100 / len(asked), 100 * (len(asked) - 1) / len(asked)
    assert found["delta_knowledge"] == pytest.approx(100 * (after - before) / (100 - before))
    assert (found["wrong_to_right"], found["right_to_wrong"]) == (100.0, 100.0)


def outcomes(values_by_video):
    def sample(name):
        return Sample(id=name, problem_type="mcq", problem="?", gold="A")

    return [
        Outcome(item=Item(sample=sample(f"{video}{n}"), form="choice", video=video), value=value)
        for video, values in values_by_video.items()
        for n, value in enumerate(values)
    ]


def test_an_interval_is_as_wide_as_its_videos_are_few():
    videos = {f"v{n}": [float(n % 2)] * 4 for n in range(20)}
    clustered = present(metric_interval(outcomes(videos), accuracy))
    each_alone = outcomes({f"{v}{n}": [x] for v, xs in videos.items() for n, x in enumerate(xs)})
    alone = present(metric_interval(each_alone, accuracy))
    assert (clustered.value, clustered.num_clusters, alone.num_clusters) == (50.0, 20, 80)
    # Four equal answers a video say no more than one: half the interval for four times the videos.
    assert clustered.high - 50 == pytest.approx(2 * (alone.high - 50), rel=0.02)
    # By hand: standard error of 20 zeros and ones is 0.5 / sqrt(19).
    assert clustered.high - 50 == pytest.approx(1.959964 * 50 / 19**0.5)
    assert metric_interval(outcomes({"v": [1.0, 0.0]}), accuracy) is None


def test_a_paired_change_uses_the_pairing():
    before, after = {n: float(n % 2) for n in range(10)}, {n: float(n % 2) for n in range(10)}
    same = present(paired_change(before, after, {n: str(n) for n in range(10)}))
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    after[0] = 1.0
    changed = present(paired_change(before, after, {n: str(n) for n in range(10)}))
    assert changed.value == pytest.approx(0.1)
    assert changed.low < 0.1 < changed.high
