"""Rollouts by Transformers' generate: a prompt is computed once, its key-value cache serves all n responses."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, GenerationConfig, LogitsProcessor, LogitsProcessorList

from easyvideor1.data.encode import Encoder, join_inputs
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.seeds import mix_seed
from easyvideor1.types import Example, Prompt, Rollout, StopReason


class HFEngine:
    """Samples from a Transformers model that lives in this process (the actor itself, so weights are never copied)."""

    def __init__(self, model: Any, encoder: Encoder, *, responses_per_batch: int) -> None:
        """
        Args:
            model: a Transformers `ForConditionalGeneration` of the Qwen-VL families.
            responses_per_batch: sequences generated at once (whole groups; at least one).
        """
        self._model = model
        self._encoder = encoder
        self._responses_per_batch = responses_per_batch
        self._version = 0
        self.banned_hits = 0
        # Transformers 5.24 renamed the argument; both names are within the supported range.
        names = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    def load_weights(self, model: nn.Module, *, version: int) -> None:
        assert model is self._model, "this engine shares the actor's weights; it cannot take those of another model"
        self._version = version

    def generate(self, requests: Sequence[Request], *, seed: int) -> list[tuple[Rollout, ...]]:
        """See Engine.generate. Requests that want the same are generated together, those with most responses first."""
        groups: list[tuple[Rollout, ...]] = [()] * len(requests)
        samplings = dict.fromkeys(request.sampling for request in requests)
        was_training = self._model.training
        self._model.eval()
        try:
            for sampling in sorted(samplings, key=lambda sampling: -sampling.n):
                places = [place for place, request in enumerate(requests) if request.sampling == sampling]
                per_batch = max(1, self._responses_per_batch // sampling.n)
                for start in range(0, len(places), per_batch):
                    batch = places[start : start + per_batch]
                    with _seeded(mix_seed(seed, start), self._model.device), torch.no_grad():
                        made = self._generate_batch([requests[place].example for place in batch], sampling)
                    for place, group in zip(batch, made, strict=True):
                        groups[place] = group
        finally:
            self._model.train(was_training)
        return groups

    def _generate_batch(self, examples: Sequence[Example], sampling: Sampling) -> list[tuple[Rollout, ...]]:
        device = self._model.device
        prompts = [example.prompt for example in examples]
        ids, mask, positions = (tensor.to(device) for tensor in left_padded(prompts, pad_id=self._encoder.pad_id))
        cache = self._prefill(examples, ids=ids, mask=mask, positions=positions)
        cache.batch_repeat_interleave(sampling.n)
        temperature = 1.0 if sampling.is_greedy else sampling.temperature
        recorder = Recorder(banned_ids=self._encoder.banned_ids, temperature=temperature)
        # The last prompt token is left to generate, which needs its output to sample the first token from.
        sequences = self._model.generate(
            input_ids=ids.repeat_interleave(sampling.n, 0),
            attention_mask=mask.repeat_interleave(sampling.n, 0),
            position_ids=positions.repeat_interleave(sampling.n, 1),
            generation_config=self._generation_config(sampling),
            logits_processor=LogitsProcessorList([recorder]),
            **{self._cache_name: cache},
        )
        responses = sequences[:, ids.shape[1] :]
        logprobs = recorder.finish(sequences)
        self.banned_hits += recorder.banned_hits
        rollouts = [self._rollout(*pair) for pair in zip(responses.tolist(), logprobs.tolist(), strict=True)]
        return [tuple(rollouts[i : i + sampling.n]) for i in range(0, len(rollouts), sampling.n)]

    def _prefill(self, examples: Sequence[Example], *, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor):
        """Key-value cache of all prompt tokens but the last: one sequence per prompt, vision tower once per prompt."""
        features = join_inputs(example.features for example in examples)
        cache = DynamicCache(config=self._model.config.get_text_config())
        self._model.model(
            input_ids=ids[:, :-1],
            attention_mask=mask[:, :-1],
            position_ids=positions[:, :, :-1],
            use_cache=True,
            **{self._cache_name: cache},
            **{name: tensor.to(self._model.device) for name, tensor in features.items()},
        )
        return cache

    def _generation_config(self, sampling: Sampling) -> GenerationConfig:
        # Every sampling knob is set: what is left unset would come from the model folder's generation_config.json.
        return GenerationConfig(
            do_sample=not sampling.is_greedy,
            temperature=None if sampling.is_greedy else sampling.temperature,
            top_p=None if sampling.is_greedy else sampling.top_p,
            top_k=None if sampling.is_greedy else 0,
            num_beams=1,
            repetition_penalty=1.0,
            max_new_tokens=sampling.max_response_tokens,
            eos_token_id=list(self._encoder.end_ids),
            pad_token_id=self._encoder.pad_id,
            use_cache=True,
        )

    def _rollout(self, ids: list[int], logprobs: list[float]) -> Rollout:
        end = next((place for place, token in enumerate(ids) if token in self._encoder.end_ids), None)
        length = len(ids) if end is None else end + 1
        return Rollout(
            token_ids=tuple(ids[:length]),
            text=self._encoder.response_text(ids[:length]),
            logprobs=tuple(logprobs[:length]),
            stop_reason=StopReason.LENGTH if end is None else StopReason.EOS,
            weights_version=self._version,
        )


class Recorder(LogitsProcessor):
    """Bans vision tokens and keeps the log-prob of every sampled token, as the actor will compute it: no ban, no top-p.

    It keeps one step's logits only; generate's own `output_logits` would keep [steps, responses, vocabulary].
    """

    def __init__(self, *, banned_ids: Sequence[int], temperature: float) -> None:
        self._temperature = temperature
        self._banned = torch.tensor(sorted(banned_ids), dtype=torch.long)
        self._logits: torch.Tensor | None = None
        self._logprobs: list[torch.Tensor] = []
        self.banned_hits = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._record(input_ids)
        self._logits = scores
        banned = self._banned.to(scores.device)
        self.banned_hits += int(torch.isin(scores.argmax(-1), banned).sum())
        return scores.index_fill(-1, banned, -torch.inf)

    def finish(self, sequences: torch.Tensor) -> torch.Tensor:
        """[responses, steps] float32 log-probs of the sampled tokens."""
        self._record(sequences)
        return torch.stack(self._logprobs, dim=1)

    def _record(self, sequences: torch.Tensor) -> None:
        if self._logits is not None:
            logprobs = (self._logits.float() / self._temperature).log_softmax(-1)
            self._logprobs.append(logprobs.gather(-1, sequences[:, -1:]).squeeze(-1))


def left_padded(prompts: Sequence[Prompt], *, pad_id: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Token ids [B, L], attention mask [B, L] and positions [3, B, L] of prompts aligned at their end."""
    length = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), length), pad_id, dtype=torch.long)
    mask = torch.zeros(len(prompts), length, dtype=torch.long)
    positions = torch.zeros(3, len(prompts), length, dtype=torch.long)
    for index, prompt in enumerate(prompts):
        ids[index, length - len(prompt) :] = torch.from_numpy(prompt.input_ids)
        mask[index, length - len(prompt) :] = 1
        positions[:, index, length - len(prompt) :] = torch.from_numpy(prompt.position_ids)
    return ids, mask, positions


@contextlib.contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Sampling from a seed of its own; the global random state is left as it was."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
