"""From an operator graph to the text of the module that Inductor writes for it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._inductor import config, ir
from torch._inductor.debug import DebugContext
from torch._inductor.fx_passes.post_grad import post_grad_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import ReductionHint
from torch._inductor.select_algorithm import AlgorithmSelectorCache
from torch._inductor.virtualized import V

from workbench.kernels.inductor.records import LiftRefused
from workbench.kernels.inductor.tiles import best_choice
from workbench.kernels.inductor.trace import Traced
from workbench.kernels.target import Target
from workbench.kernels.untyped import Untyped

_SETTINGS = {
    "compile_threads": 1,
    "fx_graph_cache": False,
    "autotune_local_cache": False,
    "layout_optimization": False,  # no copies of weights and inputs to channels-last
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "TRITON",
    "pattern_matcher": False,  # its patterns would put fused library attention back
    "prologue_fusion": False,  # a constant fused into a GEMM has a shape that Triton refuses
    "comprehensive_padding": False,  # buffers keep the strides that PyTorch gives them
    "triton.unique_kernel_names": True,
    "triton.descriptive_names": "original_aten",
}


def generate(traced: Traced, target: Target) -> str:
    """The text of the module that Inductor writes for the graph; nothing is compiled or run.

    Raises LiftRefused for a graph that Inductor cannot lower to Triton.
    """
    with (
        config.patch(_SETTINGS),
        _whole_scans(),
        _choosing(target),
        traced.mode,
        torch.no_grad(),
        V.set_fake_mode(traced.mode),
    ):
        post_grad_passes(traced.graph, is_inference=True)
        try:
            return _lowered(traced)
        # Inductor wraps what goes wrong inside in exceptions of many kinds.
        except Exception as fault:
            raise LiftRefused(
                f"TorchInductor cannot write Triton for it: {_cause(fault)}"
            ) from fault


def _lowered(traced: Traced) -> str:
    joined = list(traced.placeholders)
    lowering = GraphLowering(traced.graph, example_inputs=joined, is_inference=True)
    with V.set_graph_handler(lowering), V.set_debug_handler(DebugContext()):
        lowering.run(*joined)
        code, _ = lowering.codegen()
    return str(getattr(code, "value", code))


def _cause(fault: BaseException) -> str:
    """The innermost exception's first line: Inductor's own wrapping says less."""
    while fault.__cause__ is not None:
        fault = fault.__cause__
    return f"{type(fault).__name__}: {str(fault).strip().partition(chr(10))[0][:200]}"


@contextmanager
def _choosing(target: Target) -> Iterator[None]:
    """Hand Inductor's selector one choice at a time, so that it has nothing to time."""
    select: Untyped = AlgorithmSelectorCache.__call__

    def select_one(
        self: Untyped, name: str, choices: Untyped, *args: Untyped, **kwargs: Untyped
    ) -> Untyped:
        if choices:
            choices = [best_choice(choices, target)]
        return select(self, name, choices, *args, **kwargs)

    selector: Untyped = AlgorithmSelectorCache
    selector.__call__ = select_one
    try:
        yield
    finally:
        selector.__call__ = select


@contextmanager
def _whole_scans() -> Iterator[None]:
    """A scan split over programs makes them wait for each other: only a GPU runs them together."""
    scan: Untyped = ir.Scan
    before = scan.__dict__["num_splits"]
    scan.num_splits = classmethod(lambda _cls, **_kwargs: (ReductionHint.DEFAULT, 1))
    try:
        yield
    finally:
        scan.num_splits = before
