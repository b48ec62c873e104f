"""Yes or no."""

import pytest

from easyvideor1.errors import DataError
from easyvideor1.rewards.router import check
from easyvideor1.rewards.tasks.boolean import read_boolean
from easyvideor1.types import Sample

READS_YES = (
    "yes", "Yes.", "YES!", "**Yes**", "true", "True.", "1", "\\boxed{Yes}", "Yes, it is", "Yes, there is no boat.",
    "yes - no boat can be seen", "The answer is yes.", "Answer: Yes", "It is true.", "That is correct", "\u662f",
    "\u662f\u7684", "\u5bf9", "\u6b63\u786e", "\u6709", "\u662f\uff0c\u6ca1\u6709\u8239", "\u7b54\u6848\uff1a\u662f",
    "\uff39\uff45\uff53", "'yes'", "Yes, no boat is here.", "y", "Yes\nThe man waves.",
    "No doubt, yes.", "There is no doubt: yes, a dog is there.", "Without a doubt, yes", "It does.", "It is.",
    "They are", "Definitely", "Absolutely, yes", "Of course", "Yes, there isn't any car", "yes, it doesn't",
    "No doubt about it, yes", "Yes! No other animal is there.", "\u6ca1\u9519", "\u4e0d\u9519",
    "\u6beb\u65e0\u7591\u95ee\uff0c\u662f\u7684", "\u662f\u7684\uff0c\u6ca1\u6709\u95ee\u9898", "Undoubtedly yes",
    "Yes, I am sure. There is no doubt.", "I think yes", "The answer is yes, there is a dog.", "My answer is Yes",
    "It is correct", "Yes \u2014 the man is not there", "Yes. The dog does not move.", "yes, right", "\u2713",
    "Yes; no cat, though", "There is. ", "The statement is true.", "This is right", "Yes, not a doubt",
    "Certainly, the dog is there", "Yes it is", "yes sir", "not false", "It's not wrong", "No problem, yes",
)  # fmt: skip
READS_NO = (
    "no", "No.", "NO", "**No**", "false", "False", "0", "No, it is not true.", "No, that is not correct",
    "no, yes is wrong", "The answer is no", "Answer: No.", "It is false.", "This is not true", "not true", "\u5426",
    "\u4e0d\u662f", "\u4e0d", "\u9519", "\u9519\u8bef", "\u6ca1\u6709", "\u4e0d\u662f\uff0c\u4ed6\u662f\u5b66\u751f",
    "\u4e0d\u6b63\u786e", "n", "No\nThe man sits.", "incorrect", "\\text{No}",
    "There is not a dog.", "Not really", "It doesn't", "There is not a dog in the image.", "There is no dog",
    "No, there isn't.", "The man isn't running.", "Of course not", "Definitely not", "Not at all", "I don't think so",
    "It does not", "They aren't", "He never does", "There's no dog in the picture", "It is not.", "No way!",
    "No dogs are visible.", "The dog cannot be seen.", "\u56fe\u4e2d\u6ca1\u6709\u72d7\u3002", "\u4e0d\u4f1a",
    "no, not at all", "No, definitely not", "No. There is a cat.", "False: it is not", "there isn't", "Nope.",
    "It isn\u2019t", "There isn\u2019t a dog", "No, it's wrong", "Absolutely not", "None of the dogs run.",
    "Answer: it doesn't", "The answer is no, it isn't", "No, no dog", "No dog", "I see no dog.",
)  # fmt: skip
READS_NOTHING = (
    "", " ", "yes or no", "Yes/No", "yes and no", "Yes. No.", "No, yes.", "True or False", "true, false", "I know",
    "Noah", "nothing", "yesterday", "maybe", "not sure", "no idea", "\u662f\u6216\u5426", "\u662f\u5426",
    "\u662f\u4e0d\u662f", "\u662f/\u5426", "\u662f\uff0c\u4e0d\u662f", "10", "2", "yes or maybe no, no",
    "it could be true and it could be false", "a boat", "knowledge", "yes|no", "Yes no", "(yes) (no)",
    "\u662f\u8fd8\u662f\u4e0d\u662f",
    "Yes, actually no", "Yes, actually, no.", "No wait, yes", "Yes. Wait, no.", "I am not sure", "It is not clear",
    "cannot be determined", "Yes, maybe", "yes, perhaps not", "It could be", "I don't know", "I do not know",
    "not necessarily", "Either", "It is not true that there is no dog", "There is not only a dog but also a cat",
    "no, actually yes", "Sorry, yes... no", "Yes? No?", "\u6709\u6ca1\u6709\u72d7", "\u4e0d\u77e5\u9053",
    "\u4e0d\u786e\u5b9a", "A dog", "The man walks. He does not see it.", "Nothing", "hmm", "Yes or maybe",
    "Not sure, yes", "It is impossible to say", "It might not", "The image shows a dog on the right.",
    "On the right there is a cat", "yes, I mean no", "no - I mean yes", "Yes, no, maybe", "Hard to tell, no",
    "No or yes", "no, or rather yes", "There is no way to know", "It isn't a cat but a dog", "Is it yes? no",
    "True? False.", "I cannot see the video", "yes/no", "Yes, but also no", "Yes, on second thought no",
)  # fmt: skip
READS = {True: READS_YES, False: READS_NO, None: READS_NOTHING}


@pytest.mark.parametrize(("value", "text"), [(value, text) for value, texts in READS.items() for text in texts])
def test_answer_is_read_as(value, text):
    assert read_boolean(text) is value


@pytest.mark.parametrize("gold", ["", "maybe", "yes or no", "A"])
def test_gold_that_is_neither_is_a_data_error(gold):
    with pytest.raises(DataError, match="Yes or No"):
        check([Sample(id="s", problem_type="binary classification", problem="", gold=gold)])
