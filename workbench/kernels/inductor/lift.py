"""A seed for any reference that TorchInductor turns into Triton, made where there is no GPU."""

from collections.abc import Mapping

from workbench.kernels.inductor.records import LiftedSeed, LiftRefused
from workbench.kernels.target import Target
from workbench.problems.module import bind
from workbench.problems.records import Constant, Precision


def lift(
    source: str,
    values: Mapping[str, Constant],
    target: Target,
    precision: Precision,
    *,
    name: str = "problem",
) -> LiftedSeed:
    """Trace the reference in `source` at one shape's `values` and write its kernels as a candidate.

    Runs the problem's code and changes torch for the whole process, so it belongs in a worker that
    does nothing else. Raises LiftRefused with the reason; what the file itself raises comes out.
    """
    from workbench.kernels.inductor import fake_gpu

    module = bind(source, values, name=f"lifted_{name}")
    fake_gpu.install(target)
    # These import Inductor, which looks at the GPU when it is imported.
    from workbench.kernels.inductor.emit import emit
    from workbench.kernels.inductor.generate import generate
    from workbench.kernels.inductor.trace import trace
    from workbench.kernels.inductor.wrapper import read_wrapper

    traced = trace(module, precision)
    generated = generate(traced, target)
    program = read_wrapper(generated.text)
    if not program.kernels:
        raise LiftRefused("the reference launches no kernel: it only makes views")
    title = f"Kernels that TorchInductor writes for {name}, at one size, without TorchInductor."
    return LiftedSeed(
        source=emit(traced, program, generated.constants, title), notes=_notes(program, values)
    )


def _notes(program: object, values: Mapping[str, Constant]) -> tuple[str, ...]:
    return ()
