"""`plan`, `submit` and `hint`: steer a session, or do a model's part in it."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.finding import client_of, one_session, session_and_word
from workbench.cli.say import Exit
from workbench.errors import WorkbenchError
from workbench.session.records import Answer

if TYPE_CHECKING:
    from workbench.engine.planning import Planned


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench plan softmax-1 --prompt > prompt.txt")(plan)
    app.command(epilog="Example: workbench submit softmax-1 mine.py --skill online-softmax")(submit)
    app.command(epilog='Example: workbench choose online-softmax --change "one pass"')(choose)
    app.command(epilog='Example: workbench hint "keep two rows a program"')(hint)


def plan(
    session: options.SessionName = "",
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Print the prompt that a model would get next.")
    ] = False,
    role: Annotated[
        str, typer.Option(help="Whose prompt: planner, diagnoser or optimizer [default: first].")
    ] = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Print what comes next: the plan of the cards, the skills that are allowed, the prompt.

    Asks no model and changes nothing.
    """
    from workbench.engine.planning import plan_next
    from workbench.engine.sessions import find_session, sessions_folder

    where = one_session(session, named)
    planned = plan_next(find_session(where, sessions_folder(sessions)), role)
    if json:
        emit.json(planned)
    elif prompt:
        emit.text("\n\n".join(message.content for message in planned.prompt))
    else:
        emit.text(_text(planned))


def _text(planned: "Planned") -> str:
    lines = [f"next      v{planned.number} from v{planned.parent}"]
    step = planned.plan
    if step is not None:
        values = ", ".join(f"{name}={value}" for name, value in step.parameters.items())
        lines += [
            f"cards     {step.title}{f' ({values})' if values else ''} on {step.kernel}",
            f"          {step.reason}",
        ]
    else:
        lines.append(f"cards     {planned.reason}")
    if planned.chosen:
        becomes = f"not now: {planned.not_chosen}" if planned.not_chosen else "it goes first"
        lines.append(f"chosen    {planned.chosen}, by you: {becomes}")
    lines.append(f"a model   {planned.says}")
    lines += [f"allowed   {a.id} on {a.kernel}: {a.title}" for a in planned.allowed]
    lines.append(f"prompt    {planned.role}, about {planned.tokens:,} tokens; --prompt prints it")
    lines += [f"          left out: {what}" for what in planned.trimmed]
    return "\n".join(lines)


def submit(
    session: options.SessionName = "",
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that defines ModelNew.")] = "",
    skill: Annotated[
        str, typer.Option(help="The card or method it carries out; see `workbench plan`.")
    ] = "",
    hint: Annotated[
        str, typer.Option(help="What it does: kept with it, and shown in later prompts.")
    ] = "",
    reply: Annotated[
        bool,
        typer.Option("--reply", help="FILE is a model's whole reply: read the candidate in it."),
    ] = False,
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Gate a candidate that you or an outside agent wrote, as the session's next transition.

    Exits with 0 when it is accepted or waits for your decision, 1 when it is refused.
    """
    from workbench.cli.progress import Progress
    from workbench.cli.report import card_text
    from workbench.engine.submitting import reply_submission, submission, submit_alone

    where, source = _candidate((session, file), named)
    client = client_of(where, sessions)
    path = Path(client.snapshot().path)
    wish = reply_submission(path, source, skill, hint) if reply else submission(source, skill, hint)
    if client.alive():
        asyncio.run(client.submit(wish))
    else:
        ended = submit_alone(path, wish, Progress(json=False).show)
        if ended.how == "failed":
            raise WorkbenchError(ended.says, where=f"session {client.name}")
    made = client.newest()
    if json:
        emit.json(made)
    else:
        emit.text(card_text(made))
    if made.decision.answer is Answer.REJECTED:
        raise typer.Exit(Exit.NO)


def _candidate(words: tuple[str, str], named: str) -> tuple[str, Path]:
    """The session, empty for the newest, and the candidate's file."""
    where, given = session_and_word(words, named)
    if not given:
        raise WorkbenchError(
            "a candidate is needed",
            where="workbench submit",
            todo="workbench submit softmax-1 kernel.py",
        )
    # `.` stood for the newest before a session could be left out.
    return ("" if where == "." else where), Path(given)


def choose(
    session: options.SessionName = "",
    skill: Annotated[
        str,
        typer.Argument(
            metavar="SKILL", help="A card or method; `workbench plan` lists what is allowed."
        ),
    ] = "",
    kernel: Annotated[str, typer.Option(help="On which kernel, where there are several.")] = "",
    change: Annotated[
        str, typer.Option(help="The plan in your words, for a model to carry out.")
    ] = "",
    drop: Annotated[bool, typer.Option("--drop", help="Take back what was chosen.")] = False,
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Choose the next step, in place of the run's own choice.

    A card's edit is made at once; with `--change`, or where no edit is left, a model writes it.
    """
    from workbench.engine.wishes import Choose

    where, skill = session_and_word((session, skill), named)
    if skill and not where and (drop or _session_alone(skill, sessions)):
        where, skill = skill, ""
    if bool(skill) == drop:
        raise WorkbenchError(
            "name a skill, or --drop",
            where="workbench choose",
            todo=f"workbench choose {where} online-softmax; `workbench plan {where}` lists those "
            "that are allowed"
            if where
            else "workbench choose online-softmax",
        )
    client = client_of(where, sessions)
    says = asyncio.run(client.choose(Choose(skill=skill, kernel=kernel, change=change)))
    if json:
        emit.json({"granted": True, "says": says})
    else:
        emit.text(says)


def _session_alone(word: str, sessions: Path | None) -> bool:
    """Whether it names a session and no card: the skill was left out then."""
    from workbench.engine.sessions import sessions_folder
    from workbench.session.names import session_names
    from workbench.skills.library import load_library

    return word in session_names(sessions_folder(sessions)) and word not in load_library().skills


def hint(
    session: options.SessionName = "",
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What the next prompts should say.")
    ] = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Tell the model something: every prompt from the next step on includes it."""
    where, text = session_and_word((session, text), named)
    if not text.strip():
        raise WorkbenchError(
            "the hint is empty", where="workbench hint", todo="say what the model should know"
        )
    says = asyncio.run(client_of(where, sessions).hint(text))
    if json:
        emit.json({"granted": True, "says": says})
    else:
        emit.text(says)
