"""Generated code in plain text: of one version, and how it differs between two."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from workbench.cli import emit, options
from workbench.cli.finding import client_of, version_number, words_apart
from workbench.cli.say import note

if TYPE_CHECKING:
    from workbench.engine.client import SessionClient
    from workbench.engine.generated import VersionCode

Level = Literal["ttgir", "ptx", "sass"]
Again = Annotated[
    bool,
    typer.Option("--again", help="Compile on this machine what the session has not kept."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: workbench code softmax-1 v3 --level sass")(code)


def code(
    session: options.SessionName = "",
    version: options.Version = "",
    level: Annotated[Level, typer.Option("--level", help="Which text.")] = "ptx",
    again: Again = False,
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Print what the compiler made of a version: TTGIR, PTX or SASS."""
    from workbench.kernels.code_text import both_sides

    where, words = words_apart((session, version), named, sessions, versions=1)
    client = client_of(where, sessions)
    word = words[0] if words else "best"
    found = _found(client, version_number(word, client.snapshot()), again=again)
    if json:
        emit.json(found)
        return
    _tell(found)
    emit.text(both_sides(found.kernels, (), level, verbatim=True)[0].rstrip("\n"))


def diff_code(
    client: "SessionClient", pair: tuple[int, int], level: Level, *, again: bool, json: bool
) -> None:
    """Print how two versions' generated code differs, registers renumbered where that is sure."""
    from workbench.kernels.code_text import both_sides

    one, other = (_found(client, number, again=again) for number in pair)
    before, after = both_sides(one.kernels, other.kernels, level)
    names = [f"v{number}/{level}" for number in pair]
    text = emit.unified(before, after, *names)
    if json:
        told = [found.lacks or found.made for found in (one, other)]
        emit.json({"a": pair[0], "b": pair[1], "level": level, "diff": text, "says": told})
        return
    for found in (one, other):
        _tell(found)
    if one.kernels and other.kernels:
        same = f"v{pair[0]} and v{pair[1]} have the same {level.upper()}"
        emit.text(text or same)


def _found(client: "SessionClient", number: int, *, again: bool) -> "VersionCode":
    found = client.code(number)
    return client.code_again(number) if again and found.again else found


def _tell(found: "VersionCode") -> None:
    if found.made or found.lacks:
        note(found.made or found.lacks + ("; --again compiles it here" if found.again else ""))
