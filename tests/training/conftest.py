"""What one process does and two do, made once for all tests that compare them."""

from __future__ import annotations

import pytest
from support.on_ranks import results
from support.rank_loading import write_models
from support.rank_training import Both, all_cases, go_on

from easyvideor1.training.ranks import Ranks


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Both:
    one, two, models = (tmp_path_factory.mktemp(name) for name in ("one", "two", "models"))
    write_models(models)
    found = all_cases(one, models, Ranks())
    go_on(two / "changing", Ranks(), killed_in=3)
    return found, results(all_cases, two, models)
