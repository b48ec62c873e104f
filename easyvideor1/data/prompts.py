"""The user text of a sample: its problem, its options and how to answer, by one Jinja2 template per problem type."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import jinja2
import jinja2.sandbox

from easyvideor1.data.options import unlisted_options
from easyvideor1.data.tags import kinds_in
from easyvideor1.errors import DataError, UsageError
from easyvideor1.types import Sample

TEMPLATES = Path(__file__).parent / "templates"
DEFAULT = "default.jinja"


def instruction(sample: Sample, *, thinking: bool, templates: str | Path | None = None) -> str:
    """The text of the user: problem, options, and the form of the answer, with `<image>`/`<video>` tags in place.

    The problem stands in it byte for byte.

    Args:
        sample: tags left out of its problem are put first, one per medium in order.
        thinking: ask for `<think>..</think>` before the answer block.
        templates: folder whose files come before the package's; NAME.jinja for a type, spaces and hyphens as "_".

    Raises:
        DataError: the problem has tags, but not one for each medium.
        UsageError: a template does not compile or uses an unknown field.
    """
    options = unlisted_options(sample.problem, sample.options)
    folder = None if templates is None else Path(templates)
    try:
        return _template(folder, sample.problem_type).render(
            problem=_with_tags(sample, options), options=options, thinking=thinking, sample=sample
        )
    except jinja2.TemplateError as error:
        raise UsageError(f"prompt template for '{sample.problem_type}' in {templates or TEMPLATES}: {error}") from None


@functools.lru_cache(maxsize=1024)
def _template(folder: Path | None, problem_type: str) -> jinja2.Template:
    name = problem_type.replace(" ", "_").replace("-", "_")
    return _environment(folder).select_template([f"{name}.jinja", DEFAULT])


@functools.cache
def _environment(templates: Path | None) -> jinja2.Environment:
    if templates is not None and not templates.is_dir():
        raise UsageError(f"{templates}: the folder of prompt templates does not exist")
    folders = [folder for folder in (templates, TEMPLATES) if folder is not None]
    return jinja2.sandbox.ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        auto_reload=False,  # it would look at the files for every prompt
    )


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
