"""A seed for any reference that TorchInductor turns into Triton, made where there is no GPU."""

import ast

from workbench.kernels.inductor.records import LiftedSeed, LiftRefused, LiftRequest
from workbench.kernels.target import target
from workbench.problems.module import bind, reference_flags


def lift(asked: LiftRequest) -> LiftedSeed:
    """Trace the reference at one shape and write the kernels that Inductor makes of it.

    Runs the problem's code and changes torch for the whole process, so it belongs in a worker that
    does nothing else. Raises LiftRefused with the reason; what the file itself raises comes out.
    """
    from workbench.kernels.inductor import fake_gpu

    gpu = target(asked.target)
    module = bind(asked.source, asked.values, name=f"lifted_{asked.name}")
    fake_gpu.install(gpu)
    # These import Inductor, which looks at the GPU when it is imported.
    from workbench.kernels.inductor.emit import emit
    from workbench.kernels.inductor.generate import generate
    from workbench.kernels.inductor.trace import trace
    from workbench.kernels.inductor.wrapper import read_wrapper

    with reference_flags(asked.precision):
        traced = trace(module)
        program = read_wrapper(generate(traced, gpu))
    if not program.kernels:
        raise LiftRefused("the reference launches no kernel: it only makes views")
    source = emit(traced, program, asked.precision, _title(asked))
    try:
        ast.parse(source)
    except SyntaxError as fault:
        raise LiftRefused(f"a kernel of Inductor's could not be rewritten: {fault}") from fault
    return LiftedSeed(source=source)


def _title(asked: LiftRequest) -> str:
    """First line of the seed: what it is, and that it is right for one size alone."""
    size = ", ".join(f"{k} = {v}" for k, v in asked.values.items()) or "the file's own constants"
    return f"{asked.name}: TorchInductor's kernels for one size ({size}), not tuned."
