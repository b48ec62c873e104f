import torch
from support.tiny_models import tiny_model

from easyvideor1.config import LoraConfig
from easyvideor1.model import lora
from easyvideor1.model.weights import checkpoint_tensors


def test_adapters_are_merged_in_and_the_model_keeps_them():
    model = tiny_model("qwen3_vl")
    lora.add_adapters(model, LoraConfig(rank=4, alpha=8))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    handed = {name: tensor.clone() for name, tensor in checkpoint_tensors(model)}
    assert lora.has_adapters(model)
    base = dict(checkpoint_tensors(tiny_model("qwen3_vl")))
    lora.merge_adapters(model)
    merged = model.state_dict()
    assert handed.keys() == merged.keys() == base.keys()
    for name, tensor in merged.items():
        torch.testing.assert_close(handed[name], tensor, rtol=0, atol=1e-6)
    changed = {name for name, tensor in base.items() if not torch.equal(handed[name], tensor)}
    assert len(changed) == 2 * 7  # two layers, seven targets
    assert not any(tensor.requires_grad for tensor in handed.values())


def test_tensors_are_made_one_by_one_and_tied_weights_once():
    model = tiny_model("qwen3_vl")
    stream = checkpoint_tensors(model)
    name, tensor = next(stream)
    assert tensor.data_ptr() == model.state_dict()[name].data_ptr()
    model.lm_head.weight = model.model.language_model.embed_tokens.weight
    names = [name for name, _ in checkpoint_tensors(model)]
    assert "model.language_model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names
