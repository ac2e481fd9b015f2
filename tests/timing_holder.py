"""A program that holds a GPU's lock until its stdin says or closes: timing_holder.py FOLDER HOW.

HOW is `alone`, `shared`, or `worker`: alone, with a child that waits as long.
"""

import subprocess
import sys
from pathlib import Path

from workbench.measure.gpulock import gpu_lock

if sys.argv[2] == "worker":
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    child = subprocess.Popen(waits, stdin=subprocess.PIPE)
with gpu_lock("GPU-test", shared=sys.argv[2] == "shared", folder=Path(sys.argv[1])):
    print("held", flush=True)
    told = sys.stdin.readline()
if told:
    print("let go", flush=True)
    sys.stdin.read()
