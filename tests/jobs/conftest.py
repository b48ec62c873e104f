import pytest


@pytest.fixture(autouse=True)
def workers_start_at_once() -> None:
    """Not here: these tests are about how a worker starts and ends."""
