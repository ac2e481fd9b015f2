"""Commands that read a session: `status`, `sessions`, `log`, `diff`, `card`, `review`, `watch`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.code import Again, Level, diff_code
from workbench.cli.finding import client_of, one_session, version_number, words_apart
from workbench.cli.say import note
from workbench.errors import WorkbenchError
from workbench.session.names import spoken

if TYPE_CHECKING:
    from workbench.engine.client import SessionClient


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench sessions")(sessions)
    app.command(epilog="Example: workbench status softmax-1")(status)
    app.command(epilog="Example: workbench log softmax-1 --graph")(log)
    app.command(epilog="Example: workbench diff softmax-1 v2 v5 --metrics")(diff)
    app.command(epilog="Example: workbench card softmax-1 v3")(card)
    app.command(epilog="Example: workbench review softmax-1 --diff")(review)
    app.command(epilog="Example: workbench watch softmax-1")(watch)


def sessions(sessions: options.Sessions = None, json: options.Json = False) -> None:
    """List the sessions, newest first."""
    from workbench.engine.sessions import list_sessions, sessions_folder

    folder = sessions_folder(sessions)
    rows = list_sessions(folder)
    if json:
        for row in rows:
            emit.json(row)
        return
    if not rows:
        emit.text(f"no sessions in {folder}; workbench run softmax makes one")
        return
    states = [r.state.partition(": ") for r in rows]
    cells = [
        (r.name, state, r.problem, r.device, str(r.versions), r.best, r.created[:16])
        for r, (state, _, _) in zip(rows, states, strict=True)
    ]
    emit.text(
        emit.table(("name", "state", "problem", "device", "versions", "best", "created"), cells)
    )
    for row, (state, _, why) in zip(rows, states, strict=True):
        if why:
            emit.text(f"{row.name} is {state}: {why}" + (f"; {row.todo}" if row.todo else ""))


def status(
    session: options.SessionName = "",
    thoughts: Annotated[
        bool, typer.Option("--thoughts", help="Print what the model thinks and says instead.")
    ] = False,
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Say what a session is doing, what it reached and what it spent."""
    from workbench.cli.report import status_text, thoughts_text

    client = client_of(one_session(session, named), sessions)
    if json:
        emit.json(client.snapshot())
    elif thoughts:
        emit.text(thoughts_text(client.snapshot().talk))
    else:
        emit.text(status_text(client.snapshot()))


def log(
    session: options.SessionName = "",
    graph: Annotated[bool, typer.Option("--graph", help="Draw the lineage.")] = False,
    ascii_only: options.Ascii = False,
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """List the versions of a session, newest first."""
    from workbench.cli.report import graph_text, version_line, widths

    client = client_of(one_session(session, named), sessions)
    versions = client.snapshot().versions
    if json:
        for version in versions:
            emit.json(version)
    elif graph:
        emit.text(graph_text(client.snapshot(), ascii_only=ascii_only))
    else:
        columns = widths(versions)
        for version in reversed(versions):
            emit.text(version_line(version, columns))
    if (
        not json
        and emit.is_open()
        and any(version.speed_vs_seed is not None for version in versions)
    ):
        note(f"speeds are against v{versions[0].number}, where the session began")


def diff(
    session: options.SessionName = "",
    first: Annotated[str, typer.Argument(metavar="A", help="A version.")] = "",
    second: Annotated[
        str, typer.Argument(metavar="B", help="Another; without it, A is compared with its parent.")
    ] = "",
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Compare their profiles instead of their source.")
    ] = False,
    code: Annotated[
        Level | None,
        typer.Option("--code", help="Compare what the compiler made of them, at this level."),
    ] = None,
    again: Again = False,
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Show how two versions differ: in source, in every number, or in generated code."""
    where, versions = words_apart((session, first, second), named, sessions, versions=2)
    if not versions:
        raise WorkbenchError(
            "a version is needed", where="workbench diff", todo="workbench diff v2; or v2 v5"
        )
    client = client_of(where, sessions)
    a, b = _pair(client, versions)
    if code is not None:
        diff_code(client, (a, b), code, again=again, json=json)
        return
    if metrics:
        _diff_metrics(client, a, b, json=json)
        return
    # A seed against its parent is a seed against nothing.
    alone = len(versions) == 1
    before, after = client.sources(b) if alone else (client.sources(a)[1], client.sources(b)[1])
    old = "/dev/null" if alone and a == b else f"v{a}/kernel.py"
    text = emit.unified(before, after, old, f"v{b}/kernel.py")
    if json:
        emit.json({"a": a, "b": b, "diff": text})
    else:
        emit.text(text or f"v{a} and v{b} have the same source")


def _pair(client: "SessionClient", versions: list[str]) -> tuple[int, int]:
    """The two versions that were named; one alone is compared with its parent."""
    snapshot = client.snapshot()
    a = version_number(versions[0], snapshot)
    if len(versions) > 1:
        return a, version_number(versions[1], snapshot)
    parent = client.transition(a).parent
    return a if parent is None else parent, a


def _diff_metrics(client: "SessionClient", a: int, b: int, *, json: bool) -> None:
    from workbench.cli.profiles import side_by_side
    from workbench.gate.profiles import compare

    one, other = client.transition(a).gate, client.transition(b).gate
    if json:
        emit.json({"a": a, "b": b, "metrics": compare(one, other)})
    else:
        emit.text(side_by_side(one, other, (f"v{a}", f"v{b}")))


def card(
    session: options.SessionName = "",
    version: options.Version = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Show a version's plan: the skill, every condition with its answer, the gate's report."""
    from workbench.cli.report import card_text

    where, words = words_apart((session, version), named, sessions, versions=1)
    client = client_of(where, sessions)
    word = words[0] if words else "best"
    record = client.transition(version_number(word, client.snapshot()))
    if json:
        from msgspec import to_builtins

        from workbench.gate.bottlenecks import bottlenecks

        emit.json({**to_builtins(record), "bottlenecks": bottlenecks(record.gate)})
    else:
        emit.text(card_text(record))


def review(
    session: options.SessionName = "",
    diff: Annotated[bool, typer.Option("--diff", help="Also show the whole diff.")] = False,
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Show the version that waits for your decision and what accept and veto would write."""
    from workbench.cli.report import card_text

    client = client_of(one_session(session, named), sessions)
    pending = client.snapshot().pending
    if pending is None:
        if json:
            emit.json(None)
        else:
            emit.text(_nothing_waits(client.snapshot().kind, _spoken(client)))
        return
    record = client.transition(pending)
    if json:
        before, after = client.sources(pending)
        text = emit.unified(before, after, f"v{record.parent}/kernel.py", f"v{pending}/kernel.py")
        emit.json({"pending": pending, "transition": record, "diff": text})
        return
    name = _spoken(client)
    emit.text(card_text(record))
    if diff:
        before, after = client.sources(pending)
        names = f"v{record.parent}/kernel.py", f"v{pending}/kernel.py"
        emit.text("\n" + emit.unified(before, after, *names))
    emit.text(
        f"\naccept moves main to v{pending}: workbench accept {name} v{pending}\n"
        f"veto keeps it under refs/attempts/{pending:04}: "
        f"workbench veto {name} v{pending} --reason WHY"
    )


def _spoken(client: "SessionClient") -> str:
    return spoken(Path(client.snapshot().path))


def _nothing_waits(kind: str, name: str) -> str:
    if kind == "lineage":
        how = f"workbench card {name} v1 shows what it said in both directions"
        return f"nothing waits in lineage {name}: the gate decides its steps; {how}"
    return f"nothing waits for a decision in session {name}"


def watch(
    session: options.SessionName = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Print one plain line per event until the run ends; earlier events come first."""
    import asyncio

    from workbench.engine.telling import tell

    client = client_of(one_session(session, named), sessions)

    async def follow() -> None:
        async for event in client.events():
            if json:
                emit.json(event)
            elif (line := tell(event)) is not None:
                emit.text(f"{line.at[11:19]} {line.says}")

    asyncio.run(follow())
    if not json:
        state = client.snapshot().state
        tells = f"workbench status {_spoken(client)} tells more"
        note(f"session {client.name} is {state}; {tells}")
