"""How data files are checked by the settings of a run: its rewards, frame budgets, prompts, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from easyvideor1.config import ModelConfig
from easyvideor1.config_data import CacheConfig, DataConfig
from easyvideor1.config_reward import RewardConfig
from easyvideor1.config_rollout import RolloutConfig
from easyvideor1.config_train import TrainConfig
from easyvideor1.config_tree import to_tree
from easyvideor1.data.length_check import LengthCheck, LengthLimit
from easyvideor1.data.memory import Memory, settings_digest
from easyvideor1.data.prompts import instruction
from easyvideor1.data.row_check import CheckRows
from easyvideor1.problem_types import canonical
from easyvideor1.rewards import router
from easyvideor1.rewards.code_tests import PythonUse, check_tests
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rewards.registry import ANY_TYPE, REGISTRY
from easyvideor1.runs.media import media_specs
from easyvideor1.runs.starting_model import model_files
from easyvideor1.types import Sample

if TYPE_CHECKING:
    from easyvideor1.data.encode import Encoder
    from easyvideor1.data.prepare import Planner

MEMORY_FOLDER = "checked"
"""Name of the folder for results of earlier checks, inside the frame cache."""
MODEL_FILES = (
    "config.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "chat_template.jinja",
    "chat_template.json", "preprocessor_config.json", "processor_config.json",
)  # fmt: skip
"""What of a model decides how long a prompt is."""
SHOWN_FROM = 1000
"""Work on fewer things is not worth a progress bar."""


@dataclass(frozen=True)
class CheckGold:
    """Reads the gold answer of a sample; picklable, to run in worker processes."""

    unread: frozenset[str]
    """Problem types of which only a reward of your own or the judge knows what a gold answer is."""
    python: PythonUse = "compared"

    def __call__(self, sample: Sample) -> None:
        """Raises DataError for an unknown problem type, an unreadable gold answer, or tests that are not run."""
        if sample.problem_type not in self.unread and ANY_TYPE not in self.unread:
            router.check([sample])
            check_tests(sample, self.python)


def row_check(data: DataConfig, reward: RewardConfig) -> CheckRows:
    """How rows are read; rewards of your own are registered before (a RewardPool does that)."""
    check_gold = CheckGold(frozenset(_unread(reward)), _python_use(reward))
    return CheckRows(check_gold=check_gold, thinking=data.thinking, templates=data.templates)


def try_judge(rewards: RewardPool, reward: RewardConfig, problem_types: Iterable[str]) -> None:
    """Make sure that the judge answers, where some of the problem types are for it.

    Raises:
        UsageError: it cannot be reached, or does not tell right from wrong.
    """
    judged = {canonical(name) for name in reward.judge.problem_types} if reward.judge else set()
    for name in judged.intersection(problem_types):
        rewards.check([Sample(id="", problem_type=name, problem="", gold="")])


def length_limit(
    data: DataConfig, rollout: RolloutConfig | None = None, train: TrainConfig | None = None
) -> LengthLimit:
    """How long prompts may be: data.max_prompt_tokens, and in training what leaves room for a response in a pack."""
    if rollout is None or train is None:
        return LengthLimit(tokens=data.max_prompt_tokens)
    most = train.tokens_per_pack - rollout.max_response_tokens
    if most >= data.max_prompt_tokens:
        return LengthLimit(tokens=data.max_prompt_tokens)
    return LengthLimit(
        tokens=most,
        reason=(
            f": with rollout.max_response_tokens={rollout.max_response_tokens} it has to fit into "
            f"train.tokens_per_pack={train.tokens_per_pack}"
        ),
        remedy="raise train.tokens_per_pack (memory grows with it), lower rollout.max_response_tokens, or show fewer "
        "or smaller frames (data.video.max_frames, data.video.max_pixels)",
    )


def length_check(
    data: DataConfig, encoder: Encoder, plan: Planner, *, limit: LengthLimit, count_all: bool = False
) -> LengthCheck:
    """How the prompts of a model are measured."""
    from easyvideor1.data.lengths import CountText, measure_shape

    specs = media_specs(data)

    def exact(sample: Sample) -> int:
        plans = [plan(media, specs[media.kind], encoder.vision) for media in sample.media]
        return len(encoder.encode(sample, plans, instruction(sample, thinking=data.thinking, templates=data.templates)))

    return LengthCheck(
        limit=limit,
        exact=exact,
        shape=measure_shape(encoder),
        count=CountText(encoder.tokenizer.backend_tokenizer.to_str(), data.thinking, data.templates),
        count_all=count_all,
    )


def memory_of(
    data: DataConfig,
    reward: RewardConfig,
    model: ModelConfig | None,
    cache: CacheConfig | None,
    *,
    limit: LengthLimit,
) -> Memory | None:
    """The memory for results of a check under these settings; None without a cache folder."""
    if cache is None:
        return None
    settings = {
        "frames": {"video": to_tree(data.video), "image": to_tree(data.image)},
        "budgets": [[item.path, dict(item.video), dict(item.image)] for item in (*data.train, *data.validation)],
        "thinking": data.thinking,
        "system": data.system,
        "limit": [limit.tokens, limit.reason],
        "unread": sorted(_unread(reward)),
        "python": _python_use(reward),
        "model": model is not None,
    }
    files = [model_files(model.path) / name for name in MODEL_FILES] if model is not None else []
    if model is not None and model.tokenizer is not None:
        files += [Path(model.tokenizer) / name for name in MODEL_FILES]
    if model is not None and model.chat_template is not None:
        files.append(Path(model.chat_template))
    if data.templates is not None:
        place = Path(data.templates)
        files += [place] if place.is_file() else sorted(place.glob("*"))
    return Memory(
        Path(cache.dir) / MEMORY_FOLDER, settings_digest(settings, [file for file in files if file.is_file()])
    )


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows on a terminal how far a long check is."""
    console = Console(stderr=True)
    columns = (TextColumn("checking {task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, int] = {}

        def show(what: str, done: int, total: int) -> None:
            if total < SHOWN_FROM:
                return
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total)  # type: ignore[arg-type] - a TaskID is a number

        yield show


def _python_use(reward: RewardConfig) -> PythonUse:
    return "run" if reward.run_python else "run by a command" if reward.sandbox else "compared"


def _unread(reward: RewardConfig) -> set[str]:
    judged = reward.judge.problem_types if reward.judge is not None else ()
    return {*REGISTRY.rewards, *map(canonical, judged)}
