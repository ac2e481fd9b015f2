"""Run in its own process by test_suite: one shipped seed against its reference, results as JSON.

`interpret` runs the tiny shape in Triton's interpreter against the fp64 answer; `compile` compiles
what the full shape launches for sm_90, on tensors without storage.
"""

import json
import linecache
import sys
from types import ModuleType

import torch

from workbench.problems.load import load_problem
from workbench.problems.module import bind, build_model, make_inputs
from workbench.problems.records import Precision, Problem

# The gate's bound: factor times the dtype's epsilon, on |gold| plus the root mean square of gold.
BOUNDS = {
    torch.float32: 64 * 2.0**-23,
    torch.float16: 4 * 2.0**-10,
    torch.bfloat16: 4 * 2.0**-7,
}
TF32_BOUND = 4 * 2.0**-10


def seed_module(problem: Problem, reference: ModuleType) -> ModuleType:
    """The seed's module, which builds `ModelNew` from the reference's own init arguments."""
    linecache.checkcache()
    module = bind(problem.seed.read_text(), {}, name=f"seed_{problem.name}")
    module.get_init_inputs = reference.get_init_inputs
    return module


def interpret(problem: Problem) -> dict[str, object]:
    """Worst error over its bound, and what the contract asks of structure."""
    from workbench.kernels.interpret import tracing

    reference = bind(problem.source, problem.tiny.values, name=f"reference_{problem.name}")
    model = build_model(reference, seed=1)
    new = build_model(seed_module(problem, reference), seed=1, class_name="ModelNew")
    states = [{k: (v.shape, v.dtype) for k, v in m.state_dict().items()} for m in (model, new)]
    new.load_state_dict(model.state_dict())
    inputs = make_inputs(reference, seed=2)
    kept = [x.clone() for x in inputs]
    with torch.no_grad():
        expected = leaves(model(*inputs))
        exact = [x.double() if x.is_floating_point() else x for x in inputs]
        gold = leaves(model.double()(*exact))
        with tracing() as trace:
            out = leaves(new(*inputs))
    picked = {s.output: (out[s.values], inputs[s.input], s.dim) for s in problem.selections}
    return {
        "state": states[0] == states[1],
        "forms": [form(o) for o in out] == [form(o) for o in expected],
        "inputs kept": all(a.equal(b) for a, b in zip(inputs, kept, strict=True)),
        "launches": len(trace.launches),
        "masked": max(launch.masked_fraction for launch in trace.launches),
        "error": max(
            error(in_order(problem, i, o), in_order(problem, i, g), problem)
            for i, (o, g) in enumerate(zip(out, gold, strict=True))
            if i not in picked
        ),
        "picks": all(
            source.gather(dim, out[i]).equal(values) and distinct(out[i])
            for i, (values, source, dim) in picked.items()
        ),
    }


def compile_full(problem: Problem) -> dict[str, object]:
    """Registers and spills of each launch at the full shape."""
    from workbench.kernels.record import recording
    from workbench.kernels.target import target

    reference = bind(problem.source, problem.full.values, name=f"reference_{problem.name}")
    inputs = make_inputs(reference, seed=2, device="meta")
    with torch.device("meta"):
        new = build_model(seed_module(problem, reference), seed=1, class_name="ModelNew")
    with torch.no_grad(), recording(target("sm90"), disassembled=False) as recorder:
        new(*inputs)
    return {
        "kernels": [launch.kernel for launch in recorder.launches],
        "spills": sum(launch.static.spill_load_bytes for launch in recorder.launches),
        "resident": min(launch.static.programs_per_sm for launch in recorder.launches),
    }


def leaves(out: object) -> list[torch.Tensor]:
    return [out] if isinstance(out, torch.Tensor) else list(out)


def form(tensor: torch.Tensor) -> tuple[object, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.is_contiguous()


def distinct(places: torch.Tensor) -> bool:
    return all(len(row.unique()) == len(row) for row in places.reshape(-1, places.shape[-1]))


def in_order(problem: Problem, place: int, out: torch.Tensor) -> torch.Tensor:
    """Values that were picked in no promised order, falling; anything else as it is."""
    dims = [s.dim for s in problem.selections if s.values == place]
    if not dims or "sorted=False" not in problem.source:
        return out
    return out.sort(dim=dims[0], descending=True).values


def error(out: torch.Tensor, gold: torch.Tensor, problem: Problem) -> float:
    factor = TF32_BOUND if problem.precision is Precision.TF32 else BOUNDS[out.dtype]
    own = problem.tolerance.get(str(out.dtype).removeprefix("torch."))
    if own is not None:
        factor = own.factor * own.eps
    bound = factor * (gold.abs() + gold.pow(2).mean().sqrt())
    return float(((out.double() - gold).abs() / bound).max())


if __name__ == "__main__":
    task = {"interpret": interpret, "compile": compile_full}[sys.argv[1]]
    print(json.dumps({name: task(load_problem(name)) for name in sys.argv[2:]}))
