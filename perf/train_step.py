"""How much cheaper is a whole update than what one would run instead? `python -m perf.train_step`

The other way, as trainers on padded batches do it: the rollouts of a prompt as the padded rows of a micro-batch, the
vision tower over the pixels of every rollout, old log-probs by a forward of their own, groups of equal rewards computed
like all others; logits of response tokens only. Between the two ways one thing at a time is changed, which gives the
part of each. The batch is mixed (videos, images, text), its response lengths are long-tailed. All ways take their
turns in one run, with the same loss, optimizer and weights (learning rate 0); times are CPU seconds of this process
(medians).

Then the same batch with a frozen vision tower, a KL term and two optimizer steps, for which a tower is run three times
per group: with pixels each time, and with what the tower saw once. The last line is JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from easyvideor1.algo.algorithms import ALGORITHMS
from easyvideor1.algo.credit import learning_rollouts, normalizer, with_credit
from easyvideor1.algo.losses import Tokens, policy_loss
from easyvideor1.config_train import OptimizerConfig
from easyvideor1.model.vision import Features, Media
from easyvideor1.training.minibatch import Idle, Minibatch, minibatches
from easyvideor1.training.pack import pack_groups
from easyvideor1.training.policy import Policy
from easyvideor1.training.reference import reference_of
from easyvideor1.types import Example, Group, Score
from perf.measure import measured
from perf.shared_prefix import build_group, build_model

ALGORITHM = ALGORITHMS["grpo"]
PROMPTS = (
    {"frames": 12},
    {"frames": 8},
    {"frames": 8},
    {"frames": 5},
    {"images": 4},
    {"images": 1},
    {"frames": 3, "images": 2},
    {},
)
"""Media of the groups of a step, 64 vision tokens each: prompts of 19 to 823 tokens."""
MEDIAN_TOKENS, SPREAD, MAX_TOKENS = 48, 0.9, 512
"""Response lengths are log-normal, and cut."""
MOST_TOKENS = 4096
"""Bound of a pack."""


class Step:
    """One batch of groups, and the ways of making an update of it."""

    def __init__(self, model: Any, *, n: int, equal: int) -> None:
        """
        Args:
            equal: groups whose rewards are all equal.
        """
        rng = np.random.default_rng(0)
        self.model = model
        made = []
        for seed, media in enumerate(PROMPTS):
            lengths = np.clip(rng.lognormal(np.log(MEDIAN_TOKENS), SPREAD, n).astype(int), 4, MAX_TOKENS)
            made.append(build_group(model, lengths=lengths.tolist(), seed=seed, **media))
        self.features: list[Features] = [features for _, features in made]
        order = rng.permutation(len(made))
        scored = []
        for place, (group, _) in enumerate(made):
            right = [1.0] * n if place in order[:equal] else [float(i < 1 + place % (n - 1)) for i in range(n)]
            scored.append(replace(group, scores=tuple(Score(value=value) for value in right)))
        self.groups = with_credit(scored, ALGORITHM)
        self.normalizer = normalizer(self.groups, ALGORITHM, max_response_tokens=MAX_TOKENS)
        optimizer = OptimizerConfig(learning_rate=0.0, max_grad_norm=float("inf"))
        self.policy = Policy(model, algorithm=ALGORITHM, optimizer=optimizer, total_steps=1, temperature=1.0)

    @property
    def living(self) -> list[int]:
        return [place for place, group in enumerate(self.groups) if learning_rollouts(group, ALGORITHM)]

    def ours(self) -> None:
        works = minibatches(
            self.groups,
            lambda index: self.features[index],
            ALGORITHM,
            num_updates=1,
            tokens_per_pack=MOST_TOKENS,
            form="shared",
            max_response_tokens=MAX_TOKENS,
            share=self.policy.share,
        )
        self.policy.update(works, step=0)

    def in_packs(self, *, vision_once: bool) -> None:
        """Prompts once per rollout, without padding; the vision tower once per group, or per rollout."""
        groups, media = [self.groups[place] for place in self.living], [self.features[place] for place in self.living]
        if not vision_once:
            media = [item for item, group in zip(media, groups, strict=True) for _ in group.rollouts]
            groups = [alone for group in groups for alone in _one_by_one(group)]
        batch = pack_groups(groups, tokens_per_pack=2 * MOST_TOKENS, form="separate")
        work = Minibatch(batch=batch, media=dict(enumerate(media)), normalizer=self.normalizer, idle=Idle())
        self.policy.update([work], step=0)

    def padded(self, *, old_pass: bool, all_groups: bool) -> None:
        """A micro-batch per group: its rollouts as padded rows."""
        places = list(range(len(self.groups))) if all_groups else self.living
        old = [None] * len(places)
        if old_pass:
            with torch.no_grad():
                old = [self._padded_logprobs(place) for place in places]
        self.policy.masters.zero_gradients()
        for place, old_logprobs in zip(places, old, strict=True):
            group = self.groups[place]
            lengths = torch.tensor([len(rollout.token_ids) for rollout in group.rollouts])
            logprobs = self._padded_logprobs(place)
            tokens = Tokens(
                logprobs=logprobs,
                advantages=torch.tensor(group.advantages).repeat_interleave(lengths),
                weights=torch.tensor(group.weights).repeat_interleave(lengths),
                sequence=torch.arange(len(lengths)).repeat_interleave(lengths),
                num_sequences=len(lengths),
                is_offline=torch.zeros(len(logprobs), dtype=torch.bool),
                old_logprobs=old_logprobs,
            )
            policy_loss(tokens, ALGORITHM, normalizer=self.normalizer).value.backward()
        self.policy.optimizer.step()

    def _padded_logprobs(self, place: int) -> torch.Tensor:
        """[tokens of all rollouts], by a batch of rows filled up on the right."""
        group, features = self.groups[place], self.features[place]
        prompt, n = group.prompt, len(group.rollouts)
        longest = max(len(rollout.token_ids) for rollout in group.rollouts)
        ids = torch.zeros(n, len(prompt) + longest, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, filled, rollout in zip(ids, mask, group.rollouts, strict=True):
            sequence = [*prompt.input_ids.tolist(), *rollout.token_ids]
            row[: len(sequence)] = torch.tensor(sequence)
            filled[: len(sequence)] = 1
        after = prompt.next_position + torch.arange(longest)
        positions = torch.cat([torch.from_numpy(prompt.position_ids), after.expand(3, -1)], 1)
        logits = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions[:, None].expand(-1, n, -1),
            use_cache=False,
            logits_to_keep=longest + 1,
            **{name: tensor.repeat(n, 1) for name, tensor in features.items()},
        ).logits
        answers = ids[:, len(prompt) :]
        logprobs = logits[:, :-1].log_softmax(-1).gather(-1, answers[..., None]).squeeze(-1)
        return logprobs[mask[:, len(prompt) :].bool()]

    def gradients(self) -> dict[str, torch.Tensor]:
        return {name: p.grad.clone() for name, p in self.model.named_parameters() if p.grad is not None}


class FrozenStep:
    """The batch of a step once more, with a KL term, two optimizer steps and a tower that does not train."""

    def __init__(self, step: Step) -> None:
        self._step, model = step, step.model
        model.model.visual.requires_grad_(False)
        self._algorithm = replace(ALGORITHM, kl_coef=0.1)
        optimizer = OptimizerConfig(learning_rate=0.0, max_grad_norm=float("inf"))
        self._policy = Policy(
            model,
            algorithm=self._algorithm,
            optimizer=optimizer,
            total_steps=1,
            temperature=1.0,
            reference=reference_of(model),
        )
        self._examples = [
            Example(prompt=group.prompt, clips=(), features=dict(features))
            for group, features in zip(step.groups, step.features, strict=True)
        ]

    def update(self, media: Callable[[int], Media]) -> None:
        works = minibatches(
            self._step.groups,
            media,
            self._algorithm,
            num_updates=2,
            tokens_per_pack=MOST_TOKENS,
            form="shared",
            max_response_tokens=MAX_TOKENS,
            share=self._policy.share,
        )
        self._policy.update(works, step=0)

    def with_pixels(self) -> None:
        self.update(lambda index: self._step.features[index])

    def looking_once(self) -> None:
        with self._policy.tower.kept():
            self.update(lambda index: self._policy.tower.media(self._examples[index]))


def _one_by_one(group: Group) -> list[Group]:
    return [
        replace(
            group,
            rollouts=(rollout,),
            scores=(group.scores[i],),
            advantages=(group.advantages[i],),
            weights=(group.weights[i],),
        )
        for i, rollout in enumerate(group.rollouts)
    ]


def difference(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    return max(((found[name] - g).norm() / (g.norm() + 1e-12)).item() for name, g in expected.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=8, help="rollouts of a group")
    parser.add_argument("--equal", type=int, default=3, help=f"of {len(PROMPTS)} groups, those of equal rewards")
    parser.add_argument("--hidden", type=int, default=256, help="width of the text model")
    parser.add_argument("--layers", type=int, default=3, help="text layers")
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each way, after one for the comparison")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    step = Step(build_model(hidden=args.hidden, layers=args.layers), n=args.n, equal=args.equal)
    ways: dict[str, Callable[[], None]] = {
        "padded rows": lambda: step.padded(old_pass=True, all_groups=True),
        "no dead groups": lambda: step.padded(old_pass=True, all_groups=False),
        "no old pass": lambda: step.padded(old_pass=False, all_groups=False),
        "no padding": lambda: step.in_packs(vision_once=False),
        "vision once": lambda: step.in_packs(vision_once=True),
        "prompt once": step.ours,
    }
    gradients = {}
    for name, way in ways.items():
        way()
        gradients[name] = step.gradients()
    differences = {name: difference(gradients[name], gradients["padded rows"]) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.repeats):
        for name, way in ways.items():
            seconds[name].append(measured(way).cpu_s)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    parts = {
        name: {"cpu_s": round(medians[name], 3), "times_less": round(medians[before] / medians[name], 2)}
        for before, name in itertools.pairwise(ways)
    }
    _show(medians, parts, differences)
    result = _result(step, args, medians, parts, max(differences.values()))
    print(json.dumps(result | {"frozen_tower": _frozen(step, args.repeats)}))


def _frozen(step: Step, repeats: int) -> dict[str, float]:
    frozen = FrozenStep(step)
    ways = {"pixels": frozen.with_pixels, "once": frozen.looking_once}
    gradients = {}
    for name, way in ways.items():
        way()
        gradients[name] = step.gradients()
    seconds = {name: [measured(way).cpu_s for _ in range(repeats)] for name, way in ways.items()}
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    found = {
        "speedup": round(medians["pixels"] / medians["once"], 2),
        "pixels_cpu_s": round(medians["pixels"], 3),
        "once_cpu_s": round(medians["once"], 3),
        "max_grad_rel_diff": difference(gradients["once"], gradients["pixels"]),
    }
    print(f"frozen tower, KL, two optimizer steps: {found}")
    return found


def _show(medians: dict[str, float], parts: dict[str, dict[str, float]], differences: dict[str, float]) -> None:
    print("way             CPU s  times less  gradients")
    for name, seconds in medians.items():
        factor = f"{parts[name]['times_less']:.2f}" if name in parts else ""
        print(f"{name:14} {seconds:6.2f}  {factor:>10}  {differences[name]:9.1e}")


def _result(
    step: Step, args: argparse.Namespace, medians: dict[str, float], parts: dict, difference: float
) -> dict[str, Any]:
    lengths: Sequence[int] = [len(rollout.token_ids) for group in step.groups for rollout in group.rollouts]
    return {
        "benchmark": "train_step",
        "speedup": round(medians["padded rows"] / medians["prompt once"], 2),
        "parts": parts,
        "max_grad_rel_diff": difference,
        "padded_cpu_s": round(medians["padded rows"], 3),
        "ours_cpu_s": round(medians["prompt once"], 3),
        "n": args.n,
        "prompt_tokens": [len(group.prompt) for group in step.groups],
        "response_tokens": {"mean": round(statistics.mean(lengths), 1), "max": max(lengths)},
        "equal_groups": len(step.groups) - len(step.living),
        "groups": len(step.groups),
        "hidden": args.hidden,
        "layers": args.layers,
        "repeats": args.repeats,
        "threads": args.threads,
        "machine": platform.machine(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    main()
