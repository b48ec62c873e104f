"""The report of a run: one HTML file that needs no network and no scripts to be read.

Everything that comes from the run's files (model output above all) is text to the template, which escapes it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from easyvideor1.errors import DataError, UsageError
from easyvideor1.records.choice import Choice, choose
from easyvideor1.records.drafts import cannot_write
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.jsonl import read_objects
from easyvideor1.records.stopwatch import PARTS
from easyvideor1.report import plots
from easyvideor1.report.read import read_metrics, read_rollouts, read_validation
from easyvideor1.report.summary import (
    Record,
    Series,
    changed_answers,
    mean_times,
    pick_rollouts,
    scoreboard,
    series,
    time_verdict,
    validation_series,
)

NUM_ROLLOUTS = 20
NUM_CHANGED = 6
HERE = Path(__file__).parent
TAGGED = re.compile(r"(<think>.*?</think>|<answer>.*?</answer>)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A picture with its words; `labels` are in the order of the colours, empty where there is one line."""

    title: str
    note: str
    svg: Markup
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Which metrics one chart shows: exact names with their labels, and all names with a prefix."""

    title: str
    note: str
    names: Mapping[str, str]
    prefix: str = ""
    is_share: bool = False
    least_lines: int = 1
    """The chart is left out with fewer lines than this: the accuracy of a single source is the accuracy of all."""


MAIN_CHARTS = (
    Lines(
        title="Reward",
        note="mean over the sampled responses of a step",
        names={"reward/mean": "reward"},
        is_share=True,
    ),
    Lines(
        title="Accuracy by problem type",
        note="sampled responses on training questions",
        names={},
        prefix="accuracy/",
        is_share=True,
    ),
    Lines(
        title="Accuracy by source",
        note="sampled responses on training questions of each data file",
        names={},
        prefix="accuracy_source/",
        is_share=True,
        least_lines=2,
    ),
    Lines(
        title="Accuracy by modality",
        note="sampled responses on training questions",
        names={},
        prefix="accuracy_modality/",
        is_share=True,
    ),
    Lines(
        title="Form and failures",
        note="shares of the sampled responses",
        names={
            "reward/format_frac": "right form",
            "rollout/truncated_frac": "cut at the token limit",
            "reward/unscored_frac": "unscored",
        },
        is_share=True,
    ),
    Lines(
        title="Offline trajectories",
        note="mean over the offline trajectories of a step, and over their tokens",
        names={"reward/offline_mean": "reward", "loss/policy_offline": "loss"},
    ),
    Lines(
        title="Groups without signal",
        note="all rewards of the group equal: nothing to learn from it",
        names={"reward/no_signal_groups_frac": "groups"},
        is_share=True,
    ),
    Lines(
        title="Response length",
        note="mean tokens of a response",
        names={"rollout/response_tokens_mean": "tokens"},
    ),
    Lines(
        title="Entropy",
        note="of the policy's next token, mean in nats",
        names={"loss/entropy": "entropy"},
    ),
    Lines(
        title="Gradient",
        note="norm before it is clipped",
        names={"update/grad_norm": "norm"},
    ),
    Lines(
        title="Learning rate",
        note="of each step",
        names={"update/learning_rate": "learning rate"},
    ),
    Lines(
        title="Distance from the sampler",
        note="of the actor's log-probability of a sampled token from the engine's, in nats; 0 where they agree",
        names={
            "policy/sampler_logprob_diff_mean": "mean",
            "policy/sampler_logprob_diff_max": "largest",
        },
    ),
    Lines(
        title="Distance of the policy",
        note="KL in nats per token, and the share of clipped ratios",
        names={
            "loss/kl_old": "KL from the policy before the step",
            "loss/kl_ref": "KL from the reference",
            "reward/kl_ref": "KL from the reference (in the reward)",
            "loss/ratio_clipped_frac": "clipped ratios",
        },
    ),
)


def write_report(run: str | Path) -> Path:
    """Write `report.html` into the folder of a run, finished or not, and return its path.

    Raises:
        DataError: no run there, no finished step yet, or a damaged file.
        UsageError: a report.html of somebody else stands there, or it cannot be written.
    """
    folder = RunFolder(run)
    remedy = "give the folder of a run, the `out` of its recipe"
    if not folder.path.is_dir():
        raise DataError("no such folder", where=str(run), remedy=remedy)
    if not (folder.metrics.exists() or folder.validation.exists()):
        raise DataError("not a run: it holds no metrics.jsonl", where=str(run), remedy=remedy)
    metrics = read_metrics(folder.metrics) if folder.metrics.exists() else []
    validation = read_validation(folder.validation) if folder.validation.exists() else []
    if not (metrics or validation):
        raise DataError("no step of this run is finished yet", where=str(run), remedy="try again after its first step")
    has_rollouts = (folder.rollouts / "rollouts.jsonl").exists()
    rollouts = read_rollouts(folder.rollouts) if has_rollouts else []
    folder.check_report_is_own()
    page = _render(folder, metrics=metrics, validation=validation, rollouts=rollouts)
    draft = folder.report.with_name(".report.html.tmp")
    try:
        draft.write_text(page, encoding="utf-8", errors="replace")
        draft.replace(folder.report)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise UsageError(cannot_write(folder.report, error)) from error
    return folder.report


def _render(
    folder: RunFolder, *, metrics: Sequence[Record], validation: Sequence[Record], rollouts: Sequence[Record]
) -> str:
    found = series(metrics)
    times = mean_times(found)
    zeros = sorted(name for name, line in found.items() if not any(value for _, value in line))
    exported = exported_step(folder)
    charts, shown = _main_charts(
        {name: line for name, line in found.items() if name not in zeros}, validation, exported=exported
    )
    boards = {
        name: scoreboard(validation, is_greedy=is_greedy) for name, is_greedy in (("greedy", True), ("sampled", False))
    }
    changed = changed_answers(validation)
    picked = pick_rollouts(rollouts, most=NUM_ROLLOUTS)
    config_text = _text(folder.config)
    config = config_of(config_text)
    all_times = (value for part in PARTS for _, value in found.get(f"time/{part}_s", []))
    script = (HERE / "page.js.jinja").read_text(encoding="utf-8")
    return _template().render(
        name=folder.path.resolve().name,
        recipe=recipe_line(config),
        steps=max((record["step"] for record in metrics), default=0),
        total_steps=config_value(config, "train.steps"),
        stopped=_text(folder.stopped).strip(),
        boards={name: board for name, board in boards.items() if board},
        before_after=plots.before_after,
        reward=_ends(found.get("reward/mean", [])),
        charts=charts,
        other_charts=_other_charts(found, shown | set(zeros)),
        zeros=[name for name in zeros if not name.startswith(("time/", "validation/"))],
        exported=exported,
        times=times,
        time_chart=_time_chart(found),
        time_verdict=time_verdict(times),
        run_seconds=sum(all_times),
        tokens_per_s=_mean(found.get("rollout/tokens_per_s", [])),
        changed=[answer for answer in changed if answer.is_better][:NUM_CHANGED]
        + [answer for answer in changed if not answer.is_better][: NUM_CHANGED // 2],
        num_better=sum(answer.is_better for answer in changed),
        num_worse=sum(not answer.is_better for answer in changed),
        rollouts=[(record, _strips(folder, record)) for record in picked],
        rollout_types=sorted({str(record.get("problem_type")) for record in picked}),
        num_rollouts=len(rollouts),
        bad_samples=_bad_samples(folder),
        facts=_facts(folder),
        config_text=config_text,
        colour=plots.colour,
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


@cache
def _template() -> jinja2.Template:
    """The page, compiled once: a run writes it when it ends, and a process may go through several runs."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"percent": percent, "points": points, "segments": segments, "number": number}
    return environment.get_template("page.html.jinja")


def exported_step(folder: RunFolder) -> Choice | None:
    """The checkpoint that `export` takes; None where the run has none."""
    try:
        return choose(folder.path)
    except UsageError:  # none, or one that cannot be read: `export` says which
        return None


def _main_charts(
    found: Mapping[str, Series], validation: Sequence[Record], *, exported: Choice | None = None
) -> tuple[list[Chart], set[str]]:
    """The charts everybody wants, as far as the run measured them, and the names of the metrics they show."""
    charts, shown = [], set()
    checks = validation_series(validation)
    if any(len(line) > 2 for line in checks.values()):
        svg = plots.line_chart(
            checks,
            title="validation accuracy over the steps",
            unit_interval=True,
            mark=None if exported is None else (exported.step, "what export takes"),
        )
        charts.append(Chart(title="Validation accuracy", note="held-out questions", svg=svg, labels=tuple(checks)))
    for spec in MAIN_CHARTS:
        labels = dict(spec.names)
        if spec.prefix:
            labels |= {name: name.removeprefix(spec.prefix) for name in sorted(found) if name.startswith(spec.prefix)}
        lines = {label: found[name] for name, label in labels.items() if name in found}
        shown |= labels.keys()
        if len(lines) >= spec.least_lines:
            svg = plots.line_chart(lines, title=f"{spec.title} over the steps", unit_interval=spec.is_share)
            charts.append(Chart(title=spec.title, note=spec.note, svg=svg, labels=_labels(lines)))
    return charts, shown


def _other_charts(found: Mapping[str, Series], shown: set[str]) -> list[Chart]:
    """One small chart for each metric that no other chart shows; validation has its own section."""
    parts = {f"time/{part}_s" for part in PARTS}
    return [
        Chart(title=name, note="", svg=plots.line_chart({name: line}, title=f"{name} over the steps"))
        for name, line in sorted(found.items())
        if name not in shown | parts and not name.startswith("validation/")
    ]


def _time_chart(found: Mapping[str, Series]) -> Chart | None:
    parts = {part: found[f"time/{part}_s"] for part in PARTS if f"time/{part}_s" in found}
    if not parts:
        return None
    svg = plots.stacked_chart(parts, title="time of each step by part")
    return Chart(title="Time of a step", note="seconds", svg=svg, labels=tuple(parts))


def _labels(lines: Mapping[str, Series]) -> tuple[str, ...]:
    return tuple(lines) if len(lines) > 1 else ()


def _ends(line: Series) -> tuple[float, float] | None:
    """Means of the first and the last tenth of a metric."""
    if len(line) < 2:
        return None
    size = max(1, len(line) // 10)
    return _mean(line[:size]), _mean(line[-size:])


def _mean(line: Series) -> float:
    return sum(value for _, value in line) / len(line) if line else 0.0


def _strips(folder: RunFolder, record: Record) -> list[dict[str, Any]]:
    """Frame strips of a rollout as data URIs; only files of the run's own strips folder are read."""
    strips = []
    for strip in record.get("strips", []):
        path = folder.rollouts / "strips" / Path(str(strip["file"])).name
        if path.is_file():
            data = base64.b64encode(path.read_bytes()).decode()
            strips.append({**strip, "uri": f"data:image/jpeg;base64,{data}"})
    return strips


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _bad_samples(folder: RunFolder) -> list[str]:
    """The samples that were skipped, with the reason, each once: a resumed run meets its bad samples again."""
    if not folder.bad_samples.exists():
        return []
    records = read_objects(folder.bad_samples)
    return sorted(
        {
            ": ".join(filter(None, (record.get("where"), record.get("field"), record.get("problem"))))
            for record in records
        }
    )


def _facts(folder: RunFolder) -> dict[str, str]:
    if not folder.facts.exists():
        return {}
    try:
        facts = json.loads(_text(folder.facts))
    except ValueError as error:
        raise DataError(f"not JSON: {error}", where=str(folder.facts), remedy="delete the file") from None
    return {str(name): str(value) for name, value in facts.items()}


def config_of(text: str) -> Any:
    """The values of a configuration as written; None where it cannot be read: the page shows the text as it is."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def recipe_line(config: Any) -> str:
    """The choices of a configuration that decide most, in one line; what it does not say is left out.

    >>> recipe_line({"algorithm": {"name": "grpo"}, "rollout": {"n": 8}, "seed": 1})
    'grpo, 8 rollouts per prompt, seed 1'
    """
    wanted = (
        ("algorithm.name", "{}"),
        ("train.prompts_per_step", "{} prompts a step"),
        ("rollout.n", "{} rollouts per prompt"),
        ("optimizer.learning_rate", "learning rate {}"),
        ("seed", "seed {}"),
        ("model.path", "model {}"),
    )
    words = []
    for path, form in wanted:
        node = config_value(config, path)
        if path == "model.path" and isinstance(node, str):
            node = "/".join(Path(node).parts[-2:])  # the whole path stands with the configuration below
        if node is not None:
            words.append(form.format(node))
    return ", ".join(words)


def config_value(config: Any, path: str) -> Any:
    """The value of a dotted key of a configuration; None where it has none.

    >>> config_value({"train": {"steps": 5}}, "train.steps")
    5
    """
    node = config
    for key in path.split("."):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def segments(response: str) -> list[tuple[str, str]]:
    """A response cut into ("think" | "answer" | "plain", text) pieces; joined again they are the response.

    >>> segments("<think>a</think> <answer>B</answer>")
    [('think', '<think>a</think>'), ('plain', ' '), ('answer', '<answer>B</answer>')]
    """
    kinds = {"<thi": "think", "<ans": "answer"}
    return [
        (kinds.get(piece[:4], "plain") if TAGGED.fullmatch(piece) else "plain", piece)
        for piece in TAGGED.split(response)
        if piece
    ]


def percent(value: float) -> str:
    """A share in percent.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{value * 100:.1f} %"


def points(value: float) -> str:
    """A difference of shares in percentage points, with its sign.

    >>> points(0.25), points(-0.031)
    ('+25.0', '-3.1')
    """
    return f"{value * 100:+.1f}"


def number(value: Any) -> str:
    """A number of a log, short; "-" where there is none."""
    return f"{value:.3g}" if isinstance(value, (int, float)) else "-"
