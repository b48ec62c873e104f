"""The section of a recipe that says what responses are worth, with the judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from easyvideor1.config_checks import check_range, check_text, check_time
from easyvideor1.config_paths import PathText
from easyvideor1.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """A language model that grades answers, behind an OpenAI-compatible endpoint."""

    base_url: str
    """Address of the endpoint, such as http://localhost:8000/v1."""
    model: str
    """Name of the model there."""
    problem_types: tuple[str, ...]
    """Types whose accuracy the judge gives instead of the built-in reward; "preference" is compared in pairs."""
    cache_dir: PathText
    """Folder of the judge's replies, kept by content."""
    api_key_file: PathText | None = None
    """File that holds the key; None: the endpoint wants none."""
    concurrency: int = 16
    """Requests under way at once."""
    timeout_s: float = 60.0
    """Longest time that one request may take, in seconds."""
    retries: int = 3
    """Further tries of a failed request, by the client, with growing pauses."""
    max_tokens: int = 1024
    """Longest reply of the judge, in tokens."""

    def __post_init__(self) -> None:
        check_text("reward.judge", self, "base_url", "model", "cache_dir")
        check_range("reward.judge", self, low=1, names=("concurrency", "max_tokens"))
        check_range("reward.judge", self, low=0, names=("retries",))
        check_time("reward.judge", self, "timeout_s")
        if not self.problem_types:
            raise UsageError("reward.judge.problem_types names no type, so the judge is never asked; name one")


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """How responses are scored."""

    weights: Mapping[str, float] = field(default_factory=lambda: {"accuracy": 0.9, "format": 0.1})
    """Weight of each reward part; they sum to 1."""
    max_unscored_frac: float = 0.25
    """A step with a larger share of unscored rollouts stops the run."""
    overlong_buffer_tokens: int = 0
    """The last tokens before rollout.max_response_tokens over which the part "overlong" falls from 0 to -1; 0: none."""
    rewards: Mapping[str, PathText] = field(default_factory=dict)
    """Problem type -> "file.py:function": a reward of your own for that type, or for all types without one under the
    name "*"; the path is relative to the recipe. Functions of `reward_input` dictionaries (EasyR1) are run as they
    are."""
    parts: Mapping[str, PathText] = field(default_factory=dict)
    """Name -> "file.py:function": a part of your own in every score; `weights` says what it is worth. The path is
    relative to the recipe."""
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of one of `rewards` or `parts` -> keyword arguments of its function, e.g. {"*": {format_weight: 0.2}}."""
    workers: int = 2
    """Processes for answers that may take long to score (math, code, rewards of your own)."""
    deadline_s: float = 10.0
    """Wall time one answer may take there: then it is wrong, or unscored where code of yours scores it. A batch that
    has lost much time this way gives the others less."""
    memory_mb: int = 2048
    """Address space of one such process."""
    sandbox: tuple[str, ...] = ()
    """Command that runs Python answers in a sandbox of yours. Without it, and without `run_python`, programs are
    compared as text and never run."""
    run_python: bool = False
    """Run Python answers on the tests of their rows in the sandbox that ships: no network, no files, no processes,
    `memory_mb` of memory, `deadline_s` for all tests of an answer. The log says which walls hold on the machine."""
    judge: JudgeConfig | None = None
    """A language model that grades the answers of some problem types; None: no judge."""

    def __post_init__(self) -> None:
        check_range("reward", self, low=0, high=1, names=("max_unscored_frac",))
        check_range("reward", self, low=0, names=("overlong_buffer_tokens",))
        check_range("reward", self, low=1, names=("workers",))
        check_range("reward", self, low=256, names=("memory_mb",))
        check_time("reward", self, "deadline_s")
        if self.run_python and self.sandbox:
            raise UsageError("reward.run_python and reward.sandbox both run Python answers; give one of the two")
        if not self.weights:
            raise UsageError("reward.weights is empty, so every score would be 0; give accuracy a weight")
        if abs(sum(self.weights.values()) - 1.0) > 1e-6 or min(self.weights.values()) < 0:
            raise UsageError(
                f"reward.weights must sum to 1, none negative, got {sum(self.weights.values()):g} "
                f"from {dict(self.weights)}"
            )
        if self.weights.get("format", 0.0) > self.weights.get("accuracy", 1.0):
            raise UsageError(
                f"reward.weights: format weighs {self.weights['format']:g}, more than accuracy with "
                f"{self.weights.get('accuracy', 1.0):g}, so well-formed wrong answers would pay more than right ones; "
                "give accuracy at least the weight of format"
            )

    def found_from(self, folder: Path) -> RewardConfig:
        """The same with the files of your own rewards looked for in a folder, that of the recipe.

        A file that is not there stays as it is named, and is looked for in the working folder.
        """

        return replace(self, rewards=found_places(self.rewards, folder), parts=found_places(self.parts, folder))


def found_places(places: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Places "file.py:function" by name, those whose file lies in a folder with its path."""
    return {
        name: str((folder / place).resolve()) if (folder / place.rpartition(":")[0]).is_file() else place
        for name, place in places.items()
    }
