"""The page as a whole, and the command that writes it."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from support.made_run import TYPES, made_answer, made_clip, made_group, made_run, made_sample, made_score
from support.values import present

from easyvideor1.cli import main
from easyvideor1.config import RunConfig
from easyvideor1.config_tree import build
from easyvideor1.errors import DataError
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.metrics import MetricsLog
from easyvideor1.records.responses import ValidationLog
from easyvideor1.records.rollouts import RolloutLog
from easyvideor1.report.page import _main_charts, write_report

VOID = {"meta", "img", "br", "link", "input", "hr"}
HOSTILE = '</pre></p><script>alert(1)</script><img src=x onerror="alert(2)">&lt;b&gt; {{ 7 * 7 }} "\' '


class Page(HTMLParser):
    """Collects tags and checks that they close in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)


def config():
    tree = {
        "out": "runs/x",
        "model": {"path": "models/tiny"},
        "data": {"train": [{"path": "train.jsonl"}]},
        "cache": {"dir": "cache"},
        "train": {"steps": 30},
    }
    return build(RunConfig, tree, where="test")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = made_run(tmp_path_factory.mktemp("runs") / "tiny run")
    folder.write_start(config())
    return folder


@pytest.fixture(scope="module")
def page(run):
    return Page(write_report(run.path).read_text())


def test_the_page_says_what_ran_and_how_it_went(run, page):
    assert page.text.count("tiny run") >= 1
    assert "grpo, 32 prompts a step, 8 rollouts per prompt, learning rate 1e-06, seed 0, model models/tiny" in page.text
    for words in ("Greedy accuracy", "Sampled accuracy", "points", "Before and after", "got better", *TYPES):
        assert words in page.text
    assert "Rollout takes 5" in page.text
    assert "tokens_per_pack: 16384" in page.text
    for title in (
        "Reward",
        "Accuracy by problem type",
        "Response length",
        "Distance from the sampler",
        "Entropy",
        "Gradient",
    ):
        assert title in page.text


def test_accuracy_is_shown_by_type_by_source_and_by_modality(page):
    assert {"Accuracy by problem type", "Accuracy by source", "Accuracy by modality"} <= set(page.texts)
    records = [text for text in page.texts if text.startswith("clips of ")]
    # A legend, and a record in the table of greedy and in that of sampled answers.
    assert sorted(records) == sorted(f"clips of {name}" for name in TYPES for _ in range(3))


def test_one_source_alone_has_no_chart_of_its_own():
    line = [(1, 0.5), (2, 0.75)]
    charts, shown = _main_charts({"accuracy_source/clips": line, "accuracy_modality/video": line}, [])
    assert [chart.title for chart in charts] == ["Accuracy by modality"]
    assert {"accuracy_source/clips", "accuracy_modality/video"} <= shown


def test_a_run_that_ended_early_says_why_until_it_goes_on(tmp_path):
    run = made_run(tmp_path, steps=3, questions=4)
    run.write_start(config())
    run.note_stopped("step 3: no rollout was right\n  clip_1: wanted 'B', got '<answer>A</answer>'")
    text = Page(write_report(tmp_path).read_text()).text
    assert "This run ended before its last step." in text
    assert "clip_1: wanted 'B', got '<answer>A</answer>'" in text
    assert "3 of 30" in text
    run.write_start(config())
    assert "ended before" not in write_report(tmp_path).read_text()


def test_a_metric_that_no_main_chart_shows_has_a_chart_of_its_own(run, page):
    charts = [attrs["aria-label"] for tag, attrs in page.tags if tag == "svg"]
    for name in ("loss/policy", "rollout/tokens_per_s", "time/step_s"):
        assert charts.count(f"{name} over the steps") == 1
    assert "reward/mean over the steps" not in charts


def test_twenty_rollouts_are_shown_with_their_frames(page):
    cards = [attrs for tag, attrs in page.tags if tag == "article"]
    images = [attrs["src"] for tag, attrs in page.tags if tag == "img"]
    assert len(cards) == len(images) == 20
    assert {card["data-type"] for card in cards} == set(TYPES)
    assert {card["data-result"] for card in cards} == {"right", "wrong"}
    assert all(image.startswith("data:image/jpeg;base64,/9j/") for image in images)


def test_all_responses_of_a_group_can_be_read(page):
    assert page.texts.count("all 8 responses of the group") == 20


def test_what_is_always_zero_is_named_and_has_no_chart(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (1, 2):
        log.log(step, {"reward/mean": 0.5, "loss/kl_ref": 0.0, "rollout/aborted": 0.0, "loss/policy": 0.1})
    text = Page(write_report(tmp_path).read_text())
    assert "Always 0: loss/kl_ref, rollout/aborted." in text.text
    assert "KL from the reference" not in text.text
    assert [attrs["aria-label"] for tag, attrs in text.tags if tag == "svg"] == [
        "Reward over the steps",
        "loss/policy over the steps",
    ]


def test_the_step_that_export_takes_is_marked(tmp_path):
    run = made_run(tmp_path, steps=3, questions=4)
    assert "Exported step" not in write_report(tmp_path).read_text()
    for name, step in (("step-000003", 3), ("best", 0)):
        (run.checkpoints / name).mkdir(parents=True)
        (run.checkpoints / name / "state.json").write_text(json.dumps({"step": step}))
    run.validation.unlink()
    validation = ValidationLog(run.validation)
    for step in range(3):
        validation.log(step, made_answer("A", made_score(0.0)))
    page = Page(write_report(tmp_path).read_text())
    assert "the start of the run: no later validation was as good; give --step last for step 3" in page.text
    assert "step 0: what export takes" in page.text


def test_the_page_needs_nothing_from_outside(run, page):
    text = run.report.read_text()
    assert not re.findall(r"https?://|@import|url\(", text)
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "object", "base", "form")
        assert not [name for name in attrs if name.startswith("on")]
        assert attrs.get("src", "data:").startswith("data:")
    assert sum(tag == "script" for tag, _ in page.tags) == 1


def test_the_scripts_hash_is_the_one_the_page_allows(run):
    text = run.report.read_text()
    script = present(re.search(r"<script>(.*?)</script>", text, re.DOTALL)).group(1)
    assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in text


def test_hostile_text_of_a_run_stays_text(tmp_path):
    folder = RunFolder(tmp_path / "<i>run")
    metrics, rollouts = MetricsLog(folder.metrics), RolloutLog(folder.rollouts)
    validation = ValidationLog(folder.validation)
    folder.config.write_text("model: '" + HOSTILE.replace("'", "") + "'")
    folder.facts.write_text(json.dumps({HOSTILE: HOSTILE}))
    for step in (1, 2):
        metrics.log(step, {f"accuracy/{HOSTILE}": 0.5, f"loss/{HOSTILE}": 1.0, "time/update_s": 1.0})
        sample = made_sample(problem_type=HOSTILE, problem=HOSTILE)
        response = f"<think>{HOSTILE}</think><answer>{HOSTILE}</answer>"
        validation.log(step, made_answer(response, made_score(step - 1.0), sample=sample))
    rollouts.log(1, made_group(rewards=[0.0, 1.0], problem_type=HOSTILE, text=HOSTILE), [made_clip()])
    page = Page(write_report(folder.path).read_text())
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert all(attrs["src"].startswith("data:") for tag, attrs in page.tags if tag == "img")
    assert not [attrs for _, attrs in page.tags if "onerror" in attrs]
    assert HOSTILE in page.text
    assert "49" not in page.text


def test_a_strip_outside_the_runs_folder_is_never_read(run, tmp_path):
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(b"secret")
    folder = RunFolder(tmp_path / "run")
    MetricsLog(folder.metrics).log(1, {"reward/mean": 0.5})
    RolloutLog(folder.rollouts).log(1, made_group(rewards=[1.0]), [made_clip()])
    records = folder.rollouts / "rollouts.jsonl"
    records.write_text(re.sub(r"strips/[^\"]*jpg", "../../../secret.jpg", records.read_text()))
    assert "<img" not in write_report(folder.path).read_text()


@pytest.mark.parametrize("missing", ["validation", "metrics", "rollouts", "config", "facts"])
def test_a_run_without_one_of_its_files_is_still_reported(tmp_path, missing):
    folder = made_run(tmp_path, steps=3, questions=8)
    folder.write_start(config())
    path = getattr(folder, missing)
    if path.is_dir():
        (path / "rollouts.jsonl").unlink()
    else:
        path.unlink()
    Page(write_report(folder.path).read_text())


def test_skipped_samples_are_counted_once_and_named(tmp_path):
    MetricsLog(tmp_path / "metrics.jsonl").log(1, {"reward/mean": 0.5})
    line = json.dumps({"where": "train.jsonl:7", "field": "answer", "problem": "<b>missing</b>"})
    (tmp_path / "bad_samples.jsonl").write_text(f"{line}\n{line}\n")
    text = Page(write_report(tmp_path).read_text()).text
    assert "1 bad sample was skipped." in text
    assert "train.jsonl:7: answer: <b>missing</b>" in text


def test_a_run_of_one_step_is_reported(tmp_path):
    MetricsLog(tmp_path / "metrics.jsonl").log(
        1, {"reward/mean": 0.5, "time/update_s": 0.0, "loss/kl_ref": float("nan")}
    )
    assert "Reward" in Page(write_report(tmp_path).read_text()).text


def test_what_is_not_a_run_is_an_error_that_says_so(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such folder \(give the folder of a run"):
        write_report(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"holds no metrics\.jsonl"):
        write_report(tmp_path)
    MetricsLog(tmp_path / "metrics.jsonl")
    with pytest.raises(DataError, match="no step of this run is finished yet"):
        write_report(tmp_path)


def test_the_command_prints_where_the_report_is_and_fails_in_words(run, capsys):
    assert main(["report", str(run.path)]) == 0
    assert capsys.readouterr().out.strip() == str(run.report)
    assert main(["report", str(run.path / "nothing")]) == 1
    assert "no such folder" in capsys.readouterr().err
