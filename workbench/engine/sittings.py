"""A session's candidates before the gate, heard only from the moment that their turn has come."""

import hashlib
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path

from workbench.engine.parts import GivenUp
from workbench.errors import WorkbenchError
from workbench.gate.correctness.cases import SEED_BYTES
from workbench.gate.judge import Sitting, Told
from workbench.gate.records import GateReport

_SECRET_BYTES = 32


class Ear:
    """Keeps what a sitting tells until somebody attends, then passes everything on in order."""

    def __init__(self, tell: Callable[[Told], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._kept: list[Told] = []
        self._attended = False
        self._given_up = False

    def __call__(self, told: Told) -> None:
        """Hear it. Raises GivenUp when nobody will ever attend."""
        with self._lock:
            if self._given_up:
                raise GivenUp
            if self._attended:
                self._tell(told)
            else:
                self._kept.append(told)

    def attend(self) -> None:
        """Pass on what was kept, and the rest as it comes."""
        with self._lock:
            self._attended = True
            for told in self._kept:
                self._tell(told)
            self._kept.clear()

    def give_up(self) -> None:
        """Whoever tells something from now on is ended."""
        self._given_up = True


class SessionSitting:
    """One candidate: `begin` does all of its gate that needs no GPU."""

    def __init__(
        self,
        sitting: Sitting,
        ear: Ear,
        go_on: Callable[[Sitting], GateReport],
        completed: Callable[[GateReport], GateReport],
        *,
        needs_gpu: bool,
    ) -> None:
        self._sitting = sitting
        self._ear = ear
        self._go_on = go_on
        self._completed = completed
        self._needs_gpu = needs_gpu
        self._report: GateReport | None = None

    def begin(self) -> None:
        """Policy and compile; without a GPU everything."""
        self._sitting.begin()
        if not self._needs_gpu:
            self._report = self._go_on(self._sitting)

    def attend(self) -> None:
        """Tell the session what it tells."""
        self._ear.attend()

    def finish(self) -> GateReport:
        """What is left, and the report as the session keeps it."""
        report = self._report or self._go_on(self._sitting)
        return self._completed(report)

    def give_up(self) -> None:
        """It ends when it next has something to tell: after a stage, or after a call within one."""
        self._ear.give_up()

    @property
    def gpu_seconds(self) -> float:
        """None before its turn: what is begun needs no GPU."""
        return 0.0 if self._report is None else self._report.gpu_seconds


def session_secret(state: Path) -> bytes:
    """What a session's draws for its own edits are derived from; made once, for its owner's eyes.

    With it a step that is begun before its turn, or begun again after a crash, is judged on the
    same sample as if nothing had happened. Candidates run where it cannot be read; what a person,
    a model or an outside agent wrote is judged on fresh draws all the same. Raises WorkbenchError
    when it can be neither read nor written.
    """
    path = state / "judge.secret"
    try:
        if not path.exists():
            draft = state / f".judge.secret.{secrets.token_hex(4)}"
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
        found = path.read_bytes()
    except OSError as fault:
        raise WorkbenchError(
            f"the session's secret cannot be kept: {fault.strerror}", where=str(path)
        ) from fault
    if len(found) != _SECRET_BYTES:
        raise WorkbenchError("the session's secret is damaged", where=str(path), todo="remove it")
    return found


def seed_for(secret: bytes, number: int, source: str) -> bytes:
    """The gate's seed for one candidate: another for every number and every text."""
    keyed = hashlib.blake2b(key=secret, digest_size=SEED_BYTES)
    keyed.update(number.to_bytes(8, "big") + source.encode())
    return keyed.digest()
