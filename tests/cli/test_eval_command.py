"""`easyvideor1 eval`: what scripts read from it."""

import csv
import json

import pytest
from support.benchmark_rows import write_files, write_responses

from easyvideor1.cli import main
from easyvideor1.evals.table import BENCHMARKS


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_list_shows_every_benchmark(capsys):
    assert main(["eval", "list", "--json"]) == 0
    assert [row["name"] for row in lines(capsys)] == list(BENCHMARKS)
    assert main(["eval", "list"]) == 0
    assert "videoreasonbench" in capsys.readouterr().out


def test_items_print_a_line_each_in_file_order(tmp_path, capsys):
    annotations = list(map(str, write_files("mvbench", tmp_path)))
    assert main(["eval", "items", "--benchmark", "mvbench", "--annotations", *annotations, "--json"]) == 0
    first, second = lines(capsys)
    assert {"id", "video", "prompt", "labels"} <= set(first)
    assert (first["id"], first["labels"], second["labels"]) == (
        "action_sequence_0", {"task": "action_sequence"}, {"task": "episodic_reasoning"},
    )  # fmt: skip
    assert (first["start_s"], first["end_s"], first["prefix"]) == (1.5, 4.0, "Best option:(")
    assert main(["eval", "items", "--benchmark", "mvbench", "--annotations", *annotations, "--limit", "1"]) == 0
    assert "action_sequence_0" in capsys.readouterr().out


def test_score_prints_the_result_last(tmp_path, capsys):
    annotations = list(map(str, write_files("ovobench", tmp_path)))
    said = {"1": "A", "2_0": "1", "2_1": "3", "3_0": "Yes", "4_0": "no"}
    responses = str(write_responses(said, tmp_path / "r.jsonl"))
    words = ["eval", "score", "--benchmark", "ovobench", "--annotations", *annotations, "--responses", responses]
    assert main([*words, "--json", "--out", str(tmp_path / "out")]) == 0
    *_, result = lines(capsys)
    assert set(result) == {"benchmark", "metric", "score", "official_score", "metrics", "num_items", "num_scored",
                           "num_unscored", "num_missing", "breakdown"}  # fmt: skip
    # Strictly: backward 100; forward the mean of 50 (REC), 100 (SSR) and 100 (CRR).
    assert result["score"] == pytest.approx((100 + 250 / 3) / 2)
    assert result["official_score"] == pytest.approx((100 + 50) / 2)  # "no" does not hold "No"
    assert result["breakdown"]["task"]["REC"] == {"score": 50.0, "num_items": 2}
    assert json.loads((tmp_path / "out" / "results.json").read_text())["score"] == result["score"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("official score 75.00", "1 items differ", "mean of the three tracks"))


def test_export_and_diff(tmp_path, capsys):
    annotations = list(map(str, write_files("videomme", tmp_path)))
    responses = str(write_responses({"001-1": "A", "001-2": "D"}, tmp_path / "r.jsonl"))
    words = ["--benchmark", "videomme", "--annotations", *annotations, "--responses", responses]
    assert main(["eval", "export", *words, "--to", "csv", "--out", str(tmp_path / "t.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    assert [(row["id"], row["parsed"], row["value"], row["duration"]) for row in rows] == [
        ("001-1", "A", "1.0", "short"), ("001-2", "D", "0.0", "short"), ("002-1", "", "0.0", "long"),
    ]  # fmt: skip
    assert main(["eval", "export", *words, "--to", "submission", "--out", str(tmp_path / "no" / "s.json")]) == 2
    assert main(["eval", "export", *words, "--to", "submission", "--out", str(tmp_path / "s.json")]) == 0
    assert len(json.loads((tmp_path / "s.json").read_text())) == 2
    for name, protocol in (("a", "official"), ("b", "paper")):
        assert main(["eval", "score", *words, "--protocol", protocol, "--out", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert main(["eval", "diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "protocol family: 'official' -> 'paper'" in capsys.readouterr().out


def test_wrong_usage_names_what_is_known(tmp_path, capsys):
    assert main(["eval", "items", "--benchmark", "videome", "--annotations", "x"]) == 2
    assert "'videome' is no benchmark; known: videomme" in capsys.readouterr().err
    assert main(["eval", "items", "--benchmark", "videomme", "--annotations", str(tmp_path / "gone.json")]) == 1
    assert "cannot read the annotations" in capsys.readouterr().err


def test_prepare_says_what_is_missing(tmp_path, capsys):
    raw = tmp_path / "raw"
    raw.mkdir()
    for path in write_files("videomme", tmp_path):
        (raw / path.name).write_text(path.read_text())
    assert main(["eval", "prepare", "videomme", "--raw", str(raw), "--out", str(tmp_path / "data")]) == 1
    shown = capsys.readouterr().out
    assert "missing: data/MADE001.mp4" in shown
    assert "duration medium: 0 items here, 900 in the authors' files" in " ".join(shown.split())
