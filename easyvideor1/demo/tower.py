"""First lessons of the demo's vision tower: for each of its tokens, which colours are there and which way they move.

Vision-language models start from a tower that was trained on pictures; trained by answers alone, this one would take
several times as many steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from transformers import Qwen3VLForConditionalGeneration

from easyvideor1.demo.clips import COLOURS, DIRECTIONS, Scene
from easyvideor1.demo.model import MERGE, TEMPORAL_PATCH
from easyvideor1.types import MediaPlan

log = logging.getLogger(__name__)

SCENES_PER_STEP = 32
NUM_LABELS = TEMPORAL_PATCH * len(COLOURS) + len(DIRECTIONS)
MOVING_PER_S = 0.05
"""Slower things count as standing still; in fractions of the picture per second."""


def token_labels(scene: Scene, plan: MediaPlan) -> np.ndarray:
    """The things that each token of the tower shows.

    Returns:
        float32 [tokens, NUM_LABELS] of 0 and 1: the colours whose thing has its centre in the token's cell, for each
        frame of the temporal patch, then the directions of moving things there.
    """
    t, h, w = plan.grid_thw
    rows, columns = h // MERGE, w // MERGE
    labels = np.zeros((t, rows, columns, NUM_LABELS), np.float32)
    for frame in range(t * TEMPORAL_PATCH):
        time_s = plan.times_s[min(frame, len(plan.times_s) - 1)]
        patch, offset = divmod(frame, TEMPORAL_PATCH)
        for thing in scene.things:
            if not thing.is_visible(time_s):
                continue
            x, y = thing.x + thing.dx_per_s * time_s, thing.y + thing.dy_per_s * time_s
            cell = labels[patch, min(int(y * rows), rows - 1), min(int(x * columns), columns - 1)]
            cell[offset * len(COLOURS) + tuple(COLOURS).index(thing.colour)] = 1.0
            for number, (dx, dy) in enumerate(DIRECTIONS.values()):
                if dx * thing.dx_per_s + dy * thing.dy_per_s > MOVING_PER_S:
                    cell[TEMPORAL_PATCH * len(COLOURS) + number] = 1.0
    return labels.reshape(-1, NUM_LABELS)


def teach_tower(
    model: Qwen3VLForConditionalGeneration,
    look: Callable[[], tuple[Scene, MediaPlan, torch.Tensor]],
    *,
    steps: int,
    learning_rate: float,
) -> None:
    """Train the vision tower on the labels of its tokens, by a linear head that is thrown away.

    Args:
        look: gives the next scene with its plan and patch rows.
    """
    tower = model.model.visual
    head = nn.Linear(tower.config.out_hidden_size, NUM_LABELS)
    parameters = [*tower.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=max(steps, 2), pct_start=0.1)
    for step in range(steps):
        scenes, plans, pixels = zip(*(look() for _ in range(SCENES_PER_STEP)), strict=True)
        labels = torch.from_numpy(np.concatenate([token_labels(s, p) for s, p in zip(scenes, plans, strict=True)]))
        seen = tower(torch.cat(pixels), grid_thw=torch.tensor([plan.grid_thw for plan in plans]))
        logits = head(seen.pooler_output)
        loss = F.binary_cross_entropy_with_logits(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 50 == 0 or step + 1 == steps:
            found = ((logits > 0) & (labels > 0)).sum() / labels.sum()
            log.info("tower: step %d/%d loss %.4f found %.2f of what is there", step + 1, steps, loss.item(), found)
