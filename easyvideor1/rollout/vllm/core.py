"""vLLM's engine core in this process (docs/vllm.md says what of it is relied upon)."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from easyvideor1.data.encode import Encoder
from easyvideor1.errors import RunError, UsageError
from easyvideor1.model.families import POSITIONS_PER_S, family
from easyvideor1.rollout.vllm.arguments import Among, check_engine_args, check_version
from easyvideor1.rollout.vllm.contract import Answer, Asked, Kind
from easyvideor1.rollout.vllm.media import GRIDS, PIXELS, Item, Reading, items
from easyvideor1.rollout.vllm.weight_files import read_weights
from easyvideor1.types import Clip, Example, MediaPlan

log = logging.getLogger(__name__)

BAN_BIAS = -100.0
"""vLLM's lowest."""
CPU_BLOCK_TOKENS = 32
"""Fewest that attention on a CPU takes; prompts shorter than a block are not shared, and the default is 128."""
CPU_KV_BYTES = 1 << 30
MIN_BATCHED_TOKENS = 8192


class VLLMCore:
    """A `pump.Core`: one engine, its weights and caches, in this process."""

    def __init__(
        self,
        folder: str | Path,
        encoder: Encoder,
        *,
        kind: Kind,
        dtype: str,
        max_model_tokens: int,
        seed: int,
        sleeps: bool,
        engine_args: Mapping[str, Any],
        among_ranks: Among | None = None,
    ) -> None:
        """
        Args:
            folder: the model, in Transformers' format.
            kind: of the log-probs.
            max_model_tokens: longest prompt with its longest response.
            sleeps: whether it gives its memory back between steps; only on a GPU.
            engine_args: further arguments of vLLM's EngineArgs.
            among_ranks: where several processes train together, all of which make an engine at once; None: this one
                trains alone, or not at all.

        Raises:
            UsageError: vLLM has an untested version, or refuses the arguments.
        """
        check_version()
        check_engine_args(engine_args)
        is_cpu = not torch.cuda.is_available()
        self._encoder, self._sleeps = encoder, sleeps and not is_cpu
        arguments: dict[str, Any] = {
            "model": str(folder),
            "dtype": dtype,
            "max_model_len": max_model_tokens,
            "max_num_batched_tokens": max(MIN_BATCHED_TOKENS, max_model_tokens),
            "logprobs_mode": kind,
            # The sampling defaults of the model's generation_config.json are not the recipe's.
            "generation_config": "vllm",
            # Prompts come encoded: nothing is processed that could be kept.
            "mm_processor_cache_gb": 0,
            "skip_mm_profiling": True,
            # Patches come normalised; vLLM would do it again in the model.
            "mm_device_do_normalize": False,
            "seed": seed % 2**32,
            "enable_sleep_mode": self._sleeps,
            "enable_prefix_caching": True,
            "disable_log_stats": True,
            # Log-probs rounded to bfloat16 over a vocabulary of 150,000 tokens are off by 0.01 nats on average.
            "hf_overrides": {} if dtype == "float32" else {"head_dtype": "float32"},
        }
        if is_cpu:
            arguments |= {
                "enforce_eager": True,
                "block_size": CPU_BLOCK_TOKENS,
                "kv_cache_memory_bytes": CPU_KV_BYTES,
                # Seeds of requests and chunked prompts together end in an error of vLLM on a CPU.
                "enable_chunked_prefill": False,
            }
        if among_ranks is not None:
            arguments |= among_ranks.arguments(seed)
        arguments |= engine_args
        self._engine = _engine(arguments, is_cpu=is_cpu)
        if among_ranks is not None:
            # When vLLM is done it ends all of torch.distributed, which the ranks still need and end themselves.
            self._engine.engine_core._finalizer.detach()
        self.takes_seeds = not (is_cpu and self._engine.vllm_config.scheduler_config.enable_chunked_prefill)
        vision = self._engine.model_config.hf_config.vision_config
        self._positions_per_s: float = getattr(vision, "tokens_per_second", POSITIONS_PER_S)

    def prepare(self, example: Example) -> tuple[Any, np.ndarray]:
        """See pump.Core. The prompt is given as it is, patches and all: vLLM expands and processes nothing."""
        vision = self._encoder.vision
        found = items(
            example,
            video_time=family(vision.family).video_time,
            temporal_patch=vision.temporal_patch,
            positions_per_s=self._positions_per_s,
        )
        prepared = _engine_input(example.prompt.input_ids.tolist(), found)
        return prepared, self._positions(prepared)

    def own_reading(self, example: Example) -> Reading:
        """See pump.Core: vLLM's processor over the rendered chat and the frames, resizing and sampling off."""
        prompt = example.prompt
        data: dict[str, list[Any]] = {}
        for plan, clip in zip(prompt.plans, example.clips, strict=True):
            frames = np.ascontiguousarray(clip.frames.transpose(0, 2, 3, 1))
            if plan.media.kind == "image":
                data.setdefault("image", []).append(torch.from_numpy(np.array(clip.frames[0])))
            else:
                data.setdefault("video", []).append((frames, video_metadata(plan, clip)))
        asked: dict[str, Any] = {"prompt": prompt.text}
        if data:
            asked |= {
                "multi_modal_data": data,
                "mm_processor_kwargs": {"do_resize": False, "do_sample_frames": False},
            }
        [read] = self._engine.renderer.render_cmpl([asked])
        tensors: dict[str, list[torch.Tensor]] = {}
        for kind in PIXELS:
            for item in (read.get("mm_kwargs") or {}).get(kind, []):
                tensors.setdefault(PIXELS[kind], []).append(item[PIXELS[kind]].data)
                tensors.setdefault(GRIDS[kind], []).append(item[GRIDS[kind]].data.reshape(1, 3))
        return Reading(
            input_ids=list(read["prompt_token_ids"]), tensors={name: torch.cat(each) for name, each in tensors.items()}
        )

    def submit(self, key: str, prepared: Any, asked: Asked) -> None:
        prompt = dict(prepared)
        prompt["prompt_token_ids"] = [*prepared["prompt_token_ids"], *asked.written]
        self._engine.add_request(key, prompt, sampling_params(asked, seeded=self.takes_seeds))

    def step(self) -> list[Answer]:
        """See pump.Core.

        Raises:
            RunError: vLLM failed.
        """
        if not self._engine.has_unfinished_requests():
            return []
        try:
            outputs = self._engine.step()
        except Exception as error:
            raise RunError(f"vLLM failed while sampling: {type(error).__name__}: {error}") from error
        return [_answer(output) for output in outputs if output.finished]

    def abort(self, keys: Sequence[str]) -> None:
        if keys:
            self._engine.abort_request(list(keys))

    def load(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See pump.Core. Tensors are taken one by one.

        Raises:
            RunError: vLLM did not take them over.
        """
        try:
            what = {"weights_iterator": iter(tensors), "is_checkpoint_format": True}
            self._engine.collective_rpc("reload_weights", kwargs=what)
            self._engine.collective_rpc(_renew_tied_head)
        except Exception as error:
            raise RunError(f"vLLM did not take over the weights: {type(error).__name__}: {error}") from error
        self.reset_caches()

    def load_folder(self, path: str) -> None:
        # vLLM's own loading from a path would look for the processor's files there from then on.
        self.load(read_weights(Path(path)))

    def reset_caches(self) -> None:
        """Forget keys, values and vision features of the weights before: all three caches, or old ones are used.

        Raises:
            RunError: the cache of prompts is in use.
        """
        if not self._engine.reset_prefix_cache():
            raise RunError("vLLM still holds prompts in use, so it cannot forget what older weights made of them")
        self._engine.reset_mm_cache()
        self._engine.reset_encoder_cache()

    def sleep(self) -> None:
        """Give memory back; weights wait in the memory of the machine."""
        if self._sleeps:
            self._engine.sleep(level=1)

    def wake(self) -> None:
        """Take memory: weights first, then room for keys and values."""
        if self._sleeps:
            torch.cuda.empty_cache()
            self._engine.wake_up(["weights"])
            self._engine.wake_up(["kv_cache"])

    def _positions(self, prepared: Mapping[str, Any]) -> np.ndarray:
        """What vLLM's model gives for the tokens of a prompt, by the very function that its runner calls."""
        [positions] = self._engine.collective_rpc(_positions_on_worker, args=(prepared,))
        return positions


def video_metadata(plan: MediaPlan, clip: Clip) -> dict[str, Any]:
    """What vLLM is told about frames: as if a file of one frame per second had been sampled at their times."""
    return {
        "fps": 1.0,
        "frames_indices": list(plan.times_s),
        "total_num_frames": len(plan.times_s),
        "duration": clip.duration_s,
        "video_backend": "opencv",
        "do_sample_frames": False,
    }


def sampling_params(asked: Asked, *, seeded: bool) -> Any:
    """vLLM's SamplingParams for one response."""
    from vllm import SamplingParams  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
    from vllm.sampling_params import RequestOutputKind  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    sampling = asked.sampling
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        presence_penalty=sampling.presence_penalty,
        repetition_penalty=sampling.repetition_penalty,
        max_tokens=asked.max_tokens,
        seed=asked.seed if seeded else None,
        logprobs=1,
        flat_logprobs=True,
        # The ends are the encoder's, and nothing else ends a response.
        ignore_eos=True,
        stop_token_ids=[*asked.end_ids, *asked.banned_ids],
        logit_bias=dict.fromkeys(asked.banned_ids, BAN_BIAS) if asked.terms.bans_by_bias else None,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _engine(arguments: dict[str, Any], *, is_cpu: bool) -> Any:
    # In the process of the trainer, so that weights are handed over and not sent; read when vLLM is imported.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    if is_cpu:
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        # vLLM compiles some helpers even so: a minute or more of a C++ compiler for nothing. The variable is read when
        # the compiler of torch is imported, which may have happened before.
        if os.environ.setdefault("TORCH_COMPILE_DISABLE", "1") == "1":
            torch._dynamo.config.disable = True
    from vllm import EngineArgs  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
    from vllm.v1.engine.llm_engine import LLMEngine  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    try:
        with _hidden("llvmlite.binding.ffi"):
            return LLMEngine.from_engine_args(EngineArgs(**arguments))
    except (TypeError, ValueError) as error:
        raise UsageError(f"vLLM refuses the arguments of rollout.vllm.engine_args or the model: {error}") from error


@contextlib.contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Keep a module out of `sys.modules`: on a CPU vLLM looks into every attribute of every module there, and numba's
    handle of the LLVM library answers any question with a function of that name."""
    module = sys.modules.pop(name, None)
    try:
        yield
    finally:
        if module is not None:
            sys.modules[name] = module


def _engine_input(ids: list[int], found: Sequence[Item]) -> dict[str, Any]:
    """A prompt that is encoded already, in the form of vLLM's renderer."""
    from vllm.inputs.engine import mm_input  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
    from vllm.multimodal.inputs import (  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
        MultiModalFieldConfig,
        MultiModalKwargsItem,
        MultiModalKwargsItems,
        PlaceholderRange,
    )

    if not found:
        return {"type": "token", "prompt_token_ids": ids}
    kwargs: dict[str, list[Any]] = {}
    hashes: dict[str, list[str]] = {}
    places: dict[str, list[Any]] = {}
    for item in found:
        elems = {}
        for name, tensor in item.tensors.items():
            if name in PIXELS.values():
                field = MultiModalFieldConfig.flat_from_sizes(item.kind, torch.tensor([len(tensor)]))
                [elems[name]] = field.build_elems(name, tensor)
            else:
                field = MultiModalFieldConfig.batched(item.kind, keep_on_cpu=True)
                [elems[name]] = field.build_elems(name, tensor[None])
        mask = None if item.is_vision.all() else torch.from_numpy(item.is_vision)
        kwargs.setdefault(item.kind, []).append(MultiModalKwargsItem(elems))
        hashes.setdefault(item.kind, []).append(item.id)
        places.setdefault(item.kind, []).append(
            PlaceholderRange(offset=item.start, length=len(item.is_vision), is_embed=mask)
        )
    return mm_input(ids, MultiModalKwargsItems(kwargs), hashes, places)


def _positions_on_worker(worker: Any, prepared: Mapping[str, Any]) -> np.ndarray:
    from vllm.multimodal.inputs import MultiModalFeatureSpec  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    features = [
        MultiModalFeatureSpec(data=data, modality=kind, identifier=name, mm_position=place, mm_hash=name)
        for kind in prepared.get("mm_kwargs", {})
        for data, name, place in zip(
            prepared["mm_kwargs"][kind], prepared["mm_hashes"][kind], prepared["mm_placeholders"][kind], strict=True
        )
    ]
    features.sort(key=lambda feature: feature.mm_position.offset)
    positions, _ = worker.model_runner.get_model().get_mrope_input_positions(prepared["prompt_token_ids"], features)
    return positions.numpy()


def _renew_tied_head(worker: Any) -> None:
    """Make the output head anew from the embeddings that it shares: vLLM 0.32 packs a copy for a CPU, and keeps the old
    one when weights are reloaded."""
    model = worker.model_runner.get_model()
    if model.config.get_text_config().tie_word_embeddings:
        head = model.get_language_model().lm_head
        head.quant_method.process_weights_after_loading(head)


def _answer(output: Any) -> Answer:
    [completion] = output.outputs
    ids, logprobs = list(completion.token_ids), completion.logprobs
    starts, ends = logprobs.start_indices, logprobs.end_indices
    # At each place: the sampled token first, then the likeliest one (left out where they are the same).
    return Answer(
        key=output.request_id,
        token_ids=ids,
        logprobs=[logprobs.logprobs[start] for start in starts],
        likeliest_ids=[logprobs.token_ids[end - 1] for end in ends],
    )
