"""The second comparison: what it excuses of what the first finds wrong, and what it never does."""

import pytest
import torch
from test_correctness_strain import compared

from workbench.gate.correctness.cases import Case
from workbench.gate.correctness.comparing import Kind


def test_the_problem_s_own_inputs_are_compared_also_where_a_nan_becomes_an_integer():
    """What is converted there is undefined, but a problem that only draws such would accept all."""
    answer = "x.sqrt().to(torch.int32)"

    def off_by_one(x):
        return x.sqrt().to(torch.int32) + 1

    own = compared(answer, Case.FRESH, off_by_one, Kind.DRAWN)
    assert not own.right
    changed = compared(answer, Case.FRESH, off_by_one, Kind.CHANGED)
    assert changed.right
    assert not changed.elements


TWO_PEAKS = """torch.cat(
            [x.clamp(max=1.0), (x[:, :1] * 0 + 4) / 3, (x[:, :1] * 0 + 4) / 3 + {gap}], -1
        ).argmax(-1)"""


@pytest.mark.parametrize(("gap", "right"), [(3e-6, True), (1e-4, False)])
def test_the_place_of_a_computed_maximum_may_be_another_only_within_its_rounding(gap, right):
    """C is 64 spacings of 2^-23 and the numbers are near one: two bounds are some 2e-5."""
    found = compared(
        TWO_PEAKS.format(gap=gap),
        Case.FRESH,
        lambda x: torch.full((8,), x.shape[1], dtype=torch.int64),
        Kind.DRAWN,
    )
    assert found.right is right


@pytest.mark.parametrize(("spacings", "right"), [(1, True), (40, False)])
def test_a_jump_is_excused_only_within_a_few_spacings_of_where_it_is(spacings, right):
    """Each result of the reference is moved by C / 16, which is four spacings in fp32."""
    answer = f"(x[:1, :1] * 0 + {1 + spacings * 2.0**-23!r}).floor()"
    found = compared(answer, Case.FRESH, lambda x: x[:1, :1] * 0, Kind.DRAWN)
    assert found.right is right
