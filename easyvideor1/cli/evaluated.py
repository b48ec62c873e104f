"""What `easyvideor1 eval` prints about a run: what it found, how far it is, what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from easyvideor1.evals.report import shown
from easyvideor1.evals.status import Status


def progress_line(status: Status) -> str:
    """One line about a run under way."""
    parts = [
        f"{name} {running.done}/{status.totals[name]}" + ("" if running.score is None else f" ({running.score:.1f} %)")
        for name, running in status.running.items()
    ]
    left = "" if status.left_s is None else f", about {status.left_s / 60:.0f} min left"
    counts = status.counts
    return (
        f"{', '.join(parts)}; {counts.failed_items} failed, {counts.cut} cut, engine idle "
        f"{100 * status.idle_frac:.0f} %{left}"
    )


def print_preflight(console: Console, found: dict[str, Any]) -> None:
    for name, each in found["benchmarks"].items():
        line = f"{name}: {each['num_items']} items about {each['num_videos']} videos, {each['num_missing']} missing"
        if each["num_judged"]:
            line += f", {each['num_judged']} items for a judge"
        console.print(escape(line))
        for label, values in each["counts"].items():
            differing = [f"{value} {here}/{there}" for value, (here, there) in values.items() if here != there]
            if differing:
                console.print(escape(f"  {label or 'all'}: here/official {', '.join(differing)}"))
        for video in each["missing"]:
            console.print(escape(f"  missing: {video}"))
    media = found["media"]
    console.print(
        f"{media['video_s'] / 3600:.2f} h of video to be seen, at most {media['most_vision_tokens']} vision tokens "
        f"a prompt; {media['unreadable']} media cannot be read"
    )
    for line in (*media["faults"], *found["warnings"]):
        console.print(escape(f"  {line}"))


def print_results(console: Console, results: dict[str, Any], out: Path) -> None:
    table = Table("benchmark", "metric", "score", "official", "answered", "failed", "cut", "unscored")
    for name, found in results.items():
        coverage = found["coverage"]
        table.add_row(
            name, found["metric"], shown(found["score"]), shown(found["official_score"]),
            f"{coverage['num_answered']}/{coverage['num_items']}", str(coverage["num_failed"]),
            f"{100 * coverage['cut_frac']:.1f} %", str(coverage["num_unscored"]),
        )  # fmt: skip
    console.print(table)
    for name, found in results.items():
        for line in found["alarms"]:
            console.print(escape(f"{name}: {line}"))
    console.print(escape(f"report: {out / 'report.md'}"))
