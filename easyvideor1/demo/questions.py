"""Scenes with questions about them, each with its right answer and the fact that leads to it.

The gold answers lean a little (34 % of them are option A, 58 % are Yes, the commonest count is 2), as those of real
data sets do, so that answering without looking pays something, but not much.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from easyvideor1.demo.clips import BACKGROUNDS, COLOURS, DIRECTIONS, SHAPES, Scene, Thing

LETTERS = "ABCD"
FIRST_OPTION_FRAC = 0.34
YES_FRAC = 0.58
COUNT_WEIGHTS = {1: 0.25, 2: 0.3, 3: 0.25, 4: 0.2}
DURATIONS_S = (3.0, 4.0)
RADIUS = 0.13
SMALL_RADIUS = 0.1
WORDS = ("table", "river", "seven", "happy", "window", "music", "garden", "paper", "stone", "winter")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One question with all that is known about its answer."""

    family: str
    """What it asks for: direction, colour, order, count, existence, when, sum, ..."""
    problem_type: str
    problem: str
    gold: str
    fact: str
    """What a careful look finds, as a sentence without its full stop."""
    options: tuple[str, ...] = ()
    """The options with their letters: "A. red"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exam:
    """A scene (None: text only) and the questions asked about it."""

    scene: Scene | None
    questions: tuple[Question, ...]


def video_exam(rng: Random) -> Exam:
    """A clip in which something moves, comes and goes, or is to be counted, with two to four questions."""
    make: Callable[[Random], Exam] = rng.choice((_motion, _events, _crowd_clip))
    return make(rng)


def image_exam(rng: Random) -> Exam:
    """A picture with one to four shapes, to be counted and named."""
    return _crowd(rng, duration_s=0.0)


def text_exam(rng: Random) -> Exam:
    """Three questions that need no picture."""
    return Exam(scene=None, questions=(_sum(rng), _comparison(rng), _word(rng)))


def reading_exam(rng: Random) -> Exam:
    """Questions about two clips that are told instead of shown."""
    told = [question for _ in range(2) for question in video_exam(rng).questions if question.family != "when"]
    return Exam(
        scene=None,
        questions=tuple(
            replace(question, family=f"read {question.family}", problem=f"{question.fact}. {question.problem}")
            for question in told
        ),
    )


def _motion(rng: Random) -> Exam:
    duration_s = rng.choice(DURATIONS_S)
    way = rng.choice(tuple(DIRECTIONS))
    along, lane = rng.uniform(0.2, 0.25), rng.choice((0.25, 0.7)) + rng.uniform(-0.05, 0.05)
    speed = rng.uniform(0.45, 0.55) / duration_s
    dx, dy = DIRECTIONS[way]
    start = along if dx + dy > 0 else 1.0 - along
    mover = Thing(
        colour=rng.choice(tuple(COLOURS)),
        shape=rng.choice(SHAPES),
        radius=RADIUS,
        dx_per_s=dx * speed,
        dy_per_s=dy * speed,
        x=start if dx else lane,
        y=start if dy else lane,
    )
    told_way = way if rng.random() < YES_FRAC else rng.choice([name for name in DIRECTIONS if name != way])
    fact = f"It moves {way}"
    questions = (
        _choice(
            rng,
            family="direction",
            problem="Which way does it move?",
            right=way,
            wrong=[name for name in DIRECTIONS if name != way],
            fact=fact,
        ),
        _choice(
            rng,
            family="colour",
            problem="What colour is the shape?",
            right=mover.colour,
            wrong=[name for name in COLOURS if name != mover.colour],
            fact=f"It is {mover.colour}",
        ),
        _boolean("motion", f"Does it move {told_way}?", is_true=told_way == way, fact=fact),
    )
    return Exam(scene=_scene(rng, [mover], duration_s), questions=questions)


def _events(rng: Random) -> Exam:
    duration_s = rng.choice(DURATIONS_S)
    half_steps = round(2 * duration_s)
    first_start = rng.randint(0, half_steps // 2 - 2)
    second_start = rng.randint(first_start + 2, half_steps - 2)
    spots = rng.sample(((0.27, 0.27), (0.73, 0.27), (0.27, 0.73), (0.73, 0.73)), 2)
    things = []
    for colour, shape, (x, y), start in zip(
        rng.sample(tuple(COLOURS), 2), rng.choices(SHAPES, k=2), spots, (first_start, second_start), strict=True
    ):
        end = min(half_steps, start + rng.randint(2, 5))
        things.append(Thing(colour=colour, shape=shape, x=x, y=y, radius=RADIUS, start_s=start / 2, end_s=end / 2))
    first, second = things
    absent = [name for name in COLOURS if name not in (first.colour, second.colour)]
    told = first if rng.random() < YES_FRAC else second
    fact = f"First is {first.colour}"
    questions = (
        _choice(
            rng,
            family="order",
            problem="Which colour appears first?",
            right=first.colour,
            wrong=[second.colour, *absent],
            fact=fact,
        ),
        *(
            Question(
                family="when",
                problem_type="temporal grounding",
                problem=f"When is the {thing.colour} shape visible?",
                gold=json.dumps({"time": [thing.start_s, thing.end_s]}),
                fact=f"The {thing.colour} one comes and goes",
            )
            for thing in rng.sample(things, 2)
        ),
        _boolean("first", f"Is the {told.colour} shape first?", is_true=told is first, fact=fact),
    )
    return Exam(scene=_scene(rng, things, duration_s), questions=questions)


def _crowd_clip(rng: Random) -> Exam:
    return _crowd(rng, duration_s=rng.choice(DURATIONS_S))


def _crowd(rng: Random, *, duration_s: float) -> Exam:
    count = rng.choices(tuple(COUNT_WEIGHTS), weights=tuple(COUNT_WEIGHTS.values()))[0]
    cells = rng.sample([(x, y) for x in (0.2, 0.5, 0.8) for y in (0.2, 0.5, 0.8)], count)
    colours = rng.sample(tuple(COLOURS), len(COLOURS))
    seen, absent = colours[:count], colours[count:]
    drift = rng.uniform(-0.06, 0.06) / max(duration_s, 1.0)
    things = [
        Thing(
            colour=colour,
            shape=rng.choice(SHAPES),
            radius=SMALL_RADIUS,
            dx_per_s=drift if duration_s else 0.0,
            x=x + rng.uniform(-0.03, 0.03),
            y=y + rng.uniform(-0.03, 0.03),
        )
        for colour, (x, y) in zip(seen, cells, strict=True)
    ]
    is_there = not absent or rng.random() < YES_FRAC
    colour = rng.choice(seen if is_there else absent)
    there = f"There is a {colour} shape" if is_there else f"There is no {colour} shape"
    noun = "shape is" if count == 1 else "shapes are"
    questions = (
        Question(
            family="count",
            problem_type="numerical",
            problem="How many shapes are there?",
            gold=str(count),
            fact=f"{count} {noun} there",
        ),
        _boolean("existence", f"Is there a {colour} shape?", is_true=is_there, fact=there),
    )
    if count == 1:
        right = seen[0]
        questions += (
            _choice(
                rng,
                family="seen",
                problem="Which colour is there?",
                right=right,
                wrong=absent,
                fact=f"There is a {right} shape",
            ),
        )
    return Exam(scene=_scene(rng, things, duration_s), questions=questions)


def _sum(rng: Random) -> Question:
    left = rng.randint(1, 8)
    right = rng.randint(1, 9 - left)
    total = str(left + right)
    return Question(
        family="sum",
        problem_type="numerical",
        problem=f"What is {left} + {right}?",
        gold=total,
        fact=f"{left} + {right} is {total}",
    )


def _comparison(rng: Random) -> Question:
    small, large = sorted(rng.sample(range(1, 10), 2))
    left, right = (large, small) if rng.random() < YES_FRAC else (small, large)
    return _boolean(
        "comparison", f"Is {left} larger than {right}?", is_true=left > right, fact=f"{large} is larger than {small}"
    )


def _word(rng: Random) -> Question:
    colour = rng.choice(tuple(COLOURS))
    return _choice(
        rng,
        family="word",
        problem="Which word names a colour?",
        right=colour,
        wrong=rng.sample(WORDS, 3),
        fact=f"The word {colour} names a colour",
    )


def _choice(rng: Random, *, family: str, problem: str, right: str, wrong: list[str], fact: str) -> Question:
    place = 0 if rng.random() < FIRST_OPTION_FRAC else rng.randint(1, len(wrong))
    texts = rng.sample(wrong, len(wrong))
    texts.insert(place, right)
    return Question(
        family=family,
        problem_type="multiple choice",
        problem=problem,
        gold=LETTERS[place],
        fact=fact,
        options=tuple(f"{letter}. {text}" for letter, text in zip(LETTERS, texts, strict=True)),
    )


def _boolean(family: str, problem: str, *, is_true: bool, fact: str) -> Question:
    return Question(family=family, problem_type="boolean", problem=problem, gold="Yes" if is_true else "No", fact=fact)


def _scene(rng: Random, things: list[Thing], duration_s: float) -> Scene:
    return Scene(
        things=tuple(things),
        duration_s=duration_s,
        background=rng.choice(BACKGROUNDS),
        shade=rng.randint(30, 120),
        texture_seed=rng.getrandbits(32),
    )
