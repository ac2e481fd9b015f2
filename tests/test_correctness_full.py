"""The full shape without a GPU: what can be worked out alone, which programs make what, who counts.

Whole candidates at a full shape are in the corpus; here are the rules that those rest on.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import store_kernels
import torch
from torch import nn
from torch.nn import functional

from workbench.gate.correctness.full.axes import Axis, Sizes, find_axes
from workbench.gate.correctness.full.contents import chunk_for, part_of, tied
from workbench.gate.correctness.layout import entry
from workbench.kernels.host_state import CallCounter, changed, host_state
from workbench.kernels.lazy import lazy_filled
from workbench.kernels.trace_closure import Closure
from workbench.kernels.trace_stores import stored_parameters, uses_updates
from workbench.kernels.trace_values import Book, Slot, Want


def axes_of(reference, small, full):
    """The axes of a reference of tensors, by the shapes of its inputs."""

    def call(inputs):
        out = reference(*(t.clone() for t in inputs))
        return list(out) if isinstance(out, tuple) else [out]

    generator = torch.Generator().manual_seed(1)
    drawn, others = ([torch.randn(shape, generator=generator) for shape in small] for _ in range(2))
    metas = [torch.empty(shape, device="meta") for shape in full]
    sizes = Sizes([entry("", t) for t in metas], [entry("", t) for t in call(metas)])
    return find_axes(call, drawn, others, sizes)


def test_rows_of_a_softmax_can_be_worked_out_alone_and_columns_cannot():
    found = axes_of(lambda x: x.softmax(-1), [(5, 5)], [(64, 900)])
    assert found == [Axis({0: 0}, {0: 0})]


def test_a_product_has_rows_of_one_factor_and_columns_of_the_other():
    found = axes_of(torch.matmul, [(4, 6), (6, 5)], [(64, 96), (96, 80)])
    assert found == [Axis({0: 0}, {0: 0}), Axis({1: 1}, {0: 1})]


def test_a_batch_of_one_is_an_axis_when_two_draws_stay_apart():
    attention = functional.scaled_dot_product_attention
    found = axes_of(attention, [(1, 2, 7, 4)] * 3, [(8, 4, 64, 16)] * 3)
    assert Axis({0: 0, 1: 0, 2: 0}, {0: 0}) in found
    assert Axis({0: 1, 1: 1, 2: 1}, {0: 1}) in found
    assert Axis({0: 2}, {0: 2}) in found


def test_every_output_is_sliced_or_stays_as_it_is():
    found = axes_of(lambda x: (x.sum(1), x.topk(2, dim=1).values), [(4, 9)], [(64, 90)])
    assert found == [Axis({0: 0}, {0: 0, 1: 0})]


@pytest.mark.parametrize(
    "reference",
    [
        lambda x: x - x.mean(0),
        lambda x: x @ x.T,
        lambda x: x.cumsum(0),
        lambda x: (x / x.norm()).flip(0),
    ],
)
def test_what_depends_on_its_neighbours_is_no_axis(reference):
    assert 0 not in {d for a in axes_of(reference, [(6, 6)], [(64, 64)]) for d in a.inputs.values()}


def test_a_part_is_the_same_as_the_whole_cut_down():
    like = torch.randn(40)
    for strides in ((700, 1), (1, 900)):
        whole = torch.empty_strided((900, 700), strides)
        place = entry("", whole)
        chunk = chunk_for(place, like, seed=3, scale=1.0)
        full = part_of(place, chunk, {})
        rows, cols = torch.tensor([3, 77, 899]), torch.tensor([0, 5])
        part = part_of(place, chunk, {0: rows, 1: cols})
        assert torch.equal(part, full[rows][:, cols])
        assert torch.equal(lazy_filled((900, 700), torch.float32, chunk, strides), full)


def test_large_contents_repeat_at_a_secret_distance():
    whole = torch.empty(4096, 4096, device="meta")
    chunks = [chunk_for(entry("", whole), torch.randn(9), seed, 1.0) for seed in range(12)]
    assert len({len(chunk) for chunk in chunks}) > 3
    lazily = lazy_filled((4096, 4096), torch.float32, chunks[0])
    assert torch.equal(lazily[-3:], part_of(entry("", whole), chunks[0], {})[-3:])
    lazily[5, 5] = 7.0
    assert (lazily == 7.0).sum() == 1


def test_numbers_that_are_drawn_twice_are_told_apart_unless_they_tie():
    place = entry("", torch.empty(2000))
    assert chunk_for(place, torch.randn(50), 1, 1.0).unique().numel() > 1900
    mask = torch.randint(2, (50,)).float()
    assert tied(mask)
    assert set(chunk_for(place, mask, 1, 1.0).tolist()) == {0.0, 1.0}


# -- who writes what -----------------------------------------------------------------------------


def closure(slot_footprints, grid, want):
    """The programs that a want of one program of a later launch brings in."""
    book = Book(lambda _: True)
    book.footprints = {Slot(0, "out"): slot_footprints}
    asked = SimpleNamespace(footprints=book.footprints, wants={1: [want]})
    return Closure(asked, [grid, (1, 1, 1)]).programs


def test_the_rows_that_are_read_bring_in_their_programs():
    written = [((n, 0, 0), np.arange(100) * 4 + n * 400) for n in (3, 90, 41, 77, 12)]
    want = Want((0, 0, 0), (Slot(0, "out"),), np.arange(4 * 250, 4 * 350, 4))
    assert closure(written, (100, 1, 1), want)[0] == [(2, 0, 0), (3, 0, 0)]


def test_tiles_of_a_linear_program_number_are_found():
    pitch, tile, across = 4 * 64, 16, 4

    def footprint(number):
        row, column = divmod(number, across)
        rows = (row * tile + np.arange(tile))[:, None] * pitch
        return (rows + (column * tile + np.arange(tile))[None, :] * 4).reshape(-1)

    written = [((n, 0, 0), footprint(n)) for n in (1, 6, 11, 12, 15, 8)]
    want = Want((0, 0, 0), (Slot(0, "out"),), footprint(9))
    assert closure(written, (16, 1, 1), want)[0] == [(9, 0, 0)]


def test_programs_that_follow_no_rule_bring_in_nobody():
    places = (3, 977, 41, 1000, 12, 500, 7)
    written = [((n, 0, 0), np.array([4 * p])) for n, p in enumerate(places)]
    want = Want((0, 0, 0), (Slot(0, "out"),), np.array([4 * 42]))
    assert closure(written, (5000, 1, 1), want).get(0, []) == []


# -- what a kernel stores through ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "stored", "read"),
    [
        (store_kernels.plain, "out", "x"),
        (store_kernels.through_a_name, "out", "x"),
        (store_kernels.through_a_helper, "out", "x"),
        (store_kernels.by_loaded_index, "counts", "places"),
        (store_kernels.descriptor, "out", "x"),
    ],
)
def test_a_kernel_stores_through_what_its_pointers_come_from(kernel, stored, read):
    found = stored_parameters(kernel.fn)
    assert stored in found
    assert read not in found


def test_a_ticket_is_told_from_an_update_whose_result_is_dropped():
    assert uses_updates(store_kernels.ticket.fn)
    assert not uses_updates(store_kernels.by_loaded_index.fn)


# -- who counts calls ----------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.seen = {}
        self.turn = 0
        self.tape = itertools.count()


def counted(step) -> str:
    model, counter = Model(), CallCounter()
    for call in range(14):
        step(model, call)
        found = counter.after_call(host_state(model, {}, frozenset({"steps"})))
    return found


def test_a_counter_is_found_wherever_it_is_kept():
    assert counted(lambda m, c: m.seen.update(n=c)) == "self.seen['n']"
    assert counted(lambda m, _: next(m.tape)).startswith("self.tape.rest")
    assert counted(lambda m, c: m.seen.update({c: None})) == "self.seen.len()"
    assert counted(lambda m, c: setattr(m, "turn", pow(3, c, 1009))) == "self.turn"


def test_what_honest_host_code_remembers_is_no_counter():
    assert counted(lambda m, c: setattr(m, "turn", c % 2)) == ""
    assert counted(lambda m, c: m.seen.update({min(c, 3): "ready"})) == ""
    assert counted(lambda m, _: m.steps.add_(1)) == ""


def test_a_changed_value_is_named_and_a_new_one_is_not():
    assert changed({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == "b"
    assert changed({"a": "1"}, {"a": "1", "c": "4"}) == ""
