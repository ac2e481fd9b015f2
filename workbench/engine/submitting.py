"""A candidate or a hint for a session that no engine runs: done here, under the session's lock."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from msgspec import structs

from workbench.agents.ledger import Ledger
from workbench.agents.prices import Prices
from workbench.agents.reply import read_reply
from workbench.agents.reply_records import HandedBack
from workbench.agents.situation import signature_of
from workbench.engine import events as ev
from workbench.engine.choosing import check_skill
from workbench.engine.opening import lock_path
from workbench.engine.serve import Listen, serve_session
from workbench.engine.wishes import Submit
from workbench.errors import WorkbenchError
from workbench.gate.candidate import read_candidate
from workbench.session.lock import EngineLock
from workbench.session.reader import SessionReader
from workbench.session.store import SessionStore


def submission(file: Path, skill: str, hint: str) -> Submit:
    """The wish to gate a file. Raises WorkbenchError for a file or skill that does not exist."""
    if skill:
        check_skill(skill)
    source = read_candidate(file).source
    return Submit(source=source, origin=f"submitted {file.name}", skill=skill, hint=hint.strip())


def reply_submission(path: Path, file: Path, skill: str, hint: str) -> Submit:
    """The wish to gate the candidate in a model's reply, read as the workbench reads its own.

    Changes are applied to the session's incumbent. Raises WorkbenchError where the reply holds no
    candidate for certain, with what to tell the model.
    """
    wish = submission(file, skill, hint)
    reader = SessionReader(path)
    main = reader.overview().main
    base = "" if main is None else reader.source(main)
    found = read_reply(wish.source, base=base, signature=signature_of(reader.problem().source))
    if isinstance(found, HandedBack):
        raise WorkbenchError(
            f"the reply has no unambiguous candidate: {found.reason}",
            where=str(file),
            todo="return this message to the author of the reply",
        )
    repairs = ", ".join(dict.fromkeys(repair.code for repair in found.repairs))
    origin = f"{wish.origin} (repaired: {repairs})" if repairs else wish.origin
    return structs.replace(wish, source=found.source, origin=origin)


def submit_alone(path: Path, wish: Submit, listen: Listen) -> ev.RunEnded:
    """Gate one candidate as the next transition, with no engine around it."""
    return serve_session(path, listen=listen, only=wish)


def hint_alone(path: Path, text: str) -> int:
    """Keep a hint for the next prompts; returns the transition it holds from.

    Where the cards alone propose, `plan --prompt` still makes prompts, for an outside agent. Raises
    WorkbenchError when an engine that asks a model holds the session, and for a walk.
    """
    store = SessionStore.open(path)
    settings = store.settings()
    if settings.kind != "run":
        raise WorkbenchError(
            f"session {path.name} is a {settings.kind}, which reads no hints",
            where=str(path),
            todo="a run does: workbench hint SESSION TEXT",
        )
    # Only an engine that asks a model writes to the journal of its talks.
    lock: AbstractContextManager[object] = nullcontext()
    if settings.proposer != "skills":
        lock = EngineLock(lock_path(store), session=path.name)
    with lock, Ledger(store.state, Prices()) as ledger:
        number = store.next_number()
        ledger.hint(number, text)
    return number
