"""Servers that a run starts on its own machine and ends with itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from easyvideor1.errors import RunError, UsageError
from easyvideor1.rollout.vllm.servers import POLL_S, Server

START_S = 900.0
END_S = 10.0
OF_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables by which a launcher such as torchrun makes a process a rank."""


@contextmanager
def started_servers(count: int, *, recipe: Path, model: Path, logs: Path) -> Iterator[list[str]]:
    """Addresses of servers that answer; their processes end with the block.

    On a machine with several GPUs the n-th server gets the n-th GPU after those of the ranks.

    Args:
        recipe: of the run, as a file.
        model: folder of the model the run begins with.
        logs: folder for what they print.

    Raises:
        UsageError: several ranks leave no GPU for one.
        RunError: one does not start; its last lines are in the message.
    """
    logs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        started = []
        for number in range(count):
            log, port_file = logs / f"server-{number}.log", logs / f"server-{number}.port"
            port_file.unlink(missing_ok=True)
            process = stack.enter_context(_process(number, port_file, recipe=recipe, model=model, log=log))
            started.append((process, port_file, log))
        yield [_address(*each) for each in started]


@contextmanager
def _process(
    number: int, port_file: Path, *, recipe: Path, model: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    # The server takes a free port when it is ready to listen: one that was free minutes before may be taken by then.
    command = [sys.executable, "-m", "easyvideor1.rollout.vllm.server", str(recipe)]
    command += ["--model", str(model), "--port", "0", "--port-file", str(port_file)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=_environment(number))
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], port_file: Path, log: Path) -> str:
    """The address of a server, as soon as it answers."""
    end = time.monotonic() + START_S
    while True:
        if port_file.exists():
            address = f"http://127.0.0.1:{port_file.read_text()}"
            if Server(address).is_well():
                return address
        if process.poll() is not None or time.monotonic() > end:
            state = f"ended with {process.poll()}" if process.poll() is not None else f"is silent after {START_S:g} s"
            last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise RunError(f"a vLLM server {state}; the end of {log}:\n{last}")
        time.sleep(POLL_S)


def _environment(number: int) -> dict[str, str]:
    """The environment of this process with a GPU of the server's own, and without what makes a process a rank."""
    own = {name: value for name, value in os.environ.items() if name not in OF_RANKS}
    if torch.cuda.is_available():
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = given.split(",") if given else [str(index) for index in range(torch.cuda.device_count())]
        num_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        if num_ranks > 1 and number + num_ranks >= len(gpus):
            raise UsageError(
                f"rollout.vllm.start_servers: no GPU is left for server {number + 1}: this machine has {len(gpus)}, "
                f"and {num_ranks} ranks have one each; start fewer ranks (torchrun --nproc-per-node) or servers"
            )
        own["CUDA_VISIBLE_DEVICES"] = gpus[min(number + num_ranks, len(gpus) - 1)]
    return own
