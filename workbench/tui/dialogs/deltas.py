"""Two versions' profiles side by side, every number with its kind."""

from typing import TYPE_CHECKING

from textual.content import Content

from workbench.measure.records import Kind
from workbench.session.records import Transition
from workbench.tui.draw import Part, fit, line, padded
from workbench.tui.look import Look
from workbench.tui.metrics import HAIR

if TYPE_CHECKING:
    from workbench.gate.profiles import Compared, Value

_VALUE, _CHANGE, _KIND = 13, 12, 9
_LEAST_NAME, _MOST_NAME = 12, 44


def delta_lines(a: Transition, b: Transition, look: Look, width: int) -> list[Content]:
    """A row for each number that either version has, under its kernel and group."""
    # Imported when needed, so that the first frame does not wait for it.
    from workbench.gate.profiles import compare

    rows = compare(a.gate, b.gate)
    if not rows:
        says = " neither version has any number: the gate ended before there was one"
        return [line((says, look.muted))]
    room = min(_MOST_NAME, max(_LEAST_NAME, width - 2 * _VALUE - _CHANGE - _KIND - 3))
    lines = [
        line(
            (f"{'':<{room + 1}}{f'v{a.number}':>{_VALUE}}{f'v{b.number}':>{_VALUE}}", look.muted),
            (f"{'change':>{_CHANGE}}", look.muted),
        )
    ]
    before: tuple[str, str] | None = None
    for one in rows:
        if (one.kernel, one.group) != before:
            before = one.kernel, one.group
            heading = f" {one.kernel or 'whole call'}: {one.group}"
            lines.append(line((fit(heading, width), f"bold {look.accent}")))
        lines.append(_row(one, look, room))
    return lines


def _row(one: "Compared", look: Look, room: int) -> Content:
    words, style = _change(one, look)
    if isinstance(one.a, str) or isinstance(one.b, str):
        said = _said(one.b) if one.a == one.b else f"{_said(one.a)} → {_said(one.b)}"
        return line(" ", padded(f" {one.name}", room), f"   {said}")
    unit = f", {one.unit}" if one.unit else ""
    parts: list[Part] = [
        " ", padded(f" {one.name}{unit}", room),
        (f"{fit(_said(one.a), _VALUE - 1):>{_VALUE}}", look.muted),
        (f"{fit(_said(one.b), _VALUE - 1):>{_VALUE}}", "bold"),
        (f"{words:>{_CHANGE}}", style),
    ]  # fmt: skip
    if one.kind is not None:
        tint = look.warn if one.kind is Kind.MODELED else look.faint
        parts.append((f"  {one.kind:<{_KIND}}", tint))
    return line(*parts)


def _said(value: "Value | None") -> str:
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e12 else f"{value:.4g}"


def _change(one: "Compared", look: Look) -> tuple[str, str]:
    """The change in words and its style; `!` marks what got worse, for screens without colour."""
    if one.delta is None:
        return "", ""
    if not one.delta:
        return "same  ", look.faint
    share = _share(one)
    hair = share is not None and one.kind is not Kind.EXACT and abs(share) < HAIR
    better = 0.0 if hair else one.better * one.delta
    style = look.good if better > 0 else look.bad if better < 0 else look.muted
    mark = "!" if better < 0 else " "
    if share is None:
        return f"{one.delta:+.4g} {mark}", style
    percent = f"{100 * share:+.1f}"
    return f"{percent if float(percent) else '0.0'} % {mark}", style


def _share(one: "Compared") -> float | None:
    """The change as a share of the first number; None where it is told in its own unit."""
    if one.delta is None or one.unit == "%" or not isinstance(one.a, float) or not one.a:
        return None
    return one.delta / abs(one.a)
