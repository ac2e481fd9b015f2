"""How well modeled times rank variants of the shipped problems as a GPU ranks them.

A file keeps what was compiled, traced and timed of each variant, so that the model can be compared
with the same GPU again, anywhere. `h200.json` is such a file.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError, reason
from workbench.kernels.records import HostOperation, Launch, LaunchTrace
from workbench.kernels.target import target
from workbench.measure.model import CannotModel, modeled_time
from workbench.measure.records import Time
from workbench.measure.trust import Judgement, judged
from workbench.problems.load import load_problem, shipped_problems

RECORDED = Path(__file__).with_name("h200.json")


class Variant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kernel with all that is known of it at its problem's full shape."""

    name: str
    problem: str = ""
    """A shipped one; empty for a kernel that belongs to none and only checks the model."""
    source: str = ""
    """Empty where only what was read of it is kept."""
    launches: tuple[Launch, ...] = ()
    traces: tuple[LaunchTrace, ...] = ()
    host: tuple[HostOperation, ...] = ()
    us: float | None = None
    """Measured, median; None where it was not."""
    fault: str = ""
    """Why it has no launches, or no time."""


class Recording(Struct, frozen=True, kw_only=True):
    """Variants, and what their numbers hold for."""

    target: str
    source: str = ""
    """GPU, versions and day of the times; empty before there are any."""
    compiler: str = ""
    """What compiled the launches: `triton 3.6.0, ptxas 12.8.93`. Times hold only for its code."""
    variants: tuple[Variant, ...] = ()


class Worst(Struct, frozen=True, kw_only=True):
    """A variant that the model is far off on."""

    name: str
    measured: float
    modeled: float


class Row(Struct, frozen=True, kw_only=True):
    """One problem's line of the table."""

    judgement: Judgement
    left_out: float | None
    """Median error when the model's scale for this problem is learnt from all others."""
    worst: tuple[Worst, ...]


_WORST = 2


def read_recording(path: Path) -> Recording:
    """The file's content. Raises WorkbenchError for one that cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Recording)
    except (OSError, msgspec.DecodeError) as fault:
        raise WorkbenchError(
            f"there is no recording of variants: {reason(fault)}",
            where=str(path),
            todo="workbench bench model --keep FILE writes one",
        ) from fault


def write_recording(path: Path, recording: Recording) -> None:
    """Write it, a line for each variant. Raises WorkbenchError where that is not possible."""
    lines = [msgspec.json.encode(one).decode() for one in recording.variants]
    about = {name: getattr(recording, name) for name in ("target", "source", "compiler")}
    head = msgspec.json.encode(about).decode()
    text = head[:-1] + ',"variants":[\n' + ",\n".join(lines) + "\n]}\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        what = f"the recording cannot be written: {reason(fault)}"
        raise WorkbenchError(
            what, where=str(path), todo="name a file in a folder that you can write to"
        ) from fault


def write_judgements(path: Path, rows: Sequence[Row]) -> None:
    """What the rows say of trust. Raises WorkbenchError where it cannot be written."""
    text = msgspec.json.format(msgspec.json.encode([row.judgement for row in rows]), indent=1)
    try:
        path.write_bytes(text + b"\n")
    except OSError as fault:
        what = f"the judgements cannot be written: {reason(fault)}"
        raise WorkbenchError(
            what, where=str(path), todo="name a file in a folder that you can write to"
        ) from fault


def table(recording: Recording) -> list[Row]:
    """A row for each problem with at least two measured variants."""
    known = [(one, modeled(one, recording.target)) for one in recording.variants]
    timed = [(v, m.microseconds, v.us) for v, m in known if m is not None and v.us is not None]
    rows = []
    for problem in sorted({v.problem for v, _, _ in timed if v.problem}):
        own = [(v.name, m, us) for v, m, us in timed if v.problem == problem]
        others = [m / us for v, m, us in timed if v.problem != problem]
        if len(own) > 1:
            rows.append(_row(problem, recording, own, others))
    return rows


def _row(
    problem: str,
    recording: Recording,
    own: Sequence[tuple[str, float, float]],
    others: Sequence[float],
) -> Row:
    names = {
        "problem": problem,
        "family": load_problem(problem).family if problem in shipped_problems() else "",
        "source": recording.source,
    }
    ours, theirs = [m for _, m, _ in own], [us for _, _, us in own]
    off = sorted(own, key=lambda one: -max(one[1] / one[2], one[2] / one[1]))
    return Row(
        judgement=judged(names, recording.target, ours, theirs),
        left_out=_left_out(ours, theirs, others),
        worst=tuple(Worst(name=n, measured=us, modeled=m) for n, m, us in off[:_WORST]),
    )


def _left_out(
    modeled: Sequence[float], measured: Sequence[float], others: Sequence[float]
) -> float | None:
    """Median error once the model's bias on all other problems is taken out of this one's times.

    Where that is worse than the plain error, the model's constants lean on this problem.
    """
    if not others:
        return None
    middle = sorted(others)[len(others) // 2]
    scaled = [m / middle for m in modeled]
    errors = sorted(max(m / t, t / m) - 1 for m, t in zip(scaled, measured, strict=True))
    return errors[len(errors) // 2]


def modeled(variant: Variant, name: str) -> Time | None:
    """Its modeled time; None where its launches and traces make none."""
    try:
        return modeled_time(
            list(variant.launches), list(variant.traces), target(name), host=variant.host
        )
    except CannotModel:
        return None
