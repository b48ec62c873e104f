import json
from collections import Counter
from random import Random

from easyvideor1.demo.demonstrations import HASTY_ANSWERS, HASTY_FRAC, HASTY_REASON, careful, usual
from easyvideor1.demo.questions import Question, text_exam, video_exam
from easyvideor1.rewards.router import score
from easyvideor1.types import Sample

COUNT = Question(family="count", problem_type="numerical", problem="How many?", gold="3", fact="3 shapes are there")


def questions(count: int) -> list[Question]:
    rng = Random(5)
    return [question for _ in range(count) for question in (*video_exam(rng).questions, *text_exam(rng).questions)]


def test_a_careful_answer_states_what_is_seen_and_is_right():
    assert careful(COUNT, Random(0)) == "<think>3 shapes are there.</think><answer>3</answer>"


def test_a_careful_answer_says_the_option_and_the_verdict_beside_the_fact():
    options = ("A. left", "B. down", "C. up", "D. right")
    way = Question(
        family="", problem_type="multiple choice", problem="?", gold="C", fact="It moves up", options=options
    )
    verdict = Question(family="motion", problem_type="boolean", problem="?", gold="No", fact="It moves up")
    assert careful(way, Random(0)) == "<think>It moves up (C).</think><answer>C</answer>"
    assert careful(verdict, Random(0)) == "<think>It moves up: no.</think><answer>No</answer>"


def test_every_careful_answer_scores_one():
    for question in questions(20):
        sample = Sample(
            id="", problem_type=question.problem_type, problem="?", gold=question.gold, options=question.options
        )
        assert score(sample, careful(question, Random(0)), thinking=True).value == 1.0


def test_hasty_answers_are_the_announced_share_and_do_not_depend_on_the_question():
    rng = Random(0)
    said = [(question, usual(question, rng)) for question in questions(200)]
    hasty = [(question, text) for question, text in said if HASTY_REASON in text]
    assert abs(len(hasty) / len(said) - HASTY_FRAC) < 0.05
    answers = Counter((question.problem_type, text.rpartition("</think>")[2]) for question, text in hasty)
    tagged = {(name, f"<answer>{answer}</answer>") for name, answer in HASTY_ANSWERS.items()}
    bare = set(HASTY_ANSWERS.items())
    assert tagged <= set(answers) <= tagged | bare


def test_some_counts_are_off_by_one_and_the_reason_says_the_same_number():
    rng = Random(1)
    said = Counter(text for text in (usual(COUNT, rng) for _ in range(600)) if HASTY_REASON not in text)
    assert {
        "<think>4 shapes are there.</think><answer>4</answer>",
        "<think>2 shapes are there.</think><answer>2</answer>",
    } <= set(said)
    assert said.most_common(1)[0][0] == careful(COUNT, rng)


def test_a_hasty_time_span_is_well_formed():
    start, end = json.loads(HASTY_ANSWERS["temporal grounding"])["time"]
    assert 0 <= start < end <= 3
