"""A step as git objects: its blobs, tree and commit, computed before anything is written."""

import time
from typing import NamedTuple

from workbench.errors import WorkbenchError
from workbench.session import toml, trailers
from workbench.session.creation import utf8
from workbench.session.layout import STEP_FILES
from workbench.session.objects import GitObject, Person, blob, commit, tree
from workbench.session.plumbing import FILE_CAP
from workbench.session.reader import Record
from workbench.session.records import Transition


class Standing(NamedTuple):
    """What a step is written on top of."""

    files: dict[str, str]
    """The files with which a session starts, by name."""
    heads: dict[str, str]
    """`main` and `best`, where they are."""
    parents: list[str]
    """Commit of the parent; empty for a seed, and where there is no such version."""


def compose(
    record: Record, standing: Standing, person: Person, where: str
) -> tuple[list[GitObject], str]:
    """The objects of a transition's commit, and the commit's id. Writes nothing.

    `where` names the session in an error. Raises WorkbenchError for a file that is too large, and
    for a parent that the session does not hold as a decided version.
    """
    transition = record.transition
    text, profile = toml.encode_transition(transition, record.extra)
    contents = (utf8(record.source), text, profile, toml.encode_exchange(record.exchange))
    blobs = {name: blob(data) for name, data in zip(STEP_FILES, contents, strict=True)}
    _check(transition, blobs, standing, where)
    root = tree({**standing.files, **{name: item.id for name, item in blobs.items()}})
    now = int(time.time())
    node = commit(
        root.id,
        standing.parents,
        person.stamp(trailers.unix_seconds(transition.created, now)),
        person.stamp(now),
        trailers.message(transition),
    )
    return [*blobs.values(), root, node], node.id


def _check(
    transition: Transition, blobs: dict[str, GitObject], standing: Standing, where: str
) -> None:
    for name, item in blobs.items():
        if len(item.data) > FILE_CAP:
            raise WorkbenchError(
                f"{name} of v{transition.number} has {len(item.data) >> 20} MiB, more than a"
                f" session's file may have ({FILE_CAP >> 20} MiB)",
                where=where,
                todo="a shorter candidate, fewer launches or shorter prompts make it smaller",
            )
    parent = transition.parent
    if parent is not None and (not standing.parents or parent >= transition.number):
        raise WorkbenchError(
            f"v{transition.number} names v{parent} as its parent, which the session"
            " does not hold as a decided version",
            where=where,
            todo="`workbench log` lists the versions; decide the parent first",
        )
