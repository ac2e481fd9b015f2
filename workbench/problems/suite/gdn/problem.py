"""Gated delta rule: a linear attention whose state decays and is corrected, token by token.

Per head `S = exp(g) S`, then `S += k (beta (v - k^T S))`, and `out = q^T S / sqrt(D)`; worked out
here in chunks, inside which the corrections are a triangular system. Keys and queries are
normalized, `g = log sigmoid(gate)` and `beta = sigmoid(strength)`.
"""

import torch
from torch import nn
from torch.nn import functional

BATCH = 1
LENGTH = 4096
KEY_HEADS = 16
HEADS = 48
HEAD_DIM = 128
CHUNK = 64


def chunked(x):
    """[batch, length, head, ...] as [batch, head, chunk, token, ...], zeros behind the end."""
    missing = -x.shape[1] % CHUNK
    x = functional.pad(x, [0, 0] * (x.dim() - 2) + [0, missing])
    return x.unflatten(1, (-1, CHUNK)).movedim(3, 1)


class Model(nn.Module):
    def forward(self, q, k, v, gate, strength):
        length, shared = q.shape[1], v.shape[2] // q.shape[2]
        q, k, v = (x.to(gate.dtype) for x in (q, k, v))
        q, k = (chunked(functional.normalize(x, dim=-1)) for x in (q, k))
        q, k = (x.repeat_interleave(shared, dim=1) for x in (q, k))
        q = q * q.shape[-1] ** -0.5
        v = chunked(v)
        decay = chunked(functional.logsigmoid(gate)).cumsum(-1)
        beta = chunked(torch.sigmoid(strength)).unsqueeze(-1)

        ones = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device)
        between = decay.unsqueeze(-1) - decay.unsqueeze(-2)
        between = between.masked_fill(ones.triu(1), -float("inf")).exp()
        system = (beta * (k @ k.mT) * between).tril(-1)
        weights = (q @ k.mT) * between
        into, out_of = decay.exp().unsqueeze(-1), (decay[..., -1:] - decay).exp().unsqueeze(-1)

        state = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1], device=q.device, dtype=v.dtype)
        outs = []
        for c in range(k.shape[2]):
            wanted = beta[:, :, c] * (v[:, :, c] - into[:, :, c] * (k[:, :, c] @ state))
            new = torch.linalg.solve_triangular(
                system[:, :, c], wanted, upper=False, unitriangular=True
            )
            outs.append(into[:, :, c] * (q[:, :, c] @ state) + weights[:, :, c] @ new)
            state = into[:, :, c, -1:] * state + (out_of[:, :, c] * k[:, :, c]).mT @ new
        out = torch.stack(outs, dim=2).movedim(1, 3).flatten(1, 2)[:, :length]
        return out.contiguous(), state


def get_inputs():
    q, k = (torch.randn(BATCH, LENGTH, KEY_HEADS, HEAD_DIM, dtype=torch.bfloat16) for _ in "qk")
    v = torch.randn(BATCH, LENGTH, HEADS, HEAD_DIM, dtype=torch.bfloat16)
    gate = torch.randn(BATCH, LENGTH, HEADS) + 3.0
    strength = torch.randn(BATCH, LENGTH, HEADS)
    return [q, k, v, gate, strength]


def get_init_inputs():
    return []
