"""Mechanisms that are a value: taken out by the value that means doing without."""

from collections.abc import Callable

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter, Parameters
from workbench.kernels.edits.blocks import BLOCK_SIZE
from workbench.kernels.edits.launch_options import DEFAULTS, NUM_STAGES, NUM_WARPS
from workbench.kernels.edits.precision import DOT_PRECISION
from workbench.kernels.inverses.base import Inverse, Removable
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel

LEAST_BLOCK = 16
"""The smallest extent that `tl.dot` takes in every dimension (Triton 3.6 to 3.9, sm_80 up)."""

_Naive = Callable[[JitKernel, Anchor], Parameter | None]
"""The value that means doing without; None where the anchor has it already."""


def _reset(edit: Edit, parameter: str, category: str, says: str, naive: _Naive) -> Inverse:
    def find(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
        found = []
        for anchor in edit.find(source, kernel):
            now, plain = anchor.current.get(parameter), naive(kernel, anchor)
            if now is None or plain is None or now == plain:
                continue
            without = _set(edit, source, kernel, {**anchor.parameters, parameter: plain})
            if without is not None:
                found.append(
                    Removable(
                        lines=anchor.lines,
                        locus=_locus(anchor),
                        says=f"{anchor.says} -> {plain}",
                        source=without,
                        parameters={**anchor.parameters, parameter: now},
                    )
                )
        return tuple(found)

    return Inverse(category=category, edit=edit.id, says=says, find=find)


def _set(edit: Edit, source: Source, kernel: JitKernel, parameters: Parameters) -> str | None:
    try:
        return edit.apply(source.text, kernel.name, parameters).source
    except EditRefused:
        return None


def _locus(anchor: Anchor) -> str:
    chosen = (str(v) for v in anchor.parameters.values())
    return " ".join(chosen) or "launch"


def _least_block(kernel: JitKernel, anchor: Anchor) -> Parameter | None:
    """Without a product a block of one warp's lanes; with one what `tl.dot` takes."""
    now = anchor.current.get("value")
    least = LEAST_BLOCK if kernel.dots else 2 * LEAST_BLOCK
    return least if isinstance(now, int) and now > least else None


def _down_to(least: int) -> _Naive:
    def naive(_kernel: JitKernel, anchor: Anchor) -> Parameter | None:
        now = anchor.current.get("value")
        return least if isinstance(now, int) and now != least else None

    return naive


def _one_stage(kernel: JitKernel, anchor: Anchor) -> Parameter | None:
    """Stages are of loops that load; elsewhere the compiler makes the same code of any number."""
    if not any(access.loops for access in kernel.loads):
        return None
    return _down_to(1)(kernel, anchor)


TILE_SIZE = _reset(
    BLOCK_SIZE,
    "value",
    "tile-size",
    "a tile as small as the hardware takes, where a program had a larger one",
    _least_block,
)
WARPS = _reset(
    NUM_WARPS,
    "value",
    "warps",
    "the default number of warps",
    _down_to(DEFAULTS["num_warps"]),
)
PIPELINE = _reset(
    NUM_STAGES,
    "value",
    "pipelined-loads",
    "one stage: a load is waited for before the next is asked for",
    _one_stage,
)
PRECISION = _reset(
    DOT_PRECISION,
    "precision",
    "tensor-core-precision",
    "IEEE products of fp32 operands, without tensor cores",
    lambda _kernel, anchor: "ieee" if anchor.current.get("precision") else None,
)
