"""Nothing of a call may outlive it: on a GPU one softmax leaves gigabytes."""

import gc

import torch

from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.correctness.reference_job import Bench
from workbench.gate.timing.ring_job import Ring
from workbench.problems.load import load_problem

ROWS, COLS = 8, 512


def live() -> int:
    """Tensors as large as the input or larger that Python still knows of."""
    return sum(
        1
        for thing in gc.get_objects()
        if type(thing) is torch.Tensor and thing.numel() >= ROWS * COLS
    )


def test_answers_are_given_back_without_a_garbage_collection():
    problem = load_problem("softmax")
    message = OpenReference(
        source=problem.source,
        values={"ROWS": ROWS, "COLS": COLS},
        build_seed=1,
        precision=problem.precision,
        tolerance=problem.tolerance,
        selections=problem.selections,
    )
    ring = Ring(Bench(message, "cpu"), 5)
    ring.advance(1)
    ring.answered()
    gc.collect()
    gc.disable()
    try:
        before = live()
        for seed in range(2, 7):
            ring.advance(seed)
            ring.answered()
        assert live() == before
    finally:
        gc.enable()
