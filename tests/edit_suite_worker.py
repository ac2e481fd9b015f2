"""Run in its own process by test_edits_suite: edited candidates against their references.

Reads `{"id": {"problem": ..., "source": ..., "values": {...}}}` from standard input; a problem is
a shipped name or one of `OWN` here. Writes what became of each as one line of JSON.
"""

import json
import sys
import tempfile
from pathlib import Path

import msgspec
import suite_seed
import torch
from kernel_pairs import REFERENCES

from workbench.kernels.faults import KernelFault
from workbench.problems.load import load_problem
from workbench.problems.records import Problem, Shape

_HEAD = "import torch\nfrom torch import nn\n\n"
_INIT = "\ndef get_init_inputs():\n    return []\n"
OWN = {
    "aliased": _HEAD
    + "class Model(nn.Module):\n    def forward(self, x):\n        return x * 2.0\n"
    + "\ndef get_inputs():\n    return [torch.randn(3, 500)]\n"
    + _INIT,
    "shared_constant": _HEAD
    + "class Model(nn.Module):\n    def forward(self, x):\n        return x * 4 + 1\n"
    + "\ndef get_inputs():\n    return [torch.randn(1000)]\n"
    + _INIT,
    "configs": _HEAD
    + "class Model(nn.Module):\n    def forward(self, a, b):\n        return a + b\n"
    + "\ndef get_inputs():\n    return [torch.randn(1100), torch.randn(1100)]\n"
    + _INIT,
    "tutorial_matmul": _HEAD
    + "M, N, K = 70, 50, 90\n\n"
    + "class Model(nn.Module):\n    def forward(self, a, b):\n        return a @ b\n"
    + "\ndef get_inputs():\n    return [torch.randn(M, K), torch.randn(K, N)]\n"
    + _INIT,
    "row_norm": _HEAD
    + "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    + "        self.weight = nn.Parameter(torch.randn(300))\n\n"
    + "    def forward(self, x):\n"
    + "        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight\n"
    + "\ndef get_inputs():\n    return [torch.randn(5, 300)]\n"
    + _INIT,
    "tabbed": _HEAD
    + "COLS = 1500\n\n"
    + "class Model(nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, -1)\n"
    + "\ndef get_inputs():\n    return [torch.randn(3, COLS)]\n"
    + _INIT,
    **REFERENCES,
}


def problem_of(name: str, values: dict[str, int], seed: Path) -> Problem:
    """The problem at one shape, with the edited candidate for its seed."""
    if name in OWN:
        shape = Shape(name="tiny", values=values)
        return Problem(name=name, path=seed, source=OWN[name], shapes=(shape,), seed=seed)
    problem = load_problem(name)
    shape = Shape(name="tiny", values={**problem.tiny.values, **values})
    return msgspec.structs.replace(problem, shapes=(shape,), seed=seed)


def check(task: str, job: dict[str, object], folder: Path) -> dict[str, object]:
    """What `suite_seed` finds, or the fault that stopped it."""
    seed = folder / "candidate.py"
    seed.write_text(str(job["source"]), encoding="utf-8")
    problem = problem_of(str(job["problem"]), dict(job.get("values", {})), seed)
    try:
        if task == "compile":
            return suite_seed.compile_full(problem)
        return suite_seed.interpret(problem)
    except KernelFault as fault:
        return {"fault": f"{type(fault).__name__}: {fault}"}


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        jobs = json.load(sys.stdin)
        print(json.dumps({i: check(sys.argv[1], job, Path(name)) for i, job in jobs.items()}))
