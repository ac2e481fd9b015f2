"""Tensor descriptors: put in for products and attention, and taken out in any form they have."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_texts import SEEDS

from workbench.kernels.edits.base import EditRefused, undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.inverses.registry import INVERSES
from workbench.kernels.source import read_source

MADE_INSIDE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1],
                                  block_shape=[BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1],
                                  block_shape=[BLOCK_K, BLOCK_N])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a.load([row, k]), b.load([k, col]), acc, input_precision="ieee")
    c.store([row, col], acc.to(c.dtype))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        matmul[grid](a, b, c, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
        return c
"""

FROM_TENSORS = """\
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul(a_desc, b_desc, c_desc, K,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = a_desc.load([row, k])
        b = b_desc.load([k, col])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c_desc.store([row, col], acc)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
        bm, bn, bk = 32, 32, 32
        a_desc = TensorDescriptor.from_tensor(a, [32, 32])
        b_desc = TensorDescriptor.from_tensor(b, [32, 32])
        grid = (triton.cdiv(a.shape[0], bm), triton.cdiv(b.shape[1], bn))
        matmul[grid](
            a_desc, b_desc, TensorDescriptor.from_tensor(c, block_shape=[32, 32]), a.shape[1],
            BLOCK_M=32, BLOCK_N=32, BLOCK_K=32,
        )
        return c
"""

WITH_TILES = {
    name: EDITS["descriptors"].apply(SEEDS[name], read_source(SEEDS[name]).launched[0], {}).source
    for name in ("gemm", "linear_relu_div", "sdp_attention")
}
TAKEN_OUT = {**WITH_TILES, "made inside": MADE_INSIDE, "from tensors": FROM_TENSORS}
PROBLEM = {"made inside": "tutorial_matmul", "from tensors": "tutorial_matmul"}
(TMA,) = (inverse for inverse in INVERSES if inverse.category == "tensor-descriptors")


def launched(text):
    return read_source(text).launched[0]


def edited(text, edit):
    return EDITS[edit].apply(text, launched(text), {})


def says(text, edit):
    with pytest.raises(EditRefused) as caught:
        edited(text, edit)
    return caught.value.why


def outcome(task, jobs, tmp_path, interpret):
    worker = Path(__file__).parent / "edit_suite_worker.py"
    own = {"TRITON_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": interpret}
    done = subprocess.run(
        [sys.executable, str(worker), task],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | own,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_with_descriptors_and_without_kernels_are_right(tmp_path):
    jobs = {}
    for name, text in TAKEN_OUT.items():
        problem = PROBLEM.get(name, name)
        jobs[f"{name} out"] = {"problem": problem, "source": edited(text, "pointers").source}
    jobs["attention in"] = {"problem": "sdp_attention", "source": WITH_TILES["sdp_attention"]}
    found = outcome("interpret", jobs, tmp_path, "1")
    assert {c: g for c, g in found.items() if "fault" in g or g["error"] > 1} == {}


def test_with_descriptors_and_without_kernels_compile(tmp_path):
    jobs = {
        n: {"problem": n, "source": edited(t, "pointers").source} for n, t in WITH_TILES.items()
    }
    jobs["in"] = {"problem": "sdp_attention", "source": WITH_TILES["sdp_attention"]}
    found = outcome("compile", jobs, tmp_path, "0")
    assert {c: g["fault"] for c, g in found.items() if "fault" in g} == {}


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_taking_descriptors_out_leaves_none_and_undoes_to_the_byte(name):
    applied = edited(TAKEN_OUT[name], "pointers")
    kernel = read_source(applied.source).kernel(launched(applied.source))
    assert not any(kernel.by_descriptor(access) for access in kernel.accesses)
    assert "TensorDescriptor" not in applied.source
    assert "make_tensor_descriptor" not in applied.source
    assert undo(applied.source, applied.undo) == TAKEN_OUT[name]


@pytest.mark.parametrize("name", WITH_TILES)
def test_the_walk_takes_descriptors_out_and_the_edit_puts_the_same_back(name):
    text = WITH_TILES[name]
    (found,) = TMA.removables(text, launched(text))
    again = EDITS["descriptors"].apply(found.source, launched(text), found.parameters).source
    assert again == text


def test_attention_tiles_stay_inside_their_own_matrix():
    text = WITH_TILES["sdp_attention"]
    assert "k_ptr.load([tl.program_id(1), start, 0]).reshape([BLOCK_N, HEAD_DIM]).T" in text
    assert "[k.numel() // (length * head_dim), length, head_dim]" in text
    assert "[1, block_n, head_dim]" in text
    # Queries are loaded once, in front of the loop.
    assert "tl.load(q_ptr + q_places" in text


def test_a_matrix_that_begins_elsewhere_than_behind_the_last_is_refused():
    text = SEEDS["sdp_attention"].replace("* L * HEAD_DIM", "* (L + 1) * HEAD_DIM")
    assert "whole number of matrices" in says(text, "descriptors")


def test_extents_that_the_kernel_is_not_given_become_parameters():
    after = edited(FROM_TENSORS, "pointers").source
    assert "a_desc_size0=a.shape[0]" in after
    assert "b_desc_stride0=b.stride(0)" in after
    assert "c_desc_size1=c.shape[1]" in after
    assert "< a_desc_size0" in after


def test_a_descriptor_that_does_more_than_load_and_store_is_left_alone():
    text = MADE_INSIDE.replace("c.store([row, col], acc", "c.atomic_add([row, col], acc")
    assert "something else with a descriptor" in says(text, "pointers")
    assert "through descriptors" in says(SEEDS["gemm"], "pointers")
