"""How a session begins: the request checked, the repository made, the start written down."""

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import cast, get_args

import msgspec
from msgspec import Struct, structs

from workbench.engine.devices import Place, choose_places, elsewhere, here
from workbench.engine.goal import checked_goal
from workbench.engine.opening import lock_path
from workbench.errors import WorkbenchError, reason
from workbench.gate.candidate import read_candidate
from workbench.problems.load import load_problem
from workbench.search.ladder import load_ladder
from workbench.session.lock import EngineLock
from workbench.session.names import spoken
from workbench.session.numbered import create_named
from workbench.session.records import Baselined, Budget, Mode, Proposer, SessionSettings
from workbench.session.store import SessionStore


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
    baselines: str = "eager"
    """`eager`, or `both`: torch.compile too."""
    ahead: int | None = None
    """Candidates begun beside the running one; None: as the machine allows."""
    beam: int = 1
    """Candidates looked at before the best of them goes through the whole gate."""
    stem: str = ""
    """Stem of a name that is made up with a number; empty for the problem's name."""


def create_session(request: RunRequest) -> Path:
    """Make the session's repository and return its folder; nothing is left behind on a fault.

    Raises WorkbenchError for a problem, kernel, device, name, folder or `ladder.toml` that cannot
    be used.
    """
    load_ladder()  # its faults are told here, not when the workers are up
    proposer = _proposer(request.proposer)
    if proposer != "skills":
        check_models(request.budget)
    budget = structs.replace(request.budget, goal=checked_goal(request.budget.goal))
    problem = load_problem(request.problem)
    seed = None
    if request.kernel is not None:
        seed = read_candidate(request.kernel).source
    place, *others = choose_places(request.device, request.target)
    _refuse_nothing(budget, place)
    settings = SessionSettings(
        name=request.name or problem.name,
        problem=problem.name,
        mode=request.mode,
        device=place.device,
        device_index=place.index,
        device_indices=_indices(place, *others) if others else (),
        beam=request.beam,
        target=place.target,
        proposer=proposer,
        budget=budget,
        baselines=_baselines(request.baselines),
        ahead=request.ahead,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        toolchain=toolchain(),
    )
    stem = request.stem or problem.name
    texts = problem.source, problem.sidecar
    store = create_named(request.sessions, request.name, stem, settings, *texts)
    if seed is not None:
        note_seed(store, seed, Path(str(request.kernel)))
    return store.folder


def _refuse_nothing(budget: Budget, place: Place) -> None:
    """Raise WorkbenchError for a limit of no time at all: the seed's own verdict takes some."""
    if budget.wall_seconds == 0:
        raise WorkbenchError(
            "no seconds leave nothing for the seed's own verdict",
            where="--wall-seconds 0",
            todo="--steps 0 judges the seed and ends",
        )
    if budget.gpu_seconds == 0 and place.index is not None:
        raise WorkbenchError(
            "no GPU-seconds leave nothing for the seed's own verdict",
            where="--gpu-seconds 0",
            todo="--device cpu uses no GPU, and models times",
        )


def _indices(*places: Place) -> tuple[int, ...]:
    return tuple(place.index for place in places if place.index is not None)


def _proposer(word: str) -> Proposer:
    for known in get_args(Proposer):
        if word == known:
            return cast("Proposer", known)
    raise WorkbenchError(
        f"there is no proposer {word!r}",
        where="--proposer",
        todo="use skills (edits from cards), llm (a model) or both (edits first)",
    )


def check_models(budget: Budget) -> None:
    """Raise WorkbenchError where a model, its key or, for a dollar budget, its price is missing."""
    from workbench.engine.talks import ready_models

    ready_models(budget)


def _baselines(word: str) -> Baselined:
    for known in get_args(Baselined):
        if word == known:
            return cast("Baselined", known)
    raise WorkbenchError(
        f"{word!r} is not a choice of baselines", where="--baselines", todo="use eager or both"
    )


def request_run(path: Path, *, mode: Mode | None, budget: Budget) -> None:
    """Note how a session is to go on; limits that are None keep what they were.

    Raises WorkbenchError for a session that is not a run, when its GPU is not here, and when an
    engine holds it now.
    """
    budget = structs.replace(budget, goal=checked_goal(budget.goal))
    store = SessionStore.open(path)
    settings = store.settings()
    if settings.kind != "run":
        raise WorkbenchError(
            f"session {path.name} is a {settings.kind}; only runs are resumed",
            where=str(path),
            todo=f"workbench learn --session {spoken(path)} goes on with a walk that was "
            f"interrupted; workbench attach {spoken(path)} shows it",
        )
    now = structs.replace(
        settings, mode=mode or settings.mode, budget=_widened(settings.budget, budget)
    )
    here(now, path, todo=elsewhere(path))
    if now.proposer != "skills":
        check_models(now.budget)
    if now == settings:
        return
    with EngineLock(lock_path(store), session=path.name):
        store.save_settings(now)


def _widened(old: Budget, new: Budget) -> Budget:
    given = {name: value for name, value in structs.asdict(new).items() if value is not None}
    return structs.replace(old, **given)


def note_seed(store: SessionStore, source: str, path: Path) -> None:
    """Keep a person's own candidate until it is gated; in one move, so it is never half there."""
    target = seed_path(store)
    draft = target.with_suffix(".tmp")
    try:
        with draft.open("wb") as file:
            file.write(msgspec.json.encode((source, str(path))))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as fault:
        raise WorkbenchError(
            f"the session cannot be written: {fault.strerror}",
            where=str(target),
            todo="check the folder's rights and the disk's space",
        ) from fault


def noted_seed(store: SessionStore) -> tuple[str, str] | None:
    """The candidate that `run --kernel` was given, as source and path; None without one.

    A run's first version has the same text. Raises WorkbenchError where neither can be read.
    """
    path = seed_path(store)
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[str, str])
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as fault:
        again = "workbench run PROBLEM --kernel FILE"
        with contextlib.suppress(WorkbenchError):
            # It was gated, so that git has its text; a walk's v0 is another kernel.
            if store.settings().kind == "run":
                return store.source(0), str(path)
            again = "workbench learn EXPERT --problem PROBLEM"
        raise WorkbenchError(
            f"the candidate that the session was to start from cannot be read: {reason(fault)}",
            where=str(path),
            todo=f"start a new session from your file: {again}",
        ) from fault


def seed_path(store: SessionStore) -> Path:
    """Where `note_seed` keeps it."""
    return store.state / "seed.json"


def toolchain() -> dict[str, str]:
    """Versions that numbers hold for, read without importing torch or triton."""
    from importlib import metadata

    found = {}
    for name in ("torch", "triton"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found
