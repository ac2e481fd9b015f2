"""Timings that run at the same time: one after the other on one GPU, side by side on two."""

import contextlib
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from test_timing_gpu import ONCE, ROWS, SEED, TWICE, problem, softmax

from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Outcome
from workbench.gate.timing.stage import JOB_MODULES, GpuTimer, TimerSettings, holding
from workbench.isolation.workshop import Workshop
from workbench.measure.gpus import list_gpus
from workbench.measure.gpuwatch import gpu_behind

pytestmark = pytest.mark.gpu

SECONDS = 300.0
"""For a barrier at which the other timing never comes."""


def timed(index: int, hold):
    """A whole decision on one GPU, with workers of its own."""
    gpu = gpu_behind(index)
    task = problem(ROWS)
    with Workshop(device_index=index, share_device_memory=True, preload=JOB_MODULES) as shop:
        facts = inspect_problem(task, shop)
        settings = TimerSettings(target=gpu.target, device=gpu.name, device_index=index)
        timer = GpuTimer(task, lambda: facts, settings, shop, hold=partial(hold, index))
        profiled = timer(softmax(ONCE), softmax(TWICE), seed=SEED, listen=lambda *_told: None)
    print(f"\nGPU {index}: {profiled.report.says} ({profiled.gpu_seconds:.2f} GPU-s)")
    return profiled


def both(indices, hold):
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda index: timed(index, hold), indices))


def test_two_timings_of_one_gpu_take_turns():
    inside, most, count = Counter(), Counter(), threading.Lock()

    @contextlib.contextmanager
    def hold(index, waits, *, shared=False):
        with holding(index, waits, shared=shared) as watch:
            with count:
                inside[shared] += 1
                # Nobody makes workers while another is timed, and nobody else is timed.
                most["beside"] = max(most["beside"], inside[True] * inside[False])
                most["alone"] = max(most["alone"], inside[False])
            try:
                yield watch
            finally:
                with count:
                    inside[shared] -= 1

    for profiled in both((0, 0), hold):
        assert profiled.report.outcome is Outcome.PASSED, profiled.report
    assert (most["beside"], most["alone"]) == (0, 1)


@pytest.mark.skipif(len(list_gpus()) < 2, reason="needs two GPUs")
def test_two_gpus_are_timed_on_at_the_same_time():
    meeting = threading.Barrier(2)
    met = threading.local()

    @contextlib.contextmanager
    def hold(index, waits, *, shared=False):
        with holding(index, waits, shared=shared) as watch:
            if not shared and not getattr(met, "once", False):
                met.once = True
                # Neither goes on before both have a GPU to themselves.
                meeting.wait(SECONDS)
            yield watch

    for profiled in both((0, 1), hold):
        assert profiled.report.outcome is Outcome.PASSED, profiled.report
        assert profiled.speed.low > 1.4
    assert len({gpu.uuid for gpu in list_gpus()}) >= 2
