"""Lawful transitions and sessions for tests, and the records of any shape for properties."""

import subprocess
import types
import typing
from enum import Enum
from pathlib import Path

import msgspec
from hypothesis import strategies as st

from workbench.gate.records import GateReport, Stage, Verdict
from workbench.measure.records import Kind, Speed
from workbench.session.records import (
    Answer,
    Budget,
    Cost,
    Decision,
    Mode,
    SessionSettings,
    Transition,
)
from workbench.session.store import SessionStore
from workbench.skills.records import Plan

PROBLEM = "class Model: ...\n"
SIDECAR = "family = 'reduction'\n"


def settings(name: str) -> SessionSettings:
    return SessionSettings(
        name=name,
        problem="softmax",
        mode=Mode.AUTO,
        device="cpu",
        target="sm90",
        budget=Budget(steps=9),
        created="2026-11-29T10:00:00+00:00",
    )


def new_store(folder: Path, name: str = "softmax-1") -> SessionStore:
    return SessionStore.create(folder / name, settings(name), PROBLEM, SIDECAR)


def transition(
    number: int, parent: int | None, answer: Answer = Answer.ACCEPTED, **plan: object
) -> Transition:
    refused = answer is Answer.REJECTED
    return Transition(
        number=number,
        parent=parent,
        plan=None if parent is None else step(**plan),
        gate=GateReport(
            verdict=Verdict.REJECTED if refused else Verdict.ACCEPTED,
            stage=Stage.CORRECTNESS if refused else Stage.PROFILE,
            code="correctness.error-above-bound" if refused else "",
            says="worst error 46 times the bound" if refused else "clearly faster",
            stages=(),
            rung=2,
            kernel_sha256="0" * 64,
            target="sm90",
            device="cpu",
            speed=None if parent is None or refused else SPEED,
        ),
        decision=Decision(
            answer=answer,
            by={Answer.PENDING: "nobody", Answer.VETOED: "person"}.get(answer, "gate"),
        ),
        cost=Cost(usd=0.0312, gpu_seconds=12.5, wall_seconds=3.25),
        created="2026-11-29T10:00:00+00:00",
        origin="shipped seed" if parent is None else "edit row-on-chip",
    )


SPEED = Speed(kind=Kind.MEASURED, ratio=1.32, low=1.31, high=1.33, confidence=0.99, pairs=40)


def step(**changes: object) -> Plan:
    plan = Plan(
        card="row-on-chip",
        title="Keep the row on chip",
        intent="read each row from memory once",
        kernel="softmax_kernel",
        parameters={"BLOCK": 4096},
        reason="the row is read three times",
    )
    return msgspec.structs.replace(plan, **changes)


def kernel(number: int) -> str:
    return f"# v{number}\nclass ModelNew: ...\n"


def any_of(type_: object) -> st.SearchStrategy:
    """Any value that a record's field of this type may hold and a file must give back."""
    origin, inside = typing.get_origin(type_), typing.get_args(type_)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of([any_of(one) for one in inside])
    if origin is typing.Literal:
        return st.sampled_from(inside)
    if origin is tuple and inside[-1] is Ellipsis:
        return st.lists(any_of(inside[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(any_of, inside))
    if origin is dict:
        return st.dictionaries(st.text(max_size=6), any_of(inside[1]), max_size=3)
    return _any_class(type_)


def _any_class(type_: type) -> st.SearchStrategy:
    if issubclass(type_, msgspec.Struct):
        hints = typing.get_type_hints(type_)
        return st.builds(type_, **{name: any_of(hints[name]) for name in type_.__struct_fields__})
    return st.sampled_from(type_) if issubclass(type_, Enum) else _PLAIN[type_]


_PLAIN = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=12),
    type(None): st.none(),
}


def git(folder: Path, *arguments: str) -> str:
    """What a person with only git does and sees."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_object(folder: Path, kind: str, data: bytes) -> None:
    """Put an object of any content into a repository, as a stranger's tool could."""
    subprocess.run(
        ["git", "hash-object", "-w", "-t", kind, "--literally", "--stdin"],
        cwd=folder, input=data, capture_output=True, check=True,
    )  # fmt: skip


def seeded(folder: Path) -> SessionStore:
    """v0 seed, v1 waits."""
    store = new_store(folder)
    store.record(transition(0, None), kernel(0))
    store.record_pending(transition(1, 0, Answer.PENDING), kernel(1))
    return store


def stepped(folder: Path) -> SessionStore:
    """v0 seed, v1 accepted, v2 rejected (from v1), v3 waits (from v1)."""
    made = new_store(folder)
    made.record(transition(0, None), kernel(0))
    made.record(transition(1, 0), kernel(1), best=True)
    made.record(transition(2, 1, Answer.REJECTED), kernel(2))
    made.record_pending(transition(3, 1, Answer.PENDING), kernel(3))
    return made
