"""An engine over vLLM servers: requests over HTTP, asked again elsewhere when a server dies, weights by a folder."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from easyvideor1.errors import MismatchError, RunError
from easyvideor1.rollout.engine import Request
from easyvideor1.rollout.vllm import wire
from easyvideor1.rollout.vllm.pump import Queue, request_tokens
from easyvideor1.rollout.vllm.server import DIFFERS, OK, STALE
from easyvideor1.rollout.vllm.weight_files import write_weights
from easyvideor1.types import Rollout, StopReason

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

GRACE_S = 30.0
"""A server gives a request up by itself at its deadline; an answer later than this is none."""
HEALTH_S = 5.0
LOAD_S = 1800.0
POLL_S = 0.2
THREADS_PER_SERVER = 64
TROUBLE = (OSError, http.client.HTTPException)


class Server:
    """One server, as its client sees it."""

    def __init__(self, address: str) -> None:
        self.address = address
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self.num_under_way = 0
        self.is_alive = True

    def post(self, path: str, body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        """(status, answer). Raises one of `TROUBLE` where there is none."""
        return self._ask("POST", path, body, timeout_s)

    def is_well(self) -> bool:
        with contextlib.suppress(*TROUBLE):
            return self._ask("GET", "/health", b"", HEALTH_S)[0] == OK
        return False

    def _ask(self, method: str, path: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


class ServersEngine:
    """See rollout.engine.Engine. A server that dies costs the requests it had: they are asked again at the others.

    Several ranks may share the servers, each through an engine of its own: all send requests to all servers, and one
    of them hands over the weights.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        weights_dir: Path,
        tokens_per_batch: int,
        deadline_s: float,
        retries: int,
        dtype: torch.dtype | None = None,
        rank: int = 0,
        num_ranks: int = 1,
        run: str = "",
    ) -> None:
        """
        Args:
            weights_dir: a folder that the servers see under the same path.
            tokens_per_batch: see `pump.request_tokens`; of each server.
            deadline_s: of a request, at one server.
            retries: how often a request is asked again after a failure; then its responses are given up.
            dtype: what the model computes in, and weights are written in; None: as they are.
            rank: number of this one among the engines that share the servers. The first hands over the weights.
            num_ranks: engines that share them.
            run: name of the run, the same for all that share the servers and another one for every other run: a server
                that has the weights of a version from it does not take them again.

        Raises:
            RunError: no server answers.
        """
        first = rank % len(addresses)  # of servers with equally much to do a rank asks its own
        self._servers = [Server(address) for address in (*addresses[first:], *addresses[:first])]
        self._weights_dir, self._dtype = weights_dir, dtype
        self._tokens_per_batch = tokens_per_batch
        self._deadline_s, self._retries = deadline_s, retries
        self._is_first, self._num_ranks, self._run = rank == 0, num_ranks, run or uuid.uuid4().hex
        self._lock = threading.Lock()
        self._version = 0
        self._folder: Path | None = None
        """Weights of the version; None: those the servers began with."""
        self.banned_hits, self.needs_still_actor = 0, False
        for server in self._servers:
            server.is_alive = server.is_well()
        self._check_any_alive()

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Servers have machines of their own and do not sleep."""
        yield

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        """See Engine.generate.

        Raises:
            RunError: no server is left.
            MismatchError: a server reads a prompt differently.
        """
        waiting = Queue(requests)
        under_way: dict[Future[tuple[Rollout, ...]], tuple[int, Request]] = {}
        with ThreadPoolExecutor(max_workers=THREADS_PER_SERVER * len(self._servers)) as threads:
            try:
                while not waiting.is_over or under_way:
                    while waiting.head is not None and self._has_room(waiting.head, under_way.values()):
                        place, request = waiting.take()
                        under_way[threads.submit(self._answered, request)] = (place, request)
                    done, _ = wait(under_way, timeout=POLL_S, return_when=FIRST_COMPLETED)
                    for future in done:
                        place, _ = under_way.pop(future)
                        yield place, future.result()
                    waiting.ask_again()
            finally:
                threads.shutdown(wait=False, cancel_futures=True)

    def load_weights(self, tensors: Iterable[tuple[str, torch.Tensor]], *, version: int) -> None:
        """See Engine.load_weights: written to a folder, from which all servers take them over at once. Servers that
        were given up are asked too, and are back when they answer.

        Of several ranks the first does so. The others note the version, and none may ask before the first is done.

        Raises:
            RunError: no server takes them over.
        """
        before = self._folder
        self._folder, self._version = self._weights_dir / f"version-{version}", version
        if not self._is_first:
            for server in self._servers:
                server.is_alive = server.is_well()
            return
        write_weights(_rounded(tensors, self._dtype), self._folder)
        with ThreadPoolExecutor(max_workers=len(self._servers)) as threads:
            list(threads.map(self._hand_over, self._servers))
        self._check_any_alive()
        if before is not None and before != self._folder:
            shutil.rmtree(before, ignore_errors=True)

    def _has_room(self, request: Request, under_way: Iterable[tuple[int, Request]]) -> bool:
        held = [request_tokens(other) for _, other in under_way]
        num_alive = max(1, sum(server.is_alive for server in self._servers))
        return not held or sum(held) + request_tokens(request) <= self._tokens_per_batch * num_alive

    def _answered(self, request: Request) -> tuple[Rollout, ...]:
        """The rollouts of a request from whichever server gives them."""
        body = wire.request_bytes(request, version=self._version)
        for attempt in range(self._retries + 1):
            server = self._take_server()
            try:
                status, answer = self._posted(server, body)
            except TROUBLE as error:
                self._note_trouble(server, request, f"{type(error).__name__}: {error}", attempt)
                continue
            finally:
                with self._lock:
                    server.num_under_way -= 1
            if status == OK:
                rollouts, hits = wire.read_rollouts(answer)
                with self._lock:
                    self.banned_hits += hits
                return rollouts
            if status == DIFFERS:
                raise MismatchError(f"{server.address}: {answer.decode()}", where=request.example.sample.where)
            self._note_trouble(server, request, answer.decode(), attempt)
        nothing = Rollout(
            token_ids=(), text="", logprobs=None, stop_reason=StopReason.ABORT, weights_version=self._version
        )
        return (nothing,) * request.sampling.n

    def _posted(self, server: Server, body: bytes) -> tuple[int, bytes]:
        # What a server has no room for waits there; each of those who share it has its room at most.
        timeout_s = self._deadline_s * self._num_ranks + GRACE_S
        status, answer = server.post("/generate", body, timeout_s=timeout_s)
        if status == STALE and self._folder is not None:  # it was started again, with the weights of the beginning
            self._hand_over(server)
            status, answer = server.post("/generate", body, timeout_s=timeout_s)
        return status, answer

    def _take_server(self) -> Server:
        """The one with least to do.

        Raises:
            RunError: none is left.
        """
        with self._lock:
            self._check_any_alive()
            server = min((each for each in self._servers if each.is_alive), key=lambda each: each.num_under_way)
            server.num_under_way += 1
            return server

    def _note_trouble(self, server: Server, request: Request, told: str, attempt: int) -> None:
        if not server.is_well():
            server.is_alive = False
        goes_on = "it is asked again" if attempt < self._retries else "it is given up and does not train"
        state = "" if server.is_alive else ", and the server is gone"
        log.warning("sample %s: %s failed%s (%s); %s", request.example.sample.id, server.address, state, told, goes_on)

    def _hand_over(self, server: Server) -> None:
        weights = {"path": str(self._folder), "version": self._version, "id": f"{self._run} {self._version}"}
        wanted = json.dumps(weights).encode()
        try:
            status, answer = server.post("/weights", wanted, timeout_s=LOAD_S)
        except TROUBLE as error:
            status, answer = 0, str(error).encode()
        server.is_alive = status == OK
        if not server.is_alive:
            log.warning("%s does not take over version %d: %s", server.address, self._version, answer.decode())

    def _check_any_alive(self) -> None:
        if not any(server.is_alive for server in self._servers):
            raise RunError(
                f"no vLLM server is left of {', '.join(server.address for server in self._servers)}; start them again "
                "and then the run, which goes on from its last checkpoint"
            )


def _rounded(
    tensors: Iterable[tuple[str, torch.Tensor]], dtype: torch.dtype | None
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in the type that the model computes in; those of a sharded model are float32."""
    for name, tensor in tensors:
        yield name, tensor if dtype is None or not tensor.is_floating_point() else tensor.to(dtype)
