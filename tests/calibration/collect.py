"""Record and trace, without a GPU, what `measure.py` timed; all of it becomes the recording that
`workbench bench model` reads.

    python tests/calibration/collect.py times.json "NVIDIA H200, driver ..., DATE"

With the triton and ptxas of the machine that timed: other registers and spills have other times.
Compiler and interpreter never share a process: this starts itself once more for each.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WORK = 16_000_000


def looked_at(mode):
    """Launches or traces of every case and shipped seed at full size, by name."""
    import msgspec
    import torch

    from workbench.kernels.lazy import LazyHost, lazy_zeros
    from workbench.kernels.target import target

    found = {}
    sm90 = target("sm90")
    if mode == "trace":
        from workbench.kernels.interpret import tracing
        from workbench.kernels.interpret_settings import TraceSettings

        def looking():
            return tracing(TraceSettings(sample=8, work=WORK, stands_for=sm90))

        with tracing():
            from kernels import CASES
    else:
        from kernels import CASES

        from workbench.kernels.record import recording

        def looking():
            return recording(sm90)

    with torch.no_grad(), LazyHost():
        for name, (inputs, run) in CASES.items():
            tensors = [lazy_zeros(shape, dtype) for shape, dtype in inputs]
            with looking() as seen:
                run(*tensors)
            found[name] = [msgspec.to_builtins(launch) for launch in seen.launches]
            print(mode, name, file=sys.stderr)
    return {**found, **seeds(mode)}


def seeds(mode):
    """The same of the shipped seeds, through the jobs that the gate uses."""
    import msgspec
    import torch

    from workbench.kernels import jobs, requests
    from workbench.problems.load import load_problem
    from workbench.problems.module import bind

    class Bench:
        scratch = Path(tempfile.mkdtemp())

    def plain(value):
        kind = "float" if isinstance(value, float) else "int"
        return requests.PlainSpec(kind=kind, value=value)

    def tensor(x):
        dtype = str(x.dtype).removeprefix("torch.")
        return requests.TensorSpec(dtype=dtype, shape=tuple(x.shape), strides=x.stride())

    found = {}
    for name in sorted(p.parent.name for p in suite().glob("*/seed.py")):
        problem = load_problem(name)
        module = bind(problem.source, problem.full.values, name=name)
        with torch.device("meta"):
            inputs = module.get_inputs()
        kind = requests.TraceRequest if mode == "trace" else requests.LaunchRequest
        request = kind(
            source=problem.seed.read_text(),
            target="sm90",
            init=tuple(plain(v) for v in module.get_init_inputs()),
            inputs=tuple(tensor(x) for x in inputs),
        )
        body, _ = getattr(jobs, mode)(Bench, msgspec.to_builtins(request), [])
        found[f"seed_{name}"] = body["traces" if mode == "trace" else "launches"]
    return found


def suite():
    import workbench.problems

    return Path(workbench.problems.__file__).parent / "suite"


def in_a_process(mode):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if mode == "trace":
        environment["TRITON_INTERPRET"] = "1"
    ran = subprocess.run(
        [sys.executable, __file__, "--only", mode],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)


def main():
    if sys.argv[1] == "--only":
        print(json.dumps(looked_at(sys.argv[2])))
        return
    import msgspec

    from workbench.bench.model import (
        RECORDED,
        Recording,
        Variant,
        read_recording,
        write_recording,
    )
    from workbench.bench.model_runs import compiler_here
    from workbench.kernels.records import Launch, LaunchTrace

    times = json.loads(Path(sys.argv[1]).read_text())
    launches, traces = in_a_process("record"), in_a_process("trace")
    problems = {one.name: one.problem for one in read_recording(RECORDED).variants}
    variants = tuple(
        Variant(
            name=name,
            problem=problems.get(name, ""),
            us=us,
            launches=msgspec.convert(launches[name], tuple[Launch, ...]),
            traces=msgspec.convert(traces[name], tuple[LaunchTrace, ...]),
        )
        for name, us in times.items()
    )
    recording = Recording(
        target="sm90", source=sys.argv[2], compiler=compiler_here("sm90"), variants=variants
    )
    write_recording(RECORDED, recording)


if __name__ == "__main__":
    main()
