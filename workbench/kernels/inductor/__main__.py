"""`python -m workbench.kernels.inductor FOLDER`: LiftRequest on stdin, answer on stdout, JSON."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec

from workbench.kernels.inductor.job import lift

if __name__ == "__main__":
    bench = SimpleNamespace(scratch=Path(sys.argv[1]))
    body, _ = lift(bench, msgspec.json.decode(sys.stdin.buffer.read()), [])
    sys.stdout.write(f"\n{json.dumps(body)}\n")
