"""Candidates of cards beside each other on one GPU: its memory holds all of them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.bench.card_room import Room, needed, room_on
from workbench.gate.correctness.protocol import TensorEntry
from workbench.gate.problem.records import ShapeReport


def most_at_once(room, sizes):
    """Sizes that were inside together when most bytes were taken."""
    inside, seen, lock = [], [()], threading.Lock()

    def work(size):
        with room.taken(size):
            with lock:
                inside.append(size)
                seen.append(tuple(inside))
            with lock:
                inside.remove(size)

    with ThreadPoolExecutor(len(sizes)) as pool:
        list(pool.map(work, sizes))
    return max(seen, key=sum)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_all_get_in_and_no_more_is_taken_than_there_is(sizes):
    most = most_at_once(Room(10), sizes)
    assert sum(most) <= 10 or len([size for size in most if size]) == 1


def test_who_does_not_fit_waits_for_who_was_there():
    room, order = Room(10), []
    waiting = threading.Thread(target=lambda: _enter(room, 5, order))
    with room.taken(6):
        waiting.start()
        order.append("first left")
    waiting.join()
    assert order == ["first left", 5]


def _enter(room, size, order):
    with room.taken(size):
        order.append(size)


def test_a_fault_inside_gives_the_room_back():
    room = Room(10)
    with pytest.raises(ZeroDivisionError), room.taken(10):
        _ = 1 / 0
    with room.taken(10):
        pass


def test_without_a_gpu_nobody_waits():
    room = room_on(None)
    with room.taken(1 << 50), room.taken(1 << 50):
        pass


@pytest.mark.parametrize(
    ("dtype", "shape", "seen"),
    [("float32", (4096, 98304), 45), ("bfloat16", (4096, 128256), 61)],
)
def test_a_comparison_has_the_room_that_was_seen_on_an_h200(dtype, shape, seen):
    rows, cols = shape
    size = {"float32": 4, "bfloat16": 2}[dtype] * rows * cols
    entry = TensorEntry(name="x", dtype=dtype, shape=shape, strides=(cols, 1), bytes=size)
    full = ShapeReport(shape="full", input_entries=(entry,), output_entries=(entry,))
    assert seen < needed(full) / 2**30 < seen + 10


def test_a_problem_without_tensors_has_the_room_of_its_workers():
    assert needed(ShapeReport(shape="full")) == 4 << 30
