"""Worker jobs that compile or interpret what a candidate launches at a shape.

Both build the candidate on full-size tensors that cost nothing until touched, call it once so that
it is ready, and observe the second call. The candidate's code runs in this process and could
falsify the reply: it is evidence, not proof.
"""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import torch
from msgspec import Struct, structs
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten

from workbench.kernels.faults import (
    AccessOutOfBounds,
    CannotJudge,
    CompileFailed,
    KernelFault,
    TooLarge,
)
from workbench.kernels.host_deadline import host_deadline
from workbench.kernels.host_state import State, changed, host_state
from workbench.kernels.lazy import LazyHost, lazy_numbers
from workbench.kernels.lazy_contents import Contents, Filling
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
from workbench.kernels.standin_tensors import move_to_gpu
from workbench.kernels.target import target
from workbench.kernels.trace_closure import Closure
from workbench.kernels.trace_values import Book
from workbench.kernels.untyped import Untyped

if TYPE_CHECKING:  # it needs triton's interpreter, which a worker that compiles has not
    from workbench.kernels.interpret_settings import TraceSettings

FILE = "candidate.py"

Answer = tuple[dict[str, Any], list[Any]]
"""The reply of a job: a body, and binary attachments."""
_MOST_CALLS = 4
"""Most further calls to find the programs that others wait for (ours)."""


class Bench(Protocol):
    """What these jobs need of the worker in which they run."""

    @property
    def scratch(self) -> Path:
        """The worker's private folder."""


def record(bench: Bench, request: dict[str, Any], blobs: list[Any]) -> Answer:  # noqa: ARG001 -- a job's shape
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
        with recording(wanted, source=str(file), disassembled=asked.disassembled) as recorder:
            recorders.append(recorder)
            call()

    host = LazyHost(str(file))
    with host_deadline():
        fault = _TwoCalls(asked, file, host).make(launches, launches)
    last = recorders[-1]
    answer = Recorded(
        launches=tuple(last.launches),
        host=tuple(host.operations),
        configs=last.configs_chosen(),
        toolchain=versions(wanted.arch),
        code=tuple(last.code.values()),
        builds=tuple(build for recorder in recorders for build in recorder.builds),
        fault=fault,
    )
    return msgspec.to_builtins(answer), []


def trace(bench: Bench, request: dict[str, Any], blobs: list[Any]) -> Answer:  # noqa: ARG001 -- a job's shape
    """Answer a `TraceRequest` with `Traced`; needs a worker that interprets.

    Raises what the candidate's own host code raises.
    """
    asked = msgspec.convert(request, TraceRequest)
    return msgspec.to_builtins(traced(bench, asked).answer), []


class Called(Struct, frozen=True):
    """The observed call of a traced candidate. Fields after `out` are set only with contents."""

    answer: Traced
    host: LazyHost
    out: object = None
    """What the call returned; None with a fault."""
    book: Book | None = None
    """Which memory holds final values."""
    inputs: tuple[torch.Tensor, ...] = ()
    """The tensors that the candidate was given."""
    changing: str = ""
    """Path of host state that the second call changed; empty when it changed none."""
    further: Callable[[], "Called | None"] = lambda: None
    """Makes a further call that also runs the programs whose results the sampled ones read, if any
    are missing. It restores memory first: this call's values have to be read before."""


def traced(bench: Bench, asked: TraceRequest, contents: Contents | None = None) -> Called:
    """Build and call a candidate in the interpreter; with `contents`, on the judge's numbers.

    Needs a worker that interprets. Raises what the candidate's own host code raises.
    """
    from workbench.kernels.interpret import Trace, tracing

    file = _written(bench, asked)
    traces: list[Trace] = []
    host = LazyHost(str(file), faithful=contents is not None)
    book = None if contents is None else Book(host.knows, host.unwritten)
    if book is not None:
        host.touched = book.touched

    sampled = _sampled(asked, file, book)

    def preparing(call: Callable[[], None]) -> None:
        with tracing(structs.replace(sampled, ghost=True)) as made:
            traces.append(made)
            call()

    def counting(call: Callable[[], None]) -> None:
        with tracing(sampled) as made:
            traces.append(made)
            if book is not None:
                book.new_call()
            call()

    call = _TwoCalls(asked, file, host, contents)
    fault = call.make(preparing, counting)
    answer = Traced(traces=tuple(traces[-1].launches), fault=fault)
    called = Called(answer, host, call.out, book, call.given(), call.changing)
    if book is None or fault is not None or not book.wanting:
        return called
    return structs.replace(called, further=lambda: _closed(call, called, book, asked))


def _sampled(asked: TraceRequest, file: Path, book: Book | None) -> "TraceSettings":
    from workbench.kernels.interpret_settings import TraceSettings

    return TraceSettings(
        stands_for=target(asked.target),
        configs=asked.configs,
        builds=asked.builds,
        book=book,
        source=str(file),
        sample=asked.sample,
        sample_seed=asked.sample_seed,
        work=asked.work,
    )


def _closed(call: "_TwoCalls", called: Called, book: Book, asked: TraceRequest) -> Called | None:
    """A further call that also runs the programs whose results the sampled ones read.

    Repeated with more programs until nothing is missing, or until it is unknown who writes it.
    """
    from workbench.kernels.interpret import tracing
    from workbench.kernels.interpret_settings import TraceSettings

    closure = Closure(book, [trace.grid for trace in called.answer.traces])
    later: Called | None = None
    for _ in range(_MOST_CALLS):
        if not closure.grew:
            break
        own = Book(call.host.knows, call.host.unwritten)
        own.closed, own.changed = closure.closed, book.put_back()
        call.host.touched = own.touched
        settings = TraceSettings(
            stands_for=target(asked.target),
            configs=asked.configs,
            builds=asked.builds,
            book=own,
            programs=closure.programs,
            source=str(call.file),
        )
        with tracing(settings) as made:
            if call.again() is not None:
                break
        later = Called(called.answer, call.host, call.out, own, called.inputs)
        if len(made.launches) != len(called.answer.traces):
            return None
        closure.grow(own)
    return later


Inside = Callable[[Callable[[], None]], None]
"""Runs a call inside a context that records or interprets launches."""


class _TwoCalls:
    """A candidate that is built, called once to prepare it, and once to observe it."""

    def __init__(
        self, asked: LaunchRequest, file: Path, host: LazyHost, contents: Contents | None = None
    ) -> None:
        self._asked = asked
        self.file = file
        self.host = host
        self._contents = contents
        self._models: list[torch.nn.Module] = []
        self._inputs: list[object] = []
        self.out: object = None
        self.changing = ""

    def make(self, first: Inside, second: Inside) -> Fault | None:
        """Build the candidate and call it in `first`, then call it again in `second`."""
        models = self._models
        modules: list[Untyped] = []

        def build_and_call() -> None:
            module = _load(self.file)
            modules.append(module)
            models.append(module.ModelNew(*(_value(spec) for spec in self._asked.init)))
            move_to_gpu(models[0])
            if self._contents is not None:
                self._contents.put_state(models[0], self.host)
            models[0](*self._inputs)

        def call() -> None:
            self.host.operations.clear()
            before = self._remembered(models[0], modules[0])
            self.out = models[0](*self._inputs)
            self.changing = changed(before, self._remembered(models[0], modules[0]))

        with torch.no_grad(), self.host:
            fill = None if self._contents is None else self._contents.filling(self.host)
            self._inputs = [_value(spec, fill) for spec in self._asked.inputs]
            try:
                first(build_and_call)
                second(call)
            except KernelFault as fault:
                self.out = None
                return _as_data(fault)
        return None

    def again(self) -> Fault | None:
        """Call once more, in the context that the caller has entered."""
        try:
            with torch.no_grad(), self.host:
                self.out = self._models[0](*self._inputs)
        except KernelFault as fault:
            return _as_data(fault)
        return None

    def _remembered(self, model: torch.nn.Module, module: Untyped) -> State:
        if self._contents is None:
            return {}
        with _disable_current_modes():
            return host_state(model, vars(module), self._contents.names)

    def given(self) -> tuple[torch.Tensor, ...]:
        """The tensors among the inputs, in nesting order."""
        return tuple(t for t in tree_flatten(self._inputs)[0] if isinstance(t, torch.Tensor))


def _written(bench: Bench, asked: LaunchRequest) -> Path:
    file = bench.scratch / FILE
    file.write_text(asked.source, encoding="utf-8")
    return file


def _load(file: Path) -> Untyped:
    """Import the candidate: triton reads a kernel's text from its file.

    In every job of the gate its module has one name, so that none can be told by `__name__`.
    """
    spec = importlib.util.spec_from_file_location("kernel", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel"] = module
    spec.loader.exec_module(module)
    return module


def _value(spec: Spec, fill: Filling | None = None) -> object:
    """The value that a spec describes; tensors get numbers in lazy memory."""
    if isinstance(spec, PlainSpec):
        if spec.kind == "dtype":
            return getattr(torch, str(spec.value))
        return torch.device(str(spec.value)) if spec.kind == "device" else spec.value
    if isinstance(spec, BranchSpec):
        items = [_value(item, fill) for item in spec.items]
        if spec.kind == "dict":
            return dict(zip(spec.keys, items, strict=True))
        return tuple(items) if spec.kind == "tuple" else items
    dtype = getattr(torch, spec.dtype)
    if fill is not None:
        return fill(spec.shape, dtype, spec.strides)
    return lazy_numbers(spec.shape, dtype, spec.strides)


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
