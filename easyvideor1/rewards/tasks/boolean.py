"""Yes or no, true or false, in English and Chinese; both at once, and a hedge, are no answer."""

from __future__ import annotations

import re

from easyvideor1.rewards.folding import QUOTES
from easyvideor1.rewards.leads import ANSWER_LEAD
from easyvideor1.rewards.parse import plain
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample

_ENGLISH = dict.fromkeys(["yes", "true", "correct", "right", "yeah", "yep", "yup"], True)
_ENGLISH |= dict.fromkeys(["no", "false", "incorrect", "wrong", "nope", "untrue"], False)
_SYMBOLS = {"1": True, "0": False, "y": True, "n": False, "t": True, "f": False, "\u2713": True, "\u2714": True}
_SYMBOLS |= {"\u2705": True, "\u2717": False, "\u2718": False, "\u274c": False}
_SURE = frozenset(
    [
        "of course",
        "definitely",
        "absolutely",
        "certainly",
        "sure",
        "surely",
        "indeed",
        "exactly",
        "undoubtedly",
        "affirmative",
        "indeed it is",
        "indeed it does",
        "for sure",
        "precisely",
    ]
)
_NOT_SO = re.compile(
    r"(?:(?:of course|definitely|certainly|absolutely|surely|probably|actually|clearly|no,?)\s+not|not (?:really"
    r"|at all|quite|exactly|true|so)"
    r"|negative|never|i (?:don't|do not) think so|no way(?! to)|hardly|by no means|absent)"
)
_IDIOM = re.compile(
    r"(?<![a-z])(?:there(?:'s| is) )?(?:(?:no|without(?: a| any)?|beyond(?: a| any)?|not a) (?:shadow of a )?(?:doubt"
    r"|question)"
    r"|no (?:problem|wonder|worries|kidding)|not only|no less|no matter (?:what|how|where)|why not|all right"
    r"|right (?:side|hand|away|now|next)"
    r"|(?:the|his|her|its|their|to the|on the|far|top|bottom) right)(?:(?: about (?:it|that))?(?: that)?)(?![a-z])"
)
"""Words of yes and no that say neither."""
_HEDGE = re.compile(
    r"(?<![a-z])(?:maybe|perhaps|possibly|not (?:sure|certain|clear|necessarily|possible to|enough|specified|mentioned"
    r"|given|known)"
    r"|unsure|uncertain|unclear|unknown|undetermined|undecided|depends|no (?:idea|clue|answer|opinion|way to"
    r"|information)"
    r"|(?:do not|don't|does not|doesn't|cannot|can't|can not|could not|couldn't|hard to|impossible to|unable to"
    r"|difficult to)(?: really| even)?"
    r" (?:know|tell|say|determine|answer|see clearly|be (?:determined|said|seen clearly|answered)|judge|decide|confirm"
    r"|be confirmed"
    r"|(?:see|view|access|watch|open) (?:the |any |this )?(?:video|image|picture|frames?|content|question))"
    r"|might|may be|could be|either|yes and no|n/a|nobody (?:knows|can)|no one (?:knows|can)|may or may not"
    r"|not (?:yes|no))(?![a-z])"
)
_VERB = "(?:is|are|was|were|does|do|did|has|have|can)"
_BOTH_WAYS = re.compile(rf"(?<![a-z]){_VERB} and (?:(?:it|he|she|they|there|also) )*{_VERB}(?:n't| ?not)(?![a-z])")
_NOT = r"(?:is not|isn't|are not|aren't|was not|wasn't|not|n't)(?: (?:entirely|quite|really|exactly|completely))? "
_WORD = re.compile(rf"(?<![a-z'])({_NOT})?({'|'.join(_ENGLISH)})(?![a-z'])")
_JOINT = re.compile(r"[\s,;.|\u3002\u3001]*(?:or|and|/|\\|\u6216\u8005|\u6216|\u548c|\u8fd8\u662f)[\s/]*")
_CLAUSE = re.compile(r"[.,;:!?\n|()\u3002\uff0c\uff1b\uff01\uff1f]|\s-+\s|(?<![a-z])(?:but|because|since)(?![a-z])")
_CORRECTION = re.compile(
    r"(?:(?:actually|wait|sorry|rather|i mean|well|then|hmm|or|maybe|in fact|scratch that|on second thought|correction"
    r"|i think|it is|it's|that is|my answer is|the answer is|so|however|no wait|oh|also)[\s,]*)*"
)
_ELLIPSIS = re.compile(
    r"(?:it|he|she|they|there|that|this|we|i|one|you)\s(?:really |certainly |clearly )?"
    r"(?:(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|should|must)(?P<after>n't| not)?)(?: indeed"
    r"| either| too)?"
)
"""An answer such as "it does" or "there isn't"."""
_NEGATION = re.compile(
    r"(?<![a-z])(?:not|no|never|none|nobody|nowhere|neither|cannot)(?![a-z])|n't(?![a-z])|(?<![a-z])without(?![a-z])"
)
_SUPPOSED = re.compile(r"(?<![a-z])(?:not|never|if|whether)(?![a-z])|n't(?![a-z])")
_TWICE = re.compile(
    r"(?<![a-z])(?:untrue|false|incorrect|wrong|un(?:able|likely|true)|but|except|unless|nothing|denies|deny"
    r"|fails?)(?![a-z])"
)
_CONDITION = re.compile(r"(?<![a-z])(?:if|unless|otherwise|else|when|depending)(?![a-z])")
MAX_SENTENCE_WORDS = 40
_MARKS = " \t\n.,;:!?\"'()[]{}|/\u3002\u3001\uff0c"

_CHINESE = {
    "\u4e0d\u6b63\u786e": False, "\u4e0d\u662f\u7684": False, "\u5e76\u6ca1\u6709": False, "\u6ca1\u6709": False,
    "\u4e0d\u5b58\u5728": False, "\u4e0d\u662f": False, "\u4e0d\u5bf9": False, "\u5e76\u975e": False,
    "\u9519\u8bef": False, "\u4e0d\u4f1a": False, "\u4e0d\u80fd": False, "\u6ca1\u9519": True, "\u4e0d\u9519": True,
    "\u5426": False, "\u9519": False, "\u5047": False, "\u4e0d": False, "\u672a": False, "\u65e0": False,
    "\u662f\u7684": True, "\u5bf9\u7684": True, "\u6b63\u786e": True, "\u5b58\u5728": True, "\u662f": True,
    "\u5bf9": True, "\u771f": True, "\u6709": True,
}  # fmt: skip
"""Chinese words of yes and no, longest first, so that "not so" is not read as "so"."""
_CHINESE_IDIOM = re.compile(
    "\u6beb\u65e0\u7591\u95ee|\u6beb\u4e0d\u7591\u95ee|\u65e0\u7591|\u4e0d\u7528\u8bf4|\u6ca1\u95ee\u9898|\u4e0d\u4ec5"
    "|\u4e0d\u4f46|\u4e0d\u5f97\u4e0d|\u5bf9\u4e8e|\u9488\u5bf9|\u4f46\u662f|\u8fd8\u662f(?=.{0,4}\u662f)"
    "|\u5c31\u662f\u8bf4"
)
_CHINESE_HEDGE = re.compile(
    "\u4e0d\u786e\u5b9a|\u4e0d\u77e5\u9053|\u4e0d\u6e05\u695a|\u65e0\u6cd5|\u53ef\u80fd|\u4e5f\u8bb8|\u6216\u8bb8"
    "|\u4e0d\u4e00\u5b9a|\u8bf4\u4e0d\u6e05|\u6709\u6ca1\u6709|\u662f\u4e0d\u662f|\u662f\u5426|\u5bf9\u4e0d\u5bf9"
)
_CHINESE_WORD = re.compile("|".join(_CHINESE))


def read_boolean(text: str) -> bool | None:
    """True for yes, False for no, None for neither or both.

    A leading yes or no decides, unless the text takes it back; a sentence without either says no by a "not" in it.

    >>> read_boolean("No, it is not true."), read_boolean("**Yes**"), read_boolean("No doubt, yes.")
    (False, True, True)
    >>> read_boolean("There is not a dog."), read_boolean("Yes, actually no"), read_boolean("yes or no")
    (False, None, None)
    """
    text = plain(text).lower().translate(QUOTES).strip(_MARKS)
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    if _BOTH_WAYS.search(text):
        return None
    lead = ANSWER_LEAD.match(text)
    if lead and lead.end() < len(text):
        value = _read(text[lead.end() :].strip(_MARKS))
        if value is not None:
            return value
    return _read(text)


def _read(text: str) -> bool | None:
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    if not text.isascii() and _CHINESE_WORD.search(text) and not _WORD.search(text):
        return _chinese(text)
    had_idiom = _IDIOM.search(text)
    text = _IDIOM.sub(" ", text).strip(_MARKS)
    if had_idiom and not text:
        return True if "doubt" in had_idiom[0] or "question" in had_idiom[0] else None
    if not text:
        return None
    first = None if _HEDGE.match(text) else _WORD.match(text)
    if first:
        value, rest = _value(first), text[first.end() :]
        is_turned = first[1] and _NEGATION.search(_first_clause(rest))
        return None if is_turned or _is_taken_back(rest, not value) else value
    if _HEDGE.search(text):
        return None
    return _sentence(text)


def _value(match: re.Match[str]) -> bool:
    return _ENGLISH[match[2]] != bool(match[1])


def _is_taken_back(rest: str, opposite: bool) -> bool:
    """True where the leading word is followed by its opposite as an answer of its own, or by a hedge."""
    if _JOINT.match(rest):
        return any(_value(match) == opposite for match in _WORD.finditer(rest)) or bool(_HEDGE.search(rest))
    if _CONDITION.search(rest) and any(_value(match) == opposite for match in _WORD.finditer(rest)):
        return True  # "yes if it runs, no otherwise"
    for clause in _CLAUSE.split(rest):
        clause = clause.strip(_MARKS)
        correction = _CORRECTION.match(clause)
        body = clause[correction.end() :].strip(_MARKS) if correction else clause
        word = _WORD.match(body)
        behind = body[word.end() :].strip(_MARKS) if word else ""
        if word and _value(word) == opposite and (not behind or _WORD.match(behind)):
            return True
        hedge = _HEDGE.match(clause)
        if hedge and len(clause[hedge.end() :].split()) <= 2:
            return True
    return False


def _sentence(text: str) -> bool | None:
    """The answer of a text that does not begin with yes or no."""
    head = _first_clause(text).strip()
    others = {_value(match) for match in _WORD.finditer(text)}
    if head in _SURE:
        return None if False in others or _NEGATION.search(text[len(head) :]) else True
    not_so = _NOT_SO.match(text)
    if not_so and not text[not_so.end() : not_so.end() + 1].isalpha():
        behind = text[not_so.end() :]
        is_turned = _NEGATION.search(_first_clause(behind)) or any(map(_value, _WORD.finditer(behind)))
        return None if is_turned else False
    elliptic = _ELLIPSIS.fullmatch(head)
    if elliptic:
        value = elliptic["after"] is None
        return None if others and value not in others else value
    if others:
        return _by_words(text, others)
    return _by_negation(text)


def _first_clause(text: str) -> str:
    return re.split(r"[.,;!?\n]", text, maxsplit=1)[0]


def _by_words(text: str, values: set[bool]) -> bool | None:
    """A sentence with yes, true, wrong and the like in it: all of them agree, and no other negation stands before."""
    if len(values) != 1:
        return None
    first = _WORD.search(text)
    assert first is not None
    before, behind = text[: first.start()], text[first.end() :]
    is_turned = _SUPPOSED.search(before) or _NEGATION.search(_first_clause(behind))
    return None if is_turned else values.pop()


def _by_negation(text: str) -> bool | None:
    """False for one short sentence with one negation (the rule of POPE, arXiv:2305.10355); None for any other."""
    if re.search(r"[.!?\n]\s+\S", text) or len(text.split()) > MAX_SENTENCE_WORDS or _TWICE.search(text):
        return None
    return False if len(_NEGATION.findall(text)) == 1 else None


def _chinese(text: str) -> bool | None:
    if _CHINESE_HEDGE.search(text):
        return None
    text = _CHINESE_IDIOM.sub("", text).strip(_MARKS)
    first = _CHINESE_WORD.match(text)
    if first is None:
        values = {_CHINESE[match[0]] for match in _CHINESE_WORD.finditer(text)}
        return values.pop() if len(values) == 1 else None
    value = _CHINESE[first[0]]
    rest = text[first.end() :]
    joint = _JOINT.match(rest)
    body = rest[joint.end() :] if joint else rest.strip(_MARKS)
    word = _CHINESE_WORD.match(body)
    is_opposed = word is not None and _CHINESE[word[0]] != value
    return None if word and is_opposed and (joint or not body[word.end() :].strip(_MARKS)) else value


def _read_gold(sample: Sample) -> bool:
    value = read_boolean(sample.gold)
    if value is None:
        raise bad_gold(sample, "a boolean answer is Yes or No (or True, False)")
    return value


TASK = Task(
    read_gold=_read_gold,
    read_answer=lambda sample, text: read_boolean(text),
    accuracy=lambda answer, gold: float(answer == gold),
)
