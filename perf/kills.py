"""Is a run that is killed again and again the run that was never killed? `python -m perf.kills --processes 1 2`

The real command trains an untrained tiny model on made-up clips, pictures and texts, once to its end and once killed
outright (SIGKILL) at random moments: while it starts, samples, updates, validates or writes checkpoints. Every restart
has one of the given numbers of processes, by chance; of several, one or all are killed together with torchrun, or one
alone, which torchrun must notice. With one number of processes both runs must have the same metrics, validation answers
and weights, bit for bit; with several, the same steps, each with the same samples. The last line is JSON:
    kills, by_phase            how often it was killed, and how often before the first new step of a start
    by_way                     how often with how many processes, and which of them were killed
    equal                      see above
    damaged                    checkpoints that a restart found damaged (0: a kill leaves none)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol, Self

import yaml

from easyvideor1.demo.clips import Scene, Thing, write_clip, write_image
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.report.read import comparable, read_metrics, read_validation

QUESTION = "What colour is it? A. red B. blue Think in <think> tags, then give the option letter in <answer> tags."
LIMIT_S = 600.0


def write_inputs(folder: Path) -> None:
    """A model, two media and three rows."""
    tokenizer = train_tokenizer([QUESTION] * 50)
    save(new_model(tokenizer, seed=0), tokenizer, folder / "model")
    thing = Thing(colour="red", shape="circle", x=0.3, y=0.5, radius=0.2, dx_per_s=0.1)
    scene = Scene(things=(thing,), duration_s=2.0, background="plain", shade=60, texture_seed=0)
    write_clip(scene, folder / "a.mp4", side_px=64)
    write_image(scene, folder / "b.png", side_px=64)
    choice = {"problem": "What colour is it?", "answer": "A", "problem_type": "multiple choice"}
    rows = [
        {**choice, "options": ["A. red", "B. blue"], "problem_id": "video", "videos": ["a.mp4"]},
        {**choice, "options": ["A. red", "B. blue"], "problem_id": "image", "images": ["b.png"]},
        {"problem": "What is 1 + 2?", "answer": "3", "problem_type": "numerical", "problem_id": "text"},
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def command(folder: Path, name: str, steps: int) -> list[str]:
    """Writes the recipe of a run; returns the command that starts it, or goes on with it."""
    small = {"fps": 2.0, "min_frames": 2, "max_frames": 4, "min_pixels": 4096, "max_pixels": 4096}
    source = [{"path": str(folder / "rows.jsonl")}]
    data: dict[str, Any] = {"train": source, "validation": source, "video": small, "image": small}
    tree = {
        "out": str(folder / name),
        "model": {"path": str(folder / "model")},
        "data": data | {"max_prompt_tokens": 1000, "allow_shared_validation": True},
        "cache": {"dir": str(folder / "cache")},
        "rollout": {"n": 2, "max_response_tokens": 8},
        "optimizer": {"learning_rate": 0.001},
        "train": {"steps": steps, "prompts_per_step": 2, "validate_every": 3, "stop": {"zero_reward_steps": 0}},
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(tree))
    return ["-m", "easyvideor1", "train", str(folder / f"{name}.yaml")]


class Process(Protocol):
    """What is needed of `subprocess.Popen`."""

    pid: int

    @property
    def returncode(self) -> Any: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


Start = Callable[[list[str], int, IO[str]], Process]
"""Starts a command in a number of processes that write to a file."""


def start(words: list[str], processes: int, file: IO[str]) -> Process:
    """By a new interpreter, or by torchrun."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else []), *words]
    return subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True, env=environment(), text=True)


def run_to_its_end(words: list[str], processes: int, file: IO[str], begin: Start) -> None:
    with begin(words, processes, file) as process:
        if code := process.wait():
            raise RuntimeError(f"the run ended with exit code {code}; see {file.name}")


def newest(out: Path) -> int:
    """Step of the newest finished checkpoint; -1: none."""
    steps = [int(path.name[5:]) for path in (out / "checkpoints").glob("step-*") if (path / "manifest.json").exists()]
    return max(steps, default=-1)


@dataclass(frozen=True, kw_only=True)
class Kill:
    """How a run was killed."""

    phase: Literal["early", "late"]
    """Before the first new step of the start, or after it."""
    processes: int
    victims: Literal["all", "one"]


def kill_once(
    words: list[str], out: Path, rng: random.Random, log: Path, *, processes: int, begin: Start
) -> Kill | None:
    """Start the run and kill it at a random moment; None where it ended before."""
    before, since = newest(out), time.monotonic()
    is_early = rng.random() < 0.25
    wait_s = rng.uniform(0.0, 4.0) if is_early else rng.expovariate(1 / 0.2)
    victims: Literal["all", "one"] = "one" if processes > 1 and rng.random() < 0.5 else "all"
    with log.open("a") as file, begin(words, processes, file) as process:
        while not is_early and newest(out) <= before and process.poll() is None:
            if time.monotonic() - since > LIMIT_S:
                raise TimeoutError(f"no step in {LIMIT_S:g} s; see {log}")
            time.sleep(0.005)
        time.sleep(wait_s)
        if process.poll() is not None:
            if process.returncode:
                raise RuntimeError(f"the run ended with exit code {process.returncode}; see {log}")
            return None
        ranks = children(process.pid) if processes > 1 else []
        if victims == "one" and ranks:
            os.kill(rng.choice(ranks), signal.SIGKILL)
            if process.wait(LIMIT_S) == 0:
                raise RuntimeError(f"torchrun calls a run well in which a process was killed; see {log}")
        else:
            victims = "all"
            for pid in (process.pid, *ranks):  # torchrun first: it would end the others in an orderly way
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    return Kill(phase="early" if newest(out) <= before else "late", processes=processes, victims=victims)


def children(pid: int) -> list[int]:
    """Processes that a process started (Linux only)."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def told(out: Path, step: int) -> tuple[Any, ...]:
    """All that two equal runs agree on."""
    checkpoint = out / "checkpoints" / f"step-{step:06d}"
    files = [path.read_bytes() for place in ("model", "optimizer") for path in sorted((checkpoint / place).iterdir())]
    return comparable(read_metrics(out / "metrics.jsonl")), read_validation(out / "validation.jsonl"), files


def told_of_data(out: Path, step: int) -> tuple[Any, ...]:
    """What runs with other numbers of processes agree on: the steps, the samples of each, and the last checkpoint."""
    steps = [record["step"] for record in read_metrics(out / "metrics.jsonl") if "loss/total" in record]
    rollouts = [json.loads(line) for line in (out / "rollouts" / "rollouts.jsonl").read_text().splitlines()]
    answers = [(answer["step"], answer["id"], answer["kind"]) for answer in read_validation(out / "validation.jsonl")]
    return steps, [(item["step"], item["id"]) for item in rollouts], answers, newest(out) == step


def main(given: Sequence[str] | None = None, begin: Start = start) -> dict[str, Any]:
    """Returns what it prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="at least so many")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1], help="numbers of them, one by chance per start"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    args = parser.parse_args(given)
    rng = random.Random(args.seed)
    agreed = told if len(args.processes) == 1 else told_of_data
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        log = folder / "log.txt"
        with log.open("w") as file:
            run_to_its_end(command(folder, "whole", args.steps), args.processes[0], file, begin)
            words, out = command(folder, "killed", args.steps), folder / "killed"
            kills: list[Kill] = []
            while len(kills) < args.kills:
                kill = kill_once(words, out, rng, log, processes=rng.choice(args.processes), begin=begin)
                if kill is None:
                    print(f"the run is done after {len(kills)} kills; give it more --steps", file=sys.stderr)
                    break
                kills.append(kill)
                print(f"kill {len(kills)} {kill}, at step {newest(out)}", file=sys.stderr)
            run_to_its_end(words, args.processes[0], file, begin)
        ways = [f"{kill.processes}, {kill.victims}" for kill in kills]
        result = {
            "kills": len(kills),
            "by_phase": {phase: sum(kill.phase == phase for kill in kills) for phase in ("early", "late")},
            "by_way": {way: ways.count(way) for way in sorted(set(ways))},
            "steps": args.steps,
            "equal": agreed(out, args.steps) == agreed(folder / "whole", args.steps),
            "damaged": log.read_text().count("is damaged and not used"),
        }
    print(json.dumps(result))
    if not (result["equal"] and result["kills"] >= args.kills):
        sys.exit(1)
    return result


if __name__ == "__main__":
    main()
