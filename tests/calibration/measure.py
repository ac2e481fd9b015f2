"""Time every case, and every shipped seed at its full shape, on the GPU that is here.

    python tests/calibration/measure.py times.json

Medians of single calls between two events, inputs cold: L2 is overwritten before each.
"""

import importlib.util
import json
import statistics
import sys
from pathlib import Path

import torch
from kernels import CASES

SUITE = Path(__file__).parents[2] / "workbench" / "problems" / "suite"
FLUSH_BYTES = 512 << 20


def time_us(call):
    """Median over 4 to 30 calls, within about 50 ms of device time."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    call()
    torch.cuda.synchronize()
    times = []
    while len(times) < 4 or (sum(times) < 50_000 and len(times) < 30):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        torch.cuda._sleep(20_000)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return round(statistics.median(times), 2)


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seed_us(folder):
    """One call of a shipped seed on the problem's own inputs."""
    problem, seed = load(folder / "problem.py", "problem"), load(folder / "seed.py", "seed")
    with torch.no_grad():
        model = seed.ModelNew(*problem.get_init_inputs()).cuda()
        inputs = [x.cuda() for x in problem.get_inputs()]
        return time_us(lambda: model(*inputs))


def main():
    times = {}
    for name, (inputs, run) in CASES.items():
        tensors = [torch.randn(shape, device="cuda", dtype=dtype) for shape, dtype in inputs]
        times[name] = time_us(lambda tensors=tensors, run=run: run(*tensors))
    for folder in sorted(p.parent for p in SUITE.glob("*/seed.py")):
        times[f"seed_{folder.name}"] = seed_us(folder)
    Path(sys.argv[1]).write_text(json.dumps(times, indent=1))


if __name__ == "__main__":
    main()
