"""Writes the candidate: lifted kernels, a module with the reference's state, and the launches."""

from collections.abc import Iterator, Sequence

from workbench.kernels.inductor.forward import Forward
from workbench.kernels.inductor.functions import OURS, library_functions, needed
from workbench.kernels.inductor.heuristics import read_heuristics
from workbench.kernels.inductor.kernel_text import PlainKernel, plain_function, plain_kernel
from workbench.kernels.inductor.state import State
from workbench.kernels.inductor.trace import Traced
from workbench.kernels.inductor.wrapper import Program
from workbench.problems.records import Precision

_IMPORTS = "import torch\nimport triton\nimport triton.language as tl\nfrom torch import nn\n"

_LIBDEVICE = "from triton.language.extra import libdevice\n"


def emit(traced: Traced, program: Program, precision: Precision, title: str) -> str:
    """The candidate's text. `title` becomes its docstring."""
    heuristics = {name: read_heuristics(name, text) for name, text in program.kernels.items()}
    kernels = {
        name: plain_kernel(name, text, heuristics[name], precision)
        for name, text in program.kernels.items()
    }
    grids = {name: found.grid for name, found in heuristics.items()}
    forward = Forward(traced, program, kernels, grids)
    state = State(traced.model, traced.constants)
    parts = [
        *_functions(list(kernels.values())),
        *(f"@triton.jit\n{kernel.source}" for kernel in kernels.values()),
        *state.classes,
        _module(state.init, forward.inputs, forward.lines()),
    ]
    rest = "".join(f"\n\n{part.strip()}\n" for part in parts)
    library = _LIBDEVICE if "libdevice." in rest else ""
    return f'"""{title}"""\n\n{_IMPORTS}{library}{rest}'


def _functions(kernels: Sequence[PlainKernel]) -> list[str]:
    """Device functions that the kernels call, each before those that use it."""
    known = {name: text.strip() for name, text in OURS.items()}
    library = {n: t for n, t in library_functions().items() if n not in known}
    for kernel in kernels:
        known |= kernel.helpers
    # What Inductor's helpers call may itself be something of ours, so they are rewritten first.
    for name in needed([*known.values(), *(kernel.source for kernel in kernels)], library):
        known[name] = plain_function(library[name])
    return [known[name] for name in needed([kernel.source for kernel in kernels], known)]


def _module(init: str, inputs: Sequence[str], body: Iterator[str]) -> str:
    lines = "\n".join(" " * 8 + line for entry in body for line in entry.splitlines())
    return (
        f"class ModelNew(nn.Module):\n{init}\n"
        f"    def forward({', '.join(['self', *inputs])}):\n{lines}\n"
    )
