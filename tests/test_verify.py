"""`verify` believes no commit: what was gated is gated again, and a forged claim is found."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from workbench.session.reader import SessionReader
from workbench.session.store import SessionStore

WORKBENCH = [sys.executable, "-m", "workbench.cli.main"]


def workbench(*words: object) -> subprocess.CompletedProcess[str]:
    command = [*WORKBENCH, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory) -> Path:
    """One real session of a seed alone."""
    folder = tmp_path_factory.mktemp("verified")
    done = workbench(
        "run", "gelu", "--headless", "--steps", 0, "--device", "cpu", "--session", "true",
        "--sessions", folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_a_true_session_holds(sessions):
    done = workbench("verify", "true", "--sessions", sessions, "--device", "cpu")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "4 holds"


def test_forged_claims_are_told_one_by_one_and_nothing_is_written(sessions):
    true = SessionReader(sessions / "true")
    problem = true.problem()
    settings = structs.replace(true.settings(), name="forged")
    forged = SessionStore.create(sessions / "forged", settings, problem.source, problem.sidecar)
    seed = true.transition(0)
    launch = seed.gate.launches[0]
    static = structs.replace(launch.static, registers=launch.static.registers + 1)
    gate = structs.replace(
        seed.gate,
        time=structs.replace(seed.gate.time, microseconds=seed.gate.time.microseconds / 2),
        launches=(structs.replace(launch, static=static),),
    )
    forged.record(structs.replace(seed, gate=gate), true.source(0) + "# another\n")
    before = sorted(p for p in (sessions / "forged").rglob("*") if "problem" not in p.parts)

    done = workbench("verify", "forged", "--sessions", sessions, "--device", "cpu")
    assert done.returncode == 1
    told = {line.split()[1]: line for line in done.stdout.splitlines()[:-1]}
    assert "not what was gated" in told["source"]
    assert "differs" in told["static"]
    assert "differs" in told["time"]
    assert "holds" in told["verdict"]
    after = sorted(p for p in (sessions / "forged").rglob("*") if "problem" not in p.parts)
    assert after == before


def test_what_was_measured_on_a_gpu_is_not_checked_without_one(tmp_path):
    bundle = Path(__file__).parents[1] / "sessions" / "rmsnorm-h200.bundle"
    done = workbench("import", bundle, "--sessions", tmp_path)
    assert done.returncode == 0, done.stderr
    done = workbench("verify", "rmsnorm-h200", "--sessions", tmp_path, "--device", "cpu")
    times = [line for line in done.stdout.splitlines() if " time " in line]
    assert times
    assert all("not checked" in line and "measured on NVIDIA H200" in line for line in times)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("true", "--card", "grow-block"), "either a session is verified, or a card"),
        (("true", "--target", "sm90"), "add --card"),
    ],
)
def test_options_that_would_not_be_heeded_are_refused(given, says, tmp_path):
    done = workbench("verify", *given, "--sessions", tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
