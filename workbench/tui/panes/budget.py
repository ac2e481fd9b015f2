"""The budget pane: what is spent of each limit, what is left, and the best speed so far."""

from typing import ClassVar

from msgspec import Struct
from textual.content import Content

from workbench.engine.goal import goal_of
from workbench.engine.once import once
from workbench.engine.view import Snapshot, Version
from workbench.measure.records import Kind, Speed
from workbench.session.records import Answer
from workbench.tui.draw import Part, bar, cells, duration, figure, fit, line, sparkline
from workbench.tui.look import Look
from workbench.tui.panes.base import Pane
from workbench.tui.scene import Scene, version_of

AMBER, RED = 0.75, 0.90
"""Shares of a limit above which its bar warns and alarms (ours)."""
NO_LIMIT = "no limit"
_ONE_LINE_BELOW = 3


class Meter(Struct, frozen=True, kw_only=True):
    """One thing that a run spends."""

    name: str
    used: float
    limit: float | None
    text: str
    """`1284 of 3600 s`."""
    left: str
    """`38 min left`, or that there is no limit."""

    @property
    def share(self) -> float | None:
        """Share of the limit that is spent; None without a limit, 1 for a limit of 0."""
        if self.limit is None:
            return None
        return min(1.0, self.used / self.limit) if self.limit > 0 else 1.0


def meters(snapshot: Snapshot) -> tuple[Meter, ...]:
    """Steps and working time always; GPU seconds and dollars where there is a limit or a use."""
    budget, spent = snapshot.budget, snapshot.spent
    found = [
        _steps(snapshot.steps, budget.steps),
        _time("Time", spent.wall_seconds, budget.wall_seconds),
    ]
    if spent.gpu_seconds or budget.gpu_seconds is not None:
        found.insert(0, _time("GPU", spent.gpu_seconds, budget.gpu_seconds))
    if spent.usd or budget.usd is not None:
        found.insert(0, _dollars(spent.usd, budget.usd))
    return tuple(found)


def _steps(used: int, limit: int | None) -> Meter:
    text = f"{used} of {limit}" if limit is not None else str(used)
    left = f"{max(0, limit - used)} left" if limit is not None else NO_LIMIT
    return Meter(name="Steps", used=used, limit=limit, text=text, left=left)


def _time(name: str, used: float, limit: float | None) -> Meter:
    if limit is None:
        return Meter(name=name, used=used, limit=None, text=duration(used), left=NO_LIMIT)
    text = f"{used:.0f} of {limit:.0f} s"
    return Meter(name=name, used=used, limit=limit, text=text, left=f"{_short(limit - used)} left")


def _short(seconds: float) -> str:
    """`38 min`, `2.1 h`, `41 s`."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{max(0.0, seconds):.0f} s"


def _dollars(used: float, limit: float | None) -> Meter:
    text = f"${used:.2f} of {limit:.2f}" if limit is not None else f"${used:.2f}"
    left = f"${max(0.0, limit - used):.2f} left" if limit is not None else NO_LIMIT
    return Meter(name="Model", used=used, limit=limit, text=text, left=left)


def best_history(snapshot: Snapshot) -> tuple[float, ...]:
    """Best speed against the seed after each version, counting accepted ones of one kind only.

    Where a step was compared with its parent alone, as in a lineage, by the times of both ends: for
    a picture that is near enough.
    """
    best = version_of(snapshot, snapshot.best)
    kind = best.speed_vs_seed.kind if best and best.speed_vs_seed else Kind.MODELED
    return _histories(snapshot.versions)[kind]


@once
def _histories(versions: tuple[Version, ...]) -> dict[Kind, tuple[float, ...]]:
    return {kind: _history(versions, kind) for kind in Kind}


def _history(versions: tuple[Version, ...], kind: Kind) -> tuple[float, ...]:
    top = 1.0
    history = []
    for version in versions:
        if version.answer is Answer.ACCEPTED:
            top = max(top, _ratio(version, versions[0], kind))
        history.append(top)
    return tuple(history)


def _ratio(version: Version, seed: Version, kind: Kind) -> float:
    """Speed against the seed; 0 where none of that kind is known."""
    if version.speed_vs_seed is not None:
        return version.speed_vs_seed.ratio if version.speed_vs_seed.kind is kind else 0.0
    now, then = version.time, seed.time
    if now is None or then is None or not now.kind == then.kind == kind:
        return 0.0
    return then.microseconds / now.microseconds


def best_speed(snapshot: Snapshot) -> Speed | None:
    """Speed of the best version against the seed."""
    best = version_of(snapshot, snapshot.best)
    return best.speed_vs_seed if best is not None else None


class Budget(Pane):
    """A bar for each limit and the best so far; one line if there is no room."""

    number: ClassVar[int] = 5
    heading: ClassVar[str] = "Budget"

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:
        """Meters, then the best so far on the last line."""
        found = meters(scene.snapshot)
        if height < _ONE_LINE_BELOW:
            return [_one_line(found, scene, width)]
        lines = [_meter_line(meter, scene.look, width) for meter in found]
        gap = [line("")] * max(0, min(1, height - len(lines) - 1))
        return [*lines, *gap, _best_line(scene, width)]


def _style(meter: Meter, look: Look) -> str:
    share = meter.share or 0.0
    return look.bad if share > RED else look.warn if share > AMBER else look.good


def _meter_line(meter: Meter, look: Look, width: int) -> Content:
    span = max(6, width - 39)
    high = (meter.share or 0.0) > AMBER
    fill: list[Part] = [" " * span]
    if meter.share is not None:
        fill = bar(meter.share, span, _style(meter, look), look.line)
    return line(
        f" {meter.name:<6}", *fill,
        (f" {fit(meter.text, 17):>17}", "bold" if high else ""),
        (f"{fit(meter.left, 13):>13} ", look.warn if high else look.muted),
    )  # fmt: skip


def _best_line(scene: Scene, width: int) -> Content:
    snapshot, look = scene.snapshot, scene.look
    tail = _best_parts(snapshot, look)
    if not tail:
        goal = goal_of(snapshot.budget)
        says = "nothing is timed yet" + (f"; the goal is {goal.words()}" if goal else "")
        return line(" Best  ", (says, look.faint))
    name = f"v{snapshot.best} "
    best = " " * (12 - len(name) - cells(tail[:1]))
    span = max(6, width - 39 - cells(tail[1:-1]))
    history = sparkline(best_history(snapshot), span)
    style = f"bold {look.primary}"
    return line(" Best  ", (history.ljust(span), look.primary), f" {best}", (name, style), *tail)


def _best_parts(snapshot: Snapshot, look: Look) -> list[Part]:
    """The best so far in the goal's own unit, and the goal; empty where nothing is timed."""
    best, speed, goal = version_of(snapshot, snapshot.best), best_speed(snapshot), None
    if best is not None:
        goal = goal_of(snapshot.budget)
    if goal is not None and goal.microseconds is not None and best is not None and best.time:
        says, kind, aim = f"{figure(best.time.microseconds)} us", best.time.kind, goal.words()
    elif speed is not None:
        says, kind = f"{speed.ratio:.2f}x", speed.kind
        aim = f"{goal.speed:g}x" if goal is not None and goal.speed is not None else ""
    elif best is not None and best.time is not None:
        # The seed, measured: there is nothing yet that it could be compared with.
        says, kind, aim = f"{figure(best.time.microseconds)} us", best.time.kind, ""
    else:
        return []
    reached = goal is not None and best is not None and goal.reached(best.time, best.speed_vs_seed)
    style = f"bold {look.good if reached else look.primary}"
    parts: list[Part] = [(says, style)]
    if aim:
        parts.append((f" of {aim}{' ✓' if reached else ''}", style if reached else look.muted))
    return [*parts, (f"  {kind} ", look.muted)]


def _one_line(found: tuple[Meter, ...], scene: Scene, width: int) -> Content:
    look = scene.look
    tail = _best_parts(scene.snapshot, look)
    best: list[Part] = [("best ", look.muted), *tail] if tail else []
    parts: list[Part] = [" "]
    for meter in found:
        share = meter.share
        shown: list[Part] = [(f"{meter.name} ", look.muted)]
        if share is None:
            shown += [meter.text, "   "]
        else:
            shown += [
                *bar(share, 6, _style(meter, look), look.line),
                (f" {share:>3.0%}", "bold" if share > AMBER else ""), "   ",
            ]  # fmt: skip
        if cells(parts) + cells(shown) + cells(best) <= width:
            parts += shown
    return line(*parts, *best)
