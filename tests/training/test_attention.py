"""Attention over packs against one softmax over a dense mask, in float64: every kernel gives outputs and gradients.

Tolerances: float64 sums of up to 60 terms in another order, 1e-12; half precision as stated.
"""

import pytest
import torch
import torch.nn.functional as F
from support.varlen_emulation import varlen_on_cpu
from torch._subclasses.fake_tensor import FakeTensorMode

from easyvideor1.training import attention, kernels
from easyvideor1.training.attention import pack_attention
from easyvideor1.training.kernels import FLASH_ON_CPU, PLAIN, VARLEN_FLASH, Blocks, Heads
from easyvideor1.training.layout import GroupLayout, PackLayout

EXACT = 1e-12
SCALE = 0.3
H, K, D = 6, 2, 8


def layout_of(*groups):
    return PackLayout.of([GroupLayout(num_prompt=prompt, lengths=tuple(lengths)) for prompt, lengths in groups])


LAYOUTS = {
    "one group": layout_of((7, [3, 5, 1])),
    "long tail": layout_of((4, [40, 5, 5, 5])),
    "many groups": layout_of((1, [1, 1]), (5, [9]), (12, [3, 2, 6]), (2, [1]), (6, [4, 4])),
    "equal lengths": layout_of((4, [3] * 5), (4, [3] * 5), (4, [3] * 5), (9, [2] * 4), (2, [6, 6])),
    "no shared prompt": layout_of((5, [3]), (2, [8])),
}


def heads_for(layout, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    shapes = ((H, D), (K, D), (K, D))
    return [torch.randn(layout.num_tokens, *shape, dtype=dtype, requires_grad=True) for shape in shapes]


def sees(layout):
    """bool [L, L]: the token of the row sees the token of the column."""
    mask = torch.zeros(layout.num_tokens, layout.num_tokens, dtype=torch.bool)
    start = 0
    for group in layout.groups:
        prompt = slice(start, start + group.num_prompt)
        mask[prompt, prompt] = torch.ones(group.num_prompt, group.num_prompt).tril().bool()
        start += group.num_prompt
        for length in group.lengths:
            own = slice(start, start + length)
            mask[own, prompt] = True
            mask[own, own] = torch.ones(length, length).tril().bool()
            start += length
    return mask


def oracle(query, key, value, layout):
    q, k, v = (tensor.transpose(0, 1)[None] for tensor in (query, key, value))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=sees(layout), scale=SCALE, enable_gqa=True)
    return out[0].transpose(0, 1)


def out_and_gradients(attend, heads, seed=1):
    torch.manual_seed(seed)
    out = attend(*heads)
    gradients = torch.autograd.grad(out, heads, torch.randn(out.shape, dtype=torch.float64).to(out.dtype))
    return [out.detach(), *gradients]


def largest_difference(found, expected):
    return max((a - b).abs().max().item() for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("kernel", [FLASH_ON_CPU, VARLEN_FLASH, PLAIN], ids=["cpu", "gpu", "plain"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_kernel_gives_the_outputs_and_gradients_of_one_softmax(monkeypatch, kernel, name):
    monkeypatch.setattr(attention, "kernel_for", lambda query: kernel)
    monkeypatch.setattr(kernels, "PLAIN_SCORES_BYTES", 200)  # a few queries at a time
    layout = LAYOUTS[name]
    heads = heads_for(layout)
    with varlen_on_cpu():
        found = out_and_gradients(lambda q, k, v: pack_attention(q, k, v, layout, scale=SCALE), heads)
    expected = out_and_gradients(lambda q, k, v: oracle(q, k, v, layout), heads)
    assert largest_difference(found, expected) < EXACT


def test_what_runs_on_a_cpu_is_its_flash_kernel_and_what_has_none_takes_the_plain_one():
    assert kernels.kernel_for(torch.empty(1)) is FLASH_ON_CPU
    assert kernels.kernel_for(torch.empty(1, device="meta")) is PLAIN
    with FakeTensorMode():
        assert kernels.kernel_for(torch.empty(1, device="cuda")) is PLAIN
        assert kernels.kernel_for(torch.empty(1, device="cuda", dtype=torch.bfloat16)) is VARLEN_FLASH


def test_the_gpu_kernel_takes_the_arguments_of_this_torch_and_gives_the_shapes_the_merge_needs():
    """On tensors without data, which need no GPU; the numbers are those of the emulation above."""
    with FakeTensorMode():

        def empty(*shape, dtype=torch.bfloat16):
            return torch.empty(*shape, device="cuda", dtype=dtype)

        ends = empty(3, dtype=torch.int32)
        blocks = Blocks(query_lengths=(12, 8), key_lengths=(5, 6), query_ends=ends, key_ends=ends)
        heads = Heads(empty(20, H, D), empty(11, K, D), empty(11, K, D))
        out, lse = VARLEN_FLASH.forward(heads, blocks, is_causal=False, scale=SCALE)
        assert (out.shape, out.dtype) == ((20, H, D), torch.bfloat16)
        assert (lse.shape, lse.dtype) == ((H, 20), torch.float32)
        gradients = VARLEN_FLASH.backward(out, heads, out, lse, blocks, is_causal=False, scale=SCALE)
        assert [(it.shape, it.dtype) for it in gradients] == [(it.shape, it.dtype) for it in heads]


def test_the_comparison_sees_a_backward_with_the_outputs_of_each_pass_alone(monkeypatch):
    """The trap that the merge avoids: gradients without an error message, wrong by per cents."""
    layout = LAYOUTS["one group"]
    heads = heads_for(layout)
    expected = out_and_gradients(lambda q, k, v: oracle(q, k, v, layout), heads)

    def attend(query, key, value):
        kernel = FLASH_ON_CPU

        class Alone(torch.autograd.Function):
            @staticmethod
            def forward(ctx, query, key, value, blocks, is_causal):
                out, lse = kernel.forward(Heads(query, key, value), blocks, is_causal=is_causal, scale=SCALE)
                ctx.save_for_backward(query, key, value, out, lse)
                ctx.blocks, ctx.is_causal = blocks, is_causal
                ctx.mark_non_differentiable(lse)
                return out, lse

            @staticmethod
            def backward(ctx, *grads):
                grad, _ = grads
                *qkv, out, lse = ctx.saved_tensors
                options = {"is_causal": ctx.is_causal, "scale": SCALE}
                return *kernel.backward(grad.contiguous(), Heads(*qkv), out, lse, ctx.blocks, **options), None, None

        own, own_lse = Alone.apply(query, key, value, layout.sequences, True)
        seen, seen_lse = Alone.apply(query[7:], key[:7], value[:7], layout.over_prompts, False)
        share = (seen_lse - torch.logaddexp(own_lse[:, 7:], seen_lse)).exp().T[..., None]
        return torch.cat([own[:7], torch.lerp(own[7:], seen, share)])

    found = out_and_gradients(attend, heads)
    assert largest_difference(found[:1], expected[:1]) < EXACT
    wrong = max(((a - b).norm() / b.norm()).item() for a, b in zip(found[1:], expected[1:], strict=True))
    assert wrong > 0.01


@pytest.mark.parametrize("kernel", [FLASH_ON_CPU, PLAIN], ids=["cpu", "plain"])
def test_half_precision_is_as_near_as_separate_sequences_are(monkeypatch, kernel):
    monkeypatch.setattr(attention, "kernel_for", lambda query: kernel)
    layout = LAYOUTS["long tail"]
    wide = heads_for(layout)
    half = [tensor.detach().bfloat16().requires_grad_() for tensor in wide]
    exact = out_and_gradients(
        lambda q, k, v: oracle(q, k, v, layout), [t.detach().double().requires_grad_() for t in half]
    )
    packed = out_and_gradients(lambda q, k, v: pack_attention(q, k, v, layout, scale=SCALE), half)
    dense = out_and_gradients(lambda q, k, v: oracle(q, k, v, layout), half)
    for found, usual, expected in zip(packed, dense, exact, strict=True):
        assert found.dtype == torch.bfloat16
        assert (found - expected).norm() < 2 * (usual - expected).norm() + 1e-3 * expected.norm()


def test_large_scores_overflow_nowhere():
    layout = LAYOUTS["many groups"]
    heads = [(100 * tensor).detach().requires_grad_() for tensor in heads_for(layout)]
    found = out_and_gradients(lambda q, k, v: pack_attention(q, k, v, layout, scale=SCALE), heads)
    expected = out_and_gradients(lambda q, k, v: oracle(q, k, v, layout), heads)
    assert all(tensor.isfinite().all() for tensor in found)
    assert largest_difference(found, expected) < 1e-8


def test_impossible_groups_are_refused():
    for prompt, lengths in ((0, (1,)), (1, ()), (1, (2, 0))):
        with pytest.raises(ValueError, match="a group needs a prompt and responses of >= 1 token"):
            GroupLayout(num_prompt=prompt, lengths=lengths)
