"""A protocol: how a benchmark is asked and read, whatever the model; data, and hashed with every score."""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import jinja2
import jinja2.sandbox
import yaml

from easyvideor1.errors import UsageError
from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.readers import READERS
from easyvideor1.types import FrameSpec

PROTOCOLS = Path(__file__).parent / "protocols"
FAMILIES = ("official", "paper", "lmms-eval", "vlmevalkit", "fast")
CHOICES = {
    "reading": ("tags", "conclusion", "whole"),
    "subtitles": ("none", "listed", "interleaved"),
    "box_units": ("pixels", "grid"),
}
"""Setting -> what it may be."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How responses are sampled."""

    temperature: float = 0.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    max_response_tokens: int = 1024
    n: int = 1
    """Responses per item."""

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0


@dataclass(frozen=True, kw_only=True)
class Template:
    """The text around a question."""

    text: str
    """Jinja: what the user says behind the media; kept byte for byte."""
    system: str = ""
    """The system message; "": none."""
    prefix: str = ""
    """What the assistant's turn begins with."""


@dataclass(frozen=True, kw_only=True)
class JudgeRule:
    """The instruction of the judge, for answers that no rule can score."""

    model: str
    """The model that the authors use; another one gives other scores."""
    prompt: str
    """Jinja over question, answer and response; the reply ends in VERDICT: RIGHT or VERDICT: WRONG, or in ratings."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How one benchmark is asked and read."""

    benchmark: str
    family: str
    source: str
    """Where the settings are published, and which of them are not."""
    video: FrameSpec
    decoding: Decoding
    prompts: Mapping[str, Template]
    """Form of an item -> template; "default" for all others."""
    readers: Mapping[str, str] = field(default_factory=dict)
    """Form -> name of the official reader; "default" for all others."""
    reading: Literal["tags", "conclusion", "whole"] = "conclusion"
    """Where the strict score looks for the answer."""
    subtitles: Literal["none", "listed", "interleaved"] = "none"
    box_units: Literal["pixels", "grid"] = "pixels"
    """What boxes in responses count: pixels of the source, or a grid of 0 to 1000."""
    judge: JudgeRule | None = None

    @property
    def hash(self) -> str:
        """A hash that is the same for the same settings, whatever file they stand in."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def template_of(self, item: Item) -> Template:
        return _of_form(self.prompts, item.form)

    def reader_of(self, item: Item) -> str:
        """Name of the official reader of an item; "" where only a judge reads it."""
        return _of_form(self.readers, item.form) if self.readers else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptText:
    """The words of a prompt; media stand before the text of the user."""

    text: str
    system: str
    prefix: str


def _of_form(values: Mapping[str, Any], form: str) -> Any:
    """What is given for a form, for the last word of its name, or for all."""
    for name in (form, form.rpartition(" ")[2], "default"):
        if name in values:
            return values[name]
    raise UsageError(f"the protocol says nothing about items of the form '{form}'; it knows {', '.join(values)}")


def prompt_text(item: Item, protocol: Protocol, *, subtitles: str = "", are_interleaved: bool = False) -> PromptText:
    """The prompt of an item, byte for byte as the protocol writes it.

    Args:
        subtitles: what is said in the video; a protocol that does not list subtitles leaves it out.
        are_interleaved: subtitles stand between the frames.

    Raises:
        UsageError: a template names something that the item does not have.
    """
    template = protocol.template_of(item)
    said = subtitles if protocol.subtitles == "listed" else ""
    known = {**item.fields, "letters": list(item.fields["options"]), "image": item.image}
    known |= {"subtitles": said, "are_interleaved": are_interleaved}

    def render(text: str) -> str:
        try:
            return _compiled(text).render(known)
        except jinja2.TemplateError as error:
            raise UsageError(
                f"protocol {protocol.family} of {protocol.benchmark}, form '{item.form}': {error}"
            ) from None

    return PromptText(text=render(template.text), system=render(template.system), prefix=template.prefix)


@functools.lru_cache(maxsize=1024)
def _compiled(text: str) -> jinja2.Template:
    return _environment().from_string(text)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
    environment.filters["each"] = _each
    environment.filters["any_of"] = _any_of
    environment.filters["text"] = str
    return environment


def _each(options: Mapping[str, str], form: str, between: str = "\n") -> str:
    """Every option in one form: `options | each("({letter}) {text}")`."""
    lines = [form.replace("{letter}", letter).replace("{text}", text) for letter, text in options.items()]
    return between.join(lines)


def _any_of(letters: Sequence[str], comma: str = "") -> str:
    """Letters for people: A or B; A, B, C or D; with comma="," A, B, C, or D."""
    if len(letters) < 3:
        return " or ".join(letters)
    return f"{', '.join(letters[:-1])}{comma} or {letters[-1]}"


def load_protocol(benchmark: str, family: str = "official") -> Protocol:
    """The protocol of a family that ships with the package, or of a YAML file of the user.

    Args:
        family: one of `FAMILIES`, or the path of a YAML file with the same keys; its `like:` names the family whose
            settings it changes.

    Raises:
        UsageError: no such family or file, or a key that is none.
    """
    if family in FAMILIES:
        return _build(benchmark, family, _settings(benchmark, family))
    path = Path(family)
    if not path.is_file():
        raise UsageError(f"'{family}' is no protocol; name one of {', '.join(FAMILIES)}, or a YAML file")
    own = _yaml(path)
    base = str(own.pop("like", "official"))
    if base not in FAMILIES:
        raise UsageError(f"{path}: like: '{base}' is no family of protocols; known: {', '.join(FAMILIES)}")
    return _build(benchmark, path.stem, _merged(_settings(benchmark, base), own))


@functools.cache
def _shipped(name: str) -> dict[str, Any]:
    return _yaml(PROTOCOLS / f"{name}.yaml")


def _settings(benchmark: str, family: str) -> dict[str, Any]:
    """The family's settings, changed by the benchmark's own; readers and judge default to the official ones."""
    official = _shipped(benchmark)["official"]
    common = {name: official[name] for name in ("readers", "judge") if name in official}
    return _merged(common | _shipped("families")[family], _shipped(benchmark).get(family, {}))


def _merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in change.items():
        is_nested = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping) and "text" not in value
        merged[key] = _merged(merged[key], value) if is_nested else value
    return merged


def _yaml(path: Path) -> dict[str, Any]:
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: cannot be read as a protocol: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path}: a protocol is a mapping of settings")
    return value


def _build(benchmark: str, family: str, settings: Mapping[str, Any]) -> Protocol:
    place = f"protocol {family} of {benchmark}"
    known = {item.name for item in fields(Protocol)} - {"benchmark", "family"}
    _check_keys(place, settings, known)
    for name, values in CHOICES.items():
        if settings.get(name, values[0]) not in values:
            raise UsageError(f"{place}: {name} must be one of {', '.join(values)}, got '{settings[name]}'")
    prompts = {
        form: _part(Template, f"{place}, prompts.{form}", {"text": value} if isinstance(value, str) else value)
        for form, value in settings["prompts"].items()
    }
    readers = settings.get("readers") or {}
    for name in readers.values():
        if name and name not in READERS:
            raise UsageError(f"{place}: there is no reader '{name}'; known: {', '.join(READERS)}")
    judge = settings.get("judge")
    return Protocol(
        benchmark=benchmark,
        family=family,
        source=" ".join(str(settings.get("source", "")).split()),
        video=_part(FrameSpec, f"{place}, video", settings["video"]),
        decoding=_part(Decoding, f"{place}, decoding", settings["decoding"]),
        prompts=prompts,
        readers=readers,
        reading=settings.get("reading", "conclusion"),
        subtitles=settings.get("subtitles", "none"),
        box_units=settings.get("box_units", "pixels"),
        judge=_part(JudgeRule, f"{place}, judge", judge) if judge else None,
    )


def _part(kind: type, place: str, settings: Mapping[str, Any]) -> Any:
    _check_keys(place, settings, {item.name for item in fields(kind)})
    try:
        return kind(**settings)
    except TypeError as error:
        raise UsageError(f"{place}: {error}") from None


def _check_keys(place: str, settings: Mapping[str, Any], known: set[str]) -> None:
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(str(key), sorted(known), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(known))}"
            raise UsageError(f"{place}: unknown key '{key}'; {hint}")
