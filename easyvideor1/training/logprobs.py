"""One forward of the model over a pack -> log-probability of every response token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from easyvideor1.errors import MismatchError
from easyvideor1.model.vision import KINDS, Media, Seen, encoder_outputs, look
from easyvideor1.training.full_kl import Words, full_kl
from easyvideor1.training.head import CHUNK_BYTES, logprobs_and_entropy
from easyvideor1.training.pack import Pack
from easyvideor1.training.placed import placed_tokens
from easyvideor1.training.sequence import SequenceGroup


class Outputs(NamedTuple):
    """Of the response tokens of a pack, in its flat order."""

    logprobs: torch.Tensor
    """[N] float32."""
    entropy: torch.Tensor | None
    """[N] float32, in nats; None: it was not wanted."""
    kl: torch.Tensor | None
    """[N] float32, in nats: the exact divergence from a reference; None: there was none."""
    words: Words
    """What the log-probs of all words are made of; of several ranks that share a pack, for the tokens of this one."""
    values: torch.Tensor | None = None
    """[N] float32: what can be expected before each token; None: there is no value head."""


def response_logprobs(
    model: Any,
    pack: Pack,
    media: Mapping[int, Media],
    *,
    temperature: float = 1.0,
    with_entropy: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
    sequence: SequenceGroup | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The log-probs and entropies of `response_outputs`."""
    found = response_outputs(
        model,
        pack,
        media,
        temperature=temperature,
        with_entropy=with_entropy,
        chunk_bytes=chunk_bytes,
        sequence=sequence,
    )
    return found.logprobs, found.entropy


def response_outputs(
    model: Any,
    pack: Pack,
    media: Mapping[int, Media],
    *,
    temperature: float,
    with_entropy: bool = False,
    reference: Words | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    sequence: SequenceGroup | None = None,
) -> Outputs:
    """Log-probability, entropy and divergence of every response token of a pack, in the pack's flat order.

    The vision tower is called once, before the text layers, over the media of each group once; not at all for what a
    frozen tower has seen (`vision.Tower`). Under FSDP2 call this from the forward of the sharded root module, for it
    reaches into the model.

    Args:
        model: a Qwen2-VL, Qwen2.5-VL, Qwen3-VL or Qwen3.5 `ForConditionalGeneration`, after `shared_prefix.enable`.
        media: index of a group -> its pixels, or what the tower saw in them; groups without media may be left out.
        temperature: divides the logits.
        with_entropy: whether the entropy is wanted; without gradients through it, it costs a few per cent of the
            output layer.
        reference: `Outputs.words` of another model for the same pack, for the exact divergence from it.
        chunk_bytes: bound on the logits that exist at once.
        sequence: the ranks that compute this pack together; None: this one alone.

    Returns:
        Of these ranks, each has all of them; the gradients that the ranks give them are added up.

    Raises:
        MismatchError: a prompt's placeholders and its features differ in number; names the sample.
    """
    sequence = sequence or SequenceGroup()
    words = Words(response_states(model, pack, media, sequence), model.lm_head.weight)
    num_targets = len(pack.tokens)
    logprobs, entropy = logprobs_and_entropy(
        words.hidden,
        words.weight,
        sequence.own(pack.tokens.token_ids),
        temperature=temperature,
        with_entropy=with_entropy,
        chunk_bytes=chunk_bytes,
    )
    kl = None
    if reference is not None:
        kl = full_kl(words, reference, temperature=temperature, chunk_bytes=chunk_bytes)
    logprobs = sequence.everything(logprobs, count=num_targets)
    entropy, kl = (None if part is None else sequence.everything(part, count=num_targets) for part in (entropy, kl))
    return Outputs(logprobs, entropy, kl, words)


def response_states(model: Any, pack: Pack, media: Mapping[int, Media], sequence: SequenceGroup) -> torch.Tensor:
    """[N, D]: what the output layer reads for each response token; of several ranks, for the tokens of this one."""
    hidden = _hidden(model, pack, media, sequence).flatten(0, 1)
    if sequence.size == 1:
        return hidden[pack.predictors]
    # Responses stand at the end of a pack: dealt anew, so that no rank computes the logits of all of them.
    return sequence.fetch(
        hidden,
        held=[torch.arange(part.start, part.stop) for part in sequence.dealt(pack.num_tokens)],
        wanted=[pack.predictors[part.start : part.stop].cpu() for part in sequence.dealt(len(pack.tokens))],
    )


def _hidden(model: Any, pack: Pack, media: Mapping[int, Media], sequence: SequenceGroup) -> torch.Tensor:
    """[B, L, hidden]: what the last text layer makes of each token; of several ranks, [1, n, hidden] of this one's."""
    groups = list(dict.fromkeys(segment.group for segment in pack.segments))
    by_group = {group: media.get(group, {}) for group in groups}
    check_counts(model, pack, by_group)
    if sequence.size > 1:
        own, zero = placed_tokens(model, pack, by_group, sequence)
        outputs = encoder_outputs([own])
    else:
        seen, zero = _seen(model, by_group, pack.input_ids.device)
        outputs = encoder_outputs([seen[segment.group] for segment in pack.segments])
    input_ids = sequence.own(pack.input_ids, dim=1)
    if outputs:
        inputs = {"input_ids": input_ids, "mm_encoder_outputs": outputs}
    else:
        embeddings = model.get_input_embeddings()(input_ids)
        inputs = {"inputs_embeds": embeddings if zero is None else embeddings + zero}
    return model.model(
        position_ids=sequence.own(pack.position_ids, dim=2),
        use_cache=False,
        pack_layout=pack.layout,
        sequence_group=sequence,
        **inputs,
    ).last_hidden_state


def _seen(model: Any, media: Mapping[int, Media], device: torch.device) -> tuple[dict[int, Seen], torch.Tensor | None]:
    """What the tower sees, or saw, for each group; and a zero to be added to something, see `look`."""
    kept = {group: item.to(device) for group, item in media.items() if isinstance(item, Seen)}
    if len(kept) == len(media):
        return kept, None
    seen, zero = look(model, [item for item in media.values() if not isinstance(item, Seen)])
    return dict(zip(media, seen, strict=True)), zero


def check_counts(model: Any, pack: Pack, media: Mapping[int, Media]) -> None:
    """Compare the placeholders of each segment with what there is to fill them.

    Raises:
        MismatchError: they differ in number; names the sample.
    """
    config = model.config
    patches_per_token = config.vision_config.spatial_merge_size**2
    markers = torch.tensor([config.image_token_id, config.video_token_id], device=pack.input_ids.device)
    ids = pack.input_ids.flatten()
    parts = [ids[segment.start : segment.start + segment.num_tokens] for segment in pack.segments]
    counts = torch.stack([(part[:, None] == markers).sum(0) for part in parts]).tolist()
    for segment, of_segment in zip(pack.segments, counts, strict=True):
        for kind, placeholders in zip(KINDS, of_segment, strict=True):
            found = _problem(kind, placeholders, media.get(segment.group, {}), patches_per_token)
            if found:
                remedy = "build the prompt and its patches from the same plan; a response must not hold vision tokens"
                raise MismatchError(found, where=f"sample {segment.sample_id}", remedy=remedy)


def _problem(kind: str, placeholders: int, media: Media, patches_per_token: int) -> str | None:
    if isinstance(media, Seen):
        num_tokens = media.num_tokens(kind)
        if num_tokens == placeholders:
            return None
        return f"{placeholders} {kind} placeholders, but the vision tower made {num_tokens} tokens"
    pixels, grid_name = KINDS[kind]
    grid = media.get(grid_name)
    from_grid = 0 if grid is None else int(grid.prod(-1).sum())
    num_patches = len(media[pixels]) if pixels in media else 0
    needed = placeholders * patches_per_token
    if num_patches == from_grid == needed:
        return None
    return (
        f"{placeholders} {kind} placeholders need {needed} patches, but there are {num_patches}, "
        f"and the grid {[] if grid is None else grid.tolist()} has {from_grid}"
    )
