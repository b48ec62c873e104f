"""How fast is the grader? `python -m perf.rewards`

Judges the same responses by this project's rewards and by naive ones that follow the published rules (no spaces
around tags in the whole response, first answer block, regular expressions, `json.loads`, Math-Verify with its own
time-outs), by turns, on responses that both judge alike. The cheap types run in this process, math in the workers.

The last line is JSON:
    multiple_choice_per_s, grounding_per_s   scores per second of one process
    math_per_s                               scores per second of two workers, warm
    stall_s                                  how much later the last of 255 math answers is judged beside one that hangs
    batch_stall_s                            how much later the whole batch returns, the hanging answer killed
    *_ratio                                  rate here / rate of the naive reward, for the same rows
"""

from __future__ import annotations

import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import Sample

ROUNDS = 5
DEADLINE_S = 10.0
OPTIONS = ("A. a red kettle", "B. a blue bicycle", "C. a grey cat", "D. an empty street")
WORDS = (
    "the",
    "man",
    "walks",
    "to",
    "a",
    "red",
    "boat",
    "and",
    "then",
    "turns",
    "left",
    "near",
    "the",
    "tower",
    "while",
)
MATH = (
    ("\\frac{3}{4}", "0.75"), ("\\sqrt{12}", "2\\sqrt{3}"), ("9", "x = 9"), ("81", "3^{4}"), ("x^2+4x+4", "(x+2)^2"),
    ("9", "8"), ("\\pi", "\\pi"), ("\\frac{\\pi}{3}", "\\pi/3"), ("2x", "2*x"), ("12", "12"), ("(1,2)", "(1, 2)"),
    ("7", "-7"),
)  # fmt: skip
HANG = "import time\nfrom easyvideor1.types import Score\n\ndef hang(sample, text):\n    time.sleep(600)\n"

Row = tuple[Sample, str]


def main() -> None:
    rng = random.Random(0)
    choices = [_row(rng, "multiple choice", "B", answer, OPTIONS) for answer in ("B", "C", "B.", "A") * 500]
    spans = ('{"time": [12.0, 18.0]}', '{"time": [0, 5]}', '{"time": [10, 20]}', '{"time": [15, 25]}')
    boxes = ('{"boxes": [10, 20, 30, 40]}', '{"boxes": [15, 20, 35, 40]}')
    grounding = [_row(rng, "temporal grounding", '{"time": [10, 20]}', answer) for answer in spans * 250]
    grounding += [_row(rng, "spatial grounding", '{"boxes": [10, 20, 30, 40]}', answer) for answer in boxes * 500]
    algebra = [_row(rng, "math", gold, answer) for gold, answer in MATH * 22][:256]
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "hang.py"
        own.write_text(HANG)
        with WatchedPool(rewards={"hanging": f"{own}:hang"}, deadline_s=DEADLINE_S) as pool:
            pool.score(algebra[:8])
            result = {
                **_compared("multiple_choice", pool, choices, naive_choice),
                **_compared("grounding", pool, grounding, naive_grounding),
                **_compared("math", pool, algebra, naive_math),
                **_stalls_s(pool, algebra),
            }
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


def _row(rng: random.Random, problem_type: str, gold: str, answer: str, options: Sequence[str] = ()) -> Row:
    thought = " ".join(rng.choice(WORDS) for _ in range(120))
    sample = Sample(id="s", problem_type=problem_type, problem="?", gold=gold, options=tuple(options))
    return sample, f"<think>{thought}</think>\n<answer>{answer}</answer>"


def _compared(name: str, pool: RewardPool, rows: Sequence[Row], naive: Callable[[str, str], float]) -> dict[str, float]:
    """Rates of both, medians over rounds taken by turns."""
    ours_s, naive_s = [], []
    num_apart = 0
    for _ in range(ROUNDS):
        started = time.perf_counter()
        scores = pool.score(rows)
        ours_s.append(time.perf_counter() - started)
        started = time.perf_counter()
        values = [naive(text, sample.gold) for sample, text in rows]
        naive_s.append(time.perf_counter() - started)
        num_apart += sum(abs(score.value - value) > 1e-3 for score, value in zip(scores, values, strict=True))
    rate, naive_rate = (len(rows) / statistics.median(times) for times in (ours_s, naive_s))
    print(f"{name}: {rate:,.0f} per second, naive {naive_rate:,.0f}; {num_apart} of {len(rows) * ROUNDS} judged apart")
    return {f"{name}_per_s": rate, f"{name}_ratio": rate / naive_rate}


class WatchedPool(RewardPool):
    """A pool that remembers when a worker last handed in a result; a killed worker hands in none."""

    last_result_s = 0.0

    def _note_time(self, wall_s: float, sample_id: str) -> None:
        super()._note_time(wall_s, sample_id)
        self.last_result_s = time.perf_counter()


def _stalls_s(pool: WatchedPool, rows: Sequence[Row]) -> dict[str, float]:
    """The delays of 255 answers, and of the batch they are in, when another answer of the batch hangs."""
    hanging = (Sample(id="hang", problem_type="hanging", problem="?", gold="x"), "")
    pool.score([hanging, *rows[:4]])  # the worker for it is started and killed once
    pool.score(rows[:32])
    started = time.perf_counter()
    pool.score(rows[:255])
    alone_s = time.perf_counter() - started
    started = time.perf_counter()
    scores = pool.score([*rows[:100], hanging, *rows[100:255]])
    batch_s, others_s = time.perf_counter() - started, pool.last_result_s - started
    assert [score.is_scored for score in scores].count(False) == 1
    return {"stall_s": max(0.0, others_s - alone_s), "batch_stall_s": max(0.0, batch_s - alone_s)}


def naive_choice(text: str, gold: str) -> float:
    text, answer = _naive_answer(text)
    letters = set(re.findall(r"(?<![A-Za-z])[A-J](?![A-Za-z])", answer))
    return 0.9 * (letters == {gold}) + 0.1 * _naive_format(text)


def naive_grounding(text: str, gold: str) -> float:
    text, answer = _naive_answer(text)
    predicted, wanted = json.loads(answer), json.loads(gold)
    if "time" in wanted:
        (start, end), (gold_start, gold_end) = predicted["time"], wanted["time"]
        overlap = max(0.0, min(end, gold_end) - max(start, gold_start))
        accuracy = overlap / (max(end, gold_end) - min(start, gold_start))
    else:
        x1, y1, x2, y2 = predicted["boxes"]
        a1, b1, a2, b2 = wanted["boxes"]
        overlap = max(0, min(x2, a2) - max(x1, a1)) * max(0, min(y2, b2) - max(y1, b1))
        accuracy = overlap / ((x2 - x1) * (y2 - y1) + (a2 - a1) * (b2 - b1) - overlap)
    return 0.9 * accuracy + 0.1 * _naive_format(text)


def naive_math(text: str, gold: str) -> float:
    from math_verify import parse, verify

    text, answer = _naive_answer(text)
    answer = answer.split("=")[-1]
    is_right = answer == gold or verify(parse(f"${gold}$"), parse(f"${answer}$"))
    return 0.9 * bool(is_right) + 0.1 * _naive_format(text)


def _naive_answer(text: str) -> tuple[str, str]:
    text = re.sub(r"\s*(<|>|/)\s*", r"\1", text)
    match = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return text, match[1].strip() if match else text


def _naive_format(text: str) -> bool:
    return re.search(r"<think>.*?</think>\s*<answer>.*?</answer>", text, re.DOTALL) is not None


if __name__ == "__main__":
    main()
