"""The report of a run over benchmarks, as Markdown and as one HTML page: scores, their origin, what to doubt."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Title, heads, rows."""

_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>{{ title }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid #ccc; padding: .25rem .8rem; text-align: left; }
td { font-variant-numeric: tabular-nums; }
.alarm { background: #fde8e8; padding: .5rem .8rem; }
</style>
<h1>{{ title }}</h1>
{% for part in parts %}
{% if part.title %}<h2>{{ part.title }}</h2>{% endif %}
{% for line in part.alarms %}<p class="alarm">{{ line }}</p>{% endfor %}
{% for line in part.lines %}<p>{{ line }}</p>{% endfor %}
{% for name, heads, rows in part.tables %}
<table><caption>{{ name }}</caption><tr>{% for head in heads %}<th>{{ head }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% endfor %}
{% endfor %}
"""


def write_report(
    out: Path,
    results: Mapping[str, Mapping[str, Any]],
    more: Mapping[str, Mapping[str, Any]],
    *,
    run: Mapping[str, Any],
) -> None:
    """Write report.md and report.html.

    Args:
        results: benchmark -> `results.summary`.
        more: benchmark -> `scoring.details`.
    """
    title = f"Benchmarks of {run['settings']['model']}"
    parts = [_overview(results, more), *(_part(name, results[name], more[name]) for name in results)]
    (out / "report.md").write_text(_markdown(title, parts), encoding="utf-8")
    page = jinja2.Environment(autoescape=True).from_string(_PAGE).render(title=title, parts=parts)
    (out / "report.html").write_text(page, encoding="utf-8")


def _overview(results: Mapping[str, Mapping[str, Any]], more: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    heads = ("benchmark", "metric", "score", "95 % interval", "official score", "items differ", "coverage", "protocol")
    rows = []
    for name, found in results.items():
        coverage = found["coverage"]
        rows.append((
            name,
            found["metric"],
            shown(found["score"]),
            _interval(more[name]["interval_95"]),
            shown(found["official_score"]),
            str(more[name]["num_different"]),
            f"{coverage['num_answered']} of {coverage['num_items']}",
            f"{more[name]['protocol']} {more[name]['protocol_hash']}",
        ))  # fmt: skip
    return {"title": "", "alarms": (), "lines": (), "tables": [("scores in percent", heads, rows)]}


def _part(name: str, found: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    coverage = found["coverage"]
    lines = [
        f"{found['metric']}: {more['formula']}. Answers by the reading '{more['reading']}', {found['decoding']}.",
        f"{coverage['num_items']} items: {coverage['num_answered']} answered, {coverage['num_failed']} failed, "
        f"{coverage['num_unparsed']} unparsed, {coverage['num_empty']} empty, {coverage['num_unscored']} unscored, "
        f"{coverage['num_cut']} cut by the token limit, {coverage['num_missing']} without an answer.",
    ]
    lines += [f"failed: {item['id']}: {item['error']}" for item in coverage["failed"]]
    lines += [f"note: {note}" for note in more["notes"]]
    if more["errata"]:
        lines.append("known errata of the annotations: " + ", ".join(f"{k} ({n})" for k, n in more["errata"].items()))
    official = more["official_metrics"]
    tables: list[Table] = [
        ("metrics", ("metric", "strict", "official"),
         [(key, shown(value), shown(official.get(key))) for key, value in found["metrics"].items()]),
    ]  # fmt: skip
    if "repeats" in found:
        tables.append(
            ("several responses", ("measure", "percent"), [(k, shown(v)) for k, v in found["repeats"].items()])
        )
    for label, values in found["breakdown"].items():
        counts = more["counts"].get(label, {})
        rows = [
            (value, shown(entry["score"]), str(entry["num_items"]), str(counts.get(value, [None, None])[1] or ""))
            for value, entry in values.items()
        ]
        tables.append((f"by {label}", (label, "score", "items", "official items"), rows))
    if more["published"]:
        rows = [
            (known["model"], known["metric"], shown(known["score"]), "" if known["is_verified"] else "not verified",
             known["source"])
            for known in more["published"]
        ]  # fmt: skip
        tables.append(("published scores", ("model", "metric", "score", "", "source"), rows))
    return {"title": name, "alarms": found["alarms"], "lines": lines, "tables": tables}


def _markdown(title: str, parts: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"# {title}", ""]
    for part in parts:
        if part["title"]:
            lines += [f"## {part['title']}", ""]
        lines += [text for line in part["alarms"] for text in (f"> **{line}**", "")]
        lines += [text for line in part["lines"] for text in (line, "")]
        for name, heads, rows in part["tables"]:
            cells = [heads, ["---"] * len(heads), *rows]
            lines += [f"{name}:", "", *(f"| {' | '.join(map(_cell, row))} |" for row in cells), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return html.escape(text, quote=False).replace("|", "\\|").replace("\n", " ")


def _interval(found: Sequence[float] | None) -> str:
    return "" if found is None else f"{found[0]:.2f} to {found[1]:.2f}"


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
