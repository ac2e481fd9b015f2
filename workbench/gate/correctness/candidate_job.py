"""The jobs of a candidate's worker: build `ModelNew`, run calls, hand over the results.

The candidate's code runs in this very process and may have changed anything in it, this module
included. So nothing here decides: the judge trusts bytes, lengths and the worker's death only, and
the rest (aliasing, attributes, operators) as evidence against a candidate, never for it.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from msgspec import structs
from torch import nn

from workbench.gate.correctness.faults import raised_by
from workbench.gate.correctness.garbage import collect, collect_by_hand
from workbench.gate.correctness.hostlog import HostLog
from workbench.gate.correctness.launching import Launched, branch_outcomes, carried_out
from workbench.gate.correctness.layout import (
    alike,
    entry,
    guarded_bytes,
    inside,
    overlap,
    shared_before,
    write_over,
)
from workbench.gate.correctness.memory import uninitialised
from workbench.gate.correctness.nest import Nest, flatten, rebuild, tensor_paths
from workbench.gate.correctness.protocol import (
    Held,
    Lend,
    OpenCandidate,
    Opened,
    OutputFacts,
    PutWeights,
    Reading,
    Returned,
    RunCall,
    decode,
    encode,
)
from workbench.gate.timing.clock import Clock
from workbench.isolation.context import JobContext
from workbench.isolation.tensors import from_blob, to_blob
from workbench.isolation.wire import Blob
from workbench.kernels.host_state import CallCounter, host_state, kept_tensors
from workbench.kernels.module_state import buffers_of, state_of
from workbench.kernels.records import Build
from workbench.kernels.standin_tensors import move_to_gpu, on_host

FILE = "kernel.py"


class Loaded:
    """The candidate between two calls."""

    def __init__(
        self,
        model: nn.Module,
        file: Path,
        clock: Clock,
        device: str,
        target: str,
        builds: Sequence[Build] = (),
    ) -> None:
        self.model = model
        self.file = file
        self.clock = clock
        self.device = device
        self.target = target
        self.builds = builds
        self.interpreted = device == "cpu"
        """Whether its kernels are interpreted, because there is no GPU."""
        self.pristine: dict[str, torch.Tensor] = {}
        """The weights as the judge set them."""
        self.inputs: list[torch.Tensor] = []
        """The tensors of the last call: a same-storage call writes into these very objects."""
        self.guarded: list[torch.Tensor] = []
        self.returned: list[torch.Tensor] = []
        """Outputs of the last call."""
        self.held: list[list[torch.Tensor]] = []
        self.counter = CallCounter()
        self.branches = None if device != "cpu" else branch_outcomes()

    def kept(self) -> str:
        """A digest of the tensors that host code keeps; empty on a GPU, where it costs too much."""
        names = self._names() if self.interpreted else None
        return "" if names is None else kept_tensors(self.model, names, frozenset(self.pristine))

    def counting(self) -> str:
        """Where host code counts its calls. Read without running any of its code."""
        names = self._names()
        if names is None:
            return ""
        return self.counter.after_call(host_state(self.model, names, frozenset(self.pristine)))

    def _names(self) -> dict[str, Any] | None:
        """The globals of the candidate's module; a stand-in has none."""
        module = sys.modules.get(self.file.stem)
        return None if module is None else vars(module)

    def state(self) -> dict[str, torch.Tensor]:
        """The tensors of the state_dict."""
        return state_of(self.model)

    def buffers(self) -> list[torch.Tensor]:
        """Buffers that the reference has too: host code may update them in place."""
        return [t for name, t in buffers_of(self.model).items() if name in self.pristine]

    def put_state(self) -> None:
        """Write the judge's weights into the model without changing a version counter.

        Not by `load_state_dict`, which a candidate could hook to refold its weights for the check.
        """
        for name, tensor in self.state().items():
            if name in self.pristine:
                tensor.data.copy_(self.pristine[name])

    def place(self, blobs: list[Blob], *, same_storage: bool) -> None:
        """Put inputs that came as bytes where the call takes them from."""
        new = [from_blob(blob) for blob in blobs]
        if not same_storage or not alike(self.inputs, new):
            self.inputs = new
            return
        for old, fresh in zip(self.inputs, new, strict=True):
            write_over(old, fresh)


def open_candidate(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Load the file and build `ModelNew(*get_init_inputs())` on the worker's device."""
    message = decode(request, OpenCandidate)
    file = bench.scratch / FILE
    file.write_text(message.source, encoding="utf-8")
    init = rebuild(message.init, [from_blob(blob) for blob in blobs])
    clock = clock_of(bench)
    try:
        # Inside the block: libdevice functions are bound when the file imports them.
        interpreted = bench.device == "cpu"
        with carried_out(
            interpreted=interpreted,
            target=message.target,
            source=str(file),
            builds=message.builds,
        ):
            module = _load(file)
            torch.manual_seed(message.build_seed)
            model: nn.Module = applied(module.ModelNew, init)
        model = model.to(bench.device)
        move_to_gpu(model)
        loaded = Loaded(model, file, clock, bench.device, message.target, message.builds)
        entries = tuple(entry(name, tensor) for name, tensor in loaded.state().items())
    except (Exception, SystemExit) as fault:  # noqa: BLE001 -- whatever it is, it is the answer
        return encode(Opened(raised=raised_by(fault, file))), []
    bench.state["candidate"] = loaded
    collect_by_hand()
    return encode(Opened(state=entries)), []


def put_weights(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Take the blobs as weights of these names; on a GPU there are none: they were lent before."""
    loaded = _loaded(bench)
    names = decode(request, PutWeights).names
    if blobs:
        loaded.pristine = {n: from_blob(b) for n, b in zip(names, blobs, strict=True)}
    loaded.put_state()
    return {}, []


def lend(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Allocate buffers on the GPU for the reference worker to write into; reply with IPC handles.

    The judge's side never shares memory of its own. Each handle covers a buffer with guards around
    the tensor; the reference worker fills the guards and checks them after the call.
    """
    loaded = _loaded(bench)
    message = decode(request, Lend)
    places = [structs.replace(place, name="") for place in message.entries]
    same = places == [entry("", t) for t in loaded.inputs]
    if message.same_storage and message.what == "inputs" and same:
        return {}, [to_blob(t, share=True) for t in loaded.guarded]
    guarded = [
        torch.empty(guarded_bytes(e), dtype=torch.uint8, device=loaded.device)
        for e in message.entries
    ]
    inner = [inside(g, e) for g, e in zip(guarded, message.entries, strict=True)]
    if message.what == "inputs":
        loaded.guarded, loaded.inputs = guarded, inner
    else:
        loaded.pristine = dict(zip((e.name for e in message.entries), inner, strict=True))
    return {}, [to_blob(t, share=True) for t in guarded]


def call(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Run the candidate once and time it; its outputs stay here until `hand_over`."""
    loaded = _loaded(bench)
    message = decode(request, RunCall)
    loaded.returned = []
    collect(interpreted=loaded.interpreted)
    if blobs:
        loaded.place(blobs, same_storage=message.same_storage)
    if message.reset_state:
        loaded.put_state()
    arguments = rebuild(message.inputs, loaded.inputs)
    log = HostLog(
        str(loaded.file),
        state=loaded.state().values(),
        buffers=loaded.buffers(),
        inputs=loaded.inputs,
    )
    try:
        out, reading, launches = _run(loaded, message, log, arguments)
        nest, tensors = flatten(out, foreign)
        facts = _facts(loaded, nest, tensors)
    except (Exception, SystemExit) as fault:  # noqa: BLE001 -- whatever it is, it is the answer
        return encode(Returned(raised=raised_by(fault, loaded.file))), []
    loaded.returned = tensors
    if message.hold:
        loaded.held.append(tensors)
    returned = Returned(
        outputs=nest,
        facts=facts,
        operators=tuple(log.operators()),
        launches=launches.count,
        counting=loaded.counting() if message.remembers else "",
        undecided=loaded.counter.undecided,
        configs=launches.configs,
        ways=() if loaded.branches is None else loaded.branches.one_sided(),
        kept=loaded.kept() if message.remembers else "",
        reading=reading,
    )
    return encode(returned), []


def _run(
    loaded: Loaded, message: RunCall, log: HostLog, arguments: object
) -> tuple[object, Reading, Launched]:
    """Run the model in the mode that the message asks for.

    Returns what the model returned, the clock's reading, and what it launched. Raises whatever
    the candidate raises.
    """
    with ExitStack() as around:
        around.enter_context(uninitialised(message.poison, loaded.device))
        launches = around.enter_context(
            carried_out(
                message.mode,
                interpreted=loaded.interpreted,
                target=loaded.target,
                builds=loaded.builds,
                source=str(loaded.file),
                order_seed=message.order_seed,
                config=message.config,
                branches=loaded.branches,
            )
        )
        watch = log.watching() if message.watched else nullcontext()
        run = partial(_forward_in, watch, loaded.model, arguments)
        out, reading = loaded.clock.read(run, bare=message.bare)
    return out, reading, launches


def hand_over(
    bench: JobContext,
    request: dict[str, Any],  # noqa: ARG001 -- a job's shape
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """The results of the last call: outputs, inputs (unless they are lent), and the state."""
    loaded = _loaded(bench)
    if loaded.device != "cpu":
        # Torch frees shared memory only when it is asked whether the other side has released it.
        torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]  # untyped in torch
    found = [_out(t, loaded.device) for t in loaded.returned]
    if loaded.device == "cpu":
        found += [to_blob(t) for t in loaded.inputs]
    state = loaded.state()
    return {}, found + [_out(state[name], loaded.device) for name in loaded.pristine]


def held(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """The outputs of an earlier call, as they are now."""
    loaded = _loaded(bench)
    tensors = loaded.held[decode(request, Held).call]
    return {}, [_out(t, loaded.device) for t in tensors]


def applied(function: Callable[..., Any], arguments: object) -> Any:  # noqa: ANN401 -- its result
    """`function` called as KernelBench does: a list as arguments, a dict as keywords."""
    if isinstance(arguments, dict):
        return function(**arguments)
    return function(*arguments) if isinstance(arguments, list | tuple) else function(arguments)


def forward(model: nn.Module, arguments: object) -> object:
    """One call of a model, which may still run on the device when this returns."""
    with torch.no_grad():
        out: object = applied(model, arguments)
    return out


def invoke(model: nn.Module, arguments: object) -> object:
    """One call of a model, synchronized."""
    out = forward(model, arguments)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # untyped in torch
        torch.cuda.synchronize()
    return out


def _forward_in(
    around: AbstractContextManager[object], model: nn.Module, arguments: object
) -> object:
    with around:
        return forward(model, arguments)


def clock_of(bench: JobContext) -> Clock:
    """The worker's clock, created on first use, before any candidate is loaded."""
    clock = bench.state.get("clock")
    if not isinstance(clock, Clock):
        clock = bench.state["clock"] = Clock(bench.device)
    return clock


def _load(file: Path) -> ModuleType:
    """Import the file under its own name; jit functions find their source on disk."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _loaded(bench: JobContext) -> Loaded:
    loaded = bench.state["candidate"]
    if not isinstance(loaded, Loaded):
        raise TypeError("the candidate is not loaded")
    return loaded


def foreign(leaf: object) -> str:
    """What is wrong with an output leaf. Checks types first: attributes may be overridden."""
    if type(leaf) is not torch.Tensor:
        return f"an object of type {type(leaf).__name__}"
    attributes = object.__getattribute__(leaf, "__dict__")
    if attributes:
        return f"a tensor with attributes of its own ({', '.join(sorted(attributes)[:4])})"
    return "" if leaf.layout is torch.strided else f"a tensor with layout {leaf.layout}"


def _facts(loaded: Loaded, nest: Nest, tensors: list[torch.Tensor]) -> tuple[OutputFacts, ...]:
    owners = [(f"input {i}", t) for i, t in enumerate(loaded.inputs)]
    owners += [(f"the state's {name}", t) for name, t in loaded.state().items()]
    owners += [("an output of an earlier call", t) for call in loaded.held for t in call]
    return tuple(
        OutputFacts(
            entry=entry(path, tensor),
            device="the host" if on_host(tensor) else str(tensor.device),
            storage_bytes=tensor.untyped_storage().nbytes(),
            offset_bytes=int(tensor.storage_offset()) * tensor.element_size(),
            overlaps=tuple(dict.fromkeys(n for n, t in owners if overlap(tensor, t))),
            beside=beside,
        )
        for path, tensor, beside in zip(
            tensor_paths(nest), tensors, shared_before(tensors), strict=True
        )
    )


def _out(tensor: torch.Tensor, device: str) -> Blob:
    return to_blob(tensor, share=device != "cpu" and tensor.is_cuda and tensor.numel() > 0)
