"""`easyvideor1 data filter`: keep the rows of a data set that a model solves sometimes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from easyvideor1.config import RunConfig, Settings
from easyvideor1.config_data import CacheConfig, SourceConfig
from easyvideor1.config_rollout import RolloutConfig
from easyvideor1.config_train import TrainConfig
from easyvideor1.config_tree import to_tree
from easyvideor1.errors import UsageError
from easyvideor1.filter.pass_rate import Bounds, Failure, RateFile, Row, check_settings, collected, load_rows, select
from easyvideor1.records.jsonl import write_objects
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.runs.starting_model import trained_model


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which rows are kept, and what is written beside them."""

    bounds: Bounds
    threshold: float | None = None
    """A response of at least this accuracy passes; None: the pass rate is the mean accuracy."""
    collect: bool = False
    """Write collected.jsonl too: rows with their best response as offline trajectory."""
    limit: int | None = None
    """Number of readable rows to take, from the first; None: all."""


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """The rows of a filtered data set."""

    kept: list[dict[str, Any]]
    dropped: list[dict[str, Any]]
    failures: list[Failure]
    summary: dict[str, Any]


def filter_rows(
    sources: Sequence[SourceConfig],
    settings: Settings,
    selection: Selection,
    *,
    out: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Filtered:
    """Sample `rollout.n` responses to every row, and write kept.jsonl, dropped.jsonl, failed.jsonl and summary.json.

    What was sampled is in rates.jsonl and is not sampled again, also with other bounds.

    Args:
        progress: is told (rows done, rows in all).

    Raises:
        UsageError: no model, contradicting settings, or a folder with rates of other settings.
        DataError: a file cannot be read at all.
    """
    config = _config(sources, settings, out)
    media_root = _media_root(sources)
    with RewardPool.from_config(
        config.reward, thinking=config.data.thinking, max_response_tokens=config.rollout.max_response_tokens
    ) as pool:
        rows, failures = load_rows(sources, lambda sample: pool.check([sample]))
    rows = rows[: selection.limit]
    check_settings(out / "settings.json", _decisive(config))
    rates = RateFile(out / "rates.jsonl")
    num_done = 0
    for num_more, failed in _measure(rows, config, rates=rates):
        failures += failed
        num_done += num_more
        progress(num_done, len(rows))
    kept, dropped = select(rows, rates, bounds=selection.bounds, threshold=selection.threshold)
    files: dict[str, list[Any]] = {"kept": kept, "dropped": dropped, "failed": [asdict(item) for item in failures]}
    if selection.collect:
        files["collected"] = list(collected(rows, rates, threshold=selection.threshold))
    for name, items in files.items():
        write_objects(out / f"{name}.jsonl", items)
    summary: dict[str, Any] = {name: len(items) for name, items in files.items()}
    summary |= {"out": str(out), "media_root": str(media_root)}
    write_objects(out / "summary.json", [summary])
    return Filtered(kept=kept, dropped=dropped, failures=failures, summary=summary)


def _config(sources: Sequence[SourceConfig], settings: Settings, out: Path) -> RunConfig:
    """The settings as those of a run that does not train."""
    if settings.model is None:
        raise UsageError("name the model that answers: --model DIR, or a --recipe that does")
    return RunConfig(
        out=str(out),
        seed=settings.seed,
        model=settings.model,
        data=replace(settings.data, train=tuple(sources), validation=()),
        cache=settings.cache or CacheConfig(dir=str(out), mode="realtime_only"),
        rollout=settings.rollout,
        reward=settings.reward,
        train=TrainConfig(steps=0),
    )


def _decisive(config: RunConfig) -> dict[str, Any]:
    """The settings that responses and their accuracies depend on, beside the rows and their media."""
    folder = Path(config.model.path)
    rollout = to_tree(config.rollout)
    return {
        "model": str(folder.resolve()),
        # A model that was trained further or built anew in the same folder is another model.
        "weights": [_identity(file) for file in sorted(_weights(folder))],
        "dtype": config.model.dtype,
        "frames": {"video": to_tree(config.data.video), "image": to_tree(config.data.image)},
        "thinking": config.data.thinking,
        "templates": config.data.templates,
        "reward": to_tree(config.reward),
        "seed": config.seed,
        **{name: rollout[name] for name in rollout},
    }


def _weights(folder: Path) -> Iterable[Path]:
    trained = trained_model(str(folder))
    return folder.glob("*.safetensors") if trained is None else trained.checkpoint.rglob("*.safetensors")


def _identity(file: Path) -> list[Any]:
    return [file.name, file.stat().st_size, file.stat().st_mtime_ns]


def _media_root(sources: Sequence[SourceConfig]) -> Path:
    """The one folder that relative media paths start from; the rows of all files end up in one."""
    roots = {Path(source.media_root or Path(source.path).parent).resolve() for source in sources}
    if len(roots) > 1:
        raise UsageError(
            f"relative media paths start from {' and '.join(sorted(map(str, roots)))}, which one result file cannot "
            "say; filter the data files one by one, each with its own --out, or give --media-root"
        )
    return roots.pop()


def _measure(rows: Sequence[Row], config: RunConfig, *, rates: RateFile) -> Iterator[tuple[int, list[Failure]]]:
    if all(rates.get(row) is not None for row in rows):
        yield len(rows), []  # other bounds for known rates: the model is not needed
        return
    from easyvideor1.filter.measure import measure  # imports torch, which other bounds for known rates do not need
    from easyvideor1.rollout.engine import Sampling
    from easyvideor1.runs.engines import engine_alone
    from easyvideor1.runs.parts import opened

    rollout: RolloutConfig = config.rollout
    with opened(config) as parts, engine_alone(config, parts) as engine:
        yield from measure(
            rows,
            prepare=parts.prepare,
            engine=engine,
            score=parts.rewards.score,
            sampling=Sampling(
                n=rollout.n,
                temperature=rollout.temperature,
                top_p=rollout.top_p,
                top_k=rollout.top_k,
                max_response_tokens=rollout.max_response_tokens,
            ),
            seed=config.seed,
            rates=rates,
        )
