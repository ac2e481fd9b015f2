"""Whether a walk has judged removals that git does not show yet, read cheaply from its journal."""

from pathlib import Path
from typing import cast

from msgspec import Struct

from workbench.session.journal import read_records
from workbench.session.reader import SessionReader


def walk_path(store: SessionReader) -> Path:
    """The journal of a walk: what is not in git yet."""
    return store.state / "walk.jsonl"


class _Expert(Struct, frozen=True, tag="expert"):
    pass


class _Attempt(Struct, frozen=True, tag="attempt"):
    pass


class _Ended(Struct, frozen=True, tag="ended"):
    pass


_Lightly = _Expert | _Attempt | _Ended


def unwritten(store: SessionReader) -> int:
    """How many removals a walk has judged, where their chain is not whole in git; else 0.

    Reads the journal's lines by their kind alone; 0 for a run and for an imported lineage.
    """
    # mypy takes a union for no type; msgspec decodes one by its tags.
    found = read_records(walk_path(store), cast("type[_Lightly]", _Lightly))
    judged = sum(isinstance(line, _Attempt) for line in found.records)
    # The chain's versions are the expert and one for every attempt.
    whole = not judged or len(store.overview().versions) > judged
    return 0 if whole else judged
