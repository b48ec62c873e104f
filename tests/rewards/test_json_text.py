"""JSON wherever it stands in an answer."""

import pytest

from easyvideor1.rewards.json_text import finite, json_values, read_json


def test_json_is_found_in_words_and_python_spellings():
    assert read_json('It is {"a": [1, 2]}.') == {"a": [1, 2]}
    assert read_json("{'a': None, 'b': True, 3: (1, 2),}") == {"a": None, "b": True, "3": [1, 2]}
    assert read_json("{\u201ca\u201d: \u201cb\u201d}") == {"a": "b"}
    assert read_json("nothing here") is None
    assert read_json("[1, 2] or [3, 4]") is None
    assert read_json("[" * 50_000) is None
    assert read_json("[" + "9" * 9000 + "]") is None


def test_finite_refuses_what_is_no_number():
    assert [finite(value) for value in (1, 2.5, "3", " -4e1 ")] == [1.0, 2.5, 3.0, -40.0]
    assert [finite(value) for value in (True, None, "nan", "x", float("inf"), "1e999", [1], 10**400)] == [None] * 8


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('The cup (red): {"a": [1]}', [{"a": [1]}]),
        ('{"a": [1]} (in pixels)', [{"a": [1]}]),
        ('(see {"a": [1]})', [{"a": [1]}]),
        ('[note] {"a": 1}', [{"a": 1}]),
        ('{"a": 1}\n{"a": 2}\n{"a": 3}', [{"a": 1}, {"a": 2}, {"a": 3}]),
        ('a) first {"a": 1} b) then', [{"a": 1}]),
        ('{"a": "x}y]"} ', [{"a": "x}y]"}]),
        ("{'a': \"man's hat\", 'b': [1]}", [{"a": "man's hat", "b": [1]}]),
        ("it's {'a': 1}, isn't it", [{"a": 1}]),
        ("(1, 2) and (3, 4)", [[1, 2], [3, 4]]),
        ("(red) or (blue)", []),
        ('{"a": 1', []),
        ("{a} [b] (c)", []),
        ('{"a": [1, 2}', []),
    ],
)
def test_values_stand_among_words_and_brackets(text, values):
    assert json_values(text) == values


# Read in quadratic time, one of these takes minutes: the limit is there to end such a test, not to measure it.
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "flood",
    ["[" * 60_000, "(" * 30_000 + ")" * 30_000, '{"a ' * 15_000, '{"a":' + ',"b' * 20_000,
    "(1," * 20_000 + ")" * 20_000,
     "[{(" * 20_000, "'" * 60_000, "{'" * 30_000, "{}" * 30_000],
)  # fmt: skip
def test_floods_of_brackets_and_quotes_are_read_in_linear_time(flood):
    assert isinstance(json_values(flood), list)
