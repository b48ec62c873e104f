"""The options of a benchmark's question: letter -> text, from lists, objects and from the lines of the question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from easyvideor1.problem_types import option_labels

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LINE = re.compile(r"[ \t]*(?P<mark>\(?)(?P<letter>[A-Z])[).:](?:[ \t]+|(?=\S)|$)(?P<text>.*)")
_NAMED_LINE = re.compile(r"[ \t]*(?P<name>(?:Option|Sentence|Caption) (?:[A-Z]|\d{1,2})): (?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its options taken apart."""

    question: str
    """The question as the annotation has it, including the options where they are part of it."""
    stem: str
    """Without the lines of the options."""
    options: dict[str, str]
    """Letter -> text; empty where there are none."""
    lines: tuple[str, ...]
    """The options as they are written, each with its label."""

    @property
    def for_grader(self) -> tuple[str, ...]:
        """The options as a Sample has them: with the labels that a response may name."""
        if any(_NAMED_LINE.fullmatch(line) for line in self.lines):
            return self.lines
        return tuple(f"{letter}. {text}" for letter, text in self.options.items())


def from_list(question: str, options: Sequence[str]) -> Asked:
    """A question and a list of options, lettered or not; letters in another order stay with their texts."""
    labels = own_letters(options)
    if labels is not None:
        return Asked(question, question, labels, tuple(options))
    labels = option_labels(options)
    if list(labels.values()) != [option.strip() for option in options]:  # named labels
        return Asked(question, question, labels, tuple(options))
    labels = dict(zip(LETTERS, options, strict=False))
    return Asked(question, question, labels, tuple(f"{letter}. {text}" for letter, text in labels.items()))


def own_letters(options: Sequence[str]) -> dict[str, str] | None:
    """Letter -> text of options that carry the letters A, B, .. in any order, sorted; None where they do not.

    >>> own_letters(["B. blue", "A. red"]), own_letters(["blue", "A. red"])
    ({'A': 'red', 'B': 'blue'}, None)
    """
    matches = [_LINE.fullmatch(option.strip()) for option in options]
    letters = [match["letter"] for match in matches if match]
    if not options or sorted(letters) != list(LETTERS[: len(options)]):
        return None
    return dict(sorted((match["letter"], match["text"].strip()) for match in matches if match))


def from_lettered(question: str, options: Sequence[str]) -> Asked | None:
    """A question with options that all carry letters, some of them twice, as files that were cut by machine have them.

    A letter stands for its longest text. None where an option has no letter, or a letter is left out.

    >>> from_lettered("?", ["A. cut", "A. cut off", "B. on"]).options
    {'A': 'cut off', 'B': 'on'}
    """
    matches = [_LINE.fullmatch(option.strip()) for option in options]
    labels: dict[str, str] = {}
    for match in matches:
        if match is None:
            return None
        labels[match["letter"]] = max(labels.get(match["letter"], ""), match["text"].strip(), key=len)
    labels = dict(sorted(labels.items()))
    return Asked(question, question, labels, tuple(options)) if list(labels) == list(LETTERS[: len(labels)]) else None


def from_mapping(question: str, options: Mapping[str, object]) -> Asked:
    """A question and an object letter -> text; empty texts at the end are no options."""
    labels = {str(letter): "" if text is None else str(text) for letter, text in options.items()}
    while labels and not labels[last := list(labels)[-1]]:
        del labels[last]
    return Asked(question, question, labels, tuple(f"{letter}. {text}" for letter, text in labels.items()))


def from_text(question: str) -> Asked:
    """A question with its options on lines of their own, labelled A, B, .. or by names such as "Caption A:"."""
    lines = question.rstrip("\n").split("\n")
    named = [_NAMED_LINE.fullmatch(line) for line in lines]
    first = next((place for place in range(len(lines)) if all(named[place:])), len(lines))
    if len(lines) - first > 1:
        labels = {letter: match["text"] for letter, match in zip(LETTERS, named[first:], strict=False) if match}
        return Asked(question, "\n".join(lines[:first]), labels, tuple(lines[first:]))
    starts = _label_lines(lines)
    if not starts:
        return Asked(question, question, {}, ())
    ends = [*starts[1:], len(lines)]
    blocks = ["\n".join(lines[start:end]).strip() for start, end in zip(starts, ends, strict=True)]
    labels = {}
    for block in blocks:
        match = _LINE.match(block)
        assert match is not None
        labels[match["letter"]] = " ".join([match["text"], *block.split("\n")[1:]]).strip()
    return Asked(question, "\n".join(lines[: starts[0]]).rstrip("\n"), labels, tuple(blocks))


def _label_lines(lines: Sequence[str]) -> list[int]:
    """Numbers of the lines labelled A, B, ..: the last such run that has two, or else the last line labelled A."""
    letters = [match["letter"] if (match := _LINE.fullmatch(line)) else "" for line in lines]
    best: list[int] = []
    for first, letter in enumerate(letters):
        if letter != "A":
            continue
        run = [first]
        for number in range(first + 1, len(lines)):
            if len(run) < len(LETTERS) and letters[number] == LETTERS[len(run)]:
                run.append(number)
            elif letters[number] == "A":
                break
        if len(run) > 1 or len(best) < 2:
            best = run
    return best


def gold_letter(answer: str, options: Mapping[str, str], *, take_last: bool = False) -> str | None:
    """The letter of a gold answer given as a letter or as the text of an option.

    Args:
        take_last: of several equal texts the last one, as the authors of MVBench and MLVU do; else None for them.

    >>> gold_letter("1", {"A": "2", "B": "1", "C": "1"}, take_last=True), gold_letter("9", {"A": "2"})
    ('C', None)
    """
    same = [letter for letter, text in options.items() if text == answer]
    if not same:
        same = [letter for letter, text in options.items() if text.strip() == answer.strip()]
    if same:
        return same[-1] if len(same) == 1 or take_last else None
    return answer.strip() if answer.strip() in options else None
