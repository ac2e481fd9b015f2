"""Interpreted kernels compute, check and count as the GPU would.

The interpreter and the compiler never share a process, so the cases (in `interpreted/cases_*.py`,
kernels beside them) run in one of their own; each is a test here.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "interpreted"


def case_names():
    for path in sorted(FOLDER.glob("cases_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield f"{path.stem}:{node.name}"


@pytest.fixture(scope="module")
def results():
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    ran = subprocess.run(
        [sys.executable, str(FOLDER / "run.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", case_names())
def test_interpreted(results, name):
    assert results[name] == ""
