"""Saved responses of this program and of other harnesses find their items."""

import json

import pytest
from support.benchmark_rows import write_files, write_responses

from easyvideor1.errors import DataError
from easyvideor1.evals.responses import read_responses
from easyvideor1.evals.table import BENCHMARKS


def items(name, tmp_path):
    return BENCHMARKS[name].load(write_files(name, tmp_path)).items


def test_lines_are_found_by_id_and_by_what_the_authors_call_an_item(tmp_path):
    path = write_responses({"hrd/slide_end": "up", "count_end": 3}, tmp_path / "r.jsonl")
    found = read_responses(path, items("videoreasonbench", tmp_path))
    assert found.by_id == {"hrd/slide_end": "up", "hrd/count_end": "3"}
    assert found.origin == "JSON Lines"


def test_unknown_repeated_null_and_broken_lines_are_counted(tmp_path):
    path = tmp_path / "r.jsonl"
    lines = ['{"id": "001-1", "response": "A"}', '{"id": "001-1", "response": "B"}', '{"id": "9", "response": "A"}',
             '{"id": "002-1", "response": null}', "{torn", "[1]", ""]  # fmt: skip
    path.write_text("\n".join(lines))
    found = read_responses(path, items("videomme", tmp_path))
    assert found.by_id == {"001-1": "B"}
    assert (found.num_unknown, found.num_repeated, found.num_broken) == (1, 1, 2)


def test_ids_that_are_numbers_are_texts(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"id": 0, "response": "4"}\n{"id": 2.0, "response": "A"}\n')
    assert read_responses(path, items("vsibench", tmp_path)).by_id == {"0": "4", "2": "A"}


def test_samples_of_lmms_eval_count_documents_or_carry_their_ids(tmp_path):
    path = tmp_path / "samples_videomme.jsonl"
    rows = [
        {"doc_id": 1, "target": "C", "resps": [["C."]], "filtered_resps": ["C."]},
        {"doc_id": 0, "doc": {"question_id": "002-1"}, "resps": [["D"]], "filtered_resps": [""]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_responses(path, items("videomme", tmp_path))
    assert (found.origin, found.by_id) == ("lmms-eval", {"001-2": "C.", "002-1": "D"})
    old = tmp_path / "samples.json"
    old.write_text(json.dumps({"args": {}, "logs": rows}))
    assert read_responses(old, items("videomme", tmp_path)).by_id == found.by_id


TABLE = "index\tvideo\tquestion\tprediction\n0\tMADE001\tWhat is leaning on the shed?\tA\n2\t002\tother\tD. A fork.\n"


def test_tables_of_vlmevalkit_are_found_by_question_and_video_or_by_index(tmp_path):
    path = tmp_path / "model_Video-MME.tsv"
    path.write_text(TABLE)
    found = read_responses(path, items("videomme", tmp_path))
    assert (found.origin, found.by_id) == ("VLMEvalKit", {"001-1": "A", "002-1": "D. A fork."})


def test_an_index_that_is_not_the_place_does_not_move_answers(tmp_path):
    rows = [{**row, "videoID": f"V{number}", "question": f"Number {number}?"} for number, row in enumerate(
        json.loads(write_files("videomme", tmp_path)[0].read_text()))]  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps(rows))
    loaded = BENCHMARKS["videomme"].load([tmp_path / "a.json"]).items
    table = "index\tvideo\tquestion\tprediction\n" + "".join(
        f"{9 - number}\tV{number}\tNumber {number}?\t{letter}\n" for number, letter in ((2, "D"), (0, "A"), (1, "C"))
    )
    (tmp_path / "m.tsv").write_text(table)
    assert read_responses(tmp_path / "m.tsv", loaded).by_id == {"001-1": "A", "001-2": "C", "002-1": "D"}


def test_tables_may_be_workbooks(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in TABLE.splitlines():
        book.active.append([int(cell) if cell.isdigit() else cell for cell in line.split("\t")])
    book.save(tmp_path / "model.xlsx")
    assert read_responses(tmp_path / "model.xlsx", items("videomme", tmp_path)).by_id["002-1"] == "D. A fork."
    (tmp_path / "broken.xlsx").write_text("no workbook")
    with pytest.raises(DataError, match="cannot read the table"):
        read_responses(tmp_path / "broken.xlsx", items("videomme", tmp_path))


def test_an_object_of_letters_by_id_is_a_response_file_too(tmp_path):
    path = tmp_path / "submission.json"
    path.write_text('{"m1": "B", "m2_1": "A"}')
    assert read_responses(path, items("motionbench", tmp_path)).by_id == {"m1": "B", "m2_1": "A"}


def test_responses_to_another_benchmark_are_an_error(tmp_path):
    path = write_responses({"x": "A"}, tmp_path / "r.jsonl")
    with pytest.raises(DataError, match="none of 1 responses belongs to one of 3 items"):
        read_responses(path, items("videomme", tmp_path))
    with pytest.raises(DataError, match="cannot read the responses"):
        read_responses(tmp_path / "gone.jsonl", items("videomme", tmp_path))


def test_files_of_the_authors_are_read_as_they_publish_them(tmp_path):
    streams, video = items("ovobench", tmp_path), {"id": 1, "task": "EPM", "response": "A"}
    probes = [{"realtime": 1, "count": 1, "response": "1"}, {"realtime": 2, "count": 2, "response": "I see 3"}]
    (tmp_path / "model_EPM_offline.json").write_text(
        json.dumps({"backward": [video], "realtime": [], "forward": [{"id": 2, "task": "REC", "test_info": probes}]})
    )
    found = read_responses(tmp_path / "model_EPM_offline.json", streams)
    assert found.by_id == {"1": "A", "2_0": "1", "2_1": "I see 3"}
    (folder := tmp_path / "results").mkdir()  # a file per task
    for name, part in (("a", {"backward": [video]}), ("b", {"forward": [{"id": 2, "test_info": probes}]})):
        (folder / f"{name}.json").write_text(json.dumps(part))
    assert read_responses(folder, streams).by_id == found.by_id

    aspects = items("tempcompass", tmp_path)
    said: dict = {}
    for number, item in enumerate(aspects):
        row = {"question": item.fields["question"], "answer": item.fields["answer"], "prediction": f"said {number}"}
        said.setdefault(item.video.split("/")[1].split(".")[0], {}).setdefault(item.labels["aspect"][0], []).append(row)
    (tmp_path / "multi-choice.json").write_text(json.dumps(said))
    found = read_responses(tmp_path / "multi-choice.json", aspects)
    assert found.by_id == {item.id: f"said {number}" for number, item in enumerate(aspects)}


def test_a_file_without_any_response_is_refused(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"backward": [], "note": {"by": "nobody"}}))
    with pytest.raises(DataError, match="none of 0 responses belongs to one of"):
        read_responses(path, items("ovobench", tmp_path))
