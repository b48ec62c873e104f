"""VideoReasonBench: plans are played on the board and must reach the wanted state; other answers a judge compares.

The rules of the boards are those of the authors' simulator: what a move that cannot be made does differs from one to
the next.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from easyvideor1.evals.annotations import Row, read_value, required
from easyvideor1.evals.benchmark import Erratum, Item, Loaded
from easyvideor1.evals.loading import Place, Prepared, finished, is_prepared, make_item
from easyvideor1.evals.options import Asked

DEMOS = ("card", "chip", "cup", "file_sys", "grid", "hrd")
_LEVELS = {
    "order_operation": "recall", "counting_operation": "recall",
    "order_state": "infer", "counting_state": "infer", "comparison_state": "infer",
    "prediction_state": "predict", "prediction_operation": "predict",
}  # fmt: skip
Board = list[list[int]]
_BLANK_STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, 1), "right": (0, -1)}
"""Sliding puzzle: (rows, columns) in the list of rows by which the blank moves; sideways the tile is named."""
_STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def load_videoreasonbench(paths: Sequence[Path]) -> Loaded:
    """The authors' files, objects of questions by key, named after their demo; or prepared rows."""
    errata: list[Erratum] = []
    items: list[Item] = []
    for path in paths:
        value = read_value(path)
        pairs = list(value.items()) if isinstance(value, dict) else [(str(n), row) for n, row in enumerate(value)]
        for number, (key, row) in enumerate(pairs):
            place = Place(path=path, number=number, where=f"{path}[{key}]", errata=errata)
            with place.read():
                items += PREPARED(row, place) if is_prepared(row) else [_item(key, row, place)]
    return finished(items, errata)


def _item(key: str, row: Row, place: Place) -> Item:
    question = required(row, "question", where=place.where)
    demo = next((demo for demo in DEMOS if place.path.stem.endswith(demo)), place.path.stem)
    dim = str(row.get("dim"))
    answer = row.get("answer")
    return make_item(
        "open-ended",
        Asked(question, question, {}, ()),
        "" if answer is None else str(answer),
        place,
        id=f"{demo}/{key}",
        video=required(row, "video", where=place.where),
        form="plan" if answer is None else "open",
        judge="" if answer is None else "contains all of the answer",
        labels={"dim": dim, "level": _LEVELS.get(dim), "demo": demo},
        fields={"demo": demo, "row": dict(row)},
    )


PREPARED = Prepared(judge="contains all of the answer")
"""Prepared plan rows have lost their boards, and "None" is their gold: only a judge could say anything about them."""


def reaches_target(demo: str, row: Row, moves: Sequence[str]) -> bool:
    """Play moves from the state that the question starts at; True where the target of the question is reached.

    Args:
        demo: card, chip, cup, file_sys, grid or hrd.
        row: a question whose `answer` is null.
        moves: as an answer writes them, one each.
    """
    play = _GAMES.get(demo)
    return play is not None and play(row, moves)


def moves_in(answer: str, demo: str) -> list[str]:
    """The moves that a final answer lists, by the words of its demo; what is no move of a board stays, to fail there.

    >>> moves_in("1. up, then left", "grid"), moves_in("up, jump", "grid")
    (['up', 'left'], ['up', 'jump'])
    """
    text = answer.replace("`", "").replace("*", "")
    if demo in ("hrd", "grid"):
        moves = []
        for part in re.split(r"[,;\n]|->|\u2192|\b(?:then|and)\b", text):
            steps = re.findall(r"\b(?:up|down|left|right)\b", part, re.IGNORECASE)
            word = re.sub(r"^\W*\d*\W*|\W+$", "", part)
            moves += [step.lower() for step in steps] or ([word] if word else [])
        return moves
    pattern = _MOVE_WORDS.get(demo)
    return [" ".join(match[0].split()) for match in pattern.finditer(text)] if pattern else []


_MOVE_WORDS = {
    "card": re.compile(r"\b(?:add|remove) .+? (?:to|from) \w+", re.IGNORECASE),
    "chip": re.compile(r"\b(?:add|remove) .+? (?:to|from) \w+", re.IGNORECASE),
    "cup": re.compile(r"\([a-z], ?\d+\)[^()]*\([a-z], ?\d+\)", re.IGNORECASE),
    "file_sys": re.compile(r"\b(?:touch|rm -rf)\b[^\n;]*"),
}


def _start(row: Row) -> Any:
    """The state that a plan starts from: the first one where the end was visible, else the last one."""
    place = 0 if row.get("visible_time") == "end" else -1
    states = row["states"]
    if isinstance(states, Mapping):
        return {name: list(history[place]) for name, history in states.items()}
    return [list(line) for line in states[place]]


def _quoted(row: Row) -> list[str]:
    return re.findall(r"`([^`]*)`", str(row.get("question")))


def _cells(row: Row) -> dict[tuple[str, str], str]:
    """(letter, digit) -> content of the target that the question writes cell by cell."""
    target = next((text for text in reversed(_quoted(row)) if "):" in text), "")
    return {(match[1], match[2]): match[3].strip() for match in re.finditer(r"\(([a-z]), ?(\d+)\): ?([^,(]+)", target)}


def _slide(row: Row, moves: Sequence[str]) -> bool:
    """hrd: a move names where the blank goes in the list of rows; an impossible one is skipped."""
    board: Board = _start(row)
    r, c = next((r, line.index(0)) for r, line in enumerate(board) if 0 in line)
    for move in moves:
        step = _BLANK_STEPS.get(move.strip().lower())
        if step is None:
            continue
        new_r, new_c = r + step[0], c + step[1]
        if 0 <= new_r < len(board) and 0 <= new_c < len(board[new_r]):
            board[r][c], board[new_r][new_c] = board[new_r][new_c], 0
            r, c = new_r, new_c
    cells = _cells(row)
    shown = {  # letter a is the last list row, digit 1 the first column
        (chr(ord("a") + len(board) - 1 - r), str(c + 1)): str(value)
        for r, line in enumerate(board)
        for c, value in enumerate(line)
    }
    return bool(cells) and shown == cells


def _flip(row: Row, moves: Sequence[str]) -> bool:
    """grid: moving flips the cell it reaches and its neighbours; off-grid moves are skipped, other words fail."""
    board: Board = _start(row)
    x, y = row["coords"][0 if row.get("visible_time") == "end" else -1]
    for move in moves:
        step = _STEPS.get(move.strip().lower())
        if step is None:
            return False
        new_x, new_y = x + step[1], y + step[0]
        if not (0 <= new_y < len(board) and 0 <= new_x < len(board[new_y])):
            continue
        x, y = new_x, new_y
        for dx, dy in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)):
            if 0 <= y + dy < len(board) and 0 <= x + dx < len(board[y + dy]):
                board[y + dy][x + dx] ^= 1
    cells = _cells(row)
    names = {0: "white", 1: "black"}
    shown = {(chr(ord("a") + r), str(c)): names[value] for r, line in enumerate(board) for c, value in enumerate(line)}
    return bool(cells) and shown == cells


_PILE_MOVE = re.compile(r"(add|remove) (.+?) (?:to|from) (\w+)\.?", re.IGNORECASE)


def _target_list(row: Row) -> tuple[str, list[str]]:
    """Name of the pile or cup, and what it must hold."""
    quoted = _quoted(row)
    names = [text for text in quoted if re.fullmatch(r"(?:pile|cup)\d", text)]
    contents = [text for text in quoted if text not in names]
    target = contents[-1] if contents else ""
    return (names[-1] if names else ""), [part.strip() for part in target.split(",") if part.strip()]


def _deal(row: Row, moves: Sequence[str]) -> bool:
    """card: a pile takes cards at its end and gives them from its front only; lists must be equal."""
    piles: dict[str, list[str]] = _start(row)
    for move in moves:
        match = _PILE_MOVE.fullmatch(move.strip())
        if match is None or match[3] not in ("pile0", "pile1"):
            return False
        pile = piles.setdefault(match[3], [])
        if match[1].lower() == "add":
            pile.append(match[2])
        elif pile and pile[0] == match[2]:
            pile.pop(0)
        else:
            return False
    name, target = _target_list(row)
    return bool(name) and piles.get(name) == target


def _chips(row: Row, moves: Sequence[str]) -> bool:
    """chip: cups hold values in no order; only what is there can be removed."""
    cups = {name: Counter(str(value) for value in values) for name, values in _start(row).items()}
    for move in moves:
        match = _PILE_MOVE.fullmatch(move.strip())
        if match is None or match[3] not in cups:
            return False
        value, cup = match[2].strip(), cups[match[3]]
        if match[1].lower() == "add":
            cup[value] += 1
        elif cup[value] > 0:
            cup[value] -= 1
        else:
            return False
    name, target = _target_list(row)
    wanted: Counter[str] = Counter()
    for part in target:
        value, colon, count = part.partition(":")
        wanted[value.strip()] += int(count) if colon and count.strip().isdigit() else 1
    return bool(name) and +cups.get(name, Counter()) == wanted


def _swap(row: Row, moves: Sequence[str]) -> bool:
    """cup: a move names two cells, whose contents change places; a is the first list row, 1 the first column."""
    board: list[list[Any]] = _start(row)
    for move in moves:
        cells = re.findall(r"\(([a-z]), ?(\d+)\)", move.lower())
        places = [(ord(letter) - ord("a"), int(digit) - 1) for letter, digit in cells]
        if len(places) != 2 or not all(0 <= r < len(board) and 0 <= c < len(board[r]) for r, c in places):
            return False
        (r1, c1), (r2, c2) = places
        board[r1][c1], board[r2][c2] = board[r2][c2], board[r1][c1]
    shown = {
        (chr(ord("a") + r), str(c + 1)): str(value) for r, line in enumerate(board) for c, value in enumerate(line)
    }
    cells = _cells(row)
    return bool(cells) and all(shown.get(cell) == value for cell, value in cells.items())


def _files(row: Row, moves: Sequence[str]) -> bool:
    """file_sys: at most two commands, `touch` and `rm -rf`, on different files; the sets of files must be equal."""
    state = _start(row)
    folders = {name: set(map(str, files)) for name, files in state.items()} if isinstance(state, dict) else {}
    files = set().union(*folders.values()) if folders else {str(name) for line in state for name in line}
    named: set[str] = set()
    if len(moves) > 2:
        return False
    for move in moves:
        match = re.fullmatch(r"(touch|rm -rf)\s+(.+)", move.strip())
        if match is None:
            return False
        words = {word.rsplit("/", 1)[-1] for word in match[2].split()}
        if words & named:
            return False
        named |= words
        files = files | words if match[1] == "touch" else files - words
    wanted = {part.strip() for text in _quoted(row)[-1:] for part in text.split(",") if part.strip()}
    return bool(wanted) and files == wanted


_GAMES: dict[str, Callable[[Row, Sequence[str]], bool]] = {
    "hrd": _slide,
    "grid": _flip,
    "card": _deal,
    "chip": _chips,
    "cup": _swap,
    "file_sys": _files,
}
