"""What spare workers do before their first use changes nothing that they say afterwards."""

from textwrap import dedent

import pytest
from gate_kit import CANDIDATE, SCALE, SCALE_KERNEL, model, problem
from gate_kit import workshop as shop

from workbench.gate.correctness.asking import opening
from workbench.gate.correctness.cases import Case
from workbench.gate.correctness.protocol import (
    Compare,
    Compared,
    Draw,
    Made,
    OpenCandidate,
    Opened,
    Perturb,
    Reference,
    Returned,
    decode,
    encode,
)
from workbench.gate.gpu_workers import EXERCISES, REFERENCE, SPARE
from workbench.gate.judge import JOB_MODULES
from workbench.gate.timing.ring_protocol import timed_call
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop

__all__ = ["shop"]

JOBS = "workbench.gate.correctness"
INIT = "self.weight = nn.Parameter(torch.ones(n))"
FORWARD = "return launch(inputs[0], self.weight, torch.empty_like(inputs[0]))"


def bits(blobs):
    return [bytes(blob.data) for blob in blobs]


def answers(worker):
    """All that a reference tells of its problem, its weights, a draw and a comparison."""
    task = problem(SCALE)
    asked = opening(task, task.full, 7, lends=False)
    opened = worker.call(f"{JOBS}.reference_job:open_reference", encode(asked))
    weights = worker.call(f"{JOBS}.reference_job:perturb", encode(Perturb(seed=11)))
    draw = Draw(number=0, case=Case.FRESH, seed=13)
    drawn = worker.call(f"{JOBS}.reference_job:draw", encode(draw))
    made = decode(drawn.body, Made)
    shape = made.expected[0].entry.shape
    left = [*drawn.blobs, *drawn.blobs, *weights.blobs]
    compared = worker.call(f"{JOBS}.reference_job:compare", encode(Compare(number=0)), left)
    return (
        shape,
        decode(opened.body, Reference),
        bits(opened.blobs),
        bits(weights.blobs),
        made,
        bits(drawn.blobs),
        decode(compared.body, Compared),
    )


def test_a_reference_answers_as_one_that_did_nothing_before(shop):
    with shop.workers(REFERENCE, REFERENCE) as (plain, exercised):
        assert exercised.call(EXERCISES[Flavor.REFERENCE], {}).body == {}
        assert answers(exercised) == answers(plain)


def test_a_candidate_is_built_and_called_as_in_one_that_did_nothing_before(shop):
    task = problem(SCALE)
    source = CANDIDATE + dedent(SCALE_KERNEL) + model(FORWARD, INIT, "self, n")
    with shop.workers(REFERENCE, (Flavor.INTERPRET, SPARE[-1][1])) as (reference, worker):
        worker.call(EXERCISES[Flavor.CUDA], {})
        asked = encode(opening(task, task.full, 7, lends=False))
        opened = reference.call(f"{JOBS}.reference_job:open_reference", asked)
        init = decode(opened.body, Reference).init
        reference.call(f"{JOBS}.reference_job:perturb", encode(Perturb(seed=11)))
        draw = Draw(number=0, case=Case.FRESH, seed=13)
        drawn = reference.call(f"{JOBS}.reference_job:draw", encode(draw))
        message = OpenCandidate(source=source, init=init, build_seed=7, target="sm90")
        built = worker.call(f"{JOBS}.candidate_job:open_candidate", encode(message), opened.blobs)
        assert decode(built.body, Opened).raised is None
        call = timed_call(decode(drawn.body, Made).inputs, bare=False, reset_state=False)
        told = worker.call(f"{JOBS}.candidate_job:call", encode(call), drawn.blobs)
        returned = decode(told.body, Returned)
    assert returned.raised is None
    assert returned.launches == 1


def test_the_spare_ones_are_all_that_one_conversation_takes():
    assert {kind for kind, _ in SPARE} == {Flavor.REFERENCE, Flavor.CUDA} == set(EXERCISES)


@pytest.mark.gpu
def test_on_a_gpu_spare_workers_are_used_once_and_answer_alike():
    with Workshop(device_index=0, share_device_memory=True, preload=JOB_MODULES) as shop:
        with shop.worker(*REFERENCE) as plain:
            expected = answers(plain)
        shop.spare(*SPARE, exercises=EXERCISES)
        shop.spared()
        ready = set(shop.device_processes())
        assert len(ready) >= len(SPARE)
        with shop.workers(REFERENCE, REFERENCE) as (first, second):
            assert {*first.pids, *second.pids} & ready
            assert first.keeper_pid != second.keeper_pid
            assert answers(first) == answers(second) == expected
        with shop.worker(*REFERENCE) as third:
            assert not {*third.pids} & ready
