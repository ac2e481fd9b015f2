"""A program that holds a GPU's lock until its stdin closes: python timing_holder.py FOLDER HOW."""

import sys
from pathlib import Path

from workbench.measure.gpulock import gpu_lock

with gpu_lock("GPU-test", shared=sys.argv[2] == "shared", folder=Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
