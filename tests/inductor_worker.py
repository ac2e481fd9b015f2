"""Run in its own process by test_inductor: lifts references, or runs or compiles what was lifted.

`lift FOLDER` writes NAME.json for every reference; `interpret FOLDER` and `compile FOLDER` read the
candidates from there and print what they found as JSON.
"""

import json
import os
import sys
from pathlib import Path

import torch
from inductor_references import LIFTABLE, REFUSED
from torch.utils import _pytree as pytree

from workbench.problems.module import bind, build_model, make_inputs
from workbench.problems.records import Precision

BOUNDS = {torch.float32: 64 * 2.0**-23, torch.bfloat16: 4 * 2.0**-7}


def lift(folder: Path) -> None:
    from workbench.kernels.inductor.job import answer
    from workbench.kernels.inductor.records import LiftRequest

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "cache")
    sources = LIFTABLE | {name: source for name, (source, _) in REFUSED.items()}
    for name, source in sources.items():
        request = LiftRequest(
            source=source, values={}, target="sm90", precision=Precision.IEEE, name=name
        )
        said = answer(request)
        (folder / f"{name}.json").write_text(
            json.dumps({field: getattr(said, field) for field in said.__struct_fields__})
        )


def candidate(folder: Path, name: str, device: str = "cpu"):
    """The candidate with the reference's weights, the reference, and inputs for both."""
    reference = bind(LIFTABLE[name], {}, name=f"reference_{name}")
    module = bind(json.loads((folder / f"{name}.json").read_text())["source"], {}, name=f"c_{name}")
    module.get_init_inputs = reference.get_init_inputs
    with torch.device(device):
        new = build_model(module, seed=1, class_name="ModelNew")
    model = build_model(reference, seed=1)
    if device == "cpu":
        new.load_state_dict(model.state_dict())
    return new, model, make_inputs(reference, seed=2, device=device)


def interpret(folder: Path, name: str) -> dict[str, object]:
    from workbench.kernels.interpret import tracing

    new, model, inputs = candidate(folder, name)
    golden = build_model(bind(LIFTABLE[name], {}, name="golden"), seed=1).double()
    golden.load_state_dict(model.state_dict())
    with torch.no_grad():
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        expected, tree = pytree.tree_flatten(model(*inputs))
        gold = pytree.tree_leaves(golden(*wide))
        with tracing():
            out, same_tree = pytree.tree_flatten(new(*inputs))
    states = zip(model.state_dict().values(), new.state_dict().values(), strict=True)
    return {
        "forms": tree == same_tree
        and all(
            o.shape == e.shape and o.dtype == e.dtype for o, e in zip(out, expected, strict=True)
        ),
        "state": all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in states),
        "error": max(error(o, g) for o, g in zip(out, gold, strict=True)),
    }


def error(out: torch.Tensor, gold: torch.Tensor) -> float:
    if not out.is_floating_point():
        return float((out != gold).sum())
    gold = gold.double()
    bound = BOUNDS[out.dtype] * (gold.abs() + gold.pow(2).mean().sqrt())
    return float(((out.double() - gold).abs() / bound).max())


def compile_(folder: Path, name: str) -> int:
    """How many launches compile for sm_90."""
    from workbench.kernels.record import recording
    from workbench.kernels.target import target

    new, _, inputs = candidate(folder, name, "meta")
    with torch.no_grad(), recording(target("sm90"), disassembled=False) as recorder:
        new(*inputs)
    return len(recorder.launches)


if __name__ == "__main__":
    task, folder = sys.argv[1], Path(sys.argv[2])
    if task == "lift":
        lift(folder)
    else:
        run = {"interpret": interpret, "compile": compile_}[task]
        print(json.dumps({name: run(folder, name) for name in sys.argv[3:] or LIFTABLE}))
