"""The terminal display: what it shows, and that it never stops a run."""

import io
import os
import random

import pytest
from rich.console import Console
from support.made_run import made_measurements

from easyvideor1.report.terminal import LastingConsole, LineProgress, LiveProgress, Pace, open_progress, step_line

VALUES = {
    "reward/mean": 0.625,
    "reward/accuracy_frac": 0.6,
    "accuracy/multiple choice": 0.75,
    "accuracy/numerical": 0.5,
    "rollout/tokens_per_s": 1234.4,
    "time/decode_s": 0.1,
    "time/rollout_s": 0.6,
    "time/update_s": 0.3,
}


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


class BrokenStream(io.StringIO):
    is_open = True

    def write(self, text):
        if not self.is_open:
            raise OSError("the terminal is gone")
        return super().write(text)


def terminal(stream=None):
    return Console(file=stream or io.StringIO(), force_terminal=True, width=100, color_system="truecolor")


def test_the_end_is_guessed_from_the_last_steps():
    clock = Clock()
    pace = Pace(total_steps=10, start_step=4, now=clock)
    assert pace.remaining_s is None
    for step, seconds in ((5, 2.0), (6, 6.0)):
        clock.seconds += seconds
        pace.finish(step)
    clock.seconds += 100.0
    pace.finish(6)  # its validation: no step of its own
    assert pace.remaining_s == 4 * 4.0
    assert pace.elapsed_s == 108.0


def test_what_goes_on_inside_a_step_is_shown(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("easyvideor1.report.terminal.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = open_progress(title="demo", total_steps=2, console=Console(file=stream, width=40))
    for second, done in ((1.0, 1), (31.0, 2), (32.0, 3), (62.0, 4)):
        now[0] = second
        lines.inside("samples prepared", done, 8)
    assert stream.getvalue().splitlines() == ["step 1: 2 of 8 samples prepared", "step 1: 4 of 8 samples prepared"]
    stream = io.StringIO()
    live = open_progress(title="demo", total_steps=2, console=terminal(stream))
    with live:
        live.phase("rollout")
        now[0] += 1
        live.inside("sequences done", 5, 32)
        assert "5 of 32 sequences done" in stream.getvalue()


def test_a_pipe_gets_one_plain_line_per_step():
    stream = io.StringIO()
    progress = open_progress(title="demo", total_steps=2, console=Console(file=stream, width=40))
    assert isinstance(progress, LineProgress)
    with progress:
        progress.phase("rollout")
        progress.step(1, VALUES, note="decode [bold]clip 7[/bold]: 0.10 s")
        progress.step(2, {"validation/greedy_accuracy_frac": 0.5})
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[1].startswith(
        "step 1/2  reward 0.625  accuracy 0.600  [multiple choice 0.75, numerical 0.50]  1234 tokens/s sampled  "
        "1.00 s (rollout 60%, update 30%, decode 10%)  ETA "
    )
    assert lines[1].endswith("slowest: decode [bold]clip 7[/bold]: 0.10 s")
    assert lines[2].startswith("step 2/2  validation greedy 0.500  ETA ")


def test_a_line_leaves_out_what_was_not_measured():
    assert step_line(Pace(total_steps=3, start_step=0), {"reward/mean": 0.5}) == "step 0/3  reward 0.500  ETA -"


def test_a_terminal_gets_a_panel_with_all_of_it():
    stream = io.StringIO()
    progress = open_progress(title="demo run", total_steps=20, console=terminal(stream))
    assert isinstance(progress, LiveProgress)
    with progress:
        progress.phase("rollout")
        progress.step(3, VALUES, note="rollout clip 9: 0.60 s")
    shown = Console(width=100, record=True, file=io.StringIO())
    shown.print(progress._panel())
    text = shown.export_text()
    words = ("demo run", "step 3/20", "0.625", "multiple choice 0.75", "rollout 60%", "1,234 tokens/s sampled", "ETA")
    for word in (*words, "slowest", "clip 9", "done"):
        assert word in text, text
    assert "0.625" in stream.getvalue()


def test_numbers_that_are_not_finite_are_shown_and_break_nothing():
    with open_progress(title="x", total_steps=2, console=terminal()) as progress:
        assert isinstance(progress, LiveProgress)
        progress.step(1, {"reward/mean": float("nan"), "reward/accuracy_frac": 0.5})
        progress.step(2, {"reward/mean": 0.25})
        assert not progress._guard.is_broken
        assert progress._history == {"reward/mean": [0.25], "reward/accuracy_frac": [0.5]}


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_display_that_fails_later_is_logged_once_and_the_run_goes_on(is_terminal, caplog):
    stream = BrokenStream()
    console = terminal(stream) if is_terminal else Console(file=stream)
    with open_progress(title="x", total_steps=3, console=console) as progress:
        stream.is_open = False
        for step in (1, 2, 3):
            progress.phase("update")
            progress.step(step, made_measurements(random.Random(0), skill=0.5))
    assert [record.message.split(" and ")[0] for record in caplog.records] == ["the progress display failed"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_display_that_cannot_start_stops_the_run(is_terminal):
    stream = BrokenStream()
    stream.is_open = False
    console = terminal(stream) if is_terminal else Console(file=stream)
    with pytest.raises(OSError, match="terminal is gone"), open_progress(title="x", total_steps=3, console=console):
        pass


def test_a_run_outlasts_whoever_reads_its_output(caplog):
    read, write = os.pipe()
    with open(write, "w") as stream:
        with open_progress(title="x", total_steps=3, console=LastingConsole(file=stream)) as progress:
            os.close(read)
            for step in (1, 2, 3):
                progress.step(step, made_measurements(random.Random(0), skill=0.5))
        print("report: x", file=stream, flush=True)  # as the command does at the end
    assert [record.message for record in caplog.records] == ["nobody reads the output any more; the work goes on"]
