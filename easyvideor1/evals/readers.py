"""How the authors of benchmarks and public harnesses read responses: named functions, quirks included.

They give the `official_score`, so that numbers compare with published ones; the strict score is the grader's. Each
takes a response and its item and returns what the response is worth. None breaks a tie at random: where a source does,
the response is wrong here.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping

from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.metrics import mean_relative_accuracy
from easyvideor1.evals.puzzles import moves_in, reaches_target
from easyvideor1.evals.spans import first_span, lmms_eval_span, tube_measures
from easyvideor1.rewards.measures import interval_iou

Worth = float | Mapping[str, float]
"""What a response is worth: a number in [0, 1], or measures by name with the main one as "value"."""
Reader = Callable[[str, Item], Worth]

_LEAD_INS = (
    "The best answer is", "The correct answer is", "The answer is", "The answer", "The best option is",
    "The correct option is", "Best answer:", "Best option:", "Answer:", "Option:",
)  # fmt: skip


def after_thinking(text: str) -> str:
    """What stands behind the last `</think>`."""
    return text.rpartition("</think>")[2]


def first_letter(text: str, letters: str) -> str:
    """The first of these capital letters, wherever it stands, once usual lead-ins are removed; "" for none.

    The rule of Video-MME (`eval_your_results.py`, 4e7566d) and of many after it; "Answer" and "A person" hold an A.
    """
    text = text.strip()
    for lead_in in _LEAD_INS:
        text = text.replace(lead_in, "")
    found = re.search(f"[{letters}]", text)
    return found[0] if found else ""


def first_letter_of(letters: str) -> Reader:
    return lambda text, item: float(first_letter(text, letters) == item.sample.gold != "")


def mvbench_check_ans(text: str, item: Item) -> float:
    """MVBench (`check_ans` of mvbench.ipynb): the first words of response and gold, one inside the other.

    An empty response, "(" and ")" are right there.
    """
    gold = item.sample.gold
    first = text.strip().split("\n")[0].lower().split(" ")[0].replace(".", "")
    wanted = f"({gold}) {item.fields['options'].get(gold, '')}".lower().split(" ")[0].replace(".", "")
    return float(bool(gold) and (first in wanted or wanted in first))


def between_parentheses(text: str, item: Item) -> float:
    """LVBench and MotionBench: text before the first ")", behind the first "(", its first word's first character."""
    text = text.split(")")[0]
    words = text.split("(", 1)[-1].split()
    return float(bool(words) and words[0][0] == item.sample.gold)


def before_parenthesis(text: str, item: Item) -> float:
    """MLVU: the character before the first ")", or the whole response."""
    place = text.find(")")
    return float((text[max(0, place - 1) : place] if place >= 0 else text.strip()) == item.sample.gold != "")


def video_holmes(text: str, item: Item) -> float:
    """Video-Holmes: the last answer tag, else everything; a letter with a mark, then any letter, A first."""
    tagged = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    answer = tagged[-1].strip() if tagged else text.strip()
    for letter in "ABCDEF":
        if answer == letter or any(form in answer for form in (f"{letter} ", f"{letter}:", f"[{letter}")):
            return float(letter == item.sample.gold)
    return float(next((letter for letter in "ABCDEF" if letter in answer), "") == item.sample.gold != "")


def last_stated_letter(text: str, item: Item) -> float:
    """MINERVA in lmms-eval: the last "answer (or option) is X", else the last capital A to E."""
    stated = re.findall(r"(?:answer|option)(?: is)?:?\s*\(?([A-E])\b", text, re.IGNORECASE)
    letters = stated or re.findall(r"[A-E]", text)
    return float(bool(letters) and letters[-1].upper() == item.sample.gold)


def tagged_exactly(text: str, item: Item) -> float:
    """LongVideo-Reason: the answer tag, also behind "Therefore ..", else the whole response, equals the gold.

    Its first step, symbolic verification of the whole output, finds a boxed letter; so does this.
    """
    tagged = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    answer = (tagged[1] if tagged else text).strip()
    stated = re.search(r"Therefore,? the final answer is:?\s*(.*)", answer, re.DOTALL)
    boxed = re.findall(r"\\boxed\{([A-Z])\}", text)
    gold = item.sample.gold
    return float(
        gold != "" and (answer == gold or (bool(stated) and stated[1].strip() == gold) or boxed[-1:] == [gold])
    )


def concluded_letter(text: str, item: Item) -> float:
    """MMVU and VCR-Bench without their judge: the letter behind "answer is", a leading one, or a lone one.

    The authors let a language model read the letter; this finds it where it is plain.
    """
    text = after_thinking(text).strip()
    letters = "".join(item.fields["options"])
    stated = (
        re.findall(rf"answer is:?\s*[*$(\[]*\s*(?:Answer:\s*)?\$?\(?([{letters}])(?![A-Za-z])", text) if letters else []
    )
    lead = re.match(rf"[(*]*([{letters}])(?:[).:*\s]|$)", text) if letters else None
    found = stated[-1] if stated else lead[1] if lead else ""
    return float(found == item.sample.gold != "")


def mmmu_choice(text: str, item: Item) -> float:
    """MMMU and Video-MMMU: the last letter in parentheses, alone or before a dot, else the last option's text."""
    options: Mapping[str, str] = item.fields["options"]
    for mark in ",.!?;:'":
        text = text.strip(mark)
    text = f" {text} "
    for form in ("({})", " {} ", "{}."):
        found = [letter for letter in options if form.format(letter) in text]
        if found:
            return float(max(found, key=lambda letter: text.rfind(form.format(letter))) == item.sample.gold)
    if len(text.split()) > 5:
        named = [letter for letter, option in options.items() if option and option.lower() in text.lower()]
        if named:
            last = max(named, key=lambda letter: text.lower().rfind(options[letter].lower()))
            return float(last == item.sample.gold)
    return 0.0


_KEY_WORDS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
_NUMBERS = (
    r"-?\b\d{1,3}(?:,\d{3})+\b",
    r"-?\d+(?:\.\d+)?[eE][+-]?\d+",
    r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])",
)


def mmmu_open(text: str, item: Item) -> float:
    """MMMU and Video-MMMU: the tails of sentences and their numbers, to two decimals; a gold form equal or inside."""
    tails = []
    sentences = re.split(r"\.\s(?=[A-Z])|\n", text.strip().strip(".").lower())
    for number, sentence in enumerate(sentences):
        words = (*_KEY_WORDS, "=") if number == len(sentences) - 1 else _KEY_WORDS
        ends = [sentence.split(word)[-1].strip() for word in words if word in sentence]
        shortest = min(ends, key=len, default="")
        if shortest and shortest not in string.punctuation:
            tails.append(shortest)
    tails = tails or [text.strip().lower()]
    numbers = [found for tail in tails for form in _NUMBERS for found in re.findall(form, tail)]
    said = {_rounded(part) for part in (*tails, *numbers)}
    for gold in item.fields.get("golds") or [item.sample.gold]:
        wanted = _rounded(gold)
        if wanted in said or (
            isinstance(wanted, str) and wanted and any(isinstance(s, str) and wanted in s for s in said)
        ):
            return 1.0
    return 0.0


def _rounded(text: str) -> str | float:
    try:
        return round(float(text.strip().replace(",", "")), 2)
    except ValueError:
        return text.strip().lower()


def first_token(text: str) -> str:
    """VSI-Bench: up to the first blank, without a dot at its end."""
    return text.split(" ")[0].rstrip(".").strip()


def vsibench_choice(text: str, item: Item) -> float:
    return float(first_token(text).lower() == item.sample.gold.lower() != "")


def vsibench_number(text: str, item: Item) -> float:
    """VSI-Bench: mean relative accuracy of the first token, 0 where it is no number."""
    try:
        value = float(first_token(text))
    except ValueError:
        return 0.0
    return mean_relative_accuracy(value, float(item.sample.gold)) if abs(value) < float("inf") else 0.0


def span(text: str, item: Item) -> float:
    """Charades-STA: overlap of the first span in whatever form, swapped if it is reversed."""
    return _overlap(first_span(text), item)


def lmms_eval_charades(text: str, item: Item) -> float:
    """Charades-STA in lmms-eval since #1323 (2026-05)."""
    return _overlap(lmms_eval_span(text, since_1323=True), item)


def _overlap(found: tuple[float, float] | None, item: Item) -> float:
    gold = first_span(item.sample.gold)
    return interval_iou(found, gold) if found and gold and found[0] < found[1] else 0.0


def tube(text: str, item: Item) -> Worth:
    """STVG (LLaVA-ST): overlaps in time, of boxes in common frames and over all frames, of the response's JSON."""
    return tube_measures(text, item)


def containment(text: str, item: Item) -> float:
    """OVO-Bench: the gold letter stands anywhere in the response."""
    return float(item.sample.gold != "" and item.sample.gold in text)


def joined_digits(text: str, item: Item) -> float:
    """OVO-Bench, REC: all digits of the response, written together, are the count."""
    return float("".join(re.findall(r"\d+", text)) == item.sample.gold)


def yes_no_contained(text: str, item: Item) -> float:
    """OVO-Bench, SSR and CRR: "N" or "Y" alone, or "No" or "Yes" anywhere, capitals as they are."""
    gold = item.sample.gold
    return float(text == gold[:1] or gold in text)


_PUNCTUATION = (
    ";",
    "/",
    "[",
    "]",
    '"',
    "{",
    "}",
    "(",
    ")",
    "=",
    "+",
    "\\",
    "_",
    "-",
    ">",
    "<",
    "@",
    "`",
    ",",
    "?",
    "!",
)


def standalone_letter(text: str, item: Item) -> float:
    """MVBench and ODV-Bench in lmms-eval: "X. text" at the start, else the first lone letter A to E of either case."""
    lead = re.match(r"([A-E])\.\s*.+$", text.strip(), re.IGNORECASE)
    if lead:
        return float(lead[1].upper() == item.sample.gold)
    text = text.replace("\n", " ").replace("\t", " ").strip()
    has_thousands = re.search(r"\d,\d", text) is not None
    plain = text
    for mark in _PUNCTUATION:
        is_beside_blank = mark + " " in text or " " + mark in text
        plain = plain.replace(mark, "" if is_beside_blank or has_thousands else " ")
    alone = re.search(r"\b([a-e])\b", re.sub(r"\.(?!\d)", "", plain).strip("'\"() ").lower())
    return float(alone is not None and alone[1].upper() == item.sample.gold)


def upper_standalone_letter(text: str, item: Item) -> float:
    """MotionBench and LVBench in lmms-eval: behind the thinking, in capitals, the first lone letter A to F."""
    text = after_thinking(text).upper()
    for lead_in in _LEAD_INS:
        text = text.replace(lead_in.upper(), "")
    alone = re.search(r"\b([A-F])\b", text)
    return float(alone is not None and alone[1] == item.sample.gold)


def leading_letter(text: str, item: Item) -> float:
    """LiveSports-3K, generated instead of scored by logits: the first character behind "Answer:"."""
    text = text.strip().removeprefix("Answer:").strip().lstrip("(")
    return float(text[:1].upper() == item.sample.gold != "")


def inferred_option(text: str, item: Item) -> float:
    """VLMEvalKit's exact matching: one letter among the last words, else the one option whose text is there."""
    options: Mapping[str, str] = item.fields["options"]
    words = re.sub(r"[.()\[\],:;!*#{}]", " ", text).split()
    present = [letter for letter in options if letter in words]
    if len(present) == 1 and not ("A" in words and len(words) > 3) and words.index(present[0]) > len(words) - 5:
        return float(present[0] == item.sample.gold)
    if len(text) > 2 * sum(len(option) for option in options.values()):
        return 0.0
    named = [letter for letter, option in options.items() if option.lower() in text.lower()]
    return float(named == [item.sample.gold])


def _without_end(text: str) -> str:
    return text.replace("</s>", "")


def tempcompass_choice(text: str, item: Item) -> float:
    """TempCompass, multi-choice: the answer itself, a bare letter, or a leading "X." or "X)"; else wrong (no judge)."""
    text, answer = _without_end(text), str(item.fields["answer"])
    if text == answer:
        return 1.0
    found = text if text in ("A", "B", "C", "D") else text[:1] if re.match(r"[A-D][.)]", text) else ""
    return float(found == answer[:1])


def tempcompass_yes_no(text: str, item: Item) -> float:
    """TempCompass, yes_no: how the response begins, in small letters."""
    text = _without_end(text).lower()
    found = "yes" if text.startswith("yes") else "no" if text.startswith("no") else ""
    return float(found == str(item.fields["answer"]))


def tempcompass_matching(text: str, item: Item) -> float:
    """TempCompass, caption_matching: the whole line, its sentence or its label; of several rules the last that fits."""
    text, answer = _without_end(text), str(item.fields["answer"])
    lines = item.fields["question"].split("\n")[1:]
    pairs = [line.split(": ") for line in lines if ": " in line]
    found = text if text in lines else None
    behind = text.split(") ")[1] if ") " in text else None
    found = next((pair[1] for pair in reversed(pairs) if pair[1] in (text, behind)), found)
    found = next((pair[0] for pair in reversed(pairs) if pair[0] in (text, text.replace(".", ""))), found)
    label, _, sentence = answer.partition(": ")
    return float(found is not None and found in (answer, label, sentence))


def played(text: str, item: Item) -> float:
    """VideoReasonBench, plans: the moves behind the last "Final Answer", played from the state of the question."""
    found = re.split(r"final answer\**\s*:?", after_thinking(text), flags=re.IGNORECASE)
    if len(found) < 2:
        return 0.0
    demo = item.fields["demo"]
    return float(reaches_target(demo, item.fields["row"], moves_in(found[-1], demo)))


READERS: dict[str, Reader] = {
    "first letter A-D": first_letter_of("ABCD"),
    "first letter A-E": first_letter_of("ABCDE"),
    "first letter A-H": first_letter_of("ABCDEFGH"),
    "mvbench check_ans": mvbench_check_ans,
    "between parentheses": between_parentheses,
    "before parenthesis": before_parenthesis,
    "video-holmes": video_holmes,
    "last stated letter": last_stated_letter,
    "tagged exactly": tagged_exactly,
    "concluded letter": concluded_letter,
    "mmmu choice": mmmu_choice,
    "mmmu open": mmmu_open,
    "vsibench choice": vsibench_choice,
    "vsibench number": vsibench_number,
    "first span": span,
    "lmms-eval charades": lmms_eval_charades,
    "tube": tube,
    "containment": containment,
    "joined digits": joined_digits,
    "yes or no contained": yes_no_contained,
    "standalone letter": standalone_letter,
    "upper standalone letter": upper_standalone_letter,
    "leading letter": leading_letter,
    "inferred option": inferred_option,
    "tempcompass choice": tempcompass_choice,
    "tempcompass yes_no": tempcompass_yes_no,
    "tempcompass matching": tempcompass_matching,
    "played": played,
}
"""Name in a protocol -> reader."""
