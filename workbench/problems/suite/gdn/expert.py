"""Gated delta rule in chunks of 64: all triangular systems at once, then a short recurrence.

The first kernel inverts every chunk's system and weighs its queries; nothing there depends on the
state. The second carries the state from chunk to chunk, some of its columns per program.

Neither uses wgmma: Triton 3.4 to 3.6 makes wrong code on Hopper where a product of 64 rows goes on
into the next one (flash-linear-attention, issues 640 and 984). The first has two warps a program,
the second keeps the state transposed, so that its products have fewer rows.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def systems_kernel(  # noqa: PLR0915  # a chunk is done in one place
    q_ptr,
    k_ptr,
    gate_ptr,
    strength_ptr,
    system_ptr,
    weights_ptr,
    into_q_ptr,
    into_k_ptr,
    out_of_ptr,
    end_ptr,
    LENGTH,
    CHUNKS,
    KEY_HEADS,
    HEADS,
    scale,
    HEAD_DIM: tl.constexpr,
    CHUNK: tl.constexpr,
):
    chunk = tl.program_id(0)
    batch = tl.program_id(1) // HEADS
    head = tl.program_id(1) % HEADS
    key_head = head // (HEADS // KEY_HEADS)
    dims = tl.arange(0, HEAD_DIM)
    rows = tl.arange(0, CHUNK)
    cols = tl.arange(0, CHUNK)
    tokens = chunk * CHUNK + rows
    inside = tokens < LENGTH
    first = batch * LENGTH + tokens

    key_places = (first * KEY_HEADS + key_head)[:, None] * HEAD_DIM + dims[None, :]
    k = tl.load(k_ptr + key_places, mask=inside[:, None], other=0.0)
    gate = tl.load(gate_ptr + first * HEADS + head, mask=inside, other=float("inf"))
    strength = tl.load(strength_ptr + first * HEADS + head, mask=inside, other=-float("inf"))

    beta = tl.sigmoid(strength)
    step = tl.minimum(gate, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(gate)))
    decay = tl.cumsum(step, axis=0)
    last = tl.sum(step, axis=0)
    causal = rows[:, None] >= cols[None, :]
    between = tl.exp(tl.where(causal, decay[:, None] - decay[None, :], -float("inf")))

    # One over the norms, at least what torch's normalize allows.
    wide_k = k.to(tl.float32)
    k_unit = 1.0 / tl.maximum(tl.sqrt(tl.sum(wide_k * wide_k, axis=1)), 1e-12)
    between = between * k_unit[None, :]
    q = tl.load(q_ptr + key_places, mask=inside[:, None], other=0.0)
    wide_q = q.to(tl.float32)
    q_unit = scale / tl.maximum(tl.sqrt(tl.sum(wide_q * wide_q, axis=1)), 1e-12)
    weights = tl.dot(q, k.T) * between * q_unit[:, None]
    tile = (tl.program_id(1) * CHUNKS + chunk).to(tl.int64)
    places = tile * CHUNK * CHUNK + rows[:, None] * CHUNK + cols[None, :]
    tl.store(weights_ptr + places, weights.to(weights_ptr.dtype.element_ty))
    tl.store(into_q_ptr + tile * CHUNK + rows, tl.exp(decay) * q_unit)
    tl.store(into_k_ptr + tile * CHUNK + rows, tl.exp(decay) * k_unit)
    tl.store(out_of_ptr + tile * CHUNK + rows, tl.exp(last - decay) * k_unit)
    tl.store(end_ptr + tile, tl.exp(last))

    system = tl.dot(k, k.T) * between * (beta * k_unit)[:, None]
    system = tl.where(rows[:, None] > cols[None, :], system, 0.0)

    # Blocks of 16 on the diagonal are inverted row by row, all four at once.
    quarter = tl.arange(0, 4)
    small = tl.arange(0, CHUNK // 4)
    same = quarter[:, None, None, None] == quarter[None, None, :, None]
    parts = system.reshape([4, CHUNK // 4, 4, CHUNK // 4])
    diagonal = tl.sum(tl.where(same, parts, 0.0), axis=2)
    unit = (small[:, None] == small[None, :]).to(tl.float32)
    inverse = tl.zeros([4, CHUNK // 4, CHUNK // 4], dtype=tl.float32) + unit[None, :, :]
    for i in range(1, CHUNK // 4):
        here = small[None, :, None] == i
        row = tl.sum(tl.where(here, diagonal, 0.0), axis=1)
        taken = tl.sum(row[:, :, None] * inverse, axis=1)
        inverse = tl.where(here, inverse - taken[:, None, :], inverse)
    blocks = tl.where(same, inverse[:, :, None, :], 0.0).reshape([CHUNK, CHUNK]).to(k.dtype)

    # Then (1 - M)(1 + M M) inverts what lies below them, since M M M M is zero.
    inner = rows[:, None] // (CHUNK // 4) == cols[None, :] // (CHUNK // 4)
    below = tl.where(inner, 0.0, system).to(k.dtype)
    m = tl.dot(blocks, below)
    narrow = m.to(k.dtype)
    square = tl.dot(narrow, narrow)
    series = square - m - tl.dot(narrow, square.to(k.dtype))
    solved = tl.dot(series.to(k.dtype), blocks, blocks.to(tl.float32))
    tl.store(system_ptr + places, (solved * beta[None, :]).to(system_ptr.dtype.element_ty))


@triton.jit
def states_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    system_ptr,
    weights_ptr,
    into_q_ptr,
    into_k_ptr,
    out_of_ptr,
    end_ptr,
    out_ptr,
    state_ptr,
    LENGTH,
    CHUNKS,
    KEY_HEADS,
    HEADS,
    HEAD_DIM: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    batch = tl.program_id(1) // HEADS
    head = tl.program_id(1) % HEADS
    key_head = head // (HEADS // KEY_HEADS)
    dims = tl.arange(0, HEAD_DIM)
    rows = tl.arange(0, CHUNK)
    inner = tl.arange(0, CHUNK)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)

    # Transposed: a product has as many rows as a program has columns of the state.
    state = tl.zeros([BLOCK_N, HEAD_DIM], dtype=tl.float32)
    for chunk in range(CHUNKS):
        tokens = chunk * CHUNK + rows
        inside = tokens < LENGTH
        first = batch * LENGTH + tokens
        tile = (tl.program_id(1) * CHUNKS + chunk).to(tl.int64)
        square = tile * CHUNK * CHUNK + rows[:, None] * CHUNK + inner[None, :]
        key_places = (first * KEY_HEADS + key_head)[:, None] * HEAD_DIM + dims[None, :]
        value_places = (first * HEADS + head).to(tl.int64)[None, :] * HEAD_DIM + cols[:, None]
        q = tl.load(q_ptr + key_places, mask=inside[:, None], other=0.0)
        k = tl.load(k_ptr + key_places, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + value_places, mask=inside[None, :], other=0.0)
        system = tl.load(system_ptr + square)
        weights = tl.load(weights_ptr + square)
        into_q = tl.load(into_q_ptr + tile * CHUNK + rows)
        into_k = tl.load(into_k_ptr + tile * CHUNK + rows)
        out_of = tl.load(out_of_ptr + tile * CHUNK + rows)
        end = tl.load(end_ptr + tile)

        narrow = state.to(k.dtype)
        wanted = v.to(tl.float32) - tl.dot(narrow, k.T) * into_k[None, :]
        new = tl.dot(wanted.to(k.dtype), system.T)
        out = tl.dot(narrow, q.T) * into_q[None, :]
        out = tl.dot(new.to(k.dtype), weights.T, out)
        tl.store(out_ptr + value_places, out, mask=inside[None, :])
        state = tl.dot((new * out_of[None, :]).to(k.dtype), k, state * end)

    head_places = (tl.program_id(1) * HEAD_DIM + dims)[None, :] * HEAD_DIM + cols[:, None]
    tl.store(state_ptr + head_places, state)


class ModelNew(nn.Module):
    def forward(self, q, k, v, gate, strength):
        batch, length, key_heads, dim = q.shape
        heads = v.shape[2]
        chunks = triton.cdiv(length, 64)
        tiles = [batch * heads, chunks, 64]
        system = torch.empty([*tiles, 64], dtype=q.dtype, device=q.device)
        weights = torch.empty_like(system)
        into_q = torch.empty(tiles, dtype=torch.float32, device=q.device)
        into_k = torch.empty_like(into_q)
        out_of = torch.empty_like(into_q)
        end = torch.empty(tiles[:2], dtype=torch.float32, device=q.device)
        out = torch.empty(v.shape, dtype=torch.float32, device=v.device)
        state = torch.empty((batch, heads, dim, dim), dtype=torch.float32, device=v.device)
        systems_kernel[(chunks, batch * heads)](
            q,
            k,
            gate,
            strength,
            system,
            weights,
            into_q,
            into_k,
            out_of,
            end,
            length,
            chunks,
            key_heads,
            heads,
            dim**-0.5,
            HEAD_DIM=dim,
            CHUNK=64,
            num_warps=2,
            num_stages=1,
        )
        grid = lambda meta: (triton.cdiv(dim, meta["BLOCK_N"]), batch * heads)
        states_kernel[grid](
            q,
            k,
            v,
            system,
            weights,
            into_q,
            into_k,
            out_of,
            end,
            out,
            state,
            length,
            chunks,
            key_heads,
            heads,
            HEAD_DIM=dim,
            CHUNK=64,
            BLOCK_N=32,
            num_warps=4,
            num_stages=2,
        )
        return out, state
