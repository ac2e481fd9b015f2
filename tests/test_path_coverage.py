"""Programs of a launch part where numbers that rest on their ids decide; the rest are stood for.

Whole kernels are in the corpus (`full_*`); here are the rules that those rest on.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.kernels.intervals import INTERVALS, Span, compared, exact, towards_zero
from workbench.kernels.path_coverage import MOST_PROGRAMS, UNKNOWN, PathCoverage

NUMBERS = st.integers(-50, 50)
BLOCKS = st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=4, max_size=4)
COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


def of(blocks):
    """The span of a block in each of several programs, one block a row."""
    rows = np.array(blocks)
    return Span(rows.min(axis=1), rows.max(axis=1))


@given(BLOCKS, BLOCKS)
def test_no_lane_lies_outside_of_its_interval(left, right):
    for op, rule in INTERVALS.items():
        if op in (np.left_shift, np.right_shift, np.bitwise_and, np.bitwise_or):
            continue
        first, second = of(left), of(right)
        other = np.array(right)
        if op in (towards_zero, np.fmod):
            second = exact(np.array([7]))
            other = np.array([[7]])
        found = rule(first, second)
        if found is not None:
            lanes = op(np.array(left), other)
            assert (lanes >= found.low[:, None]).all()
            assert (lanes <= found.high[:, None]).all()


@given(BLOCKS, BLOCKS, st.sampled_from(COMPARISONS))
def test_a_comparison_is_sure_only_where_all_lanes_agree(left, right, op):
    truth = compared(of(left), of(right), op)
    lanes = op(np.array(left), np.array(right))
    assert (lanes.all(axis=1) >= truth.low).all()
    assert (lanes.any(axis=1) <= truth.high).all()


def run(launch, number, *steps):
    """Let one program of a one-dimensional launch run, deciding by these."""
    launch.begin((number, 0, 0))
    for step in steps:
        step(launch)
    launch.end((number, 0, 0))


def test_programs_that_answer_otherwise_wait_until_one_of_them_runs():
    launch = PathCoverage((100, 1, 1), 1, [])

    def branch(all_programs):
        all_programs.split_by(all_programs.axes[0] == 33)

    run(launch, 5, branch)
    assert launch.share == pytest.approx(0.99)
    assert launch.draw() == (33, 0, 0)
    run(launch, 33, branch)
    assert launch.draw() is None
    assert launch.complete
    assert [share.alike for share in launch.shares.values()] == [99, 1]


def test_addresses_that_leave_the_launchs_pattern_part_programs():
    launch = PathCoverage((100, 1, 1), 1, [])
    rows = launch.axes[0]
    run(launch, 5, lambda it: it.accessed(exact(4096 + 64 * (rows - rows // 90))))
    assert launch.share == pytest.approx(0.90)


def test_places_are_counted_once_whoever_stores_there():
    launch = PathCoverage((100, 1, 1), 1, [])
    rows, lanes = launch.axes[0], np.ones(8, dtype=np.bool_)
    stores = [
        lambda it: it.split_by(rows < 90),
        lambda it: it.accessed(exact(4096 + 64 * np.minimum(rows, 89)), lanes),
    ]
    run(launch, 5, *stores)
    run(launch, 95, *stores)
    assert launch.complete
    assert sum(share.places for share in launch.shares.values()) == 90


def test_a_store_to_an_address_out_of_data_leaves_its_places_open():
    launch = PathCoverage((100, 1, 1), 1, [])
    run(launch, 5, lambda it: it.accessed(UNKNOWN, np.ones(8, dtype=np.bool_)))
    assert launch.share == 1.0
    assert not launch.complete


def test_a_large_grid_is_followed_at_its_ends_and_around_powers_of_two():
    grid = (300_000, 2, 1)
    launch = PathCoverage(grid, 1, [77_777])
    numbers = launch.axes[0] + grid[0] * launch.axes[1]
    assert len(numbers) <= MOST_PROGRAMS
    assert {0, 1, 65_535, 65_536, 65_537, 77_777, 300_000, 599_999} <= set(numbers.tolist())


def test_blocks_that_a_capped_grid_leaves_over_are_counted_to_the_last():
    launch = PathCoverage((65_535, 1, 1), 1, [40_000])
    trips = np.where(launch.axes[0] < 8, 9, 8)
    number = 40_000
    while number is not None:
        run(launch, number, lambda all_programs: all_programs.split_by(trips))
        program = launch.draw()
        number = None if program is None else program[0]
    blocks = sum(share.alike * (9 if at[0] < 8 else 8) for at, share in launch.shares.items())
    assert blocks == pytest.approx(8 * 65_535 + 8, abs=0.01)


def test_a_program_that_is_not_followed_to_its_end_stands_for_itself_alone():
    launch = PathCoverage((100, 1, 1), 1, [])

    def long_loop(all_programs):
        while all_programs.following:
            pass

    run(launch, 5, long_loop)
    assert launch.share == pytest.approx(0.01)
    assert not launch.complete


def test_equal_numbers_are_no_smaller_ones():
    launch = PathCoverage((100, 1, 1), 1, [])
    run(launch, 5, lambda it: it.chosen(it.axes[0], np.full(100, 60)))
    assert launch.share == pytest.approx(0.60)
    run(launch, 60, lambda it: it.chosen(it.axes[0], np.full(100, 60)))
    assert launch.share == pytest.approx(0.61)


def test_places_that_no_program_writes_are_known_where_all_are_followed():
    launch = PathCoverage((100, 1, 1), 1, [])
    rows, lanes = launch.axes[0], np.ones(8, dtype=np.bool_)

    def store(all_programs):
        all_programs.split_by(rows < 90)
        all_programs.accessed(exact(4096 + 32 * rows), lanes, 4096)

    run(launch, 5, store)
    run(launch, 95, lambda it: it.split_by(rows < 90))
    own = {(5, 0, 0): 5 * 32 + 4 * np.arange(8)}
    wanted = np.array([0, 4 * 7, 89 * 32 + 28, 90 * 32, 99 * 32 + 28])
    assert launch.covers(own, 4096, wanted).tolist() == [True, True, True, False, False]


def test_where_nobody_knows_where_a_program_stores_no_place_is_free():
    launch = PathCoverage((100, 1, 1), 1, [])
    run(launch, 5, lambda it: it.accessed(UNKNOWN, np.ones(8, dtype=np.bool_), 4096))
    assert launch.covers({(5, 0, 0): np.arange(8)}, 4096, np.array([400])) is None


EVEN = Span(np.array([0, 64, 128]), np.array([63, 127, 191]))
"""64 lanes in each of three programs, one after the other."""


@pytest.mark.parametrize(
    ("op", "other", "loose"),
    [
        (np.add, EVEN, False),
        (np.subtract, EVEN, False),
        (np.multiply, exact(np.array([3])), False),
        (np.multiply, EVEN, True),
        (np.minimum, exact(np.array([100])), False),
        (np.maximum, EVEN, True),
        (np.fmod, exact(np.array([7])), True),
        (np.fmod, exact(np.array([64])), False),
        (towards_zero, exact(np.array([7])), True),
        (towards_zero, exact(np.array([64])), False),
        (np.right_shift, exact(np.array([1])), True),
    ],
)
def test_where_lanes_lie_is_known_only_if_they_move_together(op, other, loose):
    assert INTERVALS[op](EVEN, other).loose is loose


def test_a_comparison_of_lanes_that_nobody_knows_may_hide_another_path():
    right = exact(np.array([10, 74, 138]))
    for loose in (False, True):
        launch = PathCoverage((3, 1, 1), 1, [])
        left = Span(EVEN.low, EVEN.high, loose)
        truth = compared(left, right, np.less)
        run(launch, 1, lambda it, left=left, truth=truth: it.compared(left, right, truth))
        assert launch.share == 1.0
        assert launch.blind is loose
