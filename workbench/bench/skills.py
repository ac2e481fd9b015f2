"""What a step's thinking costs: facts, the policy, every card's conditions, and one edit."""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import structs

from workbench.bench.costs import Row
from workbench.kernels.edits.base import EditRefused, undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts import read_facts
from workbench.kernels.records import Launch, ScalarArgument, StaticProfile, TensorArgument
from workbench.kernels.source import read_source
from workbench.kernels.target import target
from workbench.skills.card import Skill
from workbench.skills.conditions import evaluate
from workbench.skills.library import load_library
from workbench.skills.policy import decide
from workbench.skills.policy_table import shipped_policy

_CARDS = 40
_LINES = 300
_RUNS = 5
"""Runs that a median is taken of, each on a text of its own."""
_ROWS, _COLUMNS = 4096, 8192

_HEAD = """\
import torch
import triton
import triton.language as tl


@triton.jit
def long_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
"""
_LOOP = """\
    for start in range(0, N, BLOCK):
        inside = start + columns < N
        x{n} = tl.load(x_ptr + row * N + start + columns, mask=inside, other=0.0)
        y{n} = x{n} * {n}.5 + total
        z{n} = tl.exp(y{n} - tl.max(y{n}, axis=0))
        total += tl.where(inside, z{n} / tl.sum(z{n}, axis=0), 0.0)
"""
_TAIL = """\
    tl.store(out_ptr + row * BLOCK + columns, total)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty((rows, 1024), device=x.device)
        long_kernel[(rows,)](x, out, n, BLOCK=1024, num_warps=4)
        return out
"""


def long_kernel() -> str:
    """A candidate whose one kernel has 300 lines: passes over a row, one after another."""
    passes = (_LINES - _HEAD.count("\n")) // _LOOP.count("\n") + 1
    return _HEAD + "".join(_LOOP.format(n=n) for n in range(passes)) + _TAIL


def measure_skills(show: Callable[[Row], None]) -> Iterator[Row]:
    """Measure line by line; `show` is called with each as it is known.

    CPU seconds of this process: others on the machine do not count.
    """
    for row in (*_thinking(), *_editing(), _loading()):
        show(row)
        yield row


def _row(what: str, seconds: float, limit: float) -> Row:
    says = f"{seconds * 1e3:.0f} ms CPU"
    return Row(what=what, says=says, goal=f"{limit * 1e3:g} ms", met=seconds < limit)


def _median(work: Callable[[str], object], *, read: bool = False) -> float:
    """Of the CPU seconds that a piece of work takes on a text of its own.

    With `read` its facts were read before, as those of the kernel that a step starts from are.
    """
    text = long_kernel()
    times = []
    for run in range(_RUNS):
        fresh = f"{text}\n# {run} {time.perf_counter_ns()}\n"
        if read:
            read_facts(fresh, "long_kernel")
        began = time.process_time()
        work(fresh)
        times.append(time.process_time() - began)
    return statistics.median(times)


def _thinking() -> Iterator[Row]:
    skills = _cards()
    launch, on = _launch(), target("sm90")

    def think(text: str) -> None:
        facts = read_facts(text, "long_kernel", (launch,), (), None, on)
        for skill in skills:
            for condition in (*skill.preconditions, *skill.risks):
                if condition is not None:
                    evaluate(condition, facts)

    def rule(text: str) -> None:
        decide(read_facts(text, "long_kernel", (launch,), (), None, on), shipped_policy())

    what = f"facts and all conditions of {len(skills)} cards, {_LINES}-line kernel"
    yield _row(what, _median(think), 0.3)
    yield _row("facts and the policy's ruling on it", _median(rule), 0.3)


def _cards() -> list[Skill]:
    """At least forty cards: the shipped ones, with copies if there are fewer."""
    shipped = list(load_library(Path("/nonexistent")).skills.values())
    copies = [
        structs.replace(s, card=structs.replace(s.card, id=f"{s.card.id}-{n}"))
        for n in range(_CARDS // len(shipped))
        for s in shipped
    ]
    return [*shipped, *copies[: max(0, _CARDS - len(shipped))]]


def _editing() -> Iterator[Row]:
    """The slowest edit that fits, applied and undone."""
    taken: dict[str, float] = {}
    for edit in EDITS.values():

        def work(text: str, edit_id: str = edit.id) -> None:
            for anchor in EDITS[edit_id].anchors(text, "long_kernel")[:1]:
                try:
                    done = EDITS[edit_id].apply(text, "long_kernel", anchor.parameters)
                except EditRefused:
                    return
                undo(done.source, done.undo)

        taken[edit.id] = _median(work, read=True)
    slowest = max(taken, key=lambda name: taken[name])
    yield _row(f"the slowest of {len(taken)} edits, undone too ({slowest})", taken[slowest], 0.1)


def _loading() -> Row:
    times = []
    for _ in range(_RUNS):
        began = time.process_time()
        load_library(Path("/nonexistent"))
        times.append(time.process_time() - began)
    return _row("the shipped cards, read and checked", statistics.median(times), 0.3)


def _launch() -> Launch:
    """The launch that the recorder gives for this kernel on an H200."""
    size = _ROWS * _COLUMNS * 4
    whole = TensorArgument(
        dtype="float32", shape=(_ROWS, _COLUMNS), strides=(_COLUMNS, 1), alignment=256, bytes=size
    )
    part = TensorArgument(
        dtype="float32", shape=(_ROWS, 1024), strides=(1024, 1), alignment=256, bytes=size // 8
    )
    return Launch(
        kernel="long_kernel",
        grid=(_ROWS, 1, 1),
        arguments={"x_ptr": whole, "out_ptr": part, "N": ScalarArgument(value=_COLUMNS)},
        constexprs={"BLOCK": 1024},
        num_warps=4,
        num_stages=3,
        num_ctas=1,
        line=read_source(long_kernel()).tree.body[-1].lineno,
        cubin_sha256="0" * 64,
        static=StaticProfile(
            registers=64,
            spill_store_bytes=0,
            spill_load_bytes=0,
            stack_bytes=0,
            shared_bytes=64,
            threads=128,
            programs_per_sm=8,
            occupancy=0.5,
            limiter="registers",
            code_bytes=65536,
            mix={"LDG.128": 96, "total": 4096},
        ),
        compile_seconds=1.0,
    )
