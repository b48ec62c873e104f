"""Makes the demo's start: a model that can answer, then has the habit of not looking."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
import torch.nn.functional as F
from transformers import Qwen3VLForConditionalGeneration

from easyvideor1.data.encode import Encoder
from easyvideor1.data.patches import patches
from easyvideor1.data.prompts import instruction
from easyvideor1.demo.clips import Scene, draw, write_clip, write_image
from easyvideor1.demo.dataset import row
from easyvideor1.demo.demonstrations import bare, careful, usual
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.demo.questions import (
    DURATIONS_S,
    Exam,
    Question,
    image_exam,
    reading_exam,
    text_exam,
    video_exam,
)
from easyvideor1.demo.tower import teach_tower
from easyvideor1.types import FrameSpec, Media, MediaPlan, Prompt, Sample
from easyvideor1.video.sampling import plan_media

Answer = Callable[[Question, Random], str]
"""Question -> response."""

log = logging.getLogger(__name__)

VIDEO_SPEC = FrameSpec(fps=2.0, min_frames=2, max_frames=8, min_pixels=4096, max_pixels=4096)
IMAGE_SPEC = FrameSpec(min_pixels=4096, max_pixels=4096)
"""How the demo looks at its media; recipes/demo.yaml says the same."""
SIDE_PX = 64
TOWER_STEPS, SKILL_STEPS = 250, 1000
TOWER_RATE, SKILL_RATE = 2e-3, 2e-3
EXAMS_PER_STEP = 32
TOKENIZER_EXAMS = 400
TEXT_EXAM_FRAC, READING_EXAM_FRAC, IMAGE_EXAM_FRAC = 0.08, 0.12, 0.16


@dataclass(frozen=True, kw_only=True)
class Habit:
    """The responses that the last stage shows."""

    answer: Answer
    steps: int
    learning_rate: float


USUAL = Habit(answer=usual, steps=100, learning_rate=5e-4)
"""Mostly answers without a look: the demo's start."""
COLD = Habit(answer=bare, steps=200, learning_rate=1e-3)
"""Careful answers without any tag, until no sampled one has a tag by chance: a start that never earns a reward."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """An exam with the answers to learn, as one row: what its prompts share (the media), then question after question.

    L tokens of the row. A question sees the shared part and itself, so its numbers are those of a row of its own.
    """

    input_ids: np.ndarray
    """int64 [L]."""
    position_ids: np.ndarray
    """int64 [3, L]."""
    segments: np.ndarray
    """int64 [L]: 0 the shared part, 1.. the question a token belongs to."""
    is_response: np.ndarray
    """bool [L]: the token is to be learnt."""
    families: tuple[str, ...]
    """Families of the questions, in order."""
    plan: MediaPlan | None
    pixels: torch.Tensor | None
    """Patch rows as data.patches makes them."""


class Teacher:
    """Endless lessons on scenes of its own, drawn instead of decoded; no file of the demo's data set is touched."""

    def __init__(self, encoder: Encoder, *, seed: str, folder: Path) -> None:
        self._encoder = encoder
        self._rng = Random(seed)
        self._plans = {duration_s: _plan(encoder, duration_s, folder) for duration_s in (0.0, *DURATIONS_S)}

    def look(self) -> tuple[Scene, MediaPlan, torch.Tensor]:
        """The next scene, with its plan and patch rows."""
        while (scene := draw_exam(self._rng).scene) is None:
            pass
        return scene, *self._pixels(scene)

    def _pixels(self, scene: Scene) -> tuple[MediaPlan, torch.Tensor]:
        plan = self._plans[scene.duration_s]
        return plan, patches(_seen(scene, plan, self._rng), self._encoder.vision, dtype=torch.float32)

    def lesson(self, answer: Answer) -> Lesson:
        """The next exam, answered by `answer`."""
        exam = draw_exam(self._rng)
        plan, pixels = None, None
        if exam.scene is not None:
            plan, pixels = self._pixels(exam.scene)
        plans = () if plan is None else (plan,)
        prompts, responses = [], []
        families = tuple(question.family for question in exam.questions)
        for question in exam.questions:
            sample = as_sample(question, plans)
            prompts.append(self._encoder.encode(sample, plans, instruction(sample, thinking=True)))
            responses.append(self._encoder.response_ids(answer(question, self._rng)))
        return _row(prompts, responses, families=families, plan=plan, pixels=pixels)


class _Lessons(torch.utils.data.IterableDataset):
    """Batches of a teacher's lessons, without end."""

    def __init__(self, teacher: Teacher, answer: Answer) -> None:
        self._teacher, self._answer = teacher, answer

    def __iter__(self) -> Iterator[list[Lesson]]:
        while True:
            yield [self._teacher.lesson(self._answer) for _ in range(EXAMS_PER_STEP)]


def batches(teacher: Teacher, answer: Answer) -> Iterator[list[Lesson]]:
    """Batches made ahead by one worker process, always in the same order."""
    lessons = _Lessons(teacher, answer)
    return iter(torch.utils.data.DataLoader(lessons, batch_size=None, num_workers=1))


def _row(
    prompts: Sequence[Prompt],
    responses: Sequence[tuple[int, ...]],
    *,
    families: tuple[str, ...],
    plan: MediaPlan | None,
    pixels: torch.Tensor | None,
) -> Lesson:
    shared = _shared_tokens([prompt.input_ids for prompt in prompts])
    first = prompts[0]
    assert not any(prompt.token_types[shared:].any() for prompt in prompts), "media tokens differ between questions"
    ids, positions, segments, is_response = [first.input_ids[:shared]], [first.position_ids[:, :shared]], [0], [False]
    lengths = [shared]
    for number, (prompt, response) in enumerate(zip(prompts, responses, strict=True), start=1):
        after = prompt.next_position + np.arange(len(response))
        ids += [prompt.input_ids[shared:], np.array(response)]
        positions += [prompt.position_ids[:, shared:], np.broadcast_to(after, (3, len(response)))]
        segments += [number, number]
        is_response += [False, True]
        lengths += [len(prompt) - shared, len(response)]
    return Lesson(
        input_ids=np.concatenate(ids),
        position_ids=np.concatenate(positions, axis=1),
        segments=np.repeat(segments, lengths),
        is_response=np.repeat(is_response, lengths),
        families=families,
        plan=plan,
        pixels=pixels,
    )


def _shared_tokens(rows: Sequence[np.ndarray]) -> int:
    """Length of the longest common beginning."""
    shortest = min(len(row) for row in rows)
    is_same = np.all([row[:shortest] == rows[0][:shortest] for row in rows], axis=0)
    return shortest if is_same.all() else int(is_same.argmin())


def draw_exam(rng: Random) -> Exam:
    """An exam of any kind. Reading exams, which the demo's data set does not have, teach how to use what was found."""
    makers = (text_exam, reading_exam, image_exam, video_exam)
    shown = 1.0 - TEXT_EXAM_FRAC - READING_EXAM_FRAC - IMAGE_EXAM_FRAC
    make = rng.choices(makers, weights=(TEXT_EXAM_FRAC, READING_EXAM_FRAC, IMAGE_EXAM_FRAC, shown))[0]
    return make(rng)


def as_sample(question: Question, plans: Sequence[MediaPlan]) -> Sample:
    """The sample a row of the demo's data set would become; without plans, of a text-only row."""
    kind = plans[0].media.kind if plans else "text"
    fields = row(question, kind=kind)
    return Sample(
        id="lesson",
        problem_type=fields["problem_type"],
        problem=fields["problem"],
        gold=fields["answer"],
        options=tuple(fields["options"]),
        media=tuple(plan.media for plan in plans),
    )


def _plan(encoder: Encoder, duration_s: float, folder: Path) -> MediaPlan:
    """What is seen of any clip of this length, or of any image (0.0)."""
    scene = Scene(things=(), duration_s=duration_s, background="plain", shade=60, texture_seed=0)
    path = folder / (f"{duration_s:g}.mp4" if duration_s else "image.png")
    if duration_s:
        write_clip(scene, path, side_px=SIDE_PX)
        return plan_media(Media(kind="video", path=str(path)), VIDEO_SPEC, encoder.vision)
    write_image(scene, path, side_px=SIDE_PX)
    return plan_media(Media(kind="image", path=str(path)), IMAGE_SPEC, encoder.vision)


def _seen(scene: Scene, plan: MediaPlan, rng: Random) -> np.ndarray:
    """uint8 [T, 3, H, W]: the drawn frames with a little noise, as video coding leaves it."""
    pictures = draw(scene, plan.times_s, side_px=SIDE_PX)
    noise = np.random.default_rng(rng.getrandbits(32)).integers(-6, 7, pictures.shape, dtype=np.int16)
    return np.clip(pictures + noise, 0, 255).astype(np.uint8).transpose(0, 3, 1, 2)


def response_loss(model: Qwen3VLForConditionalGeneration, lessons: Sequence[Lesson]) -> tuple[torch.Tensor, list[bool]]:
    """Mean cross entropy of the response tokens, and of each question whether every token is the likeliest one."""
    shape = len(lessons), max(len(lesson.input_ids) for lesson in lessons)
    input_ids = torch.zeros(shape, dtype=torch.long)
    position_ids = torch.zeros((3, *shape), dtype=torch.long)
    segments = torch.full(shape, -1)
    is_response = torch.zeros(shape, dtype=torch.bool)
    for index, lesson in enumerate(lessons):
        length = len(lesson.input_ids)
        input_ids[index, :length] = torch.from_numpy(lesson.input_ids)
        position_ids[:, index, :length] = torch.from_numpy(lesson.position_ids)
        segments[index, :length] = torch.from_numpy(lesson.segments)
        is_response[index, :length] = torch.from_numpy(lesson.is_response)
    sees = (segments[:, :, None] == segments[:, None]) | (segments[:, None] == 0)
    hidden = model.model(
        input_ids=input_ids,
        attention_mask=sees.tril()[:, None],
        position_ids=position_ids,
        use_cache=False,
        **_media_inputs(lessons),
    ).last_hidden_state
    logits, wanted = model.lm_head(hidden[:, :-1][is_response[:, 1:]]), input_ids[is_response]
    lengths = [int((lesson.segments[lesson.is_response] == number).sum())
               for lesson in lessons for number in range(1, len(lesson.families) + 1)]  # fmt: skip
    hits = (logits.argmax(-1) == wanted).split(lengths)
    return F.cross_entropy(logits, wanted), [bool(hit.all()) for hit in hits]


def _media_inputs(lessons: Sequence[Lesson]) -> dict[str, torch.Tensor]:
    inputs = {}
    for kind, name in (("image", "pixel_values"), ("video", "pixel_values_videos")):
        seen = [lesson for lesson in lessons if lesson.plan is not None and lesson.plan.media.kind == kind]
        if seen:
            inputs[name] = torch.cat([lesson.pixels for lesson in seen if lesson.pixels is not None])
            inputs[f"{kind}_grid_thw"] = torch.tensor([lesson.plan.grid_thw for lesson in seen if lesson.plan])
    return inputs


def teach(
    model: Qwen3VLForConditionalGeneration,
    lessons_of_steps: Iterator[list[Lesson]],
    *,
    steps: int,
    learning_rate: float,
    report_every: int = 25,
) -> None:
    """Supervised steps with AdamW: warm-up over a twentieth, then a cosine to zero."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    warmup = max(1, steps // 20)
    model.train()
    hits: dict[str, list[bool]] = {}
    for step in range(steps):
        share = min(1.0, (step + 1) / warmup) * 0.5 * (1.0 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * share
        lessons = next(lessons_of_steps)
        loss, are_right = response_loss(model, lessons)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        families = [family for lesson in lessons for family in lesson.families]
        for family, is_right in zip(families, are_right, strict=True):
            hits.setdefault(family, []).append(is_right)
        if (step + 1) % report_every == 0 or step + 1 == steps:
            shares = " ".join(f"{family} {sum(h) / len(h):.2f}" for family, h in sorted(hits.items()))
            log.info("step %d/%d loss %.3f wholly right: %s", step + 1, steps, loss.item(), shares)
            hits = {}
    model.eval()


def tokenizer_texts(*, seed: int) -> Iterator[str]:
    """Prompts, time stamps and responses of drawn exams: what the tokenizer is learnt from."""
    rng = Random(f"{seed}-tokenizer")
    for _ in range(TOKENIZER_EXAMS):
        exam = draw_exam(rng)
        for question in exam.questions:
            yield instruction(as_sample(question, ()), thinking=True)
            yield careful(question, rng)
            yield usual(question, rng)
    yield from (f"<{tenths / 10:.1f} seconds>" for tenths in range(50))
    yield from ("user\n", "assistant\n", "system\n") * 50


def build_model(
    out: Path,
    seed: int,
    *,
    tower_steps: int = TOWER_STEPS,
    skill_steps: int = SKILL_STEPS,
    habit: Habit = USUAL,
) -> Qwen3VLForConditionalGeneration:
    """Make the demo's start from nothing and write it under `out` in Transformers' layout.

    First the vision tower: what is where. Then the skill: careful and right answers. Then the habits.
    """
    tokenizer = train_tokenizer(tokenizer_texts(seed=seed))
    model = new_model(tokenizer, seed=seed)
    save(model, tokenizer, out)
    encoder = Encoder.from_pretrained(out)
    with tempfile.TemporaryDirectory() as folder:
        towers, skills, habits = (
            Teacher(encoder, seed=f"{seed}-{stage}", folder=Path(folder)) for stage in ("tower", "skill", "habit")
        )
        log.info("tower: %d steps on what is where", tower_steps)
        teach_tower(model, towers.look, steps=tower_steps, learning_rate=TOWER_RATE)
        log.info("skill: %d steps on careful answers", skill_steps)
        teach(model, batches(skills, careful), steps=skill_steps, learning_rate=SKILL_RATE)
        log.info("habits: %d steps on %s answers", habit.steps, habit.answer.__name__)
        teach(model, batches(habits, habit.answer), steps=habit.steps, learning_rate=habit.learning_rate)
    save(model, tokenizer, out)
    return model
