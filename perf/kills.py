"""Is a run that is killed again and again the run that was never killed? `python -m perf.kills`

The real command trains an untrained tiny model on made-up clips, pictures and texts, once to its end and once killed
outright (SIGKILL) at random moments: while it starts, samples, updates, validates or writes checkpoints. Then both must
have the same metrics, validation answers and weights, bit for bit. The last line is JSON:
    kills, by_phase            how often it was killed, and how often before the first new step of a process
    equal                      metrics, validation and weights are the same
    damaged                    checkpoints that a restart found damaged (0: a kill leaves none)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
    return [sys.executable, "-m", "easyvideor1", "train", str(folder / f"{name}.yaml")]


def newest(out: Path) -> int:
    """Step of the newest finished checkpoint; -1: none."""
    steps = [int(path.name[5:]) for path in (out / "checkpoints").glob("step-*") if (path / "manifest.json").exists()]
    return max(steps, default=-1)


def kill_once(words: list[str], out: Path, rng: random.Random, log: Path) -> str:
    """Start the run and kill it at a random moment; "early", "late", or "done" where it ended before."""
    before, started = newest(out), time.monotonic()
    is_early = rng.random() < 0.25
    wait_s = rng.uniform(0.0, 4.0) if is_early else rng.expovariate(1 / 0.2)
    with (
        log.open("a") as file,
        subprocess.Popen(words, stdout=file, stderr=file, start_new_session=True, env=environment()) as process,
    ):
        while not is_early and newest(out) <= before and process.poll() is None:
            if time.monotonic() - started > LIMIT_S:
                raise TimeoutError(f"no step in {LIMIT_S:g} s; see {log}")
            time.sleep(0.005)
        time.sleep(wait_s)
        if process.poll() is not None:
            if process.returncode:
                raise RuntimeError(f"the run ended with exit code {process.returncode}; see {log}")
            return "done"
        process.send_signal(signal.SIGKILL)
    return "early" if newest(out) <= before else "late"


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def told(out: Path, step: int) -> tuple[Any, ...]:
    """All that two equal runs agree on."""
    weights = (out / "checkpoints" / f"step-{step:06d}" / "model" / "model.safetensors").read_bytes()
    moments = (out / "checkpoints" / f"step-{step:06d}" / "optimizer" / "part-00000.safetensors").read_bytes()
    return comparable(read_metrics(out / "metrics.jsonl")), read_validation(out / "validation.jsonl"), weights, moments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="at least so many")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        subprocess.run(command(folder, "whole", args.steps), check=True, env=environment(), stdout=subprocess.DEVNULL)
        words, out = command(folder, "killed", args.steps), folder / "killed"
        phases: list[str] = []
        while len(phases) < args.kills:
            phase = kill_once(words, out, rng, folder / "log.txt")
            if phase == "done":
                print(f"the run is done after {len(phases)} kills; give it more --steps", file=sys.stderr)
                break
            phases.append(phase)
            print(f"kill {len(phases)} {phase}, at step {newest(out)}", file=sys.stderr)
        subprocess.run(words, check=True, env=environment(), stdout=subprocess.DEVNULL)
        result = {
            "kills": len(phases),
            "by_phase": {phase: phases.count(phase) for phase in ("early", "late")},
            "steps": args.steps,
            "equal": told(out, args.steps) == told(folder / "whole", args.steps),
            "damaged": (out / "log.txt").read_text().count("is damaged and not used"),
        }
    print(json.dumps(result))
    sys.exit(not (result["equal"] and result["kills"] >= args.kills))


if __name__ == "__main__":
    main()
