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
)  # fmt: skip
READS_NO = (
    "no", "No.", "NO", "**No**", "false", "False", "0", "No, it is not true.", "No, that is not correct",
    "no, yes is wrong", "The answer is no", "Answer: No.", "It is false.", "This is not true", "not true", "\u5426",
    "\u4e0d\u662f", "\u4e0d", "\u9519", "\u9519\u8bef", "\u6ca1\u6709", "\u4e0d\u662f\uff0c\u4ed6\u662f\u5b66\u751f",
    "\u4e0d\u6b63\u786e", "n", "No\nThe man sits.", "incorrect", "\\text{No}",
)  # fmt: skip
READS_NOTHING = (
    "", " ", "yes or no", "Yes/No", "yes and no", "Yes. No.", "No, yes.", "True or False", "true, false", "I know",
    "Noah", "nothing", "yesterday", "maybe", "not sure", "no idea", "\u662f\u6216\u5426", "\u662f\u5426",
    "\u662f\u4e0d\u662f", "\u662f/\u5426", "\u662f\uff0c\u4e0d\u662f", "10", "2", "yes or maybe no, no",
    "it could be true and it could be false", "a boat", "knowledge", "yes|no", "Yes no", "(yes) (no)",
    "\u662f\u8fd8\u662f\u4e0d\u662f",
)  # fmt: skip
READS = {True: READS_YES, False: READS_NO, None: READS_NOTHING}


@pytest.mark.parametrize(("value", "text"), [(value, text) for value, texts in READS.items() for text in texts])
def test_answer_is_read_as(value, text):
    assert read_boolean(text) is value


@pytest.mark.parametrize("gold", ["", "maybe", "yes or no", "A"])
def test_gold_that_is_neither_is_a_data_error(gold):
    with pytest.raises(DataError, match="Yes or No"):
        check([Sample(id="s", problem_type="binary classification", problem="", gold=gold)])
