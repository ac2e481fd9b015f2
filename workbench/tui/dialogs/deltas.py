"""Two versions' profiles side by side, every number with its kind."""

from typing import TYPE_CHECKING

from textual.content import Content

from workbench.gate.records import GateReport
from workbench.measure.records import Kind
from workbench.session.records import Transition
from workbench.tui.draw import Part, fit, line, padded, wrapped
from workbench.tui.look import Look

if TYPE_CHECKING:
    from workbench.gate.profiles import Compared, Value

_VALUE, _CHANGE, _KIND = 13, 12, 9
_LEAST_NAME, _MOST_NAME = 12, 44


def delta_lines(a: Transition, b: Transition, look: Look, width: int) -> list[Content]:
    """A row a number that either version has, under the kernel and group it belongs to."""
    # What reads profiles takes a while to load: not before it is asked for.
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
    """Better and worse are told by sign and colour; `!` marks what got worse."""
    if one.delta is None:
        return "", ""
    if not one.delta:
        return "same  ", look.faint
    better = one.better * one.delta
    style = look.good if better > 0 else look.bad if better < 0 else look.muted
    mark = "!" if better < 0 else " "
    if isinstance(one.a, float) and one.a and one.unit != "%":
        return f"{100 * one.delta / abs(one.a):+.1f} % {mark}", style
    return f"{one.delta:+.4g} {mark}", style


def code_lines(a: Transition, b: Transition, look: Look, width: int) -> list[Content]:
    """What a session keeps of the generated code: which binary each kernel was, not its text."""
    lines: list[Content] = []
    ours, theirs = _binaries(a.gate), _binaries(b.gate)
    for kernel in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(kernel, ()), theirs.get(kernel, ())
        same = bool(one) and one == other
        says = "the same machine code" if same else "other machine code"
        style = look.good if same else look.warn
        lines.append(line((f" {kernel}: ", "bold"), (says, style)))
        for number, known in ((a.number, one), (b.number, other)):
            shown = ", ".join(sha[:16] for sha in known) or "was not compiled"
            lines.append(line((f"   v{number:<5} cubin sha256 ", look.muted), shown))
    kept = (
        "A session keeps the binaries' hashes and instruction counts (in the profile, under "
        "machine code), not TTGIR, PTX or SASS: the compiler makes them again from the source "
        "and the versions named here."
    )
    lines += [line(""), *(line((f" {text}", look.muted)) for text in wrapped(kept, width - 2))]
    for record in (a, b):
        tools = ", ".join(f"{name} {value}" for name, value in record.gate.toolchain.items())
        said = f"v{record.number}: {tools or 'unknown tools'}, for {record.gate.target}"
        lines += [line((f" {text}", look.muted)) for text in wrapped(said, width - 2)]
    return lines


def _binaries(gate: GateReport) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for launch in gate.launches:
        found.setdefault(launch.kernel, []).append(launch.cubin_sha256)
    return {kernel: tuple(dict.fromkeys(known)) for kernel, known in found.items()}
