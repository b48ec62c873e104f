"""The user text of a sample."""

from pathlib import Path

import pytest

from easyvideor1.data.prompts import TEMPLATES, instruction, require_matching
from easyvideor1.errors import DataError, UsageError
from easyvideor1.types import Media, Sample

VIDEO = Media(kind="video", path="v.mp4")
IMAGE = Media(kind="image", path="i.png")


def test_problem_options_and_form_stand_in_one_short_text():
    sample = Sample(
        id="s",
        problem_type="multiple choice",
        problem="<video>What?",
        gold="B",
        options=("cat", "dog"),
        media=(VIDEO,),
    )
    assert instruction(sample, thinking=True) == (
        "<video>What?\nA. cat\nB. dog\nThink in <think> tags, then give the option letter in <answer> tags."
    )
    assert instruction(sample, thinking=False).endswith("B. dog\nGive the option letter in <answer> tags.")


def test_tags_left_out_are_put_first_in_the_order_of_the_media():
    sample = Sample(id="s", problem_type="numerical", problem="How many?", gold="4", media=(IMAGE, VIDEO))
    assert instruction(sample, thinking=False).startswith("<image><video>How many?")


def test_tags_in_place_stay_there():
    sample = Sample(id="s", problem_type="numerical", problem="Here: <video> How many?", gold="4", media=(VIDEO,))
    assert instruction(sample, thinking=False).startswith("Here: <video> How many?")


@pytest.mark.parametrize("problem", ["<video><video>x", "<image>x", "<video><image>x"])
def test_tags_that_do_not_match_the_media_are_a_data_error(problem):
    sample = Sample(id="s", where="rows:7", problem_type="numerical", problem=problem, gold="4", media=(VIDEO,))
    with pytest.raises(DataError, match="rows:7: field 'problem'"):
        instruction(sample, thinking=False)


def test_options_that_the_problem_lists_are_not_repeated():
    sample = Sample(
        id="s", problem_type="mcq", problem="cat or dog?\nA. cat\nB. dog", gold="B", options=("A. cat", "B. dog")
    )
    assert instruction(sample, thinking=False).count("cat") == 2


@pytest.mark.parametrize(
    ("problem", "options", "listed"),
    [
        ("Is the lamp to the front-left or the back-right?", ("A. front-left", "B. back-right"), False),
        ("Is it the left or right?", ("left", "right"), False),
        ("Which?\nA. left\nB. right", ("left", "right"), True),
        ("Which?\n(A) left\n(B) right", ("A. left", "B. right"), True),
        ("Which? A) left B) right", ("left", "right"), True),
        ("Which?\nA. left", ("left", "right"), False),
        ("Which?\nB. right\nA. left", ("left", "right"), False),  # another order: the letters would mean others
        ("Which?\nA. left\nB. rights", ("left", "right"), False),
    ],
)
def test_options_are_left_out_only_where_their_labelled_lines_stand(problem, options, listed):
    sample = Sample(id="s", problem_type="mcq", problem=problem, gold="B", options=options)
    text = instruction(sample, thinking=False)
    assert text.removeprefix(problem).count("B. ") == (0 if listed else 1)


def test_a_problem_stands_byte_for_byte():
    sample = Sample(id="s", problem_type="numerical", problem="\n How many? \n\n", gold="4", media=(VIDEO,))
    assert instruction(sample, thinking=False) == "<video>\n How many? \n\n\nGive one number in <answer> tags."


def test_unknown_types_take_the_default_template():
    sample = Sample(id="s", problem_type="my type", problem="x", gold="y")
    assert instruction(sample, thinking=False) == "x\nGive the answer in <answer> tags."


def test_own_templates_come_before_the_packaged_ones(tmp_path):
    (tmp_path / "numerical.jinja").write_text("{{ problem }} ({{ sample.id }})")
    sample = Sample(id="s9", problem_type="numerical", problem="x", gold="1")
    assert instruction(sample, thinking=False, templates=tmp_path) == "x (s9)"
    other = Sample(id="s9", problem_type="boolean", problem="x", gold="No")
    assert "Yes or No" in instruction(other, thinking=False, templates=tmp_path)


def test_a_template_with_an_unknown_field_is_a_usage_error(tmp_path):
    (tmp_path / "numerical.jinja").write_text("{{ porblem }}")
    with pytest.raises(UsageError, match="porblem"):
        instruction(Sample(id="s", problem_type="numerical", problem="x", gold="1"), thinking=False, templates=tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        instruction(
            Sample(id="s", problem_type="numerical", problem="x", gold="1"), thinking=False, templates=tmp_path / "no"
        )


def test_every_template_asks_for_the_answer_tags_in_both_modes():
    for path in TEMPLATES.glob("[a-z]*.jinja"):
        sample = Sample(id="s", problem_type=path.stem, problem="x", gold="1")
        assert "<think>" in instruction(sample, thinking=True)
        text = instruction(sample, thinking=False)
        assert "<think>" not in text
        assert "<answer>" in text
        assert len(text) < 300


CHOICE = Sample(
    id="c", problem_type="multiple choice", problem="Which?", gold="B", options=("A. cat", "B. dog"), where="rows:3"
)


def test_one_file_for_all_types_gets_the_fields_under_their_own_names(tmp_path: Path) -> None:
    path = tmp_path / "unified.jinja"
    path.write_text(
        "{#- a comment -#}\n"
        "{%- set question = problem if problem is defined else content -%}\n"
        "{%- set ptype = problem_type | lower | trim -%}\n"
        "{%- set opts = options if options is defined and options is iterable and options | length > 0 else [] -%}\n"
        '{%- if opts -%}{{ question | trim ~ "\\nOptions:\\n" ~ opts | join("\\n") }}'
        "{%- else -%}{{ content }}{%- endif %}\n"
        "[{{ ptype }}|{{ data_type }}|{{ data_source }}|{{ videos | length }}|{{ hint is defined }}]\n\n"
    )
    sample = Sample(
        id="c", problem_type="Multiple_Choice", problem="Which?", gold="B", options=("A. cat", "B. dog"),
        media=(VIDEO,), extra={"data_source": "nextqa"},
        given={"problem_type": "Multiple_Choice", "data_type": "video"},
    )  # fmt: skip
    assert instruction(sample, thinking=True, templates=path) == (
        "<video>Which?\nOptions:\nA. cat\nB. dog\n[multiple_choice|video|nextqa|1|False]"
    )


def test_a_template_is_never_told_the_answer(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{{ problem }} {{ answer is defined }}")
    sample = Sample(id="s", problem_type="numerical", problem="?", gold="4", given={"answer": "4"})
    assert instruction(sample, thinking=False, templates=tmp_path / "t.jinja") == "? False"


def test_a_prompt_that_shows_no_options_of_a_choice_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{{ content }}")
    with pytest.raises(DataError, match="rows:3: field 'options': the prompt does not show the option 'cat'"):
        instruction(CHOICE, thinking=False, templates=tmp_path / "t.jinja")


def test_a_folder_of_which_no_file_is_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "unified.jinja").write_text("{{ content }}")
    with pytest.raises(UsageError, match=r"it holds unified.jinja; for these data a file is called math.jinja, ocr"):
        require_matching(tmp_path, {"math", "ocr"})
    require_matching(tmp_path / "unified.jinja", {"math"})
    (tmp_path / "ocr.jinja").write_text("{{ content }}")
    require_matching(tmp_path, {"math", "ocr"})
