"""Creates sessions under the name a person gave, or under the next free number."""

from pathlib import Path

from msgspec import structs

from workbench.session.creation import NameTaken
from workbench.session.names import check_name, fresh_name
from workbench.session.records import SessionSettings
from workbench.session.store import SessionStore


def create_named(
    sessions: Path,
    name: str,
    stem: str,
    settings: SessionSettings,
    problem: str,
    sidecar: str = "",
) -> SessionStore:
    """A session below `sessions` called `name`, or `STEM-N` where that is empty.

    Raises WorkbenchError when the name is in use or not lawful, or nothing can be created.
    """
    if not name:
        return create_numbered(sessions, stem, settings, problem, sidecar)
    named = structs.replace(settings, name=check_name(name))
    return SessionStore.create(sessions / name, named, problem, sidecar)


def create_numbered(
    sessions: Path, stem: str, settings: SessionSettings, problem: str, sidecar: str = ""
) -> SessionStore:
    """`SessionStore.create` as `STEM-N` below `sessions`; the name in `settings` is replaced.

    Raises WorkbenchError when the session cannot be created.
    """
    while True:
        name = fresh_name(stem, sessions)
        named = structs.replace(settings, name=name)
        try:
            return SessionStore.create(sessions / name, named, problem, sidecar)
        except NameTaken:
            # Another process or thread took this number first.
            continue
