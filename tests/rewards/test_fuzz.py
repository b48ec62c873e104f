"""Made responses over all types: every score finite and in [0, 1], none late, the main process no larger."""

import logging
import os

import pytest
from support.made_responses import made_responses

from easyvideor1.config_reward import RewardConfig
from easyvideor1.rewards.pool import RewardPool

log = logging.getLogger(__name__)


def judge_made_responses(count: int, *, seed: int, deadline_s: float) -> None:
    items = list(made_responses(count, seed=seed))
    with RewardPool(deadline_s=deadline_s) as pool:
        pool.score(items[:64])  # imports and caches settle
        before_bytes = resident_bytes()
        for place in range(0, count, 256):
            scores = pool.score(items[place : place + 256])
            for (sample, text), score in zip(items[place:], scores, strict=False):
                assert score.is_scored, (sample.problem_type, text[:200], score)  # unscored: late, among others
                assert 0 <= score.value <= 1, (sample.problem_type, text[:200], score)
                assert all(0 <= part <= 1 for part in score.parts.values()), (sample.problem_type, text[:200], score)
        assert not pool.cut, pool.cut  # none ran into a limit
        grown_mb = (resident_bytes() - before_bytes) / 2**20
        log.info("slowest in workers: %s; the main process grew by %.1f MiB", pool.slowest, grown_mb)
    assert grown_mb < 64


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_few_hundred_made_responses_are_judged_in_range():
    judge_made_responses(480, seed=1, deadline_s=60.0)  # six times the usual: a machine that runs tests is busy


@pytest.mark.slow
@pytest.mark.skipif("not config.getoption('markexpr')", reason="takes minutes: run it with -m slow")
@pytest.mark.timeout(3600)
def test_twenty_thousand_made_responses_are_judged_in_range():
    judge_made_responses(20_000, seed=2, deadline_s=RewardConfig().deadline_s)
