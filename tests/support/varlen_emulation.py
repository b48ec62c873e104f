"""What the GPU's varlen flash kernel computes, on a CPU: by dense matrix products, block by block."""

import contextlib
import math

import torch


def forward(query, key, value, query_ends, key_ends, max_q, max_k, dropout, is_causal, debug, *, scale):
    assert (max_q, max_k) == (query_ends.diff().max(), key_ends.diff().max())
    outs, lses = [], []
    for queries, keys in zip(stretches(query_ends), stretches(key_ends), strict=True):
        scores = dense_scores(query[queries], key[keys], is_causal, scale)
        outs.append((scores.softmax(-1) @ repeated(value[keys], query.shape[1])).transpose(0, 1))
        lses.append(scores.logsumexp(-1))
    nothing = torch.empty(0)
    return torch.cat(outs), torch.cat(lses, 1), nothing, nothing, nothing


def backward(
    grad, query, key, value, out, lse, query_ends, key_ends, max_q, max_k, dropout, is_causal, rng, unused, *, scale
):
    assert all(tensor.is_contiguous() for tensor in (grad, query, key, value, out, lse))
    found = [torch.zeros_like(tensor) for tensor in (query, key, value)]
    for queries, keys in zip(stretches(query_ends), stretches(key_ends), strict=True):
        shares = (dense_scores(query[queries], key[keys], is_causal, scale) - lse[:, queries, None]).exp()
        g, o = (tensor[queries].transpose(0, 1) for tensor in (grad, out))
        inner = g @ repeated(value[keys], query.shape[1]).mT - (g * o).sum(-1, keepdim=True)
        grad_scores = shares * inner * scale
        found[0][queries] = (grad_scores @ repeated(key[keys], query.shape[1])).transpose(0, 1)
        q = query[queries].transpose(0, 1)
        for total, part in ((found[1], grad_scores.mT @ q), (found[2], shares.mT @ g)):
            total[keys] = part.unflatten(0, (key.shape[1], -1)).sum(1).transpose(0, 1)
    return tuple(found)


def stretches(ends):
    return [slice(start, end) for start, end in zip(ends.tolist(), ends.tolist()[1:], strict=False)]


def repeated(tensor, num_heads):
    return tensor.transpose(0, 1).repeat_interleave(num_heads // tensor.shape[1], 0)


def dense_scores(query, key, is_causal, scale):
    scores = query.transpose(0, 1) @ repeated(key, query.shape[1]).mT * scale
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf) if is_causal else scores


@contextlib.contextmanager
def varlen_on_cpu():
    """The operators of the GPU's kernel work on CPU tensors, for the time of the block."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("_flash_attention_forward", forward, "CPU")
        library.impl("_flash_attention_backward", backward, "CPU")
        yield
