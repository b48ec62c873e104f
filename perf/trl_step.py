"""How long is a training step beside TRL's GRPOTrainer? `OMP_NUM_THREADS=1 python -m perf.trl_step`

Both train the demo's model on the same image prompts, 8 responses each, all of the same length (no response may end
itself), with the same reward: sampling, rewards, one update of all weights. Steps are taken by turns in one run, times
are CPU seconds of this process (medians); the last line is JSON. Both are as they come, but TRL gets one batch for
sampling and update, and float32 as here. TRL computes activations again in the backward unless
`--no-trl-checkpointing`.

It needs an environment of its own, because TRL is no part of this project:

    python -m venv .venv-trl && .venv-trl/bin/pip install -c constraints.txt -e '.[train]' trl==1.16.0
    .venv-trl/bin/pip install -c constraints.txt --no-deps torchvision
    OMP_NUM_THREADS=1 .venv-trl/bin/python -m perf.trl_step
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import perf.torchvision_on_cpu  # noqa: F401

# isort: split
import numpy as np
import torch
from PIL import Image

from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config import RunConfig
from easyvideor1.config_tree import build
from easyvideor1.demo.setup import MODEL
from easyvideor1.model.load import load_model
from easyvideor1.report.terminal import open_progress
from easyvideor1.rollout.engine import Request
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.parts import Parts, opened
from easyvideor1.training import shared_prefix
from easyvideor1.training.policy import Policy
from easyvideor1.training.trainer import Trainer
from easyvideor1.types import Media, Rollout, Sample, Score

N = 8
CASES = ((38, 40), (540, 40), (38, 256))
"""(tokens of a prompt, tokens of a response)."""
SIDE_PX = {38: 64, 540: 704}
"""Of the image of a prompt: 4 and 484 vision tokens."""
WORDS = ("how", "many", "red", "green", "blue", "shapes", "are", "in", "the", "picture", "and", "which", "moves")


@dataclass(frozen=True, kw_only=True)
class Case:
    prompts: int
    prompt_tokens: int
    response_tokens: int
    folder: Path
    trl_checkpointing: bool = True

    @property
    def side_px(self) -> int:
        return SIDE_PX[self.prompt_tokens]


def reward(text: str) -> float:
    """Like chance, and the same for both."""
    return hashlib.sha256(text.encode()).digest()[0] / 255


def run_config(case: Case, *, steps: int) -> RunConfig:
    size = {"min_pixels": case.side_px**2, "max_pixels": case.side_px**2}
    tree = {
        "out": str(case.folder / "run"),
        "model": {"path": str(MODEL)},
        "data": {"train": [], "image": size, "templates": str(case.folder), "max_prompt_tokens": 4096},
        "cache": {"dir": str(case.folder / "cache")},
        "rollout": {"n": N, "max_response_tokens": case.response_tokens},
        "optimizer": {"learning_rate": 1e-6},
        "train": {"steps": steps, "prompts_per_step": case.prompts, "tokens_per_pack": 8192, "checkpoint_every": 0},
    }
    return build(RunConfig, tree, where="perf.trl_step")


def make_samples(case: Case, parts: Parts) -> list[Sample]:
    """Images of noise, each with a question that makes the prompt as long as it is to be."""
    (case.folder / "open_ended.jinja").write_text("{{ problem }}")  # the question, and no word of how to answer
    samples = []
    for number in range(case.prompts):
        path = case.folder / f"{number}.png"
        pixels = np.random.default_rng(number).integers(0, 256, (case.side_px, case.side_px, 3), np.uint8)
        Image.fromarray(pixels).save(path)
        media = (Media(kind="image", path=str(path)),)
        for count, marks in itertools.product(range(case.prompt_tokens), range(8)):
            words = [WORDS[(number + place) % len(WORDS)] for place in range(count)]
            problem = " ".join(words) + "?" * marks
            sample = Sample(id=str(number), problem_type="open-ended", problem=problem, gold="a", media=media)
            if len(parts.prepare.prompt(sample)) == case.prompt_tokens:
                samples.append(sample)
                break
        else:
            raise SystemExit(f"no question makes a prompt of {case.prompt_tokens} tokens")
    return samples


class TimedEngine(HFEngine):
    """Adds up the CPU seconds of sampling."""

    sampling_s = 0.0

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        stream, found = super().generate(requests), ()
        while found is not None:
            start = time.process_time()
            found = next(stream, None)
            self.sampling_s += time.process_time() - start
            if found is not None:
                yield found


def our_trainer(case: Case, parts: Parts, samples: Sequence[Sample], *, steps: int) -> tuple[Trainer, TimedEngine]:
    config = run_config(case, steps=steps)
    model = load_model(config.model)
    shared_prefix.enable(model)
    encoder = parts.encoder
    encoder.banned_ids = (*encoder.banned_ids, *encoder.end_ids)
    algorithm = fitting_algorithm(config)
    engine = TimedEngine(model, encoder, tokens_per_batch=config.rollout.tokens_per_batch)
    trainer = Trainer(
        config,
        samples=samples,
        prepare=parts.prepare,
        engine=engine,
        policy=Policy(model, algorithm=algorithm, optimizer=config.optimizer, total_steps=steps, temperature=1.0),
        algorithm=algorithm,
        score=lambda items: [Score(value=reward(text), parts={"accuracy": reward(text)}) for _, text, _ in items],
        evaluate=None,
        progress=open_progress(title="", total_steps=steps),
    )
    return trainer, engine


def trl_steps(
    case: Case, parts: Parts, samples: Sequence[Sample], *, steps: int, turn: Callable[[float, float], object]
) -> None:
    """Train with TRL; after each step `turn` is given its CPU seconds, and those of its sampling."""
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from transformers import AutoModelForImageTextToText, AutoProcessor, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportMissingImports]

    sampling = [0.0]

    class Turns(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.start, self.sampling_s = time.process_time(), sampling[0]

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            turn(time.process_time() - self.start, sampling[0] - self.sampling_s)

    processor = AutoProcessor.from_pretrained(MODEL)
    processor.image_processor.size = {"shortest_edge": case.side_px**2, "longest_edge": case.side_px**2}
    rows = []
    for sample in samples:
        text = sample.problem
        ours = parts.prepare.prompt(sample).input_ids.tolist()
        image = Image.open(str(sample.media[0].path))
        message = {"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": text}]}
        theirs = processor.apply_chat_template([message], tokenize=True, add_generation_prompt=True, return_dict=True)
        assert np.asarray(theirs["input_ids"]).reshape(-1).tolist() == ours, "the prompts differ"
        rows.append({"prompt": [{"role": "user", "content": text}], "image": image})
    config = GRPOConfig(
        output_dir=str(case.folder / "trl"),
        max_steps=steps,
        per_device_train_batch_size=case.prompts * N,
        gradient_accumulation_steps=1,
        num_generations=N,
        max_completion_length=case.response_tokens,
        # TRL keeps image tokens from being sampled; here all vision tokens and the ends, as on our side.
        generation_kwargs={"suppress_tokens": [*parts.encoder.banned_ids, *parts.encoder.end_ids]},
        beta=0.0,
        learning_rate=1e-6,
        gradient_checkpointing=case.trl_checkpointing,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    model: Any = AutoModelForImageTextToText.from_pretrained(MODEL, dtype=torch.float32)
    generate = model.generate

    def timed_generate(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return generate(*args, **kwargs)
        finally:
            sampling[0] += time.process_time() - start

    model.generate = timed_generate
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [reward(completion[0]["content"]) for completion in completions],
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=processor,
        callbacks=[Turns()],
    )
    trainer.train()


def compare(case: Case, *, repeats: int) -> dict[str, Any]:
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    """(CPU seconds of a step, of its sampling)."""
    with opened(run_config(case, steps=1)) as parts:
        samples = make_samples(case, parts)
        trainer, engine = our_trainer(case, parts, samples, steps=repeats + 1)

        def turn(trl_s: float, trl_sampling_s: float) -> None:
            theirs.append((trl_s, trl_sampling_s))
            start, sampling_s = time.process_time(), engine.sampling_s
            with contextlib.redirect_stdout(None):
                trainer._step()  # `run` would take all of them at once
            ours.append((time.process_time() - start, engine.sampling_s - sampling_s))

        trl_steps(case, parts, samples, steps=repeats + 1, turn=turn)
    ours, theirs = ours[1:], theirs[1:]  # the first of each warms up
    ratios = sorted(their[0] / our[0] for their, our in zip(theirs, ours, strict=True))
    (trl_s, our_s), (trl_sampling_s, our_sampling_s) = (
        [statistics.median(times[part] for times in side) for side in (theirs, ours)] for part in (0, 1)
    )
    return {
        "prompt_tokens": case.prompt_tokens,
        "response_tokens": case.response_tokens,
        "prompts": case.prompts,
        "trl_cpu_s": round(trl_s, 3),
        "ours_cpu_s": round(our_s, 3),
        "ratio": round(trl_s / our_s, 2),
        "ratio_range": [round(ratios[0], 2), round(ratios[-1], 2)],
        "sampling_ratio": round(trl_sampling_s / our_sampling_s, 2),
        "rest_ratio": round((trl_s - trl_sampling_s) / (our_s - our_sampling_s), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=16, help="prompts of a step (default: %(default)s, as the demo)")
    parser.add_argument("--repeats", type=int, default=5, help="timed steps of each, after one to warm up")
    parser.add_argument(
        "--trl-checkpointing",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="TRL's activation checkpointing, which is on by default there",
    )
    parser.add_argument("--cases", nargs="*", metavar="PROMPT/RESPONSE", default=[f"{p}/{r}" for p, r in CASES])
    args = parser.parse_args()
    torch.set_num_threads(1)
    table = []
    for words in args.cases:
        prompt_tokens, response_tokens = map(int, words.split("/"))
        with tempfile.TemporaryDirectory() as folder:
            case = Case(
                prompts=args.prompts,
                prompt_tokens=prompt_tokens,
                response_tokens=response_tokens,
                folder=Path(folder),
                trl_checkpointing=args.trl_checkpointing,
            )
            table.append(compare(case, repeats=args.repeats))
        print(table[-1])
    import transformers
    import trl  # pyright: ignore[reportMissingImports]

    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "trl": trl.__version__}
    result = {"benchmark": "trl_step", "n": N, "trl_checkpointing": args.trl_checkpointing, "table": table}
    print(json.dumps({**result, "machine": platform.machine(), **versions}))


if __name__ == "__main__":
    main()
