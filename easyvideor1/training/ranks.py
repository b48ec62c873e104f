"""The processes of a run, called ranks: what they tell each other, and how an error of one becomes the error of all.

All of it goes through one collective, `gather`. It carries a name and a time limit, so that ranks that do different
things, or a rank that does not come, are an error that says so instead of a run that hangs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from easyvideor1.errors import EasyVideoError, RunError, UsageError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store
    from torch.distributed import ProcessGroup

START_S = 60.0
"""Seconds that the ranks have to find each other."""
Item = TypeVar("Item")


class Ranks:
    """The ranks of a run that is one process: what is gathered is what it has itself.

    It is handed to whoever needs it. Every rank must make the same calls in the same order; what only one rank does
    belongs into `agree`.
    """

    rank: int = 0
    """Number of this process, from 0."""
    size: int = 1
    """Number of processes."""

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes the files of the run."""
        return self.rank == 0

    @property
    def group(self) -> ProcessGroup | None:
        """The group of all ranks for tensors in main memory; None: there is one process."""
        return None

    def twin(self) -> Ranks:
        """The same ranks once more, for another thread: what it gathers is apart from what is gathered here. All ranks
        make their twins at once."""
        return self

    def gather(self, value: Item, *, of: str) -> list[Item]:
        """The values of all ranks, in rank order; its own as it is, those of others as copies.

        Args:
            value: anything that can be pickled; ranks are processes of one run and trust each other.
            of: what it is, for errors; ranks that gather different things at once get an error.

        Raises:
            RunError: a rank did not come in time, is gone, or gathers something else.
        """
        return [value]

    def sum(self, value: float, *, of: str) -> float:
        """The sum over ranks, added up in rank order, so that it is the same number on all of them."""
        return sum(self.gather(value, of=of))

    def most(self, value: int, *, of: str) -> int:
        """The largest value of any rank."""
        return max(self.gather(value, of=of))

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """What of some equal items is this rank's: every size-th."""
        return items[self.rank :: self.size]

    @contextmanager
    def losses_told(self) -> Iterator[None]:
        """A block in which ranks exchange tensors too; one that does not come, or is gone, is a RunError as in `gather`
        instead of an error of torch's."""
        yield

    @contextmanager
    def agree(self, of: str) -> Iterator[None]:
        """A block in which a rank works by itself; an error in it on any rank is raised at its end on all.

        Without it, the ranks that are well would wait for the one that is not. The block must hold no collective. Of
        several errors that of the lowest rank is raised. An error that is none of this package's own is raised as it
        is where it happened, and as a RunError elsewhere.

        Raises:
            RunError: see above, and `gather`.
        """
        yield


class TorchRanks(Ranks):
    """Several processes that torch.distributed connects."""

    def __init__(self, *, rank: int, size: int, timeout: timedelta, store: Store) -> None:
        """
        Args:
            timeout: of every call.
            store: where ranks note down how far they are, for errors.
        """
        self.rank, self.size = rank, size
        self._timeout, self._store = timeout, store
        self._group = _group(timeout)
        self._num_calls = self._num_twins = 0

    @property
    def group(self) -> ProcessGroup | None:
        return self._group

    def twin(self) -> Ranks:
        from torch._C._distributed_c10d import PrefixStore

        self._num_twins += 1
        store = PrefixStore(f"twin{self._num_twins}", self._store)
        return TorchRanks(rank=self.rank, size=self.size, timeout=self._timeout, store=store)

    def gather(self, value: Item, *, of: str) -> list[Item]:
        import torch.distributed as dist

        self._num_calls += 1
        found: list[Any] = [None] * self.size
        try:
            self._store.set(f"rank{self.rank}", f"{self._num_calls} {of}")
            dist.all_gather_object(found, (of, value), group=self._group)
        except RuntimeError as error:  # a time limit, or a connection that is lost
            raise RunError(
                f"rank {self.rank} of {self.size}: {self._missing(of)} ({_first_line(error)}). {self._remedy}"
            ) from error
        names = [name for name, _ in found]
        if set(names) != {of}:
            other = next(rank for rank, name in enumerate(names) if name != of)
            raise RunError(
                f"rank {self.rank} of {self.size} is at '{of}' while rank {other} is at '{names[other]}'; all ranks "
                "must run the same recipe with the same version of easyvideor1 on the same data"
            )
        return [value if rank == self.rank else item for rank, (_, item) in enumerate(found)]

    @contextmanager
    def losses_told(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if not is_of_a_connection(error):
                raise
            others = ", ".join(
                f"rank {rank} at '{place}'" for rank, (_, place) in self._calls().items() if rank != self.rank
            )
            raise RunError(
                f"rank {self.rank} of {self.size} waited in vain for tensors of another; last heard of: "
                f"{others or 'none'} ({_first_line(error)}). {self._remedy}"
            ) from error

    @contextmanager
    def agree(self, of: str) -> Iterator[None]:
        own: Exception | None = None
        try:
            yield
        except Exception as error:  # noqa: BLE001 - it is raised below
            own = error
        told = None if own is None else _portable(own, rank=self.rank)
        errors = self.gather(told, of=of)
        first = next((rank for rank, error in enumerate(errors) if error is not None), None)
        if first is None:
            return
        if first == self.rank:
            assert own is not None
            raise own
        error = errors[first]
        assert error is not None
        raise error from own

    @property
    def _remedy(self) -> str:
        return (
            "Run the same command again to go on; where a rank was only slower than parallel.timeout_s="
            f"{self._timeout.total_seconds():g} (a slow disk, long videos), with a longer one"
        )

    def _calls(self) -> dict[int, tuple[int, str]]:
        """Rank -> how many calls it made, and the last one, as far as the store can tell."""
        found = {}
        with suppress(RuntimeError):  # its host may be the rank that is gone
            self._store.set_timeout(timedelta(seconds=5))
            for rank in range(self.size):
                key = f"rank{rank}"
                number, _, place = (
                    self._store.get(key).decode().partition(" ") if self._store.check([key]) else ("0", "", "")
                )
                found[rank] = (int(number), place.strip())
        return found

    def _missing(self, of: str) -> str:
        """Which ranks have not come to a call, as far as the store can tell."""
        late = [
            f"rank {rank} did not come, its last call was '{place or 'none'}'"
            for rank, (number, place) in self._calls().items()
            if number < self._num_calls
        ]
        return f"waited in vain at '{of}': " + ("; ".join(late) or "another rank is gone, see its output")


@contextmanager
def joined(*, timeout_s: float) -> Iterator[Ranks]:
    """The ranks that a launcher such as torchrun started (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in
    the environment), connected and tried out; without a launcher, one process.

    Args:
        timeout_s: time that a rank waits for the others at any later call. It must be longer than ranks can be apart:
            one may decode or sample for longer than another.

    Raises:
        UsageError: more ranks than GPUs on this machine, or the environment says half of what a launcher says.
        RunError: the ranks do not find each other in START_S seconds.
    """
    if _launched_size() == 1:
        yield Ranks()
        return
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    start = timedelta(seconds=START_S)
    device = _own_device()
    try:
        store, rank, size = next(iter(rendezvous("env://", timeout=start)))
        store.set_timeout(start)
        # FSDP2 with offloaded weights needs collectives in main memory beside those of the GPUs.
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            store=PrefixStore("group", store),
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=timeout_s),
        )
    except (RuntimeError, ValueError) as error:
        raise RunError(_not_found(_first_line(error))) from error
    try:
        notes = PrefixStore("notes", store)
        first = TorchRanks(rank=rank, size=size, timeout=start, store=PrefixStore("start", notes))
        seen = first.gather(rank, of="start-up")
        ones = torch.ones(1, device=device)
        try:
            work = dist.all_reduce(ones, async_op=True)
            assert work is not None
            work.wait(start)
        except RuntimeError as error:
            raise RunError(
                f"rank {rank}: the ranks found each other, but could not add up a number on {device} within "
                f"{START_S:g} s: {_first_line(error)}. On GPUs, NCCL_DEBUG=INFO says which connection fails"
            ) from error
        if seen != list(range(size)) or float(ones) != size:
            raise RunError(f"rank {rank}: the sum of {size} ones over all ranks is {float(ones):g}, the ranks {seen}")
        yield TorchRanks(rank=rank, size=size, timeout=timedelta(seconds=timeout_s), store=notes)
    finally:
        dist.destroy_process_group()


def _group(timeout: timedelta) -> ProcessGroup:
    import torch.distributed as dist

    group = dist.new_group(backend="gloo", timeout=timeout)
    assert group is not None
    assert not isinstance(group, int)
    return group


def _launched_size() -> int:
    """How many ranks a launcher started; 1 without one.

    Raises:
        UsageError: see `joined`.
    """
    text = os.environ.get("WORLD_SIZE", "").strip() or "1"
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"WORLD_SIZE={text} in the environment is no number of ranks; unset it, or use torchrun")
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if int(text) > 1 and missing:
        raise UsageError(
            f"WORLD_SIZE={text} in the environment says that {text} ranks train together, but {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not set; start them by torchrun (docs/cluster.md), or unset "
            "WORLD_SIZE for a run of one process"
        )
    return int(text)


def _own_device() -> Any:
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    local, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if count > 1 and "LOCAL_RANK" not in os.environ:
        raise UsageError(
            f"LOCAL_RANK is not set in the environment, so every rank would take the first of the {count} GPUs of this "
            "machine; start the ranks by torchrun, or set it (under SLURM: LOCAL_RANK=$SLURM_LOCALID)"
        )
    if local >= count:
        raise UsageError(
            f"{local + 1} or more ranks were started on this machine, which has {count} GPUs; start one per GPU "
            f"(torchrun --nproc-per-node {count}). Where every rank sees a GPU of its own only, set LOCAL_RANK=0"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def _not_found(reason: str) -> str:
    facts = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    told = ", ".join(f"{name}={value}" for name, value in facts.items())
    return (
        f"the ranks did not find each other within {START_S:g} s ({told}): {reason}. Start the same command on every "
        "machine, with an address and port of the first that the others can reach (docs/cluster.md)"
    )


def is_of_a_connection(error: RuntimeError) -> bool:
    """Whether an error of torch's is one of what connects ranks; those of gloo have no type of their own."""
    from torch.distributed import DistError

    return isinstance(error, DistError) or any(word in str(error) for word in ("gloo", "NCCL", "Connection closed"))


def _portable(error: Exception, *, rank: int) -> EasyVideoError:
    """The error that other ranks raise for an error of this one."""
    if isinstance(error, EasyVideoError):
        return error
    return RunError(f"rank {rank} failed: {type(error).__name__}: {error}")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].split(". This is typically caused")[0]
