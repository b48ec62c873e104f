"""How fast is the grader? `python -m perf.rewards [--rows 200]`

Scores rows by this project's rewards and by naive ones that follow the published rules (no spaces around tags in the
whole response, first answer block, then `float`, `json.loads`, a table of edits, a set of letters ..), by turns. Every
row is another one: no question, answer or thought comes twice, so nothing is measured that was remembered. The times
are CPU seconds of this process and of the workers. Mathematics is also measured against Math-Verify alone, on the same
rows.

What the naive rules get wrong is part of the comparison: the share of rows that both score alike is printed. Drawings
have no naive rule that looks at them; theirs is the same renderer and the mean difference of pixels, with each gold
answered by eight responses, as in training. Pages are compared by `html.parser` and `difflib`.

The last line is JSON:
    TYPE_per_s               scores per CPU second
    TYPE_ratio               rate here / rate of the naive rule, for the same rows
    math_library_ratio       rate here / rate of Math-Verify alone
    math_open_per_s          the same for the rare golds that need algebra, in workers
    hostile_s                wall time of a batch of 256 with 64 hostile answers on two workers
    stall_s                  how much later the last of 255 math answers is judged beside one that hangs
    batch_stall_s            how much later the whole batch returns, the hanging answer killed
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from easyvideor1.jobs.pool import Outcome
from easyvideor1.rewards.grader import Heavy
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rewards.workers import Workers
from easyvideor1.types import Sample, Score
from perf import naive_rewards as naive
from perf.reward_rows import MAKERS, Row, honest_answers, hostile_answers, open_math

ROUNDS = 5
ROWS = 1000
SLOW_ROWS = {"svg_code": 96, "html_code": 300}
DEADLINE_S = 10.0
HANG = "import time\nfrom easyvideor1.types import Score\n\ndef hang(sample, text):\n    time.sleep(600)\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of a type and round, where there are that many")
    num_rows = parser.parse_args().rows
    rng = random.Random(0)
    result: dict[str, float] = {}
    with RewardPool() as pool:
        for name, make in MAKERS.items():
            rows = [
                [make(rng, number) for number in range(min(num_rows, SLOW_ROWS.get(name, ROWS)))] for _ in range(ROUNDS)
            ]
            pool.score(rows[0][:8])
            result |= _compared(name, pool, rows, naive.RULES[name])
            if name == "math":
                result |= _library(rows, result["math_per_s"])
        result["math_open_per_s"] = _rate(pool, [open_math(rng) for _ in range(100)])
        result["hostile_s"] = _hostile_s(pool, rng)
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "hang.py"
        own.write_text(HANG)
        with RewardPool(rewards={"hanging": f"{own}:hang"}, deadline_s=DEADLINE_S) as pool:
            result |= _stalls_s(pool, [open_math(rng) for _ in range(255)])
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


def _compared(
    name: str, pool: RewardPool, rounds: Sequence[Sequence[Row]], rule: Callable[[str, Sample], float]
) -> dict[str, float]:
    """Rates of both, medians over rounds taken by turns, each with rows of its own."""
    ours_s, naive_s, num_alike, num_rows = [], [], 0, 0
    for rows in rounds:
        started = _cpu_s(pool)
        scores = pool.score(rows)
        ours_s.append(_cpu_s(pool) - started)
        started = time.process_time()
        values = [rule(text, sample) for sample, text in rows]
        naive_s.append(time.process_time() - started)
        num_rows += len(rows)
        num_alike += sum(
            abs(score.parts["accuracy"] - value) < 1e-2 for score, value in zip(scores, values, strict=True)
        )
    rate, naive_rate = (len(rounds[0]) / statistics.median(times) for times in (ours_s, naive_s))
    print(f"{name:28} {rate:9,.0f} per CPU second, naive {naive_rate:9,.0f}; {num_alike / num_rows:.0%} judged alike")
    return {f"{name}_per_s": rate, f"{name}_ratio": rate / naive_rate}


def _library(rounds: Sequence[Sequence[Row]], rate: float) -> dict[str, float]:
    """Math-Verify alone on the answers, without tags and thoughts."""
    seconds = []
    for rows in rounds:
        answers = [text.rpartition("<answer>")[2].removesuffix("</answer>") for _, text in rows]
        started = time.process_time()
        for (sample, _), answer in zip(rows, answers, strict=True):
            naive.math_verify(answer, sample.gold)
        seconds.append(time.process_time() - started)
    library = len(rounds[0]) / statistics.median(seconds)
    print(f"{'Math-Verify alone':28} {library:9,.0f} per CPU second")
    return {"math_library_ratio": rate / library}


def _rate(pool: RewardPool, rows: Sequence[Row]) -> float:
    pool.score(rows[:4])
    started = _cpu_s(pool)
    pool.score(rows)
    return len(rows) / (_cpu_s(pool) - started)


def _cpu_s(pool: RewardPool) -> float:
    """CPU seconds of this process and of the workers of a pool, their forks included."""
    ticks = 0
    jobs = pool._workers._pool
    for worker in jobs._workers if jobs else ():
        fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # its own in user and system mode, then those of its children
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _hostile_s(pool: RewardPool, rng: random.Random) -> float:
    """A batch of 256 with 64 hostile answers among them; every honest answer gets its score."""
    honest, hostile = honest_answers(rng, 192), hostile_answers(rng, 64)
    rows = [*honest, *hostile]
    rng.shuffle(rows)
    started = time.perf_counter()
    scores = dict(zip(map(id, rows), pool.score(rows), strict=True))
    wall_s = time.perf_counter() - started
    right = sum(scores[id(row)].parts["accuracy"] > 0.99 for row in honest)
    paid = sum(scores[id(row)].parts["accuracy"] > 0.5 for row in hostile)
    print(
        f"hostile batch: {wall_s:.1f} s; {right} of {len(honest)} honest answers right, {paid} hostile paid, "
        f"cut {dict(pool.cut)}"
    )
    return wall_s


def _stalls_s(pool: RewardPool, rows: Sequence[Row]) -> dict[str, float]:
    """The delays of 255 answers, and of the batch they are in, when another answer of the batch hangs."""
    hanging = (Sample(id="hang", problem_type="hanging", problem="?", gold="x"), "")
    pool.score([hanging, *rows[:4]])  # the worker for it is started and killed once
    pool.score(rows[:32])
    started = time.perf_counter()
    pool.score(rows)
    alone_s = time.perf_counter() - started
    started = time.perf_counter()
    with watched(pool._workers) as last:
        scores = pool.score([*rows[:100], hanging, *rows[100:]])
    batch_s, others_s = time.perf_counter() - started, last[0] - started
    assert [score.is_scored for score in scores].count(False) == 1
    return {"stall_s": max(0.0, others_s - alone_s), "batch_stall_s": max(0.0, batch_s - alone_s)}


@contextmanager
def watched(workers: Workers) -> Iterator[list[float]]:
    """Notes when a worker last handed in a result; a killed worker hands in none."""
    last, run = [0.0], workers._run

    def noting(heavy: Iterable[Heavy]) -> Iterator[Outcome[Heavy, Score]]:
        for outcome in run(heavy):
            if outcome.result is not None:
                last[0] = time.perf_counter()
            yield outcome

    workers._run = noting
    yield last
    workers._run = run


if __name__ == "__main__":
    main()
