"""Kernels that cards can be tried on: seeds, other plain forms, experts, and what sessions kept."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import normalized_sha256, read_source
from workbench.problems.records import Problem
from workbench.session.bundle import recorded
from workbench.session.reader import SessionReader
from workbench.session.records import Answer
from workbench.skills.records import Parameter

_MADE = Path(__file__).with_name("card_states.toml")


class State(Struct, frozen=True, kw_only=True):
    """A correct kernel of a problem."""

    problem: str
    name: str
    """`seed`, `expert`, the name of another plain form, of one that edits made, or of a session."""
    source: str
    cards: tuple[str, ...] = ()
    """Cards that it was made for: they are tried on it before all others."""


class _Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One edit on the way to a made state."""

    edit: str
    parameters: dict[str, Parameter] = {}
    kernel: str = ""
    """By default the first launched kernel that the edit fits."""


class _Made(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A state that edits make from another."""

    problem: str
    name: str
    base: str = "seed"
    """A state of the same problem, or `PROBLEM/STATE`."""
    cards: tuple[str, ...] = ()
    """Cards that apply there, by what they are for."""
    step: tuple[_Step, ...] = ()


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: tuple[_Made, ...]


class Kept(Struct, frozen=True, kw_only=True):
    """A kernel that a session accepted."""

    about: str
    """Text of the session's problem."""
    name: str
    """Of the session, with the version."""
    source: str


def kept_in(sessions: Iterable[Path]) -> tuple[Kept, ...]:
    """The accepted kernels of sessions' folders or bundles, each unpacked once.

    Raises WorkbenchError for one that cannot be read.
    """
    found: list[Kept] = []
    for path in sessions:
        with recorded(path) as reader:
            found += _accepted(reader)
    return tuple(found)


def _accepted(reader: SessionReader) -> Iterator[Kept]:
    about, name = reader.problem().source, reader.settings().name
    for version in reader.summaries():
        if version.answer is Answer.ACCEPTED:
            source = reader.source(version.number)
            yield Kept(about=about, name=f"{name} v{version.number}", source=source)


def states_of(problem: Problem, kept: Iterable[Kept] = ()) -> tuple[State, ...]:
    """Every state of a problem, the plain ones first; equal texts count once.

    Of `kept`, what is about this very problem counts. Raises WorkbenchError for a made state that
    no longer can be.
    """
    ours = (one for one in kept if one.about == problem.source)
    found = [
        *_written(problem),
        *(State(problem=problem.name, name=one.name, source=one.source) for one in ours),
    ]
    seen: dict[str, State] = {}
    for state in found:
        seen.setdefault(normalized_sha256(state.source), state)
    return tuple(seen.values())


def _written(problem: Problem) -> Iterator[State]:
    folder = problem.path.parent
    forms = sorted((folder / "states").glob("*.py")) if problem.seed is not None else []
    plain = {} if problem.seed is None else {"seed": problem.seed}
    named = {**plain, **{path.stem: path for path in forms}}
    texts = {name: path.read_text(encoding="utf-8") for name, path in named.items()}
    for name, text in texts.items():
        yield State(problem=problem.name, name=name, source=text)
    if problem.seed is not None:
        yield from _made(problem, texts)
    if problem.expert is not None:
        text = problem.expert.read_text(encoding="utf-8")
        yield State(problem=problem.name, name="expert", source=text)


@cache
def _recipes() -> tuple[_Made, ...]:
    return msgspec.toml.decode(_MADE.read_bytes(), type=_File).state


def _made(problem: Problem, texts: dict[str, str]) -> Iterator[State]:
    """The states that edits make; later ones may start from earlier ones."""
    known = dict(texts)
    for made in _recipes():
        if made.problem != problem.name:
            continue
        text = known[made.base] if made.base in known else _foreign(problem, made.base)
        for step in made.step:
            text = _applied(text, step, made)
        known[made.name] = text
        yield State(problem=problem.name, name=made.name, source=text, cards=made.cards)


def _foreign(problem: Problem, name: str) -> str:
    other, _, form = name.partition("/")
    folder = problem.path.parent.parent / other
    path = folder / "seed.py" if form == "seed" else folder / "states" / f"{form}.py"
    return path.read_text(encoding="utf-8")


def _applied(text: str, step: _Step, made: _Made) -> str:
    edit = EDITS[step.edit]
    why = "it launches nothing"
    for kernel in (step.kernel,) if step.kernel else read_source(text).launched:
        for anchor in edit.anchors(text, kernel):
            try:
                return edit.apply(text, kernel, {**anchor.parameters, **step.parameters}).source
            except EditRefused as refused:
                why = refused.why
        why = edit.refusal(text, kernel) or why
    raise WorkbenchError(
        f"the edit `{step.edit}` no longer fits the state `{made.name}` of {made.problem}: {why}",
        where=str(_MADE),
    )
