"""The user text of a sample: its problem, its options and how to answer, by one Jinja2 template per problem type, or by
one file for all types.

A template is given: `problem` (also under the name `content`) with the media tags in place; `options`, a list of the
row's texts, whose `items()` are the (letter, text) pairs that the problem does not list; `problem_type`, `problem_id`
and `data_type` as the row writes them; `images` and `videos` (lists of paths); `thinking`; every field of the row that
the framework does not use, by its own name; and `sample`, all of it. The gold answer stands only in `sample`: a prompt
must not tell it.
"""

from __future__ import annotations

import functools
from collections.abc import ItemsView, Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox

from easyvideor1.data.options import unlisted_options
from easyvideor1.data.tags import kinds_in
from easyvideor1.errors import DataError, UsageError
from easyvideor1.problem_types import canonical, option_labels
from easyvideor1.types import Sample

TEMPLATES = Path(__file__).parent / "templates"
DEFAULT = "default.jinja"
CHOICES = ("multiple choice", "multiple select")
"""Types whose answer is the letter of an option, which the prompt therefore has to show."""
SHOWN_FILES = 5


class Options(list[str]):
    """The options of a row as it writes them; `items()` are the letters and texts that the problem does not list."""

    def __init__(self, options: Iterable[str], unlisted: Mapping[str, str]) -> None:
        super().__init__(options)
        self._unlisted = unlisted

    def items(self) -> ItemsView[str, str]:
        """(letter, text) of each option that is still to be shown."""
        return self._unlisted.items()


def instruction(sample: Sample, *, thinking: bool, templates: str | Path | None = None) -> str:
    """The text of the user: problem, options, and the form of the answer, with `<image>`/`<video>` tags in place.

    The problem stands in it byte for byte.

    Args:
        sample: tags left out of its problem are put first, one per medium in order.
        thinking: ask for `<think>..</think>` before the answer block.
        templates: a file for all types; or a folder whose files come before the package's, NAME.jinja for a type,
            spaces and hyphens as "_".

    Raises:
        DataError: the problem has tags, but not one for each medium; or the text shows no options of a question whose
            answer is a letter.
        UsageError: a template does not compile or uses an unknown field.
    """
    unlisted = unlisted_options(sample.problem, sample.options)
    problem = _with_tags(sample, unlisted)
    place = None if templates is None else Path(templates)
    try:
        text = _template(place, sample.problem_type).render(_fields(sample, problem, unlisted, thinking=thinking))
    except jinja2.TemplateError as error:
        raise UsageError(f"prompt template for '{sample.problem_type}' in {templates or TEMPLATES}: {error}") from None
    _require_options(sample, text, templates)
    return text


def require_matching(templates: str | Path | None, problem_types: Iterable[str]) -> None:
    """Make sure that a folder of templates has a file for one of some problem types at least.

    Raises:
        UsageError: none of its files would ever be used; names them, and the names that would be.
    """
    if templates is None or Path(templates).is_file():
        return
    folder = Path(templates)
    _environment(folder)
    wanted = [template_name(problem_type) for problem_type in sorted(set(problem_types))]
    if wanted and not any((folder / name).is_file() for name in (*wanted, DEFAULT, "_layout.jinja")):
        there = sorted(path.name for path in folder.iterdir())
        more = ", .." if len(there) > SHOWN_FILES else ""
        raise UsageError(
            f"data.templates={folder}: no file in it is used: it holds {', '.join(there[:SHOWN_FILES]) or 'nothing'}"
            f"{more}; for these data a file is called {', '.join(wanted[:SHOWN_FILES])} or {DEFAULT}. To use one file "
            "for all types, name the file itself"
        )


def template_name(problem_type: str) -> str:
    """The file of a problem type in a folder of templates.

    >>> template_name("Spatio-temporal grounding")
    'spatial_temporal_grounding.jinja'
    """
    return canonical(problem_type).replace(" ", "_").replace("-", "_") + ".jinja"


def _fields(sample: Sample, problem: str, unlisted: Mapping[str, str], *, thinking: bool) -> dict[str, Any]:
    """The variables of a template; the row's own further fields never hide one of these."""
    paths = {
        kind: [list(media.path) if isinstance(media.path, tuple) else media.path
               for media in sample.media if media.kind == kind]
        for kind in ("image", "video")
    }  # fmt: skip
    return {name: value for name, value in sample.extra.items() if isinstance(name, str)} | {
        "problem": problem,
        "content": problem,
        "options": Options(sample.options, unlisted),
        "problem_type": sample.given.get("problem_type", sample.problem_type),
        "problem_id": sample.given.get("problem_id", sample.id),
        "data_type": sample.given.get("data_type", sample.modality),
        "images": paths["image"],
        "videos": paths["video"],
        "thinking": thinking,
        "sample": sample,
    }


@functools.lru_cache(maxsize=1024)
def _template(place: Path | None, problem_type: str) -> jinja2.Template:
    environment = _environment(place)
    if place is not None and place.is_file():
        return environment.from_string(place.read_text(encoding="utf-8").strip())
    return environment.select_template([template_name(problem_type), DEFAULT])


@functools.cache
def _environment(templates: Path | None) -> jinja2.Environment:
    if templates is not None and not templates.exists():
        raise UsageError(f"{templates}: the folder of prompt templates does not exist")
    folder = templates.parent if templates is not None and templates.is_file() else templates
    folders = [place for place in (folder, TEMPLATES) if place is not None]
    return jinja2.sandbox.ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        auto_reload=False,  # it would look at the files for every prompt
    )


def _require_options(sample: Sample, text: str, templates: str | Path | None) -> None:
    """Raise where a question is to be answered with a letter, and the prompt does not show what the letters mean."""
    if sample.problem_type not in CHOICES or not sample.options:
        return
    shown = _folded(" ".join((*(turn.content for turn in sample.turns), text)))
    hidden = [option for option in option_labels(sample.options).values() if _folded(option) not in shown]
    if hidden:
        raise DataError(
            f"the prompt does not show the option {hidden[0]!r:.60}, so that no letter could be the answer",
            where=sample.where or sample.id,
            field="options",
            remedy=f"let the template in {templates or TEMPLATES} show them, e.g. "
            "{% for option in options %}{{ option }}{% endfor %}",
        )


def _folded(text: str) -> str:
    return " ".join(text.split())


def _with_tags(sample: Sample, options: Mapping[str, str]) -> str:
    """The problem; where no text has a tag, with one tag per medium before it."""
    wanted = [media.kind for media in sample.media]
    texts = (*(turn.content for turn in sample.turns), sample.problem, *options.values())
    found = [kind for text in texts for kind in kinds_in(text)]
    if not found:
        return "".join(f"<{kind}>" for kind in wanted) + sample.problem
    for kind in ("image", "video"):
        if found.count(kind) != wanted.count(kind):
            raise DataError(
                f"{found.count(kind)} <{kind}> tags for {wanted.count(kind)} media of that kind",
                where=sample.where or sample.id,
                field="problem",
                remedy=f"write one tag per medium, or leave all tags out; \\<{kind}> is the word itself",
            )
    return sample.problem
