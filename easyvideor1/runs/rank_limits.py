"""Settings that need one process, or several: refused by name before anything is loaded."""

from __future__ import annotations

from easyvideor1.config import RunConfig
from easyvideor1.errors import UsageError


def check_number_of_ranks(config: RunConfig, num_ranks: int) -> None:
    """Make sure that the settings fit the number of processes that train together.

    Raises:
        UsageError: one does not; says which, and what would be right.
    """
    if config.optimizer.states == "8bit" and num_ranks > 1:
        raise UsageError(
            f"optimizer.states=8bit works in a run of one process, this one has {num_ranks} ranks: which numbers share "
            "a scale would follow from how many ranks there are; use bfloat16"
        )
    if config.parallel.cpu_offload and num_ranks == 1:
        raise UsageError(
            "parallel.cpu_offload=true keeps the shards of several ranks in main memory, and this run is one process, "
            "which has none; leave it out, and make the optimizer smaller with optimizer.states=8bit or bfloat16"
        )
    if num_ranks % config.parallel.sequence:
        raise UsageError(
            f"parallel.sequence={config.parallel.sequence} does not divide the number of ranks, {num_ranks}; start a "
            "multiple of it (torchrun --nproc-per-node), or set it to a divisor, 1 in one process"
        )
