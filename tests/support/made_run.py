"""Groups, clips and whole run folders made up for the tests of the report."""

import random
from collections.abc import Sequence
from typing import Literal

import numpy as np

from easyvideor1.records.folder import RunFolder
from easyvideor1.records.metrics import MetricsLog
from easyvideor1.records.responses import ValidationLog
from easyvideor1.records.rollouts import RolloutLog
from easyvideor1.records.tally import group_tally
from easyvideor1.types import Clip, Group, Media, Prompt, Rollout, Sample, Score, ScoredResponse, StopReason

TYPES = ("multiple choice", "numerical", "boolean", "temporal grounding")


def made_sample(number=0, *, problem_type="multiple choice", problem="Which way does the red ball go?"):
    return Sample(
        id=f"clip_{number:04d}",
        problem_type=problem_type,
        problem=problem,
        gold="B",
        options=("A. left", "B. right"),
        media=(Media(kind="video", path=f"clip_{number:04d}.mp4"),),
        source=f"clips of {problem_type}",
    )


def made_score(value):
    """None: unscored."""
    if value is None:
        return Score.unscored("the judge did not answer")
    return Score(value=value, parts={"accuracy": value, "format": 1.0}, parsed="B" if value else "A")


def made_answer(response, score, *, index=None, sample=None):
    return ScoredResponse(sample=sample or made_sample(), index=index, response=response, score=score)


def made_group(*, rewards, problem_type="multiple choice", sources=None, stop="eos", number=0, text=None):
    prompt = Prompt(
        sample=made_sample(number, problem_type=problem_type),
        text="<|im_start|>user\n<video>Which way does the red ball go?<|im_end|>\n<|im_start|>assistant\n",
        input_ids=np.zeros(3, np.int64),
        token_types=np.zeros(3, np.int64),
        position_ids=np.zeros((3, 3), np.int64),
        plans=(),
    )
    each: Sequence[Literal["policy", "offline"]] = sources or ("policy",) * len(rewards)
    return Group(
        prompt=prompt,
        rollouts=tuple(
            Rollout(
                token_ids=(1, 2, 3),
                text=text or f"<think>It moves.</think><answer>{'B' if reward else 'A'}</answer>",
                logprobs=None,
                stop_reason=StopReason(stop),
                source=source,
            )
            for reward, source in zip(rewards, each, strict=True)
        ),
        scores=tuple(map(made_score, rewards)),
        advantages=(0.5,) * len(rewards),
    )


def made_clip(*, num_frames=12, height=64, width=64):
    """A red ball that goes right over a shaded ground."""
    records, columns = np.mgrid[0:height, 0:width]
    frames = np.empty((num_frames, 3, height, width), np.uint8)
    for index in range(num_frames):
        x = (index + 0.5) / num_frames * width
        ball = (records - height / 2) ** 2 + (columns - x) ** 2 < (height / 6) ** 2
        ground = 40 + records * 120 // height
        frames[index] = np.where(ball, [[[220]], [[40]], [[50]]], np.stack([ground, ground, ground + 30]))
    times_s = tuple(index * 0.5 for index in range(num_frames))
    return Clip(frames=frames, times_s=times_s, source_fps=2.0, duration_s=num_frames / 2, backend="made")


def made_run(path, *, steps=30, questions=60, seed=0):
    """A run folder as a trainer writes it, of a policy that gets better."""
    rng = random.Random(seed)
    run = RunFolder(path)
    metrics, rollouts, validation = MetricsLog(run.metrics), RolloutLog(run.rollouts), ValidationLog(run.validation)
    for step in range(steps + 1):
        skill = 0.35 + 0.5 * step / steps
        if step in (0, steps):
            log_validation(validation, step, skill=skill, questions=questions, rng=rng)
        if step == 0:
            continue
        groups = [
            made_group(
                rewards=[float(rng.random() < skill) for _ in range(8)],
                problem_type=TYPES[number % 4],
                number=number + 8 * step,
            )
            for number in range(8)
        ]
        values = group_tally(groups).values()
        metrics.log(step, values | made_measurements(rng, skill=skill))
        rollouts.log(step, groups[step % 4], [made_clip()])
    return run


def log_validation(validation, step, *, skill, questions, rng):
    for number in range(questions):
        sample = made_sample(number, problem_type=TYPES[number % 4])
        for index in (None, 1, 2):
            right = float(rng.random() < skill)
            answer = f"<think>Look.</think><answer>{'B' if right else 'A'}</answer>"
            validation.log(step, made_answer(answer, made_score(right), index=index, sample=sample))


def made_measurements(rng, *, skill):
    parts = {
        "decode": 0.02,
        "process": 0.08,
        "rollout": 0.9,
        "reward": 0.03,
        "update": 0.5,
        "sync": 0.01,
        "other": 0.04,
    }
    seconds = {f"time/{name}_s": value * rng.uniform(0.8, 1.3) for name, value in parts.items()}
    return seconds | {
        "time/step_s": sum(seconds.values()),
        "rollout/tokens_per_s": 900 * rng.uniform(0.8, 1.2),
        "rollout/response_tokens_mean": 30 - 8 * skill + rng.uniform(-1, 1),
        "loss/ratio_clipped_frac": 0.02 * rng.random(),
        "loss/kl_ref": 0.05 * skill * rng.random(),
        "loss/policy": rng.uniform(-0.01, 0.01),
        "update/grad_norm": rng.uniform(0.5, 2.0),
        "loss/entropy": 1.2 - skill + rng.uniform(-0.05, 0.05),
        "policy/sampler_logprob_diff_max": 1e-5 * rng.random(),
    }
