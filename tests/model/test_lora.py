import pytest
import torch
from safetensors.torch import save_file
from support.made_trainer import STEPS, final_weights, made_config, made_trainer
from support.tiny_models import tiny_model

from easyvideor1.config import LoraConfig
from easyvideor1.errors import UsageError
from easyvideor1.model import lora
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.training import shelf

IDS = torch.arange(12)[None]


@torch.no_grad()
def logits(model):
    return model(input_ids=IDS, use_cache=False).logits


def adapted(*, seed=0):
    """A model with adapters that do something."""
    model = tiny_model("qwen3_vl")
    lora.add_adapters(model, LoraConfig(rank=4, alpha=8))
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    return model


def test_fresh_adapters_change_nothing_and_only_they_train():
    model = tiny_model("qwen3_vl")
    before = logits(model)
    lora.add_adapters(model, LoraConfig(rank=4))
    assert torch.equal(logits(model), before)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert len(trained) == 2 * 2 * 7  # A and B, two layers, seven targets
    assert not any("visual" in name for name in trained)


def test_switched_off_adapters_give_the_base_model_and_stay_trainable():
    model, base = adapted(), tiny_model("qwen3_vl")
    changed = logits(model)
    assert (changed - logits(base)).abs().max() > 0.1
    with lora.adapters_off(model):
        assert torch.equal(logits(model), logits(base))
    assert torch.equal(logits(model), changed)
    assert all(p.requires_grad == (lora.MARK in name) for name, p in model.named_parameters())


def test_merged_adapters_give_the_same_outputs_as_a_plain_model():
    model = adapted()
    expected = logits(model)
    lora.merge_adapters(model)
    assert not lora.has_adapters(model)
    assert model.state_dict().keys() == tiny_model("qwen3_vl").state_dict().keys()
    torch.testing.assert_close(logits(model), expected, rtol=1e-5, atol=1e-5)


def test_fresh_adapters_do_not_depend_on_the_random_state():
    models = []
    for seed in (1, 2):
        models.append(tiny_model("qwen3_vl"))
        torch.manual_seed(seed)
        lora.add_adapters(models[-1], LoraConfig(rank=4))
        assert torch.initial_seed() == seed
    assert all(torch.equal(a, b) for a, b in zip(*(model.parameters() for model in models), strict=True))


def test_stored_adapters_load_back_and_others_are_refused(tmp_path):
    model = adapted()
    save_file(lora.adapters(model), tmp_path / lora.ADAPTERS)
    other = adapted(seed=1)
    lora.load_adapters(other, tmp_path)
    assert torch.equal(logits(other), logits(model))
    wrong = tiny_model("qwen3_vl")
    lora.add_adapters(wrong, LoraConfig(rank=4, targets=("q_proj",)))
    with pytest.raises(UsageError, match=r"are not those of model\.lora"):
        lora.load_adapters(wrong, tmp_path)
    with pytest.raises(UsageError, match=r"no layer of the language model is named nothing"):
        lora.add_adapters(tiny_model("qwen3_vl"), LoraConfig(targets=("nothing",)))
    with pytest.raises(UsageError, match=r"is named lm_head, kproj; its layers are down_proj, .*, v_proj"):
        lora.add_adapters(tiny_model("qwen3_vl"), LoraConfig(targets=("q_proj", "lm_head", "kproj")))
    lora.add_adapters(tiny_model("qwen3_vl_moe"), LoraConfig())  # its experts are no layers of the usual names


def test_a_run_with_adapters_resumes_exactly_and_measures_kl_from_its_base(tmp_path):
    overrides = ("model.lora={rank: 4}", "algorithm.options={kl_coef: 0.01}")
    whole = made_trainer(made_config(tmp_path / "whole", *overrides))
    whole.run()
    kl = [row["loss/kl_ref"] for row in comparable(read_metrics(tmp_path / "whole" / "metrics.jsonl"))]
    assert kl[0] == 0.0
    assert kl[-1] > 0.0
    half = made_config(tmp_path / "half", *overrides, "train.steps=2")
    made_trainer(half).run()
    folder = shelf.list_checkpoints(tmp_path / "half" / "checkpoints")[-1]
    assert (folder / lora.ADAPTERS).exists()
    assert not (folder / "model").exists()
    resumed = made_trainer(made_config(tmp_path / "half", *overrides))
    assert resumed.run().step == STEPS
    found = final_weights(resumed)
    for name, tensor in final_weights(whole).items():
        assert torch.equal(tensor, found[name]), name
