"""Files and texts that anybody may have written: read within bounds, or refused in three parts.

What was unbounded: Python joins dotted names anew at every dot, tomllib does so with keys, both
nest on Python's stack, integers of thousands of digits cannot be printed, and some of the kernel's
files look regular but keep their reader waiting.
"""

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from workbench.agents.reply_text import fault_line, parses
from workbench.bench.fuzz_texts import PROBLEM, RIGHT
from workbench.engine.assessment import assess
from workbench.errors import WorkbenchError
from workbench.gate.candidate import read_candidate
from workbench.gate.policy.check import check_bytes, input_kinds
from workbench.gate.records import Outcome
from workbench.kernels.source import Source
from workbench.problems.foreign import NotRegular, parse_python, read_regular
from workbench.problems.load import load_problem
from workbench.session.toml import decode_settings
from workbench.skills.card import CardFault, parse_card

ROOM = 1 << 30
"""Bytes that may be added while a text is read; without a bound they were tens of GB."""
DOTS = 150_000
ENDLESS = {
    "import": f"import a{'.a' * DOTS}\n",
    "from": f"from a{'.a' * DOTS} import b\n",
    "blanks": f"import a{' . a' * DOTS}\n",
    "continued": "import a" + ".\\\na" * DOTS + "\n",
    "letters that are none of Python's classes": "import a" + ".e\u0301" * DOTS + "\n",
    "in many names": f"import a{'.a' * 5000}\n" * 40,
}


@pytest.fixture
def in_bounds():
    """As little memory as would show if any of it were needed."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.usefixtures("in_bounds")
def test_a_dotted_name_without_end_is_refused_unread(text):
    with pytest.raises(SyntaxError, match="dotted names are too long"):
        parse_python(text)
    refused = check_bytes((RIGHT + text).encode())
    assert (refused.outcome, refused.findings[0].code) == (Outcome.FAILED, "policy.syntax")
    assert "too long" in refused.findings[0].says
    assert input_kinds(PROBLEM + text) == ()
    assert "too long" in Source(text).fault
    reply = text[:399_000]
    assert parses(reply) is None
    assert fault_line(reply)[0] >= 1


def test_names_as_long_as_people_write_them_are_read():
    honest = "import torch.nn.functional as F\nx = 1.5\n# e.g. a.b.c ...\n" * 10_000
    assert len(parse_python(honest).body) == 20_000
    assert parse_python(f"import a{'.a' * 5000}\n").body


def problem(folder, more="", sidecar=None):
    file = folder / "p.py"
    file.write_text(PROBLEM + more)
    if sidecar is not None:
        (folder / "p.toml").write_text(sidecar)
    return file


LONG = "9" * 400
HEX = "0x" + "f" * 20_000
SIDECARS = {
    "arrays": ("a = " + "[" * 100_000, "nested too deeply"),
    "tables": ("a = " + "{a = " * 100_000, "nested too deeply"),
    "key": ("a" + ".a" * 100_000 + " = 1", "more than 1,000 dots"),
    "header": ("[a" + ".a" * 100_000 + "]", "more than 1,000 dots"),
    "digits": ("a = " + "9" * 100_000, "Exceeds the limit"),
    "value": (f'[[shape]]\nname = "a"\nvalues = {{ ABSENT = {HEX} }}', "thousands of digits"),
    "another type": (f'[[shape]]\nname = "a"\nvalues = {{ F = {HEX} }}', "thousands of digits"),
    "tolerance": (f"[tolerance.float32]\nfactor = {HEX}\neps = 1.0", "thousands of digits"),
    "roofline": (f'[roofline]\nflops = "{LONG}"\nbytes = "N"', "out of range"),
    "name": (f'[[shape]]\nname = "{"a" * 100_000}"', "a shape is named"),
    "unknown": ("a" * 100_000 + " = 1", "unknown key"),
}


@pytest.mark.usefixtures("in_bounds")
@pytest.mark.parametrize(("text", "says"), SIDECARS.values(), ids=SIDECARS)
def test_a_sidecar_beyond_measure_is_refused_in_few_words(tmp_path, text, says):
    with pytest.raises(WorkbenchError, match=says) as told:
        load_problem(problem(tmp_path, "\nN = 3\nF = '1.5'\n", text))
    assert "p.toml" in told.value.where
    assert len(str(told.value)) < 2000


CONSTANTS = (LONG, f"-{LONG}", f"{LONG} / 3", f"{LONG} * 1.0", f"max({LONG}, 1)", HEX, f"[{HEX}]")


@pytest.mark.parametrize("value", CONSTANTS)
def test_a_number_that_no_size_has_is_no_constant(tmp_path, value):
    loaded = load_problem(problem(tmp_path, f"\nN = 3\nX = {value}\n"))
    assert loaded.name == "p"


def test_a_problem_with_a_thousand_branches_is_read(tmp_path):
    branches = "\nif 1: pass\n" + "elif 1: pass\n" * 900
    try:
        assert load_problem(problem(tmp_path, branches)).name == "p"
    except WorkbenchError as told:  # a Python that itself nests no deeper
        assert "not Python" in told.what  # noqa: PT017 -- either is right


NESTED = "a = " + "[" * 100_000


def test_records_and_cards_of_strangers_are_refused_by_their_own_errors(tmp_path):
    with pytest.raises(WorkbenchError, match="nested too deeply"):
        decode_settings(NESTED.encode(), "session.toml")
    for text in (NESTED, "a = " + "9" * 100_000, "a" + ".a" * 100_000 + " = 1"):
        with pytest.raises(CardFault, match="the card is not TOML"):
            parse_card(text, tmp_path / "card.toml")


def test_only_regular_files_are_read_and_no_more_than_asked_for(tmp_path):
    sparse = tmp_path / "sparse"
    sparse.touch()
    os.truncate(sparse, 1 << 40)
    assert len(read_regular(sparse, 5000)) == 5001
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(NotRegular):
            read_regular(path, 1)


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="no such file to wait for here")
def test_a_file_that_has_nothing_to_say_yet_is_not_waited_for():
    def both():
        for read in (read_candidate, lambda path: load_problem(str(path))):
            with pytest.raises(WorkbenchError):
                read(Path("/proc/kmsg"))

    waiting = threading.Thread(target=both, daemon=True)
    waiting.start()
    waiting.join(20)
    assert not waiting.is_alive()


def test_facts_of_what_is_no_python_are_refused_without_a_worker(tmp_path, monkeypatch):
    file = tmp_path / "k.py"
    file.write_text("(")
    # No scratch folder can be made here, so that no worker starts.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    with pytest.raises(WorkbenchError, match="cannot be read as Python") as told:
        assess(file, "softmax", "sm90")
    assert told.value.where == str(file)
    file.write_text("\ufeff" + RIGHT)
    with pytest.raises(FileNotFoundError):
        assess(file, "softmax", "sm90")


NAME = os.fsdecode(b"b\xff.py")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_path_that_is_no_text_is_named_nevertheless(tmp_path, more):
    (tmp_path / NAME).write_text("(")
    for words in (("gate", NAME, "--problem", "softmax"), ("gate", "x.py", "--problem", NAME)):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "workbench.cli.main", *words, "--device", "cpu", *more],
            capture_output=True,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode in (1, 2), done.stderr
        assert b"Traceback" not in done.stderr
        assert time.monotonic() - began < 60
