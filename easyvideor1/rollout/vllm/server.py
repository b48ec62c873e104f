"""A server of rollouts: vLLM behind three addresses of HTTP. `python -m easyvideor1.rollout.vllm.server RECIPE ..`

POST /generate takes a request (`wire.request_bytes`) and answers with its rollouts when all are there: 409 where the
server has other weights, 422 where it reads the prompt differently. POST /weights {"path", "version", "id"} takes over
the safetensors files of a folder that the server sees, unless it has those of that id: several clients may hand over
the same ones, and what a server is about must not be lost to that. GET /health says which weights it has.
It trusts whoever reaches it: let only the machines of the run do so.
"""

from __future__ import annotations

import argparse
import json
import logging
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

from easyvideor1.data.encode import Encoder
from easyvideor1.errors import DataError, EasyVideoError, RunError
from easyvideor1.recipe import load_config
from easyvideor1.rollout.engine import Request
from easyvideor1.rollout.vllm import wire
from easyvideor1.rollout.vllm.colocated import open_core
from easyvideor1.rollout.vllm.pump import Core, Pump, request_tokens
from easyvideor1.types import VisionSpec

log = logging.getLogger(__name__)

IDLE_S = 0.1
OK, STALE, DIFFERS, FAILED = 200, 409, 422, 500


class StaleError(RunError):
    """A request for weights that the server does not have."""


@dataclass(eq=False)
class _Job:
    request: Request | None
    """None: take over weights."""
    version: int
    path: str = ""
    weights_id: str = ""
    result: Future[bytes] = field(default_factory=Future)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    """Connections that may wait to be taken up; a client opens one per request, many at once."""


class RolloutServer:
    """One engine, stepped by one thread; requests come from the threads of the HTTP server."""

    def __init__(
        self,
        core: Core,
        pump: Pump,
        *,
        vision: VisionSpec,
        dtype: torch.dtype,
        tokens_per_batch: int,
        address: tuple[str, int],
    ) -> None:
        """
        Args:
            address: host and port; port 0 takes a free one.
        """
        self._core, self._pump = core, pump
        self._vision, self._dtype, self._tokens_per_batch = vision, dtype, tokens_per_batch
        self._inbox: queue.Queue[_Job] = queue.Queue()
        self._waiting: list[_Job] = []
        self._under_way: dict[int, _Job] = {}
        self._num_taken = 0
        self._weights_id = ""
        self._stop = threading.Event()
        self._http = _Http(address, _handler(self))

    @property
    def port(self) -> int:
        return self._http.server_port

    def run(self) -> None:
        """Serve until `stop` is called.

        Raises:
            RunError: the engine failed; those who wait are told.
        """
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": IDLE_S}, daemon=True).start()
        try:
            while not self._stop.is_set():
                self._turn()
        except Exception as error:
            for job in (*self._under_way.values(), *self._waiting):
                job.result.set_exception(RunError(f"the server failed: {error}"))
            raise
        finally:
            self._http.shutdown()
            self._http.server_close()

    def stop(self) -> None:
        self._stop.set()

    def health(self) -> bytes:
        return json.dumps({"version": self._pump.version, "under_way": len(self._under_way)}).encode()

    def generate(self, body: bytes) -> bytes:
        """The rollouts of a request; called by the threads of the HTTP server."""
        request, version = wire.read_request(body, vision=self._vision, dtype=self._dtype)
        return self._wait(_Job(request, version))

    def load(self, body: bytes) -> bytes:
        wanted = json.loads(body)
        version, path, weights_id = int(wanted["version"]), str(wanted["path"]), str(wanted["id"])
        return self._wait(_Job(None, version, path=path, weights_id=weights_id))

    def _wait(self, job: _Job) -> bytes:
        self._inbox.put(job)
        return job.result.result()

    def _turn(self) -> None:
        is_idle = not self._under_way and not self._waiting
        try:
            self._waiting.append(self._inbox.get(timeout=IDLE_S) if is_idle else self._inbox.get_nowait())
            while True:
                self._waiting.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        while self._waiting and self._may_begin(self._waiting[0]):
            self._begin(self._waiting.pop(0))
        if self._under_way:
            for place, rollouts in self._pump.turn():
                hits, self._pump.banned_hits = self._pump.banned_hits, 0
                self._under_way.pop(place).result.set_result(wire.rollouts_bytes(rollouts, banned_hits=hits))

    def _may_begin(self, job: _Job) -> bool:
        if job.request is None or not self._under_way:
            return True
        return self._pump.num_tokens + request_tokens(job.request) <= self._tokens_per_batch

    def _begin(self, job: _Job) -> None:
        try:
            if job.request is None:
                self._take_over(job)
            elif job.version != self._pump.version:
                told = f"this server has version {self._pump.version} of the weights, not {job.version}"
                raise StaleError(told)
            else:
                self._pump.add(self._num_taken, job.request)
                self._under_way[self._num_taken] = job
                self._num_taken += 1
        except (DataError, StaleError) as error:
            job.result.set_exception(error)
        except Exception as error:
            job.result.set_exception(RunError(f"the server failed: {error}"))
            raise

    def _take_over(self, job: _Job) -> None:
        """Load weights; what is under way was asked by somebody who has given it up."""
        if job.weights_id == self._weights_id and job.version == self._pump.version:
            job.result.set_result(self.health())
            return
        self._pump.drop_all()
        for late in self._under_way.values():
            late.result.set_exception(StaleError(f"given up for version {job.version} of the weights"))
        self._under_way.clear()
        self._core.load_folder(job.path)
        self._pump.version, self._weights_id = job.version, job.weights_id
        job.result.set_result(self.health())


def _handler(server: RolloutServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(lambda body: server.health(), at="/health")

        def do_POST(self) -> None:
            if self.path == "/weights":
                self._answer(server.load, at="/weights")
            else:
                self._answer(server.generate, at="/generate")

        def _answer(self, act: Callable[[bytes], bytes], *, at: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = OK, b""
            try:
                if self.path != at:
                    raise ValueError(f"there is no {self.path}")
                answer = act(body)
            except StaleError as error:
                status, answer = STALE, str(error).encode()
            except (DataError, ValueError, KeyError) as error:
                status, answer = DIFFERS, str(error).encode()
            except EasyVideoError as error:
                status, answer = FAILED, str(error).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            log.debug(format, *args)

    return Handler


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m easyvideor1.rollout.vllm.server", description=__doc__)
    parser.add_argument("recipe", help="the recipe of the run")
    parser.add_argument("words", nargs="*", metavar="a.b=c", help="overrides of the recipe, those of the run")
    parser.add_argument("--model", type=Path, required=True, help="folder of the model the run begins with")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0: every one")
    parser.add_argument("--port", type=int, default=8200, help="0: a free one")
    parser.add_argument("--port-file", type=Path, help="file that the port is written into when the server listens")
    args = parser.parse_args()
    try:
        config = load_config(args.recipe, args.words)
        encoder = Encoder.from_pretrained(args.model)
        core, pump = open_core(config, encoder, folder=args.model, sleeps=False)
        server = RolloutServer(
            core,
            pump,
            vision=encoder.vision,
            dtype=getattr(torch, config.model.dtype),
            tokens_per_batch=config.rollout.tokens_per_batch,
            address=(args.host, args.port),
        )
        log.warning("serving at port %d", server.port)
        if args.port_file is not None:
            unfinished = args.port_file.with_name(f"{args.port_file.name}.part")
            unfinished.write_text(str(server.port))
            unfinished.rename(args.port_file)
        server.run()
    except EasyVideoError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
