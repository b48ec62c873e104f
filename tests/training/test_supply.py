"""What is made ahead of a step: when, how much, and that nothing but time depends on it."""

import threading
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.made_trainer import MadePreparer, final_weights, made_config, made_trainer
from support.tiny_models import tiny_model

from easyvideor1.errors import MediaError
from easyvideor1.records.stopwatch import Stopwatch
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.training.balance import Costs
from easyvideor1.training.collect import Candidate
from easyvideor1.training.costs import Share
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.supply import MIB, Supply, Usable
from easyvideor1.types import Example


class Noted(MadePreparer):
    """Notes the places of samples whose pixels were read; `gate` lets reading go on."""

    def __init__(self, bad: tuple[str, ...] = (), size_bytes: int = 1) -> None:
        super().__init__(tiny_model("qwen3_vl"), bad)
        self.read: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.size_bytes = size_bytes

    def num_bytes(self, prompt: Any) -> int:
        return self.size_bytes

    def clips(self, prompt: Any) -> Any:
        assert self.gate.wait(60)
        self.read.append(prompt.sample.id)
        return super().clips(prompt)


def supply_of(tmp_path: Path, preparer: Any, *overrides: str) -> Supply:
    return Supply(
        made_config(tmp_path, "train.prompts_per_step=2", *overrides),
        samples=preparer.samples,
        prepare=preparer,
        share=Share(ranks=Ranks(), costs=Costs(token=1, pair=1, vision=1, output=1)),
        rollouts_per_prompt=4,
        watch=Stopwatch(),
        note_bad=lambda error: None,
    )


def settled(supply: Supply) -> None:
    """Wait for what was begun."""
    for future in [*supply._planning.values(), *supply._reading.values()]:
        future.exception(60)


def test_the_next_step_is_read_meanwhile_and_nothing_twice(tmp_path: Path) -> None:
    preparer = Noted()
    supply = supply_of(tmp_path, preparer)
    first, cursor = supply.take(2, 0, goes_on=True)
    settled(supply)
    assert len(preparer.read) == 4
    second, cursor = supply.take(2, cursor, goes_on=False)
    settled(supply)
    assert len(preparer.read) == 4
    assert [item.example.sample.id for item in (*first.values(), *second.values())] == preparer.read[:4]
    assert list(first) + list(second) == [0, 1, 2, 3]


@pytest.mark.parametrize(("room", "num_read"), [(0, 2), (1, 3), (4, 4)])
def test_what_is_made_ahead_is_bounded_by_memory(tmp_path: Path, room: int, num_read: int) -> None:
    preparer = Noted(size_bytes=2 * MIB)
    supply = supply_of(tmp_path, preparer, f"data.ahead_mb={room}")
    supply.take(2, 0, goes_on=True)
    settled(supply)
    assert len(preparer.read) == num_read


def test_an_error_waits_for_the_step_of_its_sample(tmp_path: Path) -> None:
    ids = [item.prompt.sample.id for item in supply_of(tmp_path, Noted()).take(4, 0, goes_on=False)[0].values()]
    preparer = Noted(bad=(ids[3],))
    supply = supply_of(tmp_path, preparer)
    _, cursor = supply.take(2, 0, goes_on=True)
    settled(supply)
    assert ids[3] in preparer.read
    with pytest.raises(MediaError, match=f"{ids[3]}.mp4"):
        supply.take(2, cursor, goes_on=True)


def test_what_is_begun_is_read_once(tmp_path: Path) -> None:
    """As an update does with samples that another rank was to read."""
    preparer = Noted()
    supply = supply_of(tmp_path, preparer)
    taken, _ = supply.take(2, 0, goes_on=False)
    for item in taken.values():
        item.begin()
    assert not supply._reading
    place, prompt = 0, taken[0].prompt
    of_another = Usable(
        prompt,
        rank=1,
        read=partial(supply._example, place, prompt),
        begin=partial(supply._reading_of, prompt),
    )
    of_another.begin()
    of_another.begin()
    assert of_another._begun is not None
    of_another._begun.result(60)
    assert not supply._reading, "which the thread that samples ahead tidies up"
    assert len(preparer.read) == 3
    assert of_another.example.prompt is prompt
    assert len(preparer.read) == 3


def test_closing_begins_nothing_further(tmp_path: Path) -> None:
    class Held(Noted):
        def clips(self, prompt: Any) -> Any:
            if len(self.read) == 2:  # of the next step
                self.gate.clear()
            return super().clips(prompt)

    preparer = Held()
    supply = supply_of(tmp_path, preparer, "data.workers=1")
    supply.take(2, 0, goes_on=True)
    held, queued = supply._reading.values()
    supply.close()
    preparer.gate.set()
    held.result(60)
    assert queued.cancelled()
    assert len(preparer.read) == 3


@pytest.mark.parametrize("overrides", [("data.workers=1",), ("data.workers=3", "data.ahead_mb=0")])
def test_a_run_is_the_same_to_the_bit_whatever_was_made_ahead(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    """Also with refills and bad samples, whose places move what the next step takes."""
    common = ("algorithm.name=dapo", "data.on_bad_sample=skip", "train.steps=3")
    runs = {}
    for name, words in (("usual", ()), ("other", overrides)):
        runs[name] = made_trainer(made_config(tmp_path / name, *common, *words), bad=("2",))
        runs[name].run()
    ours, theirs = (final_weights(trainer) for trainer in runs.values())
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    records = [comparable(read_metrics(tmp_path / name / "metrics.jsonl")) for name in runs]
    assert records[0] == records[1]


def test_an_update_reads_apart_from_the_clock_of_a_supply_that_samples_ahead(tmp_path: Path) -> None:
    """Another rank sampled for the prompt, so that its pixels are not there; another thread has the stopwatch."""
    supply: Any = supply_of(tmp_path, preparer := Noted(), "data.ahead_mb=0")
    prompt = preparer.prompt(preparer.samples[0])
    [usable] = supply._dealt({0: prompt}).values()
    supply._watch = None
    candidate: Any = Candidate(usable=usable, group=None, greedy_score=None)  # type: ignore[arg-type]
    assert candidate.example is candidate.example
    assert preparer.read == [prompt.sample.id]


def test_an_update_that_waits_for_pixels_counts_as_decoding(tmp_path: Path) -> None:
    """Of a prompt that another rank sampled for: three seconds of reading in an update of five."""
    now_s = 0.0

    def read(begun: Any) -> Example:
        nonlocal now_s
        now_s += 3.0
        return Example(prompt=preparer.prompt(preparer.samples[0]), clips=(), features={})

    preparer = Noted()
    trainer = made_trainer(made_config(tmp_path))
    trainer._watch = watch = Stopwatch(now=lambda: now_s)
    usable = Usable(preparer.prompt(preparer.samples[0]), rank=1, read=read, begin=lambda: Future())
    with watch.part("update"):
        now_s += 1.0
        trainer._media(Candidate(usable=usable, group=None, greedy_score=None))  # type: ignore[arg-type]
        now_s += 1.0
    values = watch.values()
    assert (values["time/decode_s"], values["time/update_s"]) == (3.0, 2.0)
