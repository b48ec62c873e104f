"""The inline charts."""

import re
import xml.etree.ElementTree as ET

import pytest
from support.values import present

from easyvideor1.report.intervals import accuracy
from easyvideor1.report.plots import (
    MAX_POINTS,
    before_after,
    line_chart,
    nice_ticks,
    running_mean,
    stacked_chart,
    tick_labels,
)


def test_a_line_runs_from_the_lower_left_to_the_upper_right():
    svg = ET.fromstring(line_chart({"a": [(0, 0.0), (5, 0.5), (10, 1.0)]}, title="t", unit_interval=True))
    line = next(item for item in svg.iter("polyline") if item.get("class") == "line")
    (x0, y0), (x1, y1), (x2, y2) = ([float(n) for n in pair.split(",")] for pair in present(line.get("points")).split())
    assert (x0, x2) == (46, 370)
    assert (y0, y2) == (166, 10)
    assert (x1, y1) == ((x0 + x2) / 2, (y0 + y2) / 2)


@pytest.mark.parametrize(
    "points", [[(0, 0.5)], [(0, 0.0), (1, 0.0)], [(3, -2.5), (4, -2.5)], [(0, 1e-7), (9, 3e-7)], [(1, 1e9), (2, -1e9)]]
)
def test_any_numbers_make_a_picture_within_its_frame(points):
    svg = ET.fromstring(line_chart({"a": points}, title="t"))
    for line in svg.iter("polyline"):
        for pair in present(line.get("points")).split():
            x, y = map(float, pair.split(","))
            assert 46 <= x <= 370
            assert 10 <= y <= 166


def test_labels_and_titles_are_escaped():
    chart = line_chart({"</title><script>": [(0, 1.0), (1, 2.0)]}, title='"><script>')
    assert "<script>" not in chart
    ET.fromstring(chart)


def test_a_long_run_is_drawn_with_a_bounded_number_of_points():
    chart = line_chart({"a": [(step, step / 5000) for step in range(5000)]}, title="t")
    assert len(re.findall("<title>", chart)) == MAX_POINTS
    assert len(chart) < 40_000


def number(item: ET.Element, name: str) -> float:
    return float(present(item.get(name)))


def test_stacked_parts_add_up_to_the_whole():
    chart = ET.fromstring(stacked_chart({"decode": [(1, 1.0), (2, 0.0)], "update": [(1, 3.0), (2, 2.0)]}, title="t"))
    lower, upper = (bar for bar in next(chart.iter("g")).iter("rect"))
    assert number(upper, "y") + number(upper, "height") == pytest.approx(number(lower, "y"), abs=0.1)
    bars = [[number(bar, "height") for bar in group.iter("rect")] for group in chart.iter("g")]
    assert [len(bar) for bar in bars] == [2, 1]
    assert bars[0][1] == pytest.approx(3 * bars[0][0], rel=0.01)  # heights are rounded to 0.01
    assert sum(bars[0]) == pytest.approx(2 * bars[1][0], rel=0.01)


def test_before_and_after_say_what_they_show():
    chart = before_after(accuracy([1.0, 0.0]), accuracy([1.0, 1.0]))
    assert 'aria-label="from 50% to 100%"' in chart


def test_running_mean_keeps_a_straight_line_and_short_series():
    line = [float(value) for value in range(100)]
    assert running_mean(line) == pytest.approx(line)
    assert running_mean([3.0, 1.0, 2.0]) == [3.0, 1.0, 2.0]
    assert running_mean([0.0, 1.0] * 30)[30] == pytest.approx(4 / 7)  # three on each side: 1 0 1 0 1 0 1
    # The last seven 1 0 1 0 1 0 1 have the mean 4/7 and no slope.
    assert running_mean([0.0, 1.0] * 30)[-1] == pytest.approx(4 / 7)
    assert running_mean([0.0] * 59 + [1.0])[-1] == pytest.approx(1 / 7 + 3 * 3 / 28)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0), (-3, 7), (0.41, 0.43), (0, 12345), (5, 5), (-1e-9, 1e-9)])
def test_ticks_cover_the_values_and_can_be_told_apart(low, high):
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 7
    assert len(set(tick_labels(ticks))) == len(ticks)
