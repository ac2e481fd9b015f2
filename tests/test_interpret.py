"""Interpreted kernels compute, check and count as the GPU would.

The interpreter and the compiler never share a process, so the cases (in `interpreted/cases.py`,
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
    helpers = {"randn", "launch", "raised", "source_line", "traced"}
    tree = ast.parse((FOLDER / "cases.py").read_text())
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name not in helpers]


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
