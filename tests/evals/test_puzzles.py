"""Plans are played on their boards by the rules of the authors' simulator."""

import pytest

from easyvideor1.evals.puzzles import moves_in, reaches_target


def board(states, target, **more):
    return {"visible_time": "end", "question": f"(...) arrangement: `{target}`?", "states": states} | more


SLIDE = board(
    [[[1, 2, 3], [4, 5, 6], [7, 0, 8]]],
    "(a,1): 7, (a,2): 8, (a,3): 0, (b,1): 4, (b,2): 5, (b,3): 6, (c,1): 1, (c,2): 2, (c,3): 3",
)
AFTER = board(
    [[[0]], [[8, 2, 3], [5, 0, 6], [1, 7, 4]]],
    "(a,1): 1, (a,2): 4, (a,3): 0, (b,1): 5, (b,2): 7, (b,3): 6, (c,1): 8, (c,2): 2, (c,3): 3",
    visible_time="start",
)
FLIP = board(
    [[[0, 0, 0], [0, 1, 0], [0, 0, 0]]],
    "(a,0): black, (a,1): black, (a,2): black, (b,0): white, (b,1): white, (b,2): white, "
    "(c,0): white, (c,1): white, (c,2): white",
    coords=[[1, 1], [2, 1]],
)
CARDS = {
    "visible_time": "start",
    "question": "to ensure that `pile0` contains exactly: `4 of Clubs, Ace of Spades, King of Hearts`, what?",
    "states": {"pile0": [["2 of Hearts"], ["2 of Hearts", "4 of Clubs", "Ace of Spades"]]},
}
CHIPS = {
    "visible_time": "end",
    "question": "so that `cup0` contains exactly `20: 1, 50: 2`?",
    "states": {"cup0": [[20, 50, 5], [1]]},
}
CUPS = board([[["x", "-"], ["-", "-"]]], "(a,1): -, (b,2): x")
FILES = {
    "visible_time": "end",
    "question": "so that it holds `a.txt, c.txt`?",
    "states": {"root": [["a.txt", "b.txt"]]},
}
KING = "add King of Hearts to pile0"


@pytest.mark.parametrize(
    ("demo", "row", "moves", "expected"),
    [
        ("hrd", SLIDE, ["left"], True), ("hrd", SLIDE, ["up"], False), ("hrd", SLIDE, ["LEFT", "no move"], True),
        ("hrd", AFTER, ["down", "left"], True), ("hrd", AFTER, ["up", "left"], False),
        ("hrd", AFTER, ["down", "down", "left"], True), ("hrd", AFTER, ["left", "down"], False),
        ("hrd", AFTER, ["down", "right"], False),
        ("grid", FLIP, ["up"], True), ("grid", FLIP, ["left"], False), ("grid", FLIP, ["down"], False),
        ("grid", FLIP, ["up", "up"], True), ("grid", FLIP, ["up", "jump"], False),
        ("card", CARDS, ["remove 2 of Hearts from pile0", KING], True),
        ("card", CARDS, ["remove 4 of Clubs from pile0", KING], False), ("card", CARDS, [KING], False),
        ("card", CARDS, ["add King of Hearts to pile7"], False),
        ("chip", CHIPS, ["add 50 to cup0", "remove 5 from cup0"], True), ("chip", CHIPS, ["remove 7 from cup0"], False),
        ("cup", CUPS, ["swap (a,1) and (b,2)"], True), ("cup", CUPS, ["swap (a,1) and (a,2)"], False),
        ("cup", CUPS, ["swap (a,1) and (z,9)"], False),
        ("file_sys", FILES, ["rm -rf b.txt", "touch c.txt"], True), ("file_sys", FILES, ["touch c.txt"], False),
        ("file_sys", FILES, ["rm -rf b.txt", "touch b.txt"], False), ("file_sys", FILES, ["mv b.txt c.txt"], False),
        ("unknown", FILES, ["touch c.txt"], False),
    ],
)  # fmt: skip
def test_a_plan_is_right_if_its_moves_reach_the_target(demo, row, moves, expected):
    assert reaches_target(demo, row, moves) is expected


def test_playing_changes_no_board():
    before = repr(SLIDE)
    reaches_target("hrd", SLIDE, ["left", "up"])
    assert repr(SLIDE) == before


@pytest.mark.parametrize(
    ("demo", "answer", "moves"),
    [
        ("grid", "up, left", ["up", "left"]), ("hrd", "1. Up\n2. `Left`", ["up", "left"]),
        ("grid", "**up** -> jump", ["up", "jump"]),
        ("card", "1. remove 2 of Hearts from pile0\n2. add King of Hearts to pile0",
         ["remove 2 of Hearts from pile0", "add King of Hearts to pile0"]),
        ("file_sys", "`rm -rf b.txt`; touch c.txt", ["rm -rf b.txt", "touch c.txt"]),
        ("cup", "swap (a,1) with (b,2), then (b, 2) and (c,1)", ["(a,1) with (b,2)", "(b, 2) and (c,1)"]),
        ("unknown", "up", []),
    ],
)  # fmt: skip
def test_moves_are_read_from_a_final_answer(demo, answer, moves):
    assert moves_in(answer, demo) == moves
