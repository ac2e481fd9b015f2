"""What an edit is: an anchor in a kernel, a change of text, and an undo to the byte."""

import difflib
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.kernels.source import Source, normalized_sha256, read_source
from workbench.kernels.source_kernel import JitKernel

T = TypeVar("T")

Parameter = int | float | str | bool
Parameters = Mapping[str, Parameter]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class EditRefused(Exception):
    """The edit does not fit this kernel; `why` says what is in the way."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class EditParameter(Struct, frozen=True, kw_only=True):
    """One choice that an edit leaves open."""

    name: str
    says: str
    kind: Literal["int", "text", "flag"]
    default: Parameter
    grid: tuple[Parameter, ...] = ()
    """Values worth trying, in order; empty where only an anchor can name them."""


class Anchor(Struct, frozen=True, kw_only=True):
    """A place that the edit can work on."""

    lines: tuple[int, ...]
    """Lines of the file, in order."""
    says: str
    parameters: dict[str, Parameter] = {}
    """Parameters that choose this place."""
    current: dict[str, Parameter] = {}
    """What the text says now for the others, where it says it plainly."""


class Hunk(Struct, frozen=True):
    """Lines of an edited text that stand where other lines stood."""

    line: int
    """First line in the edited text, from 0."""
    count: int
    """Lines that the edit wrote."""
    text: str
    """What stood there before."""


class Undo(Struct, frozen=True):
    """How to get the text before an edit back, byte for byte. Plain data: it can be stored."""

    before: str
    """SHA-256 of the text that comes back."""
    after: str
    """SHA-256 of the only text that this fits."""
    hunks: tuple[Hunk, ...]


class Applied(Struct, frozen=True):
    """An edited text and the way back."""

    source: str
    undo: Undo


def places(
    find: Callable[[Source, JitKernel], tuple[T, ...]], source: str, kernel: str
) -> tuple[T, ...]:
    """What `find` finds in a kernel; nothing where it is missing or of another form."""
    view = read_source(source)
    found = view.kernel(kernel)
    if found is None:
        return ()
    try:
        return find(view, found)
    except EditRefused:
        return ()


class Edit(Struct, frozen=True, kw_only=True):
    """A codemod on one kernel: everything outside what it replaces stays as it was."""

    id: str
    says: str
    parameters: tuple[EditParameter, ...] = ()
    find: Callable[[Source, JitKernel], tuple[Anchor, ...]]
    change: Callable[[Source, JitKernel, dict[str, Parameter]], str]
    """The edited text; raises EditRefused. Parameters are complete and of the right kind."""

    def anchors(self, source: str, kernel: str) -> tuple[Anchor, ...]:
        """Every place of that kernel that the edit can work on; empty when there is none."""
        return places(self.find, source, kernel)

    def refusal(self, source: str, kernel: str) -> str:
        """Why there is no anchor; empty when there is one."""
        view = read_source(source)
        found = view.kernel(kernel)
        if found is None:
            return f"there is no kernel `{kernel}`"
        try:
            return "" if self.find(view, found) else "nothing in the kernel has the form it needs"
        except EditRefused as refused:
            return refused.why

    def apply(self, source: str, kernel: str, parameters: Parameters) -> Applied:
        """The new text with its undo.

        Raises EditRefused when the kernel does not have the form that the edit needs, or already
        is what it asks for, and WorkbenchError for a parameter that the edit does not have.
        """
        complete = self._complete(parameters)
        view = read_source(source)
        found = view.kernel(kernel)
        if found is None:
            raise EditRefused(f"there is no kernel `{kernel}`")
        edited = self.change(view, found, complete)
        fault = read_source(edited).fault
        if fault:
            raise EditRefused(f"the edited text would not be Python: {fault}")
        if normalized_sha256(edited) == normalized_sha256(source):
            raise EditRefused("it changes nothing")
        return Applied(edited, make_undo(source, edited))

    def _complete(self, parameters: Parameters) -> dict[str, Parameter]:
        known = {p.name: p for p in self.parameters}
        for name, value in parameters.items():
            if name not in known:
                raise WorkbenchError(
                    f"the edit `{self.id}` has no parameter `{name}`",
                    todo=f"its parameters are {', '.join(known) or 'none'}",
                )
            if not _fits(value, known[name].kind):
                raise WorkbenchError(
                    f"the edit `{self.id}` wants {_WANTED[known[name].kind]} for `{name}`,"
                    f" not {value!r}"
                )
        return {name: parameters.get(name, p.default) for name, p in known.items()}


_WANTED = {"int": "a whole number", "text": "a text", "flag": "true or false"}


def _fits(value: Parameter, kind: str) -> bool:
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str if kind == "text" else bool)


def sha256(text: str) -> str:
    """Hash of a text's bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def make_undo(before: str, after: str) -> Undo:
    """The way back from one text to another, as the lines that differ."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    matcher = difflib.SequenceMatcher(a=new, b=old, autojunk=False)
    hunks = tuple(
        Hunk(line=i1, count=i2 - i1, text="".join(old[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    )
    return Undo(before=sha256(before), after=sha256(after), hunks=hunks)


def undo(source: str, way_back: Undo) -> str:
    """The text as it was before the edit, byte for byte.

    Raises EditRefused when `source` is not exactly what the edit made.
    """
    if sha256(source) != way_back.after:
        raise EditRefused("the text has changed since the edit; undo later edits first")
    lines = _LINE.findall(source)
    for hunk in reversed(way_back.hunks):
        lines[hunk.line : hunk.line + hunk.count] = [hunk.text]
    restored = "".join(lines)
    if sha256(restored) != way_back.before:
        raise EditRefused("the undo is damaged: it does not restore what it names")
    return restored
