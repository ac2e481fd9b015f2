"""Creates sessions under the next free number, also while others take numbers."""

from pathlib import Path

from msgspec import structs

from workbench.session.creation import NameTaken
from workbench.session.names import fresh_name
from workbench.session.records import SessionSettings
from workbench.session.store import SessionStore


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
