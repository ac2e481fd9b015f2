"""What a person decided about cards: which are never chosen, and which go first."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import tomli_w
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.paths import config_home, read_settings


class Preferences(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`skills.toml` in the settings; ids of cards that are gone are kept and do nothing."""

    disabled: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()

    def with_card(
        self, card: str, *, disabled: bool | None = None, pinned: bool | None = None
    ) -> "Preferences":
        """A copy with one card changed; None leaves a flag. A disabled card is never pinned."""
        off = _with(self.disabled, card, present=disabled)
        on = _with(self.pinned, card, present=pinned)
        if disabled:
            on = _with(on, card, present=False)
        if pinned:
            off = _with(off, card, present=False)
        return Preferences(disabled=off, pinned=on)


def _with(ids: Iterable[str], card: str, *, present: bool | None) -> tuple[str, ...]:
    kept = set(ids)
    if present is not None:
        kept.discard(card)
        if present:
            kept.add(card)
    return tuple(sorted(kept))


def preferences_file() -> Path:
    """Path of the file, beside the folder of the user's cards."""
    return config_home() / "skills.toml"


def load_preferences() -> Preferences:
    """A file that does not exist decides nothing. Raises WorkbenchError for one that is wrong."""
    file = preferences_file()
    tables = read_settings(file, "what you decided about cards") or {}
    try:
        return msgspec.convert(tables, Preferences)
    except msgspec.ValidationError as fault:
        raise WorkbenchError(
            f"what you decided about cards cannot be read: {fault}",
            where=str(file),
            todo='it holds `disabled = ["card-id"]` and `pinned = ["card-id"]`',
        ) from fault


def save_preferences(preferences: Preferences) -> Path:
    """Write them, whole or not at all; returns where."""
    file = preferences_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(tomli_w.dumps(msgspec.to_builtins(preferences)), encoding="utf-8")
    draft.replace(file)
    return file
