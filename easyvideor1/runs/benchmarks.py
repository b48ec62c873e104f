"""Benchmarks: their questions, and saved responses scored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from easyvideor1.config_reward import JudgeConfig
from easyvideor1.errors import DataError, UsageError
from easyvideor1.evals.benchmark import Benchmark, Loaded
from easyvideor1.evals.judging import judge_items
from easyvideor1.evals.layout import Found, find, folder_of
from easyvideor1.evals.protocol import FAMILIES, load_protocol, prompt_text
from easyvideor1.evals.responses import Responses, read_responses
from easyvideor1.evals.scoring import Scored, counts_beside_official, details, result, score_responses
from easyvideor1.evals.table import BENCHMARKS, benchmark_of
from easyvideor1.evals.unpack import unpack
from easyvideor1.records.jsonl import write_objects
from easyvideor1.rewards.judge import Judge


@dataclass(frozen=True, kw_only=True)
class JudgeAddress:
    """A judge for open answers: a language model behind an endpoint."""

    url: str
    model: str | None
    """None: the model that the protocol names."""
    cache_dir: str


def load_items(name: str, annotations: Sequence[Path]) -> Loaded:
    """The items of a benchmark's annotation files.

    Raises:
        UsageError: no such benchmark.
        DataError: a file that is not of the benchmark's shape.
    """
    return benchmark_of(name).load(list(annotations))


def asked_items(
    name: str, annotations: Sequence[Path], protocol: str, *, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """A record per item in file order: id, video, prompt, labels, and what else its prompt and media have."""
    rules = load_protocol(benchmark_of(name).name, protocol)
    for item in load_items(name, annotations).items[:limit]:
        prompt = prompt_text(item, rules)
        record: dict[str, Any] = {
            "id": item.id,
            "video": item.video,
            "prompt": prompt.text,
            "labels": {label: values[0] if len(values) == 1 else list(values) for label, values in item.labels.items()},
        }
        video = item.sample.media[0]
        optional = {
            "system": prompt.system,
            "prefix": prompt.prefix,
            "image": item.image,
            "subtitles": item.subtitles,
            "start_s": video.start_s,
            "end_s": video.end_s,
        }
        yield record | {key: value for key, value in optional.items() if value not in (None, "")}


def score_file(
    name: str,
    annotations: Sequence[Path],
    responses: Path,
    protocol: str = "official",
    *,
    out: Path | None = None,
    judge: JudgeAddress | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Result and details of saved responses.

    Args:
        out: folder to write results.json, outcomes.jsonl and protocol.json to.
        judge: without one, items that need it are unscored.

    Raises:
        UsageError: no such benchmark or protocol, or a judge that cannot be reached.
        DataError: unreadable files, or responses to other items.
    """
    scored = score_saved(name, annotations, responses, protocol, judge=judge)
    found, more = result(scored), details(scored)
    if out is not None:
        write_folder(scored, out)
    return found, more


def score_saved(
    name: str, annotations: Sequence[Path], responses: Path, protocol: str, *, judge: JudgeAddress | None = None
) -> Scored:
    """The outcomes of all items; see `score_file`."""
    benchmark, rules = benchmark_of(name), load_protocol(name, protocol)
    loaded = benchmark.load(list(annotations))
    said = read_responses(responses, loaded.items)
    verdicts = _verdicts(loaded, said, rules, judge) if judge is not None else {}
    return score_responses(benchmark, loaded, said, rules, verdicts=verdicts)


def write_folder(scored: Scored, out: Path, *, more: Mapping[str, Any] | None = None) -> None:
    """Keep a score with everything that made it.

    Args:
        more: what a run of its own adds to the result, or says better.
    """
    out.mkdir(parents=True, exist_ok=True)
    found = result(scored) | dict(more or {}) | {"details": details(scored)}
    (out / "results.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    settings = asdict(scored.protocol) | {"hash": scored.protocol.hash}
    (out / "protocol.json").write_text(json.dumps(settings, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_objects(out / "outcomes.jsonl", outcome_records(scored))


def outcome_records(scored: Scored) -> list[dict[str, Any]]:
    """A record per item: response, what was read, and its two scores."""
    return [
        {
            "id": mine.item.id,
            "video": mine.item.video,
            "gold": mine.item.sample.gold,
            "response": scored.responses.by_id.get(mine.item.id),
            "parsed": mine.parsed,
            "value": mine.value,
            "official_value": theirs.value,
            "reason": mine.reason,
            "labels": {name: list(values) for name, values in mine.item.labels.items()},
        }
        for mine, theirs in zip(scored.strict, scored.official, strict=True)
    ]


def _verdicts(loaded: Loaded, said: Responses, rules: Any, address: JudgeAddress) -> dict[str, float]:
    if rules.judge is None:
        return {}
    model = address.model or rules.judge.model
    if not address.url.startswith(("http://", "https://")):
        raise UsageError(f"--judge-url {address.url}: an address starts with http:// or https://")
    judge = Judge(
        JudgeConfig(base_url=address.url, model=model, problem_types=("open-ended",), cache_dir=address.cache_dir)
    )
    return judge_items(loaded.items, said.by_id, rules.judge, judge)


def listed(data_root: Path | None) -> list[dict[str, Any]]:
    """A record per benchmark: what it is, and what of it a data root holds."""
    rows = []
    for benchmark in BENCHMARKS.values():
        row = {
            "name": benchmark.name,
            "title": benchmark.title,
            "category": benchmark.category,
            "paper_items": benchmark.paper_items,
            "metric": list(benchmark.metric),
            "formula": benchmark.formula,
            "protocols": {family: load_protocol(benchmark.name, family).hash for family in FAMILIES},
            "folder": benchmark.layout.folder,
            "source": benchmark.layout.source,
            "official_counts": benchmark.official_counts,
            "notes": list(benchmark.notes),
        }
        rows.append(row if data_root is None else row | {"found": _looked_for(benchmark, data_root)})
    return rows


def _looked_for(benchmark: Benchmark, data_root: Path) -> dict[str, Any] | None:
    folder = folder_of(benchmark, data_root)
    if folder is None:
        return None
    try:
        found = find(benchmark, data_root)
    except DataError as error:
        return {"error": str(error)}
    return None if found is None else _on_disk(benchmark, found)


def _on_disk(benchmark: Benchmark, found: Found) -> dict[str, Any]:
    return {
        "folder": str(found.folder),
        "annotations": [str(path) for path in found.annotations],
        "num_items": len(found.loaded.items),
        "num_media": len(found.media),
        "num_missing": len(found.missing),
        "missing": list(found.missing),
        "counts": counts_beside_official(benchmark, found.loaded),
        "errata": found.loaded.erratum_counts(),
    }


def prepare(name: str, raw: Path, out: Path, *, progress: Callable[[str], None] = lambda name: None) -> dict[str, Any]:
    """Unpack a download into the layout below a data root, and say what is there and what is missing.

    Raises:
        UsageError: no such benchmark.
        DataError: a damaged archive, or a download without annotations.
    """
    benchmark = benchmark_of(name)
    folder = out / benchmark.layout.folder
    done = unpack(raw, folder, progress=progress)
    found = find(benchmark, out)
    if found is None:
        patterns = ", ".join(benchmark.layout.annotations)
        raise DataError(
            f"no annotations of {benchmark.title} in the download",
            where=str(raw),
            remedy=f"put a file like {patterns} into it; the authors publish them at {benchmark.layout.source}",
        )
    return asdict(done) | _on_disk(benchmark, found)
