"""How a session begins: the request checked, the repository made, the start written down."""

import importlib.metadata
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from workbench.engine.devices import choose_place
from workbench.errors import WorkbenchError
from workbench.gate.candidate import read_candidate
from workbench.problems.load import load_problem
from workbench.session.names import check_name, fresh_name
from workbench.session.records import Budget, Mode, SessionSettings
from workbench.session.store import SessionStore

_T = TypeVar("_T")


class RunRequest(Struct, frozen=True, kw_only=True):
    """What a person asked `run` for."""

    problem: str
    kernel: Path | None
    mode: Mode
    device: str
    target: str
    budget: Budget
    proposer: str
    name: str
    sessions: Path


class Start(Struct, frozen=True, kw_only=True):
    """What an engine is to do with the session next; written before the engine starts."""

    mode: Mode
    budget: Budget
    seed: tuple[str, str] | None = None
    """A person's own candidate: source and path."""


def create_session(request: RunRequest) -> Path:
    """Make the session's repository and return its folder; nothing is left behind on a fault.

    Raises WorkbenchError for a problem, kernel, device, name or folder that cannot be used.
    """
    if request.proposer != "skills":
        raise WorkbenchError(
            f"the proposer {request.proposer!r} is not there yet",
            where="--proposer",
            todo="use skills: edits from cards, no model needed",
        )
    problem = load_problem(request.problem)
    seed = None
    if request.kernel is not None:
        seed = (read_candidate(request.kernel).source, str(request.kernel))
    place = choose_place(request.device, request.target)
    name = check_name(request.name) if request.name else fresh_name(problem.name, request.sessions)
    settings = SessionSettings(
        name=name,
        problem=problem.name,
        mode=request.mode,
        device=place.device,
        device_index=place.index,
        target=place.target,
        budget=request.budget,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        toolchain=toolchain(),
    )
    store = SessionStore.create(request.sessions / name, settings, problem.source, problem.sidecar)
    write_start(store, Start(mode=request.mode, budget=request.budget, seed=seed))
    return store.folder


def request_run(path: Path, *, mode: Mode | None, budget: Budget) -> None:
    """Note how a session is to go on; limits that are None keep what they were."""
    store = SessionStore.open(path)
    settings = store.settings()
    if settings.kind != "run":
        raise WorkbenchError(
            f"session {path.name} is a {settings.kind}; only runs are resumed",
            where=str(path),
            todo=f"workbench attach {path.name} shows it",
        )
    before = read_start(store)
    write_start(
        store,
        Start(
            mode=mode or before.mode,
            budget=Budget(
                steps=_either(budget.steps, before.budget.steps),
                usd=_either(budget.usd, before.budget.usd),
                gpu_seconds=_either(budget.gpu_seconds, before.budget.gpu_seconds),
                wall_seconds=_either(budget.wall_seconds, before.budget.wall_seconds),
            ),
            seed=before.seed,
        ),
    )


def _either(new: _T | None, old: _T | None) -> _T | None:
    return old if new is None else new


def write_start(store: SessionStore, start: Start) -> None:
    """Durably, in one move: a torn file can never be read."""
    target = store.state / "start.json"
    draft = target.with_suffix(".tmp")
    try:
        store.state.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(start))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as fault:
        raise WorkbenchError(
            f"the session cannot be written: {fault.strerror}",
            where=str(target),
            todo="check the folder's rights and the disk's space",
        ) from fault


def read_start(store: SessionStore) -> Start:
    """How the session was last asked to go; from its settings when nothing was noted here."""
    try:
        return msgspec.json.decode((store.state / "start.json").read_bytes(), type=Start)
    except (FileNotFoundError, msgspec.DecodeError):
        settings = store.settings()
        return Start(mode=settings.mode, budget=settings.budget)


def toolchain() -> dict[str, str]:
    """Versions that numbers hold for, read without importing torch or triton."""
    found = {}
    for name in ("torch", "triton"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found
