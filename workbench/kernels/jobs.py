"""Worker-side jobs: what a candidate launches at a shape, compiled for a target or interpreted.

Both build the candidate on full-size tensors that cost nothing until touched, call it once without
counting, so that whatever it prepares at its first call is ready, and look at the second call. Its
code runs in this process and could change what is said here: the reply is evidence, not proof.
"""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import torch

from workbench.kernels.faults import (
    AccessOutOfBounds,
    CannotJudge,
    CompileFailed,
    KernelFault,
    TooLarge,
)
from workbench.kernels.lazy import LazyHost, lazy_host, lazy_numbers
from workbench.kernels.requests import (
    BranchSpec,
    Fault,
    LaunchRequest,
    PlainSpec,
    Recorded,
    Spec,
    Traced,
    TraceRequest,
)
from workbench.kernels.target import target
from workbench.kernels.untyped import Untyped

FILE = "candidate.py"

Answer = tuple[dict[str, Any], list[Any]]
R = TypeVar("R", bound=LaunchRequest)


class Bench(Protocol):
    """What these jobs need of the worker they run in."""

    @property
    def scratch(self) -> Path:
        """Its private folder."""


def record(bench: Bench, request: dict[str, Any], blobs: list[Any]) -> Answer:  # noqa: ARG001
    """Answer a `LaunchRequest` with `Recorded`; needs a worker that compiles.

    Raises what the candidate's own host code raises.
    """
    from workbench.kernels.record import Recorder, recording
    from workbench.kernels.toolchain import versions

    asked = msgspec.convert(request, LaunchRequest)
    file = _written(bench, asked)
    wanted = target(asked.target)
    recorders: list[Recorder] = []

    def launches(call: Callable[[], None]) -> None:
        with recording(wanted, source=str(file)) as recorder:
            recorders.append(recorder)
            call()

    host, fault = _call_twice(asked, file, launches, launches)
    last = recorders[-1]
    answer = Recorded(
        launches=tuple(last.launches),
        host=tuple(host.operations),
        configs=last.configs_chosen(),
        toolchain=versions(wanted.arch),
        fault=fault,
    )
    return msgspec.to_builtins(answer), []


def trace(bench: Bench, request: dict[str, Any], blobs: list[Any]) -> Answer:  # noqa: ARG001
    """Answer a `TraceRequest` with `Traced`; needs a worker that interprets.

    Raises what the candidate's own host code raises.
    """
    from workbench.kernels.interpret import Trace, tracing

    asked = msgspec.convert(request, TraceRequest)
    file = _written(bench, asked)
    wanted = target(asked.target)
    traces: list[Trace] = []

    def preparing(call: Callable[[], None]) -> None:
        with tracing(ghost=True, stands_for=wanted, configs=asked.configs) as made:
            traces.append(made)
            call()

    def counting(call: Callable[[], None]) -> None:
        with tracing(
            sample=asked.sample,
            sample_seed=asked.sample_seed,
            work=asked.work,
            stands_for=wanted,
            configs=asked.configs,
        ) as made:
            traces.append(made)
            call()

    _, fault = _call_twice(asked, file, preparing, counting)
    return msgspec.to_builtins(Traced(traces=tuple(traces[-1].launches), fault=fault)), []


Inside = Callable[[Callable[[], None]], None]
"""Runs a call with launches recorded or interpreted."""


def _call_twice(
    asked: LaunchRequest, file: Path, first: Inside, second: Inside
) -> tuple[LazyHost, Fault | None]:
    """Build the candidate and call it in `first`, then call it again in `second`."""
    with lazy_host(str(file)) as host:
        inputs = [_value(spec) for spec in asked.inputs]
        models: list[torch.nn.Module] = []

        def build_and_call() -> None:
            module = _load(file)
            models.append(module.ModelNew(*(_value(spec) for spec in asked.init)))
            models[0](*inputs)

        def call() -> None:
            host.operations.clear()
            models[0](*inputs)

        try:
            first(build_and_call)
            second(call)
        except KernelFault as fault:
            return host, _as_data(fault)
    return host, None


def _written(bench: Bench, asked: LaunchRequest) -> Path:
    file = bench.scratch / FILE
    file.write_text(asked.source, encoding="utf-8")
    return file


def _load(file: Path) -> Untyped:
    """Import the candidate: triton reads a kernel's text from its file."""
    spec = importlib.util.spec_from_file_location("candidate", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return module


def _value(spec: Spec) -> object:
    """The value that a description stands for; tensors are numbers on lazy memory."""
    if isinstance(spec, PlainSpec):
        if spec.kind == "dtype":
            return getattr(torch, str(spec.value))
        return torch.device(str(spec.value)) if spec.kind == "device" else spec.value
    if isinstance(spec, BranchSpec):
        items = [_value(item) for item in spec.items]
        if spec.kind == "dict":
            return dict(zip(spec.keys, items, strict=True))
        return tuple(items) if spec.kind == "tuple" else items
    return lazy_numbers(spec.shape, getattr(torch, spec.dtype), spec.strides)


def _as_data(fault: KernelFault) -> Fault:
    kind, details = _kind_of(fault)
    return Fault(
        kind=kind,
        what=fault.what,
        todo=fault.todo,
        kernel=fault.kernel,
        line=fault.line,
        details=details,
    )


def _kind_of(fault: KernelFault) -> tuple[Untyped, dict[str, str | int]]:
    if isinstance(fault, TooLarge):
        return "too-large", {
            "resource": fault.resource,
            "required": fault.required,
            "limit": fault.limit,
        }
    if isinstance(fault, AccessOutOfBounds):
        record = fault.record
        return "out-of-bounds", {
            "argument": record.argument,
            "access": record.access,
            "lanes": record.lanes,
            "offset_bytes": record.offset_bytes,
        }
    if isinstance(fault, CompileFailed):
        return "compile-failed", {}
    return ("cannot-judge" if isinstance(fault, CannotJudge) else "kernel-raised"), {}
