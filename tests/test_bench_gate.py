"""`bench gate`: each of its measurements can be asked for alone."""

import json

from typer.testing import CliRunner

from workbench.cli.main import app
from workbench.errors import WorkbenchError


def test_one_measurement_alone():
    run = CliRunner().invoke(
        app, ["bench", "gate", "--device", "cpu", "--only", "policy", "--json"]
    )
    assert run.exit_code == 0, run.output
    assert [json.loads(line)["what"] for line in run.output.splitlines()] == ["rejected at policy"]


def test_a_measurement_that_needs_a_gpu_names_those_that_do_not():
    run = CliRunner().invoke(app, ["bench", "gate", "--device", "cpu", "--only", "flight"])
    assert isinstance(run.exception, WorkbenchError)
    assert run.exception.what == "no measurement 'flight' here"
    assert run.exception.todo == "there are policy, largest, cpu"
