"""The user text of a sample: its problem, its options and how to answer, by one Jinja2 template per problem type."""

from __future__ import annotations

import functools
from pathlib import Path

import jinja2
import jinja2.sandbox

from easyvideor1.errors import DataError, UsageError
from easyvideor1.problem_types import lists_options, option_labels
from easyvideor1.types import Sample

TEMPLATES = Path(__file__).parent / "templates"
DEFAULT = "default.jinja"


def instruction(sample: Sample, *, thinking: bool, templates: str | Path | None = None) -> str:
    """What the user says: problem, options, and the form of the answer, with `<image>`/`<video>` tags in place.

    The problem stands in it byte for byte.

    Args:
        sample: tags left out of its problem are put first, one per medium in order.
        thinking: ask for `<think>..</think>` before the answer block.
        templates: folder whose files come before the package's; NAME.jinja for a type, spaces and hyphens as "_".

    Raises:
        DataError: the problem has tags, but not one for each medium.
        UsageError: a template does not compile or uses an unknown field.
    """
    environment = _environment(None if templates is None else Path(templates))
    name = sample.problem_type.replace(" ", "_").replace("-", "_")
    try:
        template = environment.select_template([f"{name}.jinja", DEFAULT])
        return template.render(
            problem=_with_tags(sample), options=_missing_options(sample), thinking=thinking, sample=sample
        )
    except jinja2.TemplateError as error:
        raise UsageError(f"prompt template for '{sample.problem_type}' in {templates or TEMPLATES}: {error}") from None


@functools.cache
def _environment(templates: Path | None) -> jinja2.Environment:
    if templates is not None and not templates.is_dir():
        raise UsageError(f"{templates}: the folder of prompt templates does not exist")
    folders = [folder for folder in (templates, TEMPLATES) if folder is not None]
    return jinja2.sandbox.ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folders), undefined=jinja2.StrictUndefined, autoescape=False
    )


def _with_tags(sample: Sample) -> str:
    wanted = [f"<{media.kind}>" for media in sample.media]
    found = {tag: sample.problem.count(tag) for tag in ("<image>", "<video>")}
    if not any(found.values()):
        return "".join(wanted) + sample.problem
    for tag, count in found.items():
        if count != wanted.count(tag):
            raise DataError(
                f"{count} {tag} tags for {wanted.count(tag)} media of that kind",
                where=sample.where or sample.id,
                field="problem",
                remedy="write one tag per medium, or leave all tags out",
            )
    return sample.problem


def _missing_options(sample: Sample) -> dict[str, str]:
    """Options by letter, unless the problem already lists them with their labels."""
    return {} if lists_options(sample.problem, sample.options) else option_labels(sample.options)
