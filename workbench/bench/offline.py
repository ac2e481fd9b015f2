"""How far cards and edits alone come: every problem from its plain seed, no model, no person."""

from collections.abc import Callable, Iterator, Sequence
from math import exp, log
from pathlib import Path

import msgspec
from msgspec import Struct

from workbench.engine.client import SessionClient
from workbench.engine.create import RunRequest, create_session, request_run
from workbench.engine.devices import Place
from workbench.engine.serve import serve_session
from workbench.engine.sessions import export
from workbench.errors import WorkbenchError, reason
from workbench.measure.records import Kind, Limit, Time
from workbench.problems.load import load_problem, shipped_problems
from workbench.session.reader import SessionReader
from workbench.session.records import Budget, Mode

Hear = Callable[[str], None]


class OfflineAsk(Struct, frozen=True, kw_only=True):
    """What to run, and for how long."""

    problems: tuple[str, ...] = ()
    """Shipped names or files; every shipped problem when empty."""
    steps: int = 15
    wall_seconds: float | None = None
    """Limit of each problem's run, seconds of work."""
    folder: Path
    """Where the sessions are, and where an interrupted table is taken up again."""
    keep: Path | None = None
    """Folder that gets a bundle of each session."""


class OfflineRow(Struct, frozen=True, kw_only=True):
    """One problem: where it began, what it reached, and what that is compared with."""

    problem: str
    kind: Kind
    """Kind of all times in the row."""
    device: str
    seed: Time | None
    best: Time | None
    eager: Time | None
    compiled: Time | None = None
    """`torch.compile`; None where it was not measured within the day, and without a GPU."""
    limit: Limit | None = None
    """The fastest that the problem's roofline allows there."""
    steps: int
    gpu_seconds: float
    wall_seconds: float
    cards: tuple[str, ...]
    """Accepted, on the line that leads to the best."""
    ended: str
    """Why the run stopped."""
    session: str

    @property
    def to_beat(self) -> Time | None:
        """The faster of eager and compiled."""
        known = [time for time in (self.eager, self.compiled) if time is not None]
        return min(known, key=lambda time: time.microseconds, default=None)

    @property
    def ratio(self) -> float | None:
        """Time to beat over best time: above one is won. None where either is missing."""
        if self.best is None or self.to_beat is None:
            return None
        return self.to_beat.microseconds / self.best.microseconds


def run_offline(ask: OfflineAsk, place: Place, hear: Hear) -> Iterator[OfflineRow]:
    """A row for each problem, as soon as its run ends; `hear` is told what goes on.

    A problem whose session is in the folder already goes on where it stopped, so that a table cut
    off by a machine's end is completed by the same command. Raises WorkbenchError for a problem or
    folder that cannot be used.
    """
    for name in ask.problems or tuple(sorted(shipped_problems())):
        yield _one(name, ask, place, hear)


def _one(name: str, ask: OfflineAsk, place: Place, hear: Hear) -> OfflineRow:
    budget = Budget(steps=ask.steps, wall_seconds=ask.wall_seconds)
    problem = load_problem(name)
    path = ask.folder / f"offline-{problem.name}"
    if path.exists():
        settings = SessionReader(path).settings()
        if settings.device != place.device or settings.target != place.target:
            raise WorkbenchError(
                f"session {path.name} was run on {settings.device} for {settings.target},"
                f" not on {place.device} for {place.target}",
                where=str(path),
                todo="give another --sessions folder",
            )
        hear(f"{problem.name}: goes on")
        request_run(path, mode=Mode.AUTO, budget=budget)
    else:
        hear(f"{problem.name}: begins")
        path = create_session(
            RunRequest(
                problem=name,
                kernel=None,
                mode=Mode.AUTO,
                device="cpu" if place.index is None else f"cuda:{place.index}",
                target=place.target,
                budget=budget,
                proposer="skills",
                name=path.name,
                sessions=ask.folder,
            )
        )
    serve_session(path)
    if ask.keep is not None:
        ask.keep.mkdir(parents=True, exist_ok=True)
        bundle = ask.keep / f"{path.name}.bundle"
        bundle.unlink(missing_ok=True)
        export(path, bundle)
    return _row(path, place)


def _row(path: Path, place: Place) -> OfflineRow:
    client = SessionClient(path)
    snapshot = client.snapshot()
    seed = client.transition(snapshot.versions[0].number).gate if snapshot.versions else None
    best = None if snapshot.best is None else client.transition(snapshot.best).gate
    kind = Kind.MODELED if place.index is None else Kind.MEASURED
    eager = None if best is None else _of(kind, best.reference)
    compiled = None
    if snapshot.baselines is not None and kind is Kind.MEASURED:
        eager = snapshot.baselines.eager.time or eager
        other = snapshot.baselines.compiled
        compiled = None if other is None else other.time
    return OfflineRow(
        problem=snapshot.problem,
        kind=kind,
        device=snapshot.target if place.index is None else snapshot.device,
        seed=None if seed is None else _of(kind, seed.time),
        best=None if best is None else _of(kind, best.time),
        eager=eager,
        compiled=compiled,
        limit=None if best is None else best.limit,
        steps=snapshot.steps,
        gpu_seconds=snapshot.spent.gpu_seconds,
        wall_seconds=snapshot.spent.wall_seconds,
        cards=_cards(client),
        ended=f"{snapshot.state}: {snapshot.says}",
        session=str(path),
    )


def _of(kind: Kind, time: Time | None) -> Time | None:
    """The time when it is of the row's kind; kinds are never mixed."""
    return time if time is not None and time.kind is kind else None


def _cards(client: SessionClient) -> tuple[str, ...]:
    """Cards from the seed to the best, in their order."""
    versions = {v.number: v for v in client.snapshot().versions}
    found: list[str] = []
    current = client.snapshot().best
    while current is not None and current in versions:
        found.append(versions[current].card)
        current = versions[current].parent
    return tuple(card for card in reversed(found) if card)


HEAD = ("problem", "seed", "best", "eager", "compile", "limit", "best against", "steps", "GPU-s")


def read_rows(file: Path) -> list[OfflineRow]:
    """The table that `--json-file` kept. Raises WorkbenchError for what is none."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[OfflineRow])
    except (OSError, msgspec.DecodeError) as fault:
        raise WorkbenchError(
            f"the kept table cannot be read: {reason(fault)}",
            where=str(file),
            todo="name a file that `workbench bench offline --json-file` wrote",
        ) from fault


def cells(row: OfflineRow) -> tuple[str, ...]:
    """The row as the table prints it, in microseconds."""
    ratio = row.ratio
    return (
        row.problem,
        _us(row.seed),
        _us(row.best),
        _us(row.eager),
        _us(row.compiled),
        "-" if row.limit is None else f"{row.limit.us:.1f}",
        "-" if ratio is None else f"{ratio:.2f}x",
        str(row.steps),
        f"{row.gpu_seconds:.1f}",
    )


def _us(time: Time | None) -> str:
    return "-" if time is None else f"{time.microseconds:.1f}"


def summary(rows: Sequence[OfflineRow]) -> list[str]:
    """What all rows say together, and what their numbers are."""
    ratios = [r.ratio for r in rows if r.ratio is not None]
    if not ratios:
        return ["no problem has both a best time and something to compare it with"]
    mean = exp(sum(log(ratio) for ratio in ratios) / len(ratios))
    won = sum(ratio >= 1 for ratio in ratios)
    bar = "the faster of eager and torch.compile"
    if any(r.compiled is None for r in rows):
        bar += " (eager alone where compile has no time)"
    lines = [f"{won} of {len(ratios)} reach {bar}; geometric mean {mean:.2f}x"]
    if rows[0].kind is Kind.MODELED:
        lines.append(
            "modeled, no GPU: times come from counted work, and eager is each of its operators at"
            " the roofline, a bar that no real eager reaches"
        )
    return lines
