"""Checkpoints: weights, optimizer and data position, each save whole or absent.

There is no random state: all random numbers of a step come from seeds made of the run's seed and the step.

A checkpoint is a folder `step-000012` of

* `model/`, in Transformers' format, which loads on its own; with LoRA `adapters.safetensors`;
* `value_head.safetensors`, for algorithms that have one;
* `optimizer/`, a file for each process with its part of AdamW's moments and float32 weights (`tensor_file`), where the
  run keeps them (train.checkpoint_optimizer);
* `state.json`, where the run stands;
* `manifest.json`, size and checksum of all the others, written last.

It is written under another name, synced and renamed; before it is deleted it is renamed again. So a folder of that name
is whole unless the disk damaged it, which its checksums tell when a run goes on from it (`shelf`).
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path

import torch
from transformers import PreTrainedModel

from easyvideor1.algo.carried import Carried
from easyvideor1.config_train import MomentKind
from easyvideor1.errors import RunError
from easyvideor1.model import lora
from easyvideor1.model.weights import checkpoint_shapes, checkpoint_tensors
from easyvideor1.model.whole import whole
from easyvideor1.training import manifest, shelf
from easyvideor1.training.masters import VALUES, MasterWeights
from easyvideor1.training.optimizers import MOMENT_BYTES, MOMENTS, AdamW, pieces
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.stopping import Trend
from easyvideor1.training.tensor_file import Part, Parts, Written, part_of, whole_of, write_parts
from easyvideor1.training.value_head import ValueHead

STATE = "state.json"
OPTIMIZER = "optimizer"
VALUE_HEAD = "value_head.safetensors"
FILE_BYTES = 5 << 30
"""Weights are cut into files of about this size, as Transformers does."""
BYTES_PER_STEP = 8 << 30
"""What checkpoints write per step on average, where the recipe does not say how often they are made."""

Files = list[tuple[str, dict[str, Part]]]
"""(path in the checkpoint, tensors of that file), in order."""


@dataclass(frozen=True)
class _Whole:
    """Files of whole tensors, whose contents come one after another; for sharded ones that is a collective."""

    files: Files
    contents: Iterable[torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class RunState:
    """The state of a run after a finished step."""

    step: int
    """Finished updates; also the version of the weights."""
    cursor: int
    """Place in the endless order of samples that the next step starts from."""
    validated_step: int
    """Last step whose validation is in the records; -1: none."""
    best_accuracy_frac: float = -1.0
    """Best greedy validation accuracy so far; -1.0: none."""
    best_bound_frac: float = -1.0
    """What the best one would be, had all its answers that could not be scored been right."""
    trend: Trend = field(default_factory=Trend)
    """What the stopping rules remember."""
    carried: Carried = field(default_factory=Carried)
    """What the algorithm remembers."""


class Saver:
    """Writes the checkpoints of a run into a folder and keeps the newest `keep` of them, and the best.

    Of several ranks the first writes the weights, which all gather, and each its part of the optimizer. All must make
    the same calls.

    Args:
        in_background: copy the tensors to main memory and write them while the run goes on.
        states: number type of the optimizer's moments; None: only the weights are written.
        ranks: None: one process.
    """

    def __init__(
        self,
        folder: Path,
        *,
        keep: int,
        in_background: bool = False,
        states: MomentKind | None = "float32",
        ranks: Ranks | None = None,
    ) -> None:
        self._folder, self._keep, self._ranks = folder, keep, ranks or Ranks()
        self._in_background = in_background
        self._states: MomentKind | None = states
        self._writing: tuple[RunState, bool, Future[dict[str, Written]]] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")

    def save(
        self,
        *,
        model: PreTrainedModel,
        masters: MasterWeights,
        optimizer: AdamW | torch.optim.Optimizer,
        state: RunState,
        is_best: bool = False,
    ) -> None:
        """Write one checkpoint; with `in_background` its name appears at a later `settle`.

        Raises:
            RunError: the disk is too small or fails; older checkpoints are left as they are.
        """
        self.settle()
        draft = _draft(self._folder / shelf.name_of(state.step))
        with self._ranks.agree("room for a checkpoint"):
            if self._ranks.is_first:
                require_room(self._folder, num_bytes(model, masters, states=self._states))
                shutil.rmtree(draft, ignore_errors=True)
                (draft / OPTIMIZER if self._states else draft).mkdir(parents=True)
        files = _whole_files(model, masters)
        part: dict[str, dict[str, Part]] = {}
        if self._states:
            part[f"{OPTIMIZER}/part-{self._ranks.rank:05d}.safetensors"] = _optimizer_parts(masters, optimizer)
        if self._in_background:
            files = _Whole(files.files, [tensor.detach().to("cpu", copy=True) for tensor in files.contents])
            part = {name: {key: _copied(item) for key, item in parts.items()} for name, parts in part.items()}
            future = self._thread.submit(self._write, draft, files, part, model, state)
        else:
            future = Future()
            try:
                future.set_result(self._write(draft, files, part, model, state))
            except OSError as error:
                future.set_exception(error)
        self._writing = (state, is_best, future)
        if not self._in_background:
            self.settle()

    def settle(self, *, wait: bool = True) -> None:
        """Give a checkpoint that was written its name, and delete old ones.

        Args:
            wait: for one that is being written; otherwise that is left for a later call.

        Raises:
            RunError: it could not be written.
        """
        if self._writing is None:
            return
        state, is_best, future = self._writing
        if not wait and not all(self._ranks.gather(future.done(), of="written checkpoints")):
            return
        self._writing = None
        final = self._folder / shelf.name_of(state.step)
        own: dict[str, Written] = {}
        with self._ranks.agree("writing a checkpoint"), _told(final):
            own = future.result()
        written = {
            name: item for part in self._ranks.gather(own, of="files of a checkpoint") for name, item in part.items()
        }
        with self._ranks.agree("naming a checkpoint"), _told(final):
            if self._ranks.is_first:
                manifest.seal(_draft(final), written)
                shelf.put(_draft(final), final)
                if is_best:
                    shelf.mark_best(final)
                shelf.prune(self._folder, keep=self._keep)

    def close(self) -> None:
        """Wait for what is being written."""
        self.settle()
        self._thread.shutdown()

    def _write(
        self, draft: Path, files: _Whole, part: dict[str, dict[str, Part]], model: PreTrainedModel, state: RunState
    ) -> dict[str, Written]:
        written: dict[str, Written] = {}
        contents = iter(files.contents)
        try:
            if self._ranks.is_first:
                for name, parts in files.files:
                    (draft / name).parent.mkdir(exist_ok=True)
                    made = {key: replace(item, content=lambda: next(contents)) for key, item in parts.items()}
                    written[name] = write_parts(draft / name, made)
                if not lora.has_adapters(model):
                    _write_form(model, files.files, draft / "model")
                (draft / STATE).write_text(json.dumps(asdict(state)), encoding="utf-8")
        finally:
            for _ in contents:  # every rank gathers them, also where the first cannot write
                pass
        for name, parts in part.items():
            written[name] = write_parts(draft / name, parts)
        return written


@contextmanager
def _told(final: Path) -> Iterator[None]:
    """Turn a failure of the disk into a RunError, and free what was written."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(_draft(final), ignore_errors=True)
        raise RunError(
            f"{final.parent}: the checkpoint {final.name} could not be written: {error.strerror}. Earlier ones are as "
            "they were: make room, then run the same command again"
        ) from error


def load_state(checkpoint: Path) -> RunState:
    """Where the run stood.

    Raises:
        RunError: the file does not say so.
    """
    try:
        fields = json.loads((checkpoint / STATE).read_bytes())
        remembered = fields.get("carried", {})  # checkpoints of earlier versions have none
        moments = {task: (mean, square) for task, (mean, square) in remembered.get("moments", {}).items()}
        carried = Carried(**remembered | {"moments": moments})
        return RunState(**fields | {"trend": Trend(**fields["trend"]), "carried": carried})
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{checkpoint / STATE}: does not say where the run stood: {error}") from None


def best_state(folder: Path) -> RunState | None:
    """The state of the checkpoint that is marked as best; None: there is none, or it cannot be read."""
    try:
        return load_state(folder / shelf.BEST)
    except RunError:
        return None


def weights_folder(checkpoint: Path) -> Path | None:
    """The model of a checkpoint, in Transformers' format; None where it holds adapters only."""
    folder = checkpoint / "model"
    return folder if folder.is_dir() else None


def load_value_head(checkpoint: Path, value_head: ValueHead) -> None:
    """Put the stored weights into a value head, which may be sharded.

    Raises:
        RunError: they are not there, or of another shape: a head that began anew would not go on exactly.
    """
    with Parts([checkpoint / VALUE_HEAD]) as stored:
        for name, weight in value_head.named_parameters():
            stored.read_into(weight, f"{VALUES}.{name}")


def has_optimizer(checkpoint: Path) -> bool:
    """Whether a checkpoint holds the optimizer's numbers; one of the weights alone does not."""
    return (checkpoint / OPTIMIZER).is_dir()


def load_optimizer(checkpoint: Path, *, masters: MasterWeights, optimizer: AdamW) -> None:
    """Put the stored moments, step counts and float32 weights back, each onto the device of its weight.

    Raises:
        RunError: something is missing, or of another shape.
    """
    with Parts(sorted((checkpoint / OPTIMIZER).glob("*.safetensors"))) as stored:
        for name, weight in masters.by_name.items():
            if f"adam/{name}/step" not in stored:
                continue  # it was never updated
            state = optimizer.new_state(weight)
            for key, value in state.items():
                for end, piece in pieces(value).items():
                    stored.read_into(piece, f"adam/{name}/{key}{end}")
            optimizer.state[weight] = state
        for name, copy in masters.copies.items():
            stored.read_into(copy, f"master/{name}")


def num_bytes(model: PreTrainedModel, masters: MasterWeights, *, states: MomentKind | None = "float32") -> int:
    """Size of a checkpoint of a model, all processes together, up to its small files.

    Args:
        states: as for `Saver`.
    """
    is_whole = not lora.has_adapters(model)
    weights = [tensor for name, tensor in model.state_dict().items() if is_whole or lora.MARK in name]
    weights += masters.of_values.values()
    moments = 0
    if states:
        moments = len(MOMENTS) * sum(weight.numel() for weight in masters.by_name.values()) * MOMENT_BYTES[states]
        weights += masters.copies.values()
    return math.ceil(moments) + sum(tensor.numel() * tensor.element_size() for tensor in weights)


def steps_between(every: int | None, checkpoint_bytes: int) -> int:
    """Steps from one checkpoint to the next; 0: none in between.

    Args:
        every: of the recipe; None: as few as keep what is written at BYTES_PER_STEP per step.

    >>> steps_between(None, 2 << 30), steps_between(None, 112 * 10**9), steps_between(0, 1)
    (1, 14, 0)
    """
    return max(1, math.ceil(checkpoint_bytes / BYTES_PER_STEP)) if every is None else every


def require_room(folder: Path, checkpoint_bytes: int) -> None:
    """Make sure that a checkpoint fits on the disk.

    Raises:
        RunError: it does not; says how much is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < checkpoint_bytes:
        raise RunError(
            f"{folder}: a checkpoint needs about {checkpoint_bytes >> 20} MiB, {free_bytes >> 20} MiB are free. "
            "Earlier ones are as they were: make room, or lower train.keep_checkpoints, then run the same command again"
        )


def _draft(final: Path) -> Path:
    return final.with_name(f".{final.name}{shelf.DRAFT}")


def _whole_files(model: PreTrainedModel, masters: MasterWeights) -> _Whole:
    """The weights, or the adapters where only they train, in files of a bounded size; and those of a value head."""
    files = _of_whole(lora.ADAPTERS, lora.adapters(model)) if lora.has_adapters(model) else _model_files(model)
    if not masters.of_values:
        return files
    values = _of_whole(VALUE_HEAD, masters.of_values)
    return _Whole([*files.files, *values.files], chain(files.contents, values.contents))


def _of_whole(name: str, tensors: Mapping[str, torch.Tensor]) -> _Whole:
    return _Whole([(name, {key: whole_of(tensor) for key, tensor in tensors.items()})], whole(tensors.values()))


def _model_files(model: PreTrainedModel) -> _Whole:
    """The weights, in files of a bounded size."""
    files: list[dict[str, Part]] = [{}]
    size = 0
    for name, tensor in checkpoint_shapes(model):
        part = whole_of(tensor)
        if files[-1] and size + part.num_bytes > FILE_BYTES:
            files.append({})
            size = 0
        files[-1][name] = part
        size += part.num_bytes
    names = [f"model-{number:05d}-of-{len(files):05d}" for number in range(1, len(files) + 1)]
    names = names if len(files) > 1 else ["model"]
    contents = (tensor for _, tensor in checkpoint_tensors(model))
    return _Whole([(f"model/{name}.safetensors", parts) for name, parts in zip(names, files, strict=True)], contents)


def _write_form(model: PreTrainedModel, files: Files, folder: Path) -> None:
    """What stands beside the weights: the configuration, and which file holds what."""
    model.config.save_pretrained(folder)
    if model.can_generate() and model.generation_config is not None:
        model.generation_config.save_pretrained(folder)
    parts = {Path(name).name: parts for name, parts in files if name.startswith("model/")}
    if len(parts) > 1:
        index = {
            "metadata": {"total_size": sum(part.num_bytes for held in parts.values() for part in held.values())},
            "weight_map": {name: file for file, held in parts.items() for name in held},
        }
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1), encoding="utf-8")


def _optimizer_parts(masters: MasterWeights, optimizer: AdamW | torch.optim.Optimizer) -> dict[str, Part]:
    parts = {}
    for name, weight in masters.by_name.items():
        for key, value in optimizer.state.get(weight, {}).items():
            parts |= {f"adam/{name}/{key}{end}": part_of(piece) for end, piece in pieces(value).items()}
    return parts | {f"master/{name}": part_of(copy) for name, copy in masters.copies.items()}


def _copied(part: Part) -> Part:
    """The part with a copy of its content in main memory, made now."""
    tensor = part.content().detach()
    copied = tensor.to("cpu", copy=True)
    return replace(part, content=lambda: copied)
