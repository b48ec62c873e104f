"""Requests and rollouts as bytes: a line of JSON and plain arrays; frames travel as uint8, once per group."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load, save

from easyvideor1.data.vision_inputs import media_inputs
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.types import (
    Clip,
    Example,
    FrameSpec,
    Media,
    MediaPlan,
    Prompt,
    Rollout,
    Sample,
    StopReason,
    VisionSpec,
)  # fmt: skip

PLANNED = ("times_s", "height", "width", "grid_thw", "num_tokens", "source_fps", "duration_s", "cache_key")
"""Fields of a plan that travel."""


def request_bytes(request: Request, *, version: int) -> bytes:
    """A request for the weights of a version."""
    example, prompt = request.example, request.example.prompt
    head = {
        "version": version,
        "seed": request.seed,
        "sampling": asdict(request.sampling),
        "sample": {"id": prompt.sample.id, "problem_type": prompt.sample.problem_type, "text": prompt.text},
        "plans": [
            {name: getattr(plan, name) for name in PLANNED} | {"kind": plan.media.kind, "name": plan.media.name}
            for plan in prompt.plans
        ],
    }
    arrays = {
        "input_ids": prompt.input_ids,
        "token_types": prompt.token_types,
        "position_ids": np.ascontiguousarray(prompt.position_ids),
    }
    arrays |= {f"frames.{number}": np.ascontiguousarray(clip.frames) for number, clip in enumerate(example.clips)}
    line = json.dumps(head).encode()
    return len(line).to_bytes(8, "little") + line + save(arrays)


def read_request(data: bytes, *, vision: VisionSpec, dtype: torch.dtype) -> tuple[Request, int]:
    """(the request, with patches made of its frames as the actor makes them; the version of the weights it is for).

    Raises:
        ValueError: the bytes are no request.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    head: dict[str, Any] = json.loads(data[8:end])
    arrays = load(data[end:])
    said = head["sample"]
    plans = tuple(_plan(fields) for fields in head["plans"])
    media = tuple(plan.media for plan in plans)
    sample = Sample(id=said["id"], problem_type=said["problem_type"], problem="", gold="", media=media)
    prompt = Prompt(
        sample=sample,
        text=said["text"],
        input_ids=arrays["input_ids"],
        token_types=arrays["token_types"],
        position_ids=arrays["position_ids"],
        plans=plans,
    )
    clips = tuple(
        Clip(
            frames=arrays[f"frames.{number}"],
            times_s=plan.times_s,
            source_fps=plan.source_fps,
            duration_s=plan.duration_s,
            backend="",
        )
        for number, plan in enumerate(plans)
    )
    features = media_inputs(prompt, clips, vision, dtype)
    example = Example(prompt=prompt, clips=clips, features=features)
    return Request(example=example, sampling=Sampling(**head["sampling"]), seed=head["seed"]), head["version"]


def _plan(fields: dict[str, Any]) -> MediaPlan:
    media = Media(kind=fields.pop("kind"), path=fields.pop("name"))
    fields |= {"times_s": tuple(fields["times_s"]), "grid_thw": tuple(fields["grid_thw"])}
    return MediaPlan(media=media, spec=FrameSpec(), **fields)


def rollouts_bytes(rollouts: tuple[Rollout, ...], *, banned_hits: int) -> bytes:
    return json.dumps({"banned_hits": banned_hits, "rollouts": [asdict(rollout) for rollout in rollouts]}).encode()


def read_rollouts(data: bytes) -> tuple[tuple[Rollout, ...], int]:
    """(rollouts, how often a banned token was the likeliest while they were sampled)."""
    found = json.loads(data)
    return tuple(_rollout(fields) for fields in found["rollouts"]), found["banned_hits"]


def _rollout(fields: dict[str, Any]) -> Rollout:
    logprobs = fields["logprobs"]
    changed: dict[str, Any] = {
        "token_ids": tuple(fields["token_ids"]),
        "logprobs": None if logprobs is None else tuple(logprobs),
        "stop_reason": StopReason(fields["stop_reason"]),
    }
    return Rollout(**(fields | changed))
