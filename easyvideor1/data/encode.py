"""Sample -> Prompt: token ids with expanded media placeholders, token types and 3-D positions, made once.

The only module that writes media into a prompt. Its ids are those of the Transformers processors, from plans instead of
pixels; its positions are those of `data.positions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from easyvideor1.data.model_folder import preprocessor, read_json, read_tokenizer, stop_ids
from easyvideor1.data.positions import IMAGE, TEXT, VIDEO, Run, positions, time_interval
from easyvideor1.data.tags import kinds_in, split_at_tags
from easyvideor1.errors import DataError, MismatchError, UsageError
from easyvideor1.model.families import POSITIONS_PER_S, family
from easyvideor1.types import MediaKind, MediaPlan, Prompt, Sample, VisionSpec
from easyvideor1.video.sampling import vision_spec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TOKEN_TYPE: dict[str, int] = {"image": IMAGE, "video": VIDEO}
VISION_TOKENS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
"""Key of config.json -> what tokenizers of the families call the token."""
NONCHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Never part of text (Unicode reserves them for use inside a program)."""


class Encoder:
    """Turns samples into prompts and responses into ids, for one model's tokenizer, chat template and vision tower.

    Attributes:
        vision: how the model cuts pixels into tokens.
        end_ids: tokens that end a response; the first is the one that ends a turn.
        banned_ids: vision tokens, and the ids the model has beyond those of the tokenizer; a sampler must never sample
            them.
        pad_id: token for padding.
        vocab_size: logits the model gives per token (may exceed the tokenizer's entries).
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        config: Mapping[str, Any],
        vision: VisionSpec,
        *,
        stop_ids: Sequence[int] = (),
        system: str | None = None,
    ) -> None:
        """
        Args:
            config: the model's config.json.
            stop_ids: further ids that end a response, beside the one that ends a turn.
            system: system message of every prompt whose sample has none; None leaves it to the chat template.

        Raises:
            UsageError: unknown family, or a tokenizer without the vision tokens or a chat template, or with ids beyond
                the model's vocabulary.
        """
        self._time = family(vision.family).video_time
        if not tokenizer.chat_template:
            raise UsageError(
                f"{tokenizer.name_or_path}: no chat template; put chat_template.jinja beside the tokenizer"
            )
        self.tokenizer, self.vision, self._system = tokenizer, vision, system
        self.vocab_size = int(config.get("text_config", config)["vocab_size"])
        known = set(tokenizer.get_vocab().values())
        largest = max(known)
        if largest >= self.vocab_size:  # fewer are usual: models leave room
            raise UsageError(
                f"{tokenizer.name_or_path}: the tokenizer's largest id is {largest}, and the model has words for ids "
                f"below {self.vocab_size}; take the tokenizer that the model was trained with"
            )
        special = {str(token): id_ for id_, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._special_ids = special
        self._special = re.compile("(" + "|".join(map(re.escape, sorted(special, key=len, reverse=True))) + ")")
        self._plain = _without_special_tokens(tokenizer)
        self._vision_start, self._vision_end = (
            _vision_token(config, f"{name}_token_id", special)[1] for name in ("vision_start", "vision_end")
        )
        self._pads: dict[str, MediaKind] = {}
        self._pad_ids: dict[MediaKind, int] = {}
        for kind in ("image", "video"):
            token, self._pad_ids[kind] = _vision_token(config, f"{kind}_token_id", special)
            self._pads[token] = kind
        turn_end = self._turn_end()
        self.end_ids = tuple(dict.fromkeys((turn_end, *stop_ids)))
        pad = tokenizer.pad_token_id
        self.pad_id: int = turn_end if pad is None else int(pad)  # type: ignore[arg-type]
        banned = {self._vision_start, self._vision_end, *self._pad_ids.values()}
        banned |= {special[token] for token in ("<|vision_pad|>",) if token in special}
        # What has no text would go on in a response unseen by any reward, and some servers refuse it.
        self.banned_ids = tuple(sorted(banned | (set(range(self.vocab_size)) - known)))
        self._positions_per_s = (config.get("vision_config") or {}).get("tokens_per_second", POSITIONS_PER_S)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        system: str | None = None,
        tokenizer: str | Path | None = None,
        chat_template: str | Path | None = None,
    ) -> Encoder:
        """Read config.json, the tokenizer and its chat template from a model folder; nothing is downloaded.

        Args:
            system: message of samples without one of their own; None: that of the chat template.
            tokenizer: folder of one that takes the place of the model's own, with its chat template.
            chat_template: file of one that takes the place of the tokenizer's own.

        Raises:
            UsageError: a file is missing or does not fit, see `__init__`.
        """
        folder = Path(folder)
        config = read_json(folder / "config.json")
        vision = vision_spec(config, preprocessor(folder))
        template = None if chat_template is None else Path(chat_template)
        taken = read_tokenizer(folder if tokenizer is None else Path(tokenizer), chat_template=template)
        return cls(taken, config, vision, stop_ids=stop_ids(folder), system=system)

    def encode(
        self,
        sample: Sample,
        plans: Sequence[MediaPlan],
        text: str,
        *,
        system: str | None = None,
        prefix: str = "",
        behind_frames: Sequence[str] = (),
    ) -> Prompt:
        """Make the prompt of a sample.

        Args:
            plans: one per medium of the sample, in its order.
            text: what the user says, an `<image>` or `<video>` tag where each medium goes, in the same order.
                Control tokens written in it (`<|im_end|>`, `<|video_pad|>`, ...) stay text.
            system: system message of this prompt; None: the sample's, or else the encoder's.
            prefix: what the assistant's turn begins with ("Best option:("); the response goes on behind it.
            behind_frames: what is said behind each frame of the first video, such as subtitles. Where the model sees
                several frames as one, their texts stand together behind them.

        Raises:
            UsageError: texts behind frames, for a model whose frames stand in one piece.
            DataError: the tags do not fit the sample's media.
            MismatchError: a plan disagrees with itself, with its medium or with the placeholders in the prompt.
        """
        self._check_plans(sample, plans)
        system = self._system_of(sample) if system is None else system
        said = text + (system or "") + prefix + "".join(turn.content for turn in sample.turns)
        mark = next(character for character in NONCHARACTERS if character not in said)
        chat = self.tokenizer.apply_chat_template(
            self._messages(sample, text, system, mark), tokenize=False, add_generation_prompt=True
        )
        rendered = str(chat) + self._broken(prefix, mark)
        stream = self._stream(sample, rendered, mark, plans, behind_frames)
        input_ids = np.array(stream.ids, np.int64)
        for kind, pad_id in self._pad_ids.items():
            planned = sum(plan.num_tokens for plan in plans if plan.media.kind == kind)
            found = int((input_ids == pad_id).sum())
            if planned != found:
                raise MismatchError(
                    f"sample {sample.id}: {found} {kind} tokens in the prompt, {planned} in the plans",
                    where=sample.where,
                    remedy="the tokenizer makes vision tokens out of text; check its special tokens",
                )
        lengths = [run.num_tokens for run in stream.runs]
        return Prompt(
            sample=sample,
            text=rendered.replace(mark, ""),
            input_ids=input_ids,
            token_types=np.repeat(np.array([run.token_type for run in stream.runs], np.int64), lengths),
            position_ids=positions(stream.runs),
            plans=tuple(plans),
        )

    def as_read(self, prompt: Prompt) -> str:
        """The tokens of a prompt as text: time stamps where they stand, vision tokens counted instead of repeated."""
        edges = np.flatnonzero(np.diff(prompt.token_types)) + 1
        pieces = []
        for ids in np.split(prompt.input_ids, edges):
            kind = next((kind for kind, pad_id in self._pad_ids.items() if len(ids) and ids[0] == pad_id), None)
            text = self.tokenizer.decode(
                ids[:1].tolist() if kind else ids.tolist(),
                skip_special_tokens=False,
                clean_up_tokenization_spaces=False,
            )
            pieces.append(f"[{len(ids)} x {text}]" if kind else str(text))
        return "".join(pieces)

    def response_ids(self, text: str) -> tuple[int, ...]:
        """Ids of a response, the end of the turn included; control tokens written in the text stay text.

        A text that was stored with the end token at its end gives the same ids as one without.
        """
        end = self.tokenizer.convert_ids_to_tokens(self.end_ids[0])
        return (*self._plain.encode(text.removesuffix(str(end)), add_special_tokens=False).ids, self.end_ids[0])

    def response_text(self, ids: Sequence[int]) -> str:
        """Text of a response without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _check_plans(self, sample: Sample, plans: Sequence[MediaPlan]) -> None:
        if [plan.media.kind for plan in plans] != [media.kind for media in sample.media]:
            raise MismatchError(
                f"sample {sample.id}: plans for {_kinds(plan.media.kind for plan in plans)}, "
                f"media {_kinds(media.kind for media in sample.media)}",
                where=sample.where,
            )
        for plan in plans:
            t, h, w = plan.grid_thw
            merge = self.vision.merge
            padded = -(-len(plan.times_s) // self.vision.temporal_patch)
            size = (h * self.vision.patch_px, w * self.vision.patch_px)
            num_tokens = t * (h // merge) * (w // merge)
            if (padded, *size, num_tokens) != (t, plan.height, plan.width, plan.num_tokens) or h % merge or w % merge:
                raise MismatchError(
                    f"sample {sample.id}: the plan of {plan.media.name} has {len(plan.times_s)} frames of "
                    f"{plan.height}x{plan.width} px and {plan.num_tokens} tokens, its grid {plan.grid_thw} means "
                    f"{t * self.vision.temporal_patch} frames of {size[0]}x{size[1]} px and {num_tokens} tokens",
                    where=sample.where,
                    remedy="plan with the VisionSpec of the same model",
                )

    def _system_of(self, sample: Sample) -> str | None:
        return self._system if sample.system is None else sample.system

    def _broken(self, text: str, mark: str) -> str:
        """Text whose control tokens are broken by `mark`, so that they are not taken for real ones."""
        return self._special.sub(lambda match: mark.join(match[0]) + mark, text)

    def _messages(self, sample: Sample, text: str, system: str | None, mark: str) -> list[dict[str, Any]]:
        """Chat messages; control tokens in the text are broken by `mark`, so that they are not taken for real ones."""
        kinds = [kind for turn in (*(turn.content for turn in sample.turns), text) for kind in kinds_in(turn)]
        if kinds != [media.kind for media in sample.media]:
            raise DataError(
                f"the text has tags for {_kinds(kinds)}, the media are {_kinds(media.kind for media in sample.media)}",
                where=sample.where,
                field="problem",
                remedy="one <image> or <video> tag per medium, in their order, or no tags at all",
            )

        def content(said: str) -> str | list[dict[str, str]]:
            parts = split_at_tags(said)
            if len(parts) == 1:
                return self._broken(parts[0], mark)
            return [
                {"type": part} if index % 2 else {"type": "text", "text": self._broken(part, mark)}
                for index, part in enumerate(parts)
                if part
            ]

        return [
            *([] if system is None else [{"role": "system", "content": self._broken(system, mark)}]),
            *({"role": turn.role, "content": content(turn.content)} for turn in sample.turns),
            {"role": "user", "content": content(text)},
        ]

    def _stream(
        self, sample: Sample, rendered: str, mark: str, plans: Sequence[MediaPlan], behind_frames: Sequence[str]
    ) -> _Stream:
        stream = _Stream(self._plain)
        pieces = self._special.split(rendered)
        placed = [self._pads[piece] for piece in pieces[1::2] if piece in self._pads]
        if placed != [plan.media.kind for plan in plans]:
            raise MismatchError(
                f"sample {sample.id}: the chat template placed {_kinds(placed)} for "
                f"{_kinds(plan.media.kind for plan in plans)}",
                where=sample.where,
                remedy="use the model's own multimodal chat template",
            )
        waiting = iter(plans)
        for index, piece in enumerate(pieces):
            if index % 2 == 0:
                stream.add_text(piece.replace(mark, ""))
            elif piece in self._pads:
                said = behind_frames if self._pads[piece] == "video" else ()
                self._add_medium(stream, next(waiting), said)
                behind_frames = () if said else behind_frames
            else:
                stream.add_token(self._special_ids[piece])
        stream.flush()
        return stream

    def _add_medium(self, stream: _Stream, plan: MediaPlan, behind_frames: Sequence[str]) -> None:
        kind, together = plan.media.kind, self.vision.temporal_patch
        pad_id, token_type = self._pad_ids[kind], TOKEN_TYPE[kind]
        t, h, w = plan.grid_thw[0], plan.grid_thw[1] // self.vision.merge, plan.grid_thw[2] // self.vision.merge
        if kind == "video" and self._time == "timestamps":
            for number, time_s in enumerate(patch_times_s(plan.times_s, together)):
                stream.add_text(f"<{time_s:.1f} seconds>")
                stream.add_token(self._vision_start)
                stream.add_grid(pad_id, Run(token_type=token_type, num_tokens=h * w, grid_thw=(1, h, w)))
                stream.add_token(self._vision_end)
                stream.add_text("".join(behind_frames[together * number : together * (number + 1)]))
            return
        if behind_frames:
            raise UsageError("this model family takes a video in one piece, so no text can stand between its frames")
        interval = 1.0
        if kind == "video" and self._time == "seconds":
            interval = time_interval(self._positions_per_s, seconds_per_patch(plan, self.vision.temporal_patch))
        grid = Run(token_type=token_type, num_tokens=t * h * w, grid_thw=(t, h, w), interval=interval)
        stream.add_grid(pad_id, grid)

    def _turn_end(self) -> int:
        """The special token that the chat template writes after what the assistant said."""
        said = "said-by-the-assistant"
        chat = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": said}]
        rendered = str(self.tokenizer.apply_chat_template(chat, tokenize=False))
        match = self._special.search(rendered.rpartition(said)[2])
        if match is None:
            raise UsageError(f"{self.tokenizer.name_or_path}: the chat template ends a turn without a special token")
        return self._special_ids[match[0]]


class _Stream:
    """Token ids under construction, with the runs they form; neighbouring texts are tokenised as one."""

    def __init__(self, plain: Tokenizer) -> None:
        self.ids: list[int] = []
        self.runs: list[Run] = []
        self._plain = plain
        self._text = ""

    def add_text(self, text: str) -> None:
        self._text += text

    def add_token(self, token_id: int) -> None:
        self.flush()
        self.ids.append(token_id)
        self.runs.append(Run(token_type=TEXT, num_tokens=1))

    def add_grid(self, pad_id: int, grid: Run) -> None:
        self.flush()
        self.ids += [pad_id] * grid.num_tokens
        self.runs.append(grid)

    def flush(self) -> None:
        if self._text:
            ids = self._plain.encode(self._text, add_special_tokens=False).ids
            self.ids += ids
            self.runs.append(Run(token_type=TEXT, num_tokens=len(ids)))
            self._text = ""


def patch_times_s(times_s: Sequence[float], temporal_patch: int) -> list[float]:
    """Time of each temporal patch: the middle between its first and its last frame, the last frame repeated as padding.

    >>> patch_times_s([0.0, 0.5, 1.0], 2)
    [0.25, 1.0]
    """
    padded = [*times_s, *[times_s[-1]] * (-len(times_s) % temporal_patch)]
    return [(padded[i] + padded[i + temporal_patch - 1]) / 2 for i in range(0, len(padded), temporal_patch)]


def seconds_per_patch(plan: MediaPlan, temporal_patch: int) -> float:
    """Seconds from one temporal patch to the next, from the clip's duration (Transformers' `second_per_grid_ts`)."""
    return temporal_patch * plan.duration_s / len(plan.times_s)


def _without_special_tokens(tokenizer: PreTrainedTokenizerFast) -> Tokenizer:
    """A copy of the tokenizer that reads special tokens as plain text."""
    plain = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    plain.encode_special_tokens = True
    return plain


def _vision_token(config: Mapping[str, Any], name: str, special: Mapping[str, int]) -> tuple[str, int]:
    """Text and id of a vision token that the model's configuration names."""
    for token, token_id in special.items():
        if token_id == config.get(name):
            if token != VISION_TOKENS[name]:
                raise UsageError(
                    f"config.json: '{name}' is {token_id}, which the tokenizer calls '{token}' instead of "
                    f"'{VISION_TOKENS[name]}'; take a tokenizer of the model's family"
                )
            return token, token_id
    raise UsageError(f"config.json: '{name}' is {config.get(name)}, which is no special token of the tokenizer")


def _kinds(kinds: Any) -> str:
    return f"[{', '.join(kinds)}]"
