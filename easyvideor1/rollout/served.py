"""An engine over HTTP: a server that speaks the OpenAI protocol and takes a clip as a video part with its times.

A clip travels as vLLM's servers take it: JPEG pictures of the planned frames, joined into one address
`data:video/jpeg`, with the seconds of each as `media_io_kwargs` and the request not to sample again.
"""

from __future__ import annotations

import base64
import contextlib
import io
import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from PIL import Image

from easyvideor1.data.tags import split_at_tags
from easyvideor1.errors import RunError, UsageError
from easyvideor1.extras import need
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.types import Clip, Example, MediaPlan, Rollout, StopReason

log = logging.getLogger(__name__)

JPEG_QUALITY = 95
TIMEOUT_S = 3600.0
RETRIES = 4
NO_KEY = "none"
"""Servers without keys ignore it; the client asks for one."""


class ServedEngine:
    """Responses of a model behind an address. Requests carry their prompt in the sample: system, problem with tags, and
    `extra["prefix"]`, which the response goes on behind.

    Args:
        slots: requests under way at once.
    """

    def __init__(self, url: str, model: str, *, slots: int) -> None:
        need("openai", for_what="--engine openai")
        from openai import OpenAI

        self._client = OpenAI(base_url=url, api_key=NO_KEY, timeout=TIMEOUT_S, max_retries=RETRIES)
        self._model, self._slots = model, slots
        self.banned_hits, self.needs_still_actor = 0, False
        self._has_warned = False

    def awake(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        """See Engine.generate; a request that the server refuses or loses is given up, with its reason as the text.

        Raises:
            RunError: the server cannot be reached.
            UsageError: the server takes no clips in this form; vLLM's needs `--trust-request-mm-kwargs`.
        """
        with ThreadPoolExecutor(self._slots) as threads:
            running: dict[Future[tuple[Rollout, ...]], int] = {}
            place = 0
            source = iter(requests)
            is_over = False
            while running or not is_over:
                request = None
                if not is_over and len(running) < self._slots:
                    try:
                        request = next(source)
                    except StopIteration:
                        is_over = True
                if request is not None:
                    running[threads.submit(self._answer, request)] = place
                    place += 1
                    continue
                done, _ = wait(running, timeout=0.05 if not is_over else None, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()

    def load_weights(self, tensors: object, *, version: int) -> None:
        raise RunError("the weights of a served model cannot be changed from here")

    def _answer(self, request: Request) -> tuple[Rollout, ...]:
        import openai

        example, sampling = request.example, request.sampling
        prefix = str(example.sample.extra.get("prefix", ""))
        try:
            reply = self._client.chat.completions.create(
                model=self._model,
                messages=messages(example, prefix),
                n=sampling.n,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                presence_penalty=sampling.presence_penalty,
                max_tokens=sampling.max_response_tokens,
                seed=request.seed,
                extra_body=extra_body(example, sampling, goes_on=bool(prefix)),
            )
        except openai.APIConnectionError as error:
            raise RunError(f"the server at {self._client.base_url} cannot be reached: {error}") from error
        except openai.APIError as error:
            if isinstance(error, openai.BadRequestError) and "mm_processor_kwargs" in str(error):
                raise UsageError(
                    f"the server at {self._client.base_url} does not let a request say that its frames are not to be "
                    f"sampled and resized again: {error}"
                ) from error
            log.warning("item %s: the server gave no answer: %s", example.sample.id, error)
            return tuple(_rollout(f"the server says: {error}", 0, StopReason.ABORT) for _ in range(sampling.n))
        if reply.usage is not None:
            self._compare(example, reply.usage.prompt_tokens)
        used = 0 if reply.usage is None else reply.usage.completion_tokens
        return tuple(
            _rollout(
                (choice.message.content or "").removeprefix(prefix),
                used // len(reply.choices),
                StopReason.LENGTH if choice.finish_reason == "length" else StopReason.EOS,
            )
            for choice in reply.choices
        )

    def _compare(self, example: Example, num_tokens: int) -> None:
        """Say once where the server reads a prompt of another length: it sees other frames, or no times."""
        if num_tokens != len(example.prompt) and not self._has_warned:
            self._has_warned = True
            log.warning(
                "item %s: the server counts %d tokens in the prompt, here it has %d: it resizes or samples the frames "
                "again, leaves out their times, or has another chat template, so scores are not comparable",
                example.sample.id,
                num_tokens,
                len(example.prompt),
            )


def _rollout(text: str, num_tokens: int, stop: StopReason) -> Rollout:
    """A response whose token ids are not told, only their number."""
    return Rollout(token_ids=(-1,) * num_tokens, text=text, logprobs=None, stop_reason=stop)


def messages(example: Example, prefix: str) -> Any:
    """The chat of a request, media as parts where their tags stand."""
    sample = example.sample
    media = iter(zip(example.prompt.plans, example.clips, strict=True))
    parts = [
        medium_part(*next(media)) if number % 2 else {"type": "text", "text": text}
        for number, text in enumerate(split_at_tags(sample.problem))
        if text
    ]
    return [
        *([] if sample.system is None else [{"role": "system", "content": sample.system}]),
        {"role": "user", "content": parts},
        *([{"role": "assistant", "content": prefix}] if prefix else []),
    ]


def medium_part(plan: MediaPlan, clip: Clip) -> dict[str, Any]:
    """An image, or a video as its frames."""
    pictures = [_jpeg(frame) for frame in clip.frames]
    if plan.media.kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{pictures[0]}"}}
    return {"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{','.join(pictures)}"}}


def extra_body(example: Example, sampling: Sampling, *, goes_on: bool) -> Mapping[str, Any]:
    """What vLLM's servers take beside the OpenAI protocol."""
    body: dict[str, Any] = {"mm_processor_kwargs": {"do_resize": False, "do_sample_frames": False}}
    if sampling.top_k:
        body["top_k"] = sampling.top_k
    if sampling.repetition_penalty != 1.0:
        body["repetition_penalty"] = sampling.repetition_penalty
    videos = [
        (plan, clip)
        for plan, clip in zip(example.prompt.plans, example.clips, strict=True)
        if plan.media.kind == "video"
    ]
    if videos:
        plan, clip = videos[0]
        body["media_io_kwargs"] = {"video": video_times(plan, clip)}
    if goes_on:
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    return body


def video_times(plan: MediaPlan, clip: Clip) -> dict[str, Any]:
    """Times of the frames as servers count them: numbers of frames at a rate, which is exact to a millisecond."""
    rate = 1000.0
    return {
        "num_frames": -1,
        "fps": rate,
        "frames_indices": [round(time_s * rate) for time_s in clip.times_s],
        "total_num_frames": max(1, round(plan.duration_s * rate)),
        "duration": plan.duration_s,
        "do_sample_frames": False,
    }


def _jpeg(frame: np.ndarray) -> str:
    """uint8 [3, H, W] as base64 of a JPEG picture."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(frame.transpose(1, 2, 0))).save(file, "JPEG", quality=JPEG_QUALITY)
    return base64.b64encode(file.getvalue()).decode()
