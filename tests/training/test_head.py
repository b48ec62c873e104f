"""Log-probs and entropies of the output layer against autograd through a softmax over all logits at once.

Tolerances: float64 sums in another order, 1e-12.
"""

import pytest
import torch
from support.values import present
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from easyvideor1.training.head import CHUNK_BYTES, OutputLayer, logprobs_and_entropy

N, D, V = 11, 6, 40
ONE_ROW, THREE_ROWS = 4 * V, 3 * 4 * V


def made(dtype=torch.float64, seed=0, n=N, vocabulary=V):
    torch.manual_seed(seed)
    hidden = torch.randn(n, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocabulary, D, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(0, vocabulary, (n,))


def oracle(hidden, weight, targets, temperature):
    found = torch.distributions.Categorical(logits=hidden @ weight.T / temperature)
    return found.log_prob(targets), found.entropy()


@pytest.mark.parametrize("chunk_bytes", [1, ONE_ROW, THREE_ROWS, CHUNK_BYTES])
@pytest.mark.parametrize("parts", ["logprobs", "entropy", "both"])
def test_values_and_gradients_are_those_of_all_logits_at_once(chunk_bytes, parts):
    hidden, weight, targets = made()
    options = {"temperature": 0.7, "with_entropy": True, "chunk_bytes": chunk_bytes}
    factors = torch.randn(2, N, dtype=torch.float64)

    def both(found):
        logprobs, entropy = found
        used = {"logprobs": logprobs * factors[0], "entropy": entropy * factors[1]}
        loss = torch.stack([part.sum() for name, part in used.items() if parts in (name, "both")]).sum()
        return logprobs.detach(), entropy.detach(), *torch.autograd.grad(loss, (hidden, weight))

    found = both(logprobs_and_entropy(hidden, weight, targets, **options))
    expected = both(oracle(hidden, weight, targets, 0.7))
    for a, b in zip(found, expected, strict=True):
        assert (a - b).abs().max() < 1e-12


def test_gradients_are_those_of_small_changes():
    hidden, weight, targets = made()

    def call(hidden, weight) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs, entropy = logprobs_and_entropy(
            hidden, weight, targets, temperature=1.3, with_entropy=True, chunk_bytes=THREE_ROWS
        )
        return logprobs, present(entropy)

    assert gradcheck(call, (hidden, weight))


def test_a_frozen_output_layer_gets_no_gradient_and_the_entropy_is_computed_on_demand():
    hidden, weight, targets = made()
    logprobs, entropy = logprobs_and_entropy(
        hidden, weight.detach(), targets, temperature=1.0, with_entropy=False, chunk_bytes=ONE_ROW
    )
    assert entropy is None
    [gradient] = torch.autograd.grad(logprobs.sum(), [hidden])
    [expected] = torch.autograd.grad(oracle(hidden, weight.detach(), targets, 1.0)[0].sum(), [hidden])
    assert (gradient - expected).abs().max() < 1e-12


def test_half_precision_logits_are_summed_and_kept_in_float32():
    """Rounded to bfloat16 first, log-probs over Qwen's 151,936 words are off by hundredths of a nat."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(16, 64).bfloat16(), (0.4 * torch.randn(151_936, 64)).bfloat16()
    targets = torch.randint(0, len(weight), (16,))
    found, entropy = logprobs_and_entropy(hidden, weight, targets, temperature=1.0, with_entropy=True)
    exact, exact_entropy = oracle(hidden.double(), weight.double(), targets, 1.0)
    assert found.dtype == present(entropy).dtype == torch.float32
    assert (found - exact).abs().max() < 1e-5
    assert (present(entropy) - exact_entropy).abs().max() < 1e-4
    rounded = (hidden @ weight.T).float().log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)
    assert (rounded - exact).abs().mean() > 3e-3, "the comparison must see rounded logits"


@pytest.mark.parametrize("weight_dtype", [torch.bfloat16, torch.float32])
def test_gradients_of_half_precision_states_are_rounded_once(weight_dtype):
    hidden, weight, targets = made(torch.bfloat16)
    weight = weight.detach().to(weight_dtype).requires_grad_()
    logprobs, _ = logprobs_and_entropy(
        hidden, weight, targets, temperature=1.0, with_entropy=False, chunk_bytes=THREE_ROWS
    )
    gradients = torch.autograd.grad(logprobs.sum(), (hidden, weight))
    wide_hidden, wide_weight = (tensor.detach().double().requires_grad_() for tensor in (hidden, weight))
    loss = oracle(wide_hidden, wide_weight, targets, 1.0)[0].sum()
    expected = torch.autograd.grad(loss, (wide_hidden, wide_weight))
    for tensor, gradient, exact in zip((hidden, weight), gradients, expected, strict=True):
        assert gradient.dtype == tensor.dtype
        assert (gradient - exact).norm() < 2**-8 * exact.norm()  # 8 bits of mantissa


def test_a_gpu_multiplies_halves_into_float32_without_a_wide_copy_of_the_weight():
    """On tensors without data, which need no GPU: that this torch takes the calls, and makes what they promise."""
    with FakeTensorMode():
        hidden = torch.empty(N, D, device="cuda", dtype=torch.bfloat16)
        weight = torch.empty(V, D, device="cuda", dtype=torch.bfloat16)
        grad_weight = torch.empty(V, D, device="cuda")
        layer = OutputLayer(weight, hidden, 0.7)
        assert layer._weight is weight
        logits = layer.logits(hidden)
        assert (logits.shape, logits.dtype) == ((N, V), torch.float32)
        layer.add_gradients(logits, hidden, torch.empty_like(hidden), grad_weight)
        assert OutputLayer(weight.float(), hidden, 0.7).logits(hidden).dtype == torch.float32


class Largest(TorchDispatchMode):
    """Notes the largest tensor that an operator makes."""

    num_values = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.num_values = max(self.num_values, tensor.untyped_storage().nbytes() // tensor.itemsize)
        return result


@pytest.mark.parametrize(("n", "vocabulary"), [(50, 400), (200, 400), (50, 1600)])
def test_no_tensor_holds_the_logits_of_all_tokens(n, vocabulary):
    hidden, weight, targets = made(torch.float32, n=n, vocabulary=vocabulary)
    chunk_bytes = 4 * 3200
    with Largest() as largest:
        logprobs, entropy = logprobs_and_entropy(
            hidden, weight, targets, temperature=1.0, with_entropy=True, chunk_bytes=chunk_bytes
        )
        (logprobs + present(entropy)).sum().backward()
    # The weight's gradient is as large as the weight.
    assert chunk_bytes // 4 <= largest.num_values <= max(chunk_bytes // 4, vocabulary * D)
