"""Open answers judged under a benchmark's own rule."""

from support.benchmark_rows import write_files, write_responses
from support.values import present

from easyvideor1.evals.judging import judge_items
from easyvideor1.evals.protocol import load_protocol
from easyvideor1.evals.responses import read_responses
from easyvideor1.evals.scoring import result, score_responses
from easyvideor1.evals.table import BENCHMARKS


class ScriptedJudge:
    """Replies in order, read as the judge reads them, and keeps what it was asked."""

    def __init__(self, *replies):
        self.asked, self._replies = [], list(replies)

    def verdicts(self, texts, form):
        self.asked += texts
        return [self._verdict(self._replies.pop(0), form) for _ in texts]

    def _verdict(self, reply, form):
        last = form.fullmatch(reply.splitlines()[-1]) if reply else None
        return last[1] if last else None


def judged(name, answers, judge, tmp_path):
    benchmark, rules = BENCHMARKS[name], load_protocol(name)
    loaded = benchmark.load(write_files(name, tmp_path))
    said = read_responses(write_responses(answers, tmp_path / "r.jsonl"), loaded.items)
    verdicts = judge_items(loaded.items, said.by_id, present(rules.judge), judge)
    return result(score_responses(benchmark, loaded, said, rules, verdicts=verdicts))


def test_a_verdict_counts_and_its_absence_is_unscored(tmp_path):
    answers = {"validation_0": "B", "validation_1": "Immunoglobulin E"}
    right = judged("mmvu", answers, ScriptedJudge("It does.\nVERDICT: RIGHT"), tmp_path)
    assert (right["score"], right["num_unscored"]) == (100.0, 0)
    wrong = judged("mmvu", answers, ScriptedJudge("VERDICT: WRONG"), tmp_path)
    assert wrong["score"] == 50.0
    for reply in ("Right.", None, "VERDICT: RIGHT\nor not"):
        silent = judged("mmvu", answers, ScriptedJudge(reply), tmp_path)
        assert (silent["score"], silent["num_unscored"]) == (100.0, 1)


def test_the_judge_sees_question_reference_and_response_and_nothing_for_a_missing_one(tmp_path):
    judge = ScriptedJudge("VERDICT: RIGHT")
    found = judged("vcrbench", {"2": "17 to 46 s"}, judge, tmp_path)
    assert len(judge.asked) == 1
    assert all(part in judge.asked[0] for part in ("When?", "[17, 46]", "17 to 46 s"))
    assert (found["num_unscored"], found["num_missing"]) == (0, 2)
    silent = ScriptedJudge()
    assert judged("vcrbench", {"0": "B"}, silent, tmp_path)["num_unscored"] == 0
    assert not silent.asked


def test_written_answers_of_mlvu_get_two_ratings(tmp_path):
    judge = ScriptedJudge("RATINGS: 3 4")
    found = judged("mlvu_dev", {"plotQA_0": "B", "sub_scene_0": "He mends."}, judge, tmp_path)
    assert found["metrics"]["g_avg"] == 7.0
    assert "mends" in judge.asked[0]


def test_a_caption_is_judged_by_the_question_of_its_video(tmp_path):
    judge = ScriptedJudge("VERDICT: RIGHT")
    judged("tempcompass", {"captioning/9/action/0": "A woman sews."}, judge, tmp_path)
    assert "What does she do?\nA. knits\nB. sews\nC. weaves" in judge.asked[0]
    assert "B. sews" in judge.asked[0]
