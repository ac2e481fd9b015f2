"""`workbench` as a person types it, in this process; one saved session to look at."""

import sys

import pytest
from engine_parts import ScriptedWorkplace, new_session

from workbench.cli.main import main
from workbench.engine.serve import serve_session


class Typed:
    """`workbench` in this process: as a person types it, without the price of a new process."""

    def __init__(self, sessions, capsys, monkeypatch):
        self.sessions, self._capsys, self._patch = sessions, capsys, monkeypatch

    def raw(self, *words):
        """Exit code, stdout and stderr."""
        self._patch.setattr(sys, "argv", ["workbench", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return (left.value.code, *self._capsys.readouterr())

    def __call__(self, *words, code=0):
        got, out, err = self.raw(*words)
        assert got == code, out + err
        return out

    def refused(self, *words):
        got, out, err = self.raw(*words)
        assert got == 2, out + err
        return err


@pytest.fixture
def shell(own_home, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_SESSIONS", str(own_home / "sessions"))
    monkeypatch.setenv("COLUMNS", "100")
    return Typed(own_home / "sessions", capsys, monkeypatch)


@pytest.fixture
def saved(shell):
    """A finished session of seven versions, v5 the best, v3 and v6 rejected."""
    path = shell.sessions / "softmax-1"
    new_session(path)
    serve_session(path, open_workplace=lambda *given: ScriptedWorkplace(*given, steps=6))
    return shell
