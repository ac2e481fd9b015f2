"""From a reference to the operator graph that Inductor is given, on tensors without storage."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import torch
from msgspec import Struct
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch._inductor import config
from torch._inductor.fx_passes import joint_graph
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree

from workbench.kernels.inductor.decompositions import decompositions
from workbench.kernels.inductor.records import LiftRefused
from workbench.kernels.untyped import Untyped
from workbench.problems.module import build_model, make_inputs

_CPU = torch.device("cpu")
_GPU = torch.device("cuda", 0)
_RANDOM = ("rand", "bernoulli", "dropout", "normal_functional", "multinomial", "exponential")

_MOST_OPERATORS = 2500
"""Ours: about a minute of Inductor; most are the unrolled steps of a recurrent layer."""


class Traced(Struct):
    """A reference as a graph of functional operators whose tensors claim to be on the GPU."""

    graph: GraphModule
    """Its placeholders stand for the state, then the inputs, then the constants."""
    model: nn.Module
    state: tuple[str, ...]
    """Names of parameters and buffers, as `state_dict` has them."""
    placeholders: tuple[Any, ...]
    """Their fake tensors."""
    inputs: tuple[Any, ...]
    constants: tuple[torch.Tensor, ...]
    """Tensors that the reference holds or makes from nothing, with their values."""
    output: Any
    """The pytree spec of what `forward` returns."""
    mode: FakeTensorMode


def trace(module: ModuleType) -> Traced:
    """Trace the reference in `module` on its own inputs to operators as Inductor wants them.

    Built and traced without storage; where a constructor needs values, or the graph holds
    constants, built again for real. Raises LiftRefused for inputs that are no tensors, randomness,
    hidden constants and written inputs; and what the file itself raises.
    """
    try:
        traced = _trace(module, "meta")
    except LiftRefused:
        raise
    # Meta tensors refuse `.item()`, printing, numpy and more, each with an exception of its own.
    except Exception:  # noqa: BLE001 -- see above
        traced = _trace(module, "cpu")
    else:
        if any(node.op == "get_attr" for node in traced.graph.graph.nodes):
            traced = _trace(module, "cpu")
    _refuse_what_cannot_be_lifted(traced)
    with _no_patterns(), traced.mode:
        joint_graph.joint_graph_passes(traced.graph)
    _pass_constants(traced)
    _move_to_gpu(traced.graph, traced.mode)
    return traced


def _trace(module: ModuleType, device: str) -> Traced:
    """Build the reference and its inputs on `device` and trace them as fake CPU tensors.

    CPU is the device whose operators all accept fake tensors.
    """
    with torch.device(device):
        model = build_model(module, seed=0)
    inputs = make_inputs(module, seed=0, device=device)
    for i, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            raise LiftRefused(f"input {i} is a {type(value).__name__}, not a tensor")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    _replace_state(model, lambda tensor: _fake(mode, tensor, _CPU))
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    values = (*state.values(), *(_fake(mode, tensor, _CPU) for tensor in inputs))
    graph, output = _graph(model, tuple(state), values, mode)
    return Traced(
        graph=graph,
        model=model,
        state=tuple(state),
        placeholders=tuple(_fake(mode, value, _GPU) for value in values),
        inputs=tuple(inputs),
        constants=(),
        output=output,
        mode=mode,
    )


def _graph(
    model: nn.Module,
    state: Sequence[str],
    values: Sequence[Untyped],
    mode: FakeTensorMode,
) -> tuple[GraphModule, Untyped]:
    """The graph of `model` called on `values`, state first, and the pytree spec of its output."""
    specs: list[Untyped] = []

    def forward(*flat: Untyped) -> list[Untyped]:
        own = dict(zip(state, flat, strict=False))
        out = torch.func.functional_call(model, own, flat[len(own) :])
        leaves, spec = pytree.tree_flatten(out)
        specs.append(spec)
        return leaves

    with (
        _plain_operators(),
        mode,
        torch.no_grad(),
        preserve_node_meta(),  # names kernels after the reference's operators
        enable_python_dispatcher(),  # takes recurrent layers apart
    ):
        graph = make_fx(
            torch.func.functionalize(forward, remove="mutations"),
            decomposition_table=decompositions(),
            tracing_mode="real",
        )(*values)
    graph.graph.eliminate_dead_code()
    return graph, specs[-1]


def _fake(mode: FakeTensorMode, tensor: torch.Tensor, device: torch.device) -> Untyped:
    return FakeTensor(mode, tensor.detach().to("meta"), device)


def _replace_state(model: nn.Module, replace: Callable[[torch.Tensor], Untyped]) -> None:
    for part in model.modules():
        for name, value in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(replace(value), requires_grad=False))
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, replace(buffer))


@contextmanager
def _plain_operators() -> Iterator[None]:
    """Keep PyTorch from choosing operators fused for a vendor's library."""
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False, allow_tf32=False))
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        yield


@contextmanager
def _no_patterns() -> Iterator[None]:
    """Without Inductor's patterns: they are traced on a GPU and put library attention back."""
    passes: Untyped = joint_graph
    before = passes.lazy_init
    passes.lazy_init = lambda *_args, **_kwargs: None
    try:
        with config.patch(pattern_matcher=False):
            yield
    finally:
        passes.lazy_init = before


def _refuse_what_cannot_be_lifted(traced: Traced) -> None:
    count = len(traced.graph.graph.nodes)
    if count > _MOST_OPERATORS:
        raise LiftRefused(
            f"the reference unrolls into {count:,} operators; the limit is {_MOST_OPERATORS:,}",
            todo="give it a shorter sequence",
        )
    inputs = traced.graph.graph.find_nodes(op="placeholder")[len(traced.state) :]
    for node in traced.graph.graph.nodes:
        name = str(node.target)
        if node.op == "call_function" and any(word in name for word in _RANDOM):
            raise LiftRefused(
                f"the reference draws random numbers ({name})",
                todo="set its dropout to 0 or put the model in eval mode",
            )
        if name == "aten.copy_.default" and node.args[0] in inputs:
            raise LiftRefused("the reference writes into its own input")


def _pass_constants(traced: Traced) -> None:
    """Make every constant a placeholder; Inductor writes single numbers into its kernels itself."""
    graph = traced.graph.graph
    last = graph.find_nodes(op="placeholder")[-1]
    for node in graph.find_nodes(op="get_attr"):
        tensor = getattr(traced.graph, node.target)
        if tensor.dim() == 0:
            continue
        with graph.inserting_after(last):
            last = graph.placeholder(f"constant_{len(traced.constants)}")
        last.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(last)
        graph.erase_node(node)
        traced.constants = (*traced.constants, tensor)
        traced.placeholders = (*traced.placeholders, _fake(traced.mode, tensor, _GPU))
    traced.graph.recompile()


def _move_to_gpu(graph: GraphModule, mode: FakeTensorMode) -> None:
    """Let every tensor of the graph, made or passed, claim to be on the GPU."""

    def moved(value: Untyped) -> Untyped:
        return _fake(mode, value, _GPU) if isinstance(value, torch.Tensor) else value

    def device(value: Untyped) -> Untyped:
        return _GPU if isinstance(value, torch.device) else value

    for node in graph.graph.nodes:
        node.args = pytree.tree_map(device, node.args)
        node.kwargs = pytree.tree_map(device, node.kwargs)
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map(moved, node.meta["val"])
    graph.recompile()
