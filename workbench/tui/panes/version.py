"""How a version appears in a row: its mark, speed, title and outcome."""

from msgspec import Struct

from workbench.engine.view import Version
from workbench.gate.records import Stage, Verdict
from workbench.measure.records import Kind, Speed, Time
from workbench.session.records import Answer
from workbench.tui.draw import Part, cells, fit
from workbench.tui.look import Look


class Word(Struct, frozen=True):
    """A version's outcome in a word or two, and a shorter form for narrow panes."""

    long: str
    short: str


_ANSWER_WORDS = {
    Answer.ACCEPTED: Word("", ""),
    Answer.VETOED: Word("vetoed", "veto"),
    Answer.PENDING: Word("in the gate", "gate"),
}
_POLICY, _NO_BUILD, _WRONG = (
    Word("policy", "policy"), Word("no build", "build"), Word("wrong result", "wrong")
)  # fmt: skip
_CODE_WORDS = {
    "compile.crashed": _NO_BUILD,
    "compile.kernel-raised": _NO_BUILD,
    "compile.kernel-refused": _NO_BUILD,
    "compile.same-work": Word("same work", "same"),
    "correctness.error-above-bound": _WRONG,
    "correctness.fewer-bits": _WRONG,
    "correctness.low-variance-error": _WRONG,
    "correctness.non-finite": _WRONG,
    "correctness.output-not-written": _WRONG,
    "profile.not-faster": Word("not faster", "no gain"),
    "profile.slower": Word("slower", "slow"),
}
"""Words for the gate's most frequent codes; other codes are shown as they are."""
_STAGE_SHORT = {Stage.COMPILE: "compile", Stage.CORRECTNESS: "checks", Stage.PROFILE: "profile"}
_LONGEST = 14
"""Most cells of a word, so that the title keeps its room (ours)."""


def lost(version: Version) -> bool:
    """Whether the version was rejected or vetoed."""
    return version.answer in {Answer.REJECTED, Answer.VETOED}


def waits(version: Version) -> bool:
    """Whether the version passed the gate and waits for a person's decision."""
    return version.answer is Answer.PENDING and bool(version.commit)


def word(version: Version, *, tip: str = "") -> Word:
    """The version's outcome; `tip` is the word for the end of the accepted line, if it is that."""
    if waits(version):
        return Word("review", "")
    if version.best:
        return Word("best", "")
    if tip:
        return Word(tip, tip)
    if version.undone:
        return Word("undone", "undo")
    if version.answer is Answer.REJECTED and version.verdict is Verdict.UNPROVEN:
        return Word("unproven", "open")
    return _ANSWER_WORDS.get(version.answer) or _refusal(version)


def _refusal(version: Version) -> Word:
    """Why the gate rejected it, or its speed against its parent if that alone was timed."""
    if version.stage is Stage.POLICY:
        return _POLICY
    name = version.code.partition(".")[2].replace("-", " ") or str(version.stage)
    found = _CODE_WORDS.get(version.code) or Word(fit(name, _LONGEST), _STAGE_SHORT[version.stage])
    against = version.speed_vs_parent
    if version.stage is Stage.PROFILE and version.speed_vs_seed is None and against is not None:
        return Word(f"{times(against)} of v{version.parent}", found.short)
    return found


def times(speed: Speed | None) -> str:
    """`2.41x`, or `~2.41x` if modeled; `-` without a speed."""
    if speed is None:
        return "-"
    return f"{'~' if speed.kind is Kind.MODELED else ''}{speed.ratio:.2f}x"


def versus_seed(version: Version) -> str:
    """Its speed against the seed as text; `1.00x` for the seed itself once it has a time."""
    if version.speed_vs_seed is None and version.parent is None and version.time is not None:
        return "1.00x"
    return times(version.speed_vs_seed)


def brief(time: Time) -> str:
    """A measured time in the room of a speed: `438us`, `2.25ms`; a modeled one gets no room."""
    if time.kind is Kind.MODELED:
        return "-"
    us = time.microseconds
    # What rounds to a thousand is a millisecond: `1e+03us` is read by nobody.
    return f"{us:.3g}us" if us < 999.5 else f"{us / 1000:.3g}ms"


def speed_style(version: Version, look: Look) -> str:
    """Style of the speed of a version that was not lost."""
    if waits(version):
        return f"bold {look.primary}"
    return f"bold {look.accent}" if version.best else look.good


def mark(version: Version, look: Look) -> tuple[str, str]:
    """The version's sign in the graph, and its style; empty for the colour of its lane."""
    if waits(version):
        return "◉", f"bold {look.primary}"
    if version.answer is Answer.PENDING:
        return "◐", look.accent
    if version.best:
        return "★", f"bold {look.accent}"
    if version.answer is Answer.ACCEPTED:
        return "●", ""
    if version.stage is Stage.POLICY and version.answer is Answer.REJECTED:
        return "✗", look.bad
    return "○" if version.undone else "✗", look.faint


def title(version: Version, look: Look, room: int, quiet: str, *, tip: str = "") -> list[Part]:
    """The title, with the outcome at the right edge; `quiet` is the style of a lost version."""
    said = word(version, tip=tip)
    tail = said.long if room >= 24 else said.short
    label = fit(version.title, room - (len(tail) + 2 if tail else 1))
    style = quiet or look.muted
    if waits(version):
        style = f"bold {look.primary}"
    elif version.best or version.answer is Answer.PENDING:
        style = look.accent
    elif version.stage is Stage.POLICY and lost(version):
        style = look.bad
    gap = " " * max(1, room - cells([label]) - len(tail) - 1)
    return [(label, quiet), gap, (tail, style)]
