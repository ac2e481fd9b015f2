"""The commands as a person types them: real processes, real sessions, exit codes and words."""

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from engine_parts import ScriptedWorkplace, new_session
from msgspec import structs
from session_kit import kernel, new_store, transition

from workbench.cli import emit
from workbench.cli.report import card_text, final_report
from workbench.engine.client import SessionClient
from workbench.engine.serve import serve_session
from workbench.gate.records import Verdict
from workbench.paths import config_home
from workbench.session.names import spoken
from workbench.session.records import Answer


class Shell:
    """Runs `workbench` in an empty folder with its own home."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.folder = folder
        self.sessions = home / "sessions"
        self.environment = {**os.environ, "WORKBENCH_SESSIONS": str(self.sessions)}

    def __call__(self, *words: str, code: int = 0) -> str:
        done = self.raw(*words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def refused(self, *words: str) -> str:
        """What a person is told on stderr when a command leaves with 2."""
        done = self.raw(*words)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def raw(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "workbench.cli.main", *words],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=240,
            check=False,
        )

    def bytes(self, *words: str, redirect: str = "") -> subprocess.CompletedProcess[bytes]:
        """With stdout redirected as a shell does, and nothing decoded."""
        command = shlex.join([sys.executable, "-m", "workbench.cli.main", *words])
        return subprocess.run(
            ["sh", "-c", f"({command} {redirect})"],
            capture_output=True,
            cwd=self.folder,
            env=self.environment,
            timeout=240,
            check=False,
        )


@pytest.fixture
def shell(own_home: Path, tmp_path: Path) -> Shell:
    folder = tmp_path / "empty"
    folder.mkdir()
    return Shell(own_home, folder)


@pytest.fixture
def saved(shell: Shell) -> Shell:
    """A finished session of seven versions, v5 the best, v3 and v6 rejected."""
    path = shell.sessions / "softmax-1"
    new_session(path)
    serve_session(path, open_workplace=lambda *given: ScriptedWorkplace(*given, steps=6))
    return shell


def test_status_tells_state_best_and_what_was_spent(saved):
    said = saved("status")
    assert "finished: nothing is left to try; the best is v5" in said
    assert "best      v5    1.05x modeled" in said
    assert "6 steps" in said


def test_log_draws_the_lineage_newest_first(saved):
    rows = saved("log", "--graph").splitlines()
    assert len(rows) == 7
    assert rows[0].lstrip().startswith("✗ v6")
    assert "rejected at correctness: error-above-bound" in rows[0]
    assert "★" in rows[1]
    assert "v5" in rows[1]
    assert saved("log", "--graph", "--ascii").isascii()


def test_every_reading_command_speaks_json(saved):
    assert json.loads(saved("status", "--json"))["best"] == 5
    assert [json.loads(row)["number"] for row in saved("log", "--json").splitlines()] == [*range(7)]
    assert json.loads(saved("card", "v3", "--json"))["decision"]["answer"] == "rejected"
    assert json.loads(saved("sessions", "--json"))["name"] == "softmax-1"
    events = [json.loads(row) for row in saved("watch", "--json").splitlines()]
    assert [e["seq"] for e in events] == [*range(1, len(events) + 1)]
    assert events[-1]["event"] == "run-ended"


def test_diff_shows_a_version_against_its_parent_and_two_versions(saved):
    assert "-# v4\n+# v5" in saved("diff", "v5")
    assert "-# v1\n+# v5" in saved("diff", "v1", "best")
    assert "same source" in saved("diff", "2", "v2")


def test_card_names_skill_conditions_gate_and_decision(saved):
    said = saved("card", "v2")
    assert "condition yes few warps  [4 < 8]" in said
    assert "correctness passed" in said
    assert "decision  accepted by gate" in said


def test_a_session_travels_as_one_bundle(saved, tmp_path):
    bundle = tmp_path / "softmax.bundle"
    saved("export", "softmax-1", str(bundle))
    before = bundle.read_bytes()
    assert str(bundle) in saved.refused("export", "softmax-1", str(bundle))
    assert bundle.read_bytes() == before
    saved("import", str(bundle), "--session", "copy")
    assert json.loads(saved("status", "copy", "--json"))["best"] == 5
    first = saved("log", "softmax-1").splitlines()
    assert saved("log", "copy").splitlines() == first


def test_relative_folders_of_sessions_work(saved):
    relative = os.path.relpath(saved.sessions, saved.folder)
    saved("export", "softmax-1", "a.bundle", "--sessions", relative)
    saved("export", f"{relative}/softmax-1", "b.bundle")
    said = saved("import", "a.bundle", "--sessions", "other")
    place = saved.folder / "other" / "softmax-1"
    assert f"workbench attach {place} opens it" in said
    resumed = saved("resume", "softmax-1", "--headless", "--sessions", "other", "--steps", "6")
    assert "budget spent" in resumed


def test_a_session_in_the_default_folder_is_spoken_of_by_its_name(own_home, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(own_home))
    assert spoken(own_home / "workbench" / "sessions" / "softmax-1") == "softmax-1"
    assert spoken(own_home / "my own" / "softmax-1") == f"'{own_home}/my own/softmax-1'"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_fits_the_encoding_of_stdout(saved, encoding):
    saved.environment["PYTHONIOENCODING"] = encoding
    done = saved.bytes("log", "--graph")
    assert done.returncode == 0, done.stderr
    assert ("★" if encoding == "utf-8" else "*-' v5") in done.stdout.decode(encoding)


def test_json_keeps_its_characters_in_any_encoding(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    emit.json({"says": "µs ★"})
    assert json.loads(out.buffer.getvalue()) == {"says": "µs ★"}


def test_a_full_device_and_a_closed_stdout_end_in_words_or_quietly(saved):
    full = saved.bytes("log", redirect=">/dev/full")
    assert full.returncode == 2
    assert b"cannot be written: No space left" in full.stderr
    assert b"to do:" in full.stderr
    assert b"Exception" not in full.stderr
    closed = saved.bytes("log", redirect=">&-")
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_a_reader_that_leaves_early_is_no_failure(saved):
    # The status is that of our command, and the pipe's reader is gone before it writes.
    left = saved.bytes("log", redirect="; echo $? >&2) | true; (true").stderr
    assert left.split() == [b"0"]


def test_a_pending_version_says_that_it_waits():
    waits = transition(1, 0, Answer.PENDING)
    assert "decision  waits for your decision" in card_text(waits)


def test_plain_git_tells_the_story(saved):
    path = saved.sessions / "softmax-1"
    log = subprocess.run(
        ["git", "-C", str(path), "log", "--all", "--format=%s%n%(trailers)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "num-warps on softmax_kernel: 1.10x against v4, accepted" in log
    assert "Verdict: rejected" in log
    assert "Decision: accepted by gate" in log
    status = ["git", "-C", str(path), "status", "--porcelain"]
    assert subprocess.run(status, capture_output=True, text=True, check=True).stdout == ""


def test_what_was_decided_is_not_decided_again(saved):
    assert "it was accepted by gate" in saved.refused("accept", "v1")
    assert "does not wait" in saved.refused("veto", "v1", "--reason", "x")
    told = saved.refused("pause")
    assert "no engine runs" in told
    assert f"workbench resume {saved.sessions / 'softmax-1'}" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("status", "nowhere"), "there is no session 'nowhere'"),
        (("status", "../escape"), "no session in this folder"),
        (("diff", "v99"), "v0 to v6"),
        (("card", "fastest"), "not a version"),
        (("card", "fastest"), "name stands before the version"),
        (("run", "softmaxx", "--headless"), "did you mean softmax"),
        (("run", "missing.py", "--headless"), "no such problem file"),
        (("run", "softmax", "--headless", "--kernel", "none.py"), "no such candidate"),
        (("run", "softmax", "--headless", "--mode", "wild"), "manual, review or auto"),
        (("run", "softmax", "--headless", "--device", "tpu"), "auto, cpu or cuda:N"),
        (("run", "softmax", "--headless", "--target", "sm13", "--device", "cpu"), "sm90"),
        (("run", "softmax", "--headless", "--session", "../x"), "session's name"),
        (("run", "softmax", "--headless", "--session", "softmax-1"), "already"),
        (("run", "softmax", "--headless", "--proposer", "poet"), "use skills"),
        (("run", "softmax", "--headless", "--proposer", "llm"), "--proposer skills needs none"),
        (("run", "softmax"), "no terminal"),
        (("attach",), "no terminal"),
        (("gate", "none.py", "--problem", "softmax"), "no such candidate"),
        (("gate",), "a candidate and its problem are needed"),
        (("gate", "x", "--problem", "softmax", "--seed", "xyz"), "not a hex seed"),
        (("import", "nothing.bundle"), "nothing.bundle"),
        (("skills", "show", "more-warp"), "more-warps"),
        (("bench", "everything"), "No such command"),
        (("frobnicate",), "frobnicate"),
        (("run", "softmax", "--steps", "-1"), "--steps"),
    ],
)
def test_bad_input_gets_one_message_and_changes_nothing(saved, words, told):
    before = sorted(p.name for p in saved.sessions.iterdir())
    assert told in saved.refused(*words)
    assert sorted(p.name for p in saved.sessions.iterdir()) == before
    assert not any(saved.folder.iterdir())


def test_a_wrong_ladder_stops_a_run_before_it_has_a_session(shell):
    config_home().mkdir(parents=True)
    (config_home() / "ladder.toml").write_text("[rung.smok]\npairs = 3\n")
    assert "`rung.smok` is not a part of" in shell.refused("run", "softmax", "--headless")
    assert not shell.sessions.exists()


def test_what_a_run_ends_with_can_be_pasted_whatever_the_folder(saved, tmp_path):
    folder = tmp_path / "two words" / "softmax-1"
    shutil.copytree(saved.sessions / "softmax-1", folder)
    said = final_report(SessionClient(folder)).splitlines()
    command = next(line for line in said if " git -C " in line)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert "Decision: accepted by gate" in done.stdout


def test_what_could_not_be_judged_ends_a_run_under_its_own_word(tmp_path):
    store = new_store(tmp_path)
    store.record(transition(0, None), kernel(0))
    wrong, open_ = (transition(number, 0, Answer.REJECTED) for number in (1, 2))
    gate = structs.replace(open_.gate, verdict=Verdict.UNPROVEN, says="the model cannot tell")
    store.record(wrong, kernel(1))
    store.record(structs.replace(open_, gate=gate), kernel(2))
    said = final_report(SessionClient(tmp_path / "softmax-1")).splitlines()
    rejected, unproven = said.index("rejected"), said.index("unproven")
    assert "v1" in said[rejected + 1]
    assert said[rejected + 2 : unproven] == [""]
    assert "the model cannot tell" in said[unproven + 1]


def test_without_sessions_the_commands_say_how_to_start(shell):
    assert "workbench run softmax" in shell("sessions")
    assert "there is no session yet" in shell.refused("status")


def test_doctor_names_every_part_and_never_fails_for_a_missing_gpu(shell):
    said = shell("doctor")
    for part in ("python", "torch", "triton", "ptxas", "gpu", "ncu", "landlock", "git", "terminal"):
        assert part in said


def test_help_of_every_command_ends_with_an_example(shell):
    names = [
        *("run", "resume", "attach", "gate", "facts", "sessions", "status", "log", "diff", "card"),
        *("review", "watch", "accept", "veto", "pause", "go", "stop", "export", "import"),
        *("doctor", "bench"),
    ]
    for name in names:
        assert "Example: workbench" in shell(name, "--help"), name


PROBLEM = """
import torch
import torch.nn as nn

N = 3000

class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x) + y

def get_inputs():
    return [torch.randn(4, N), torch.randn(4, N)]

def get_init_inputs():
    return []
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) + y, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
        relu_add[grid](x, y, out, n, BLOCK=32, num_warps=1)
        return out
"""


def test_a_persons_own_problem_and_kernel_run_to_the_end(shell):
    (shell.folder / "mine.py").write_text(PROBLEM)
    (shell.folder / "kernel.py").write_text(KERNEL)
    done = shell.raw(
        *("run", "mine.py", "--kernel", "kernel.py", "--headless"),
        *("--device", "cpu", "--steps", "1", "--session", "own"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accepted\n  v0    --kernel kernel.py" in done.stdout
    assert "us modeled for sm90 (NVIDIA H200)" in done.stdout
    assert f"workbench attach {shell.sessions / 'own'}" in done.stdout
    status = json.loads(shell("status", "own", "--json"))
    assert status["state"] in {"budget spent", "finished"}
    numbers = [v["number"] for v in status["versions"]]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 1
    assert sorted(p.name for p in shell.folder.iterdir()) == ["kernel.py", "mine.py"]


def test_gate_says_yes_no_and_why(shell):
    (shell.folder / "mine.py").write_text(PROBLEM)
    (shell.folder / "good.py").write_text(KERNEL)
    (shell.folder / "wrong.py").write_text(KERNEL.replace("tl.maximum(x, 0.0) + y", "x + y"))
    judged = ("--problem", "mine.py", "--device", "cpu", "--rung", "1")
    said = shell("gate", "good.py", *judged)
    assert said.startswith("accepted at profile")
    wrong = json.loads(shell("gate", "wrong.py", *judged, "--json", code=1))
    assert (wrong["verdict"], wrong["stage"]) == ("rejected", "correctness")
    assert wrong["code"] == "correctness.error-above-bound"
    replayed = json.loads(
        shell("gate", "wrong.py", *judged, "--json", "--seed", wrong["replay_seed"], code=1)
    )
    evidence = [r["stages"][2]["findings"][0]["evidence"] for r in (wrong, replayed)]
    assert evidence[0] == evidence[1], "a report's seed repeats its inputs"
