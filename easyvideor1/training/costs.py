"""What a model's work costs, by the sizes of its layers, and which part of a batch is this rank's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from easyvideor1.model.families import language_model, layer_kinds, vision_tower
from easyvideor1.training.balance import Costs, GroupCost, deal
from easyvideor1.training.pack import PackForm
from easyvideor1.training.ranks import Ranks
from easyvideor1.types import Group, Prompt

EXPERTS = ".experts."
"""Part of the names of weights of which a token uses some only."""


def costs_of(model: Any) -> Costs:
    """The matrices a token or patch is multiplied with, and the products of attention over a pair of tokens."""
    text, vision = model.config.get_text_config(), model.config.vision_config
    used = getattr(text, "num_experts_per_tok", 1) / (getattr(text, "num_experts", None) or 1)
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return Costs(
        token=_matrices(language_model(model).layers, share_of_experts=used),
        pair=2 * layer_kinds(model).count("full_attention") * text.num_attention_heads * head_dim,
        vision=_matrices(vision_tower(model).blocks) * vision.spatial_merge_size**2,
        output=model.lm_head.weight.numel(),
    )


def prompt_cost(prompt: Prompt, costs: Costs) -> int:
    """Multiplications of a prompt with its media."""
    return costs.prompt(num_tokens=len(prompt), num_vision=int((prompt.token_types != 0).sum()))


@dataclass(frozen=True, kw_only=True)
class Share:
    """This rank's part of whatever is computed."""

    ranks: Ranks
    costs: Costs
    ranks_per_pack: int = 1
    """Neighbouring ranks that compute each pack together (`parallel.sequence`)."""

    def of(self, groups: Sequence[Group], chosen: Sequence[Sequence[int]], *, form: PackForm) -> list[tuple[int, ...]]:
        """The chosen rollouts of each group that this rank computes; every rank must ask for the same."""
        work = [
            self._cost(group, of_group, is_shared=form == "shared")
            for group, of_group in zip(groups, chosen, strict=True)
        ]
        num_groups, own = self.ranks.size // self.ranks_per_pack, self.ranks.rank // self.ranks_per_pack
        dealt = deal(work, num_ranks=num_groups).ranks[own]
        return [tuple(of_group[place] for place in places) for of_group, places in zip(chosen, dealt, strict=True)]

    def multiplications(self, groups: Sequence[Group], chosen: Sequence[Sequence[int]], *, form: PackForm) -> int:
        """Multiplications of one forward over the chosen rollouts of all groups, on all ranks together."""
        return sum(
            self._cost(group, of_group, is_shared=form == "shared").whole
            for group, of_group in zip(groups, chosen, strict=True)
        )

    def _cost(self, group: Group, chosen: Sequence[int], *, is_shared: bool) -> GroupCost:
        num_prompt, prompt = len(group.prompt), prompt_cost(group.prompt, self.costs)
        lengths = [len(group.rollouts[index].token_ids) for index in chosen]
        responses = [self.costs.response(length, num_prompt=num_prompt) for length in lengths]
        if is_shared:
            return GroupCost(prompt=prompt, responses=tuple(responses))
        return GroupCost(prompt=0, responses=tuple(prompt + response for response in responses))


def _matrices(module: Any, *, share_of_experts: float = 1.0) -> int:
    sizes = [
        weight.numel() * (share_of_experts if EXPERTS in name else 1.0)
        for name, weight in module.named_parameters()
        if weight.ndim >= 2
    ]
    return round(sum(sizes))
