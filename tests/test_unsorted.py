"""A choice without order at the full shape: whole rows are compared by their values."""

import json
import subprocess
import sys

import pytest

from workbench.problems.load import load_problem

EXPERT = load_problem("top_k_unsorted").expert.read_text()
GATE = [sys.executable, "-m", "workbench.cli.main", "gate"]


def verdict(tmp_path, source):
    file = tmp_path / "kernel.py"
    file.write_text(source)
    asked = [*GATE, str(file), "--problem", "top_k_unsorted", "--device", "cpu", "--json"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1])


def test_places_in_another_order_than_the_references_are_right(tmp_path):
    report = verdict(tmp_path, EXPERT)
    assert report["verdict"] == "accepted"
    (stage,) = [s for s in report["stages"] if s["stage"] == "correctness"]
    (full,) = [f for f in stage["findings"] if f["code"] == "correctness.full-shape"]
    assert full["evidence"]["elements"] > 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("cols.to(tl.int64)", "tl.where(N > 3000, cols ^ 1, cols).to(tl.int64)"),
        ("place, x, mask", "place, tl.where(N > 3000, x + 0.5, x), mask"),
    ],
)
def test_what_is_wrong_at_the_full_shape_alone_is_found(tmp_path, right, wrong):
    assert right in EXPERT
    report = verdict(tmp_path, EXPERT.replace(right, wrong))
    assert (report["verdict"], report["code"]) == ("rejected", "correctness.error-above-bound")
    assert "full" in json.dumps(report)
