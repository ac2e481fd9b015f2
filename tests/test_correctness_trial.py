"""What a trial asks in each call: poison, orders, what is held, what is kept and skipped."""

import pytest
from gate_kit import ADD_RELU, ADD_RELU_KERNEL, judged, model, told, workshop
from wrong_candidates import OUT, adding

from workbench.gate.records import Outcome

__all__ = ["workshop"]

LAUNCHED = "return launch(*inputs, torch.empty_like(inputs[0]))"
WHOLE = ADD_RELU.replace("torch.randn(13, 29)", "torch.randint(-9, 9, (13, 29))")


def test_a_later_output_is_watched_as_the_first_one_is(workshop):
    """Only what its second call returned is written to later."""
    forgetful = adding(
        OUT + "launch(*inputs, out)\n"
        "if len(self.made) > 1:\n    self.made[1].fill_(7.0)\n"
        "else:\n    self.made.append(out)\nreturn out",
        init="self.made = []",
    )
    report = judged(workshop, ADD_RELU, forgetful)
    assert told(report).code == "correctness.output-overwritten", report.says
    assert told(report).evidence["call"] == 1


def test_unwritten_memory_holds_nan_in_some_calls_of_the_plan_itself(workshop):
    """A finite number times zero is nothing; no call beside the plan is made on integers."""
    reference = WHOLE.replace("torch.relu(x + y)", "torch.relu(x + y).float()")
    unwritten = adding(
        "out = torch.empty(inputs[0].shape, device=inputs[0].device)\nreturn launch(*inputs, out)",
        ADD_RELU_KERNEL.replace(
            "tl.maximum(x + y, 0.0)",
            "tl.maximum(x + y, 0).to(tl.float32) + 0.0 * tl.load(o_ptr + offs, mask=mask)",
        ),
    )
    report = judged(workshop, reference, unwritten)
    assert report.outcome is Outcome.FAILED, report.says
    assert told(report).code == "correctness.non-finite", report.says


def test_programs_come_in_more_than_one_order(workshop):
    """Right whenever the first program is the first, as it also is in one order of those drawn."""
    kernel = """
@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    offs = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    if block == 0:
        for other in range(1, 3):
            at = other * BLOCK + tl.arange(0, BLOCK)
            tl.store(o_ptr + at, at * 0.0, mask=at < n)
    tl.store(o_ptr + offs, tl.maximum(x + y, 0.0), mask=offs < n)
"""
    body = OUT + "add_relu[(3,)](*inputs, out, 13 * 29, BLOCK=128)\nreturn out"
    report = judged(workshop, ADD_RELU, kernel + model(body))
    assert told(report).code == "correctness.race", report.says


def test_a_kernel_that_counts_in_a_tensor_that_is_kept_is_not_believed(workshop):
    """In floats, which may be a workspace: only that it is never the same twice tells."""
    kernel = """
@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    turn = tl.load(c_ptr)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(o_ptr + offs, tl.where(turn < 1000.0, tl.maximum(x + y, 0.0), 0.0), mask=offs < n)
    tl.store(c_ptr, turn + 1.0)
"""
    body = """
    if self.turns is None:
        self.turns = torch.zeros(1, device=inputs[0].device)
    out = torch.empty_like(inputs[0])
    add_relu[(1,)](*inputs, out, self.turns, 13 * 29, BLOCK=512)
    return out
    """
    report = judged(workshop, ADD_RELU, kernel + model(body, "self.turns = None"))
    assert told(report).code == "correctness.counts-calls", report.says
    assert "a tensor that it keeps" in report.says
    assert report.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize(("configs", "skipped"), [(24, 0), (26, 2)])
def test_configurations_that_were_not_run_are_counted(workshop, configs, skipped):
    tuned = ADD_RELU_KERNEL.replace(
        "@triton.jit",
        "@triton.autotune([triton.Config({'BLOCK': 512}, num_warps=2 ** (i % 4), num_stages=i)\n"
        f"    for i in range(1, {configs + 1})], key=['n'])\n@triton.jit",
        1,
    ).replace("out, x.numel(), BLOCK=128", "out, x.numel()")
    report = judged(workshop, ADD_RELU, tuned + model(LAUNCHED))
    assert report.outcome is Outcome.PASSED, report.says
    notes = {note.code: note.evidence for note in report.findings}
    found = notes.get("correctness.configs-skipped", {"skipped": 0})
    assert found["skipped"] == skipped
