"""A public problem file with one large shape gets a small one that keeps what divides what."""

import pytest
from gate_kit import ADD_RELU, problem, workshop

from workbench.errors import WorkbenchError
from workbench.gate.problem.affordable import MOVED_BYTES, with_small_shape
from workbench.gate.problem.inspect import inspect_problem
from workbench.problems.records import Shape

__all__ = ["workshop"]

HEADS = """
batch_size, seq_len = 128, 4096
n_embd = 768
n_head = 12

class Model(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head = n_head
        self.qkv = nn.Linear(n_embd, 3 * n_embd)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (a.view(b, t, self.n_head, c // self.n_head).transpose(1, 2) for a in (q, k, v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, t, c)

def get_inputs():
    return [torch.rand(batch_size, seq_len, n_embd)]

def get_init_inputs():
    return [n_embd, n_head]
"""

STRIDED = """
batch_size = 64
height = width = 2048
side = 2048

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 7, stride=4)

    def forward(self, x):
        return torch.nn.functional.max_pool2d(self.conv(x), 9, stride=4)

def get_inputs():
    return [torch.rand(batch_size, 3, side, side)]

def get_init_inputs():
    return []
"""


def test_sizes_are_halved_and_heads_still_divide(workshop):
    large = problem(HEADS)
    small = with_small_shape(large, workshop)
    assert [shape.name for shape in small.shapes] == ["tiny", "file"]
    values = small.tiny.values
    assert values["n_embd"] % 12 == 0
    assert values["seq_len"] < 4096
    assert small.full == large.full
    report = inspect_problem(small, workshop)
    assert report.shape("tiny").input_entries[0].shape == tuple(values.values())
    assert report.full.input_entries[0].shape == (128, 4096, 768)
    moved = sum(e.bytes for e in report.shape("tiny").input_entries)
    assert moved <= MOVED_BYTES


def test_sizes_grow_until_the_network_has_room(workshop):
    # 32 - 7 leaves 7 columns at stride 4, fewer than the pool's 9.
    small = with_small_shape(problem(STRIDED), workshop)
    assert small.tiny.values["side"] >= 64


@pytest.mark.parametrize(
    "body",
    [
        ADD_RELU,
        ADD_RELU.replace("torch.randn(13, 29)", "torch.randn(8192, 8192)"),
        "N = 8192\n"
        + ADD_RELU.replace("torch.randn(13, 29)", "torch.randn(N, N)").replace(
            "return torch.relu", "assert x.shape[0] == 8192\n        return torch.relu"
        ),
    ],
    ids=["small already", "sizes in the function", "sizes it needs"],
)
def test_what_cannot_or_need_not_shrink_stays_as_it_is(workshop, body):
    task = problem(body)
    assert with_small_shape(task, workshop) is task


def test_declared_shapes_are_left_alone(workshop):
    shapes = (Shape(name="a"), Shape(name="b", values={"n_embd": 384}))
    task = problem(HEADS, shapes=shapes)
    assert with_small_shape(task, workshop) is task


def test_a_large_problem_alone_is_described_but_not_examined(workshop):
    report = inspect_problem(problem(HEADS), workshop)
    assert [finding.code for finding in report.findings] == ["problem.not-examined"]
    assert report.full.work is not None
    assert report.full.output_entries[0].shape == (128, 4096, 768)


def test_a_fault_of_the_file_is_told_whatever_its_size(workshop):
    with pytest.raises(WorkbenchError, match="building Model raises AssertionError"):
        inspect_problem(problem(HEADS.replace("n_head = 12", "n_head = 11")), workshop)
