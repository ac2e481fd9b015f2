"""A machine without room: no kernel is blamed for it, and what could not be written is named."""

import os
import resource
import subprocess
import sys

import pytest
from kernel_texts import SEEDS

from workbench.gate.correctness.faults import raised_by
from workbench.gate.correctness.raising import explain
from workbench.gate.records import Blame
from workbench.kernels.faults import MACHINE


def small_files() -> None:
    """No file may grow beyond 8 KiB, as if a disk had no more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, 8 << 10))


def test_a_kernel_that_the_disk_has_no_room_to_compile_is_unproven(tmp_path):
    file = tmp_path / "seed.py"
    file.write_text(SEEDS["softmax"])
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", "gate", str(file), "--problem", "softmax"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=small_files,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "unproven at compile: this machine could not compile" in done.stdout
    assert "File too large; see that the folder of TMPDIR has space" in done.stdout


@pytest.mark.parametrize("number", sorted(MACHINE))
def test_what_the_machine_could_not_do_is_held_against_no_kernel(tmp_path, number):
    fault = OSError(number, os.strerror(number))
    found = explain(raised_by(fault, tmp_path / "kernel.py"), "the candidate")
    assert found.blame is Blame.MACHINE
    assert os.strerror(number) in found.says


def test_what_host_code_itself_did_wrong_is_held_against_it(tmp_path):
    fault = FileNotFoundError(2, "No such file or directory")
    found = explain(raised_by(fault, tmp_path / "kernel.py"), "the candidate")
    assert found.blame is Blame.CANDIDATE
