"""How one version reads in a row: its mark, its speed, its title, and what became of it."""

from msgspec import Struct

from workbench.engine.view import Version
from workbench.gate.records import Stage, Verdict
from workbench.measure.records import Kind, Speed
from workbench.session.records import Answer
from workbench.tui.draw import Part, cells, fit
from workbench.tui.look import Look


class Word(Struct, frozen=True):
    """What became of a version, in one word; shorter where there is no room."""

    long: str
    short: str


_ANSWER_WORDS = {
    Answer.ACCEPTED: Word("", ""),
    Answer.VETOED: Word("vetoed", "veto"),
    Answer.PENDING: Word("in the gate", "gate"),
}
_STAGE_WORDS = {
    Stage.POLICY: Word("policy", "policy"),
    Stage.COMPILE: Word("no build", "build"),
    Stage.CORRECTNESS: Word("wrong result", "wrong"),
    Stage.PROFILE: Word("not faster", "slow"),
}


def lost(version: Version) -> bool:
    """Whether the version is off the table: rejected or vetoed."""
    return version.answer in {Answer.REJECTED, Answer.VETOED}


def waits(version: Version) -> bool:
    """Whether the gate let the version through and a person has not answered yet."""
    return version.answer is Answer.PENDING and bool(version.commit)


def word(version: Version, *, main: bool = False) -> Word:
    """What became of the version; `main` where the accepted line ends apart from the best."""
    if waits(version):
        return Word("review", "")
    if version.best:
        return Word("best", "")
    if main:
        return Word("main", "main")
    if version.undone:
        return Word("undone", "undo")
    if version.answer is Answer.REJECTED and version.verdict is Verdict.UNPROVEN:
        return Word("unproven", "open")
    return _ANSWER_WORDS.get(version.answer) or _STAGE_WORDS[version.stage]


def times(speed: Speed | None) -> str:
    """`2.41x`; a modeled one carries a tilde, so it is never taken for a measured one."""
    if speed is None:
        return "-"
    return f"{'~' if speed.kind is Kind.MODELED else ''}{speed.ratio:.2f}x"


def speed_style(version: Version, look: Look) -> str:
    """Style of a speed that stands."""
    if waits(version):
        return f"bold {look.primary}"
    return f"bold {look.accent}" if version.best else look.good


def mark(version: Version, look: Look) -> tuple[str, str]:
    """The version's sign in the graph and its style; an empty style takes the lane's colour."""
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


def title(version: Version, look: Look, room: int, quiet: str, *, main: bool = False) -> list[Part]:
    """The title, then what became of it at the right edge; `quiet` is the style of a lost one."""
    said = word(version, main=main)
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
