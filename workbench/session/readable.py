"""Objects of a damaged repository: which of them can be read."""

from collections.abc import Sequence

from workbench.session.complaints import DamagedError
from workbench.session.objects import GitObject, ObjectType
from workbench.session.plumbing import Plumbing


def readable(git: Plumbing, kind: ObjectType, ids: Sequence[str]) -> dict[str, bytes]:
    """Contents of those objects that can be read and are what their ids say."""
    if not ids:
        return {}
    try:
        found = git.objects(*ids)
    except DamagedError:
        # Git ends at the first one that breaks off within; halves find which.
        if len(ids) == 1:
            return {}
        middle = len(ids) // 2
        return readable(git, kind, ids[:middle]) | readable(git, kind, ids[middle:])
    asked = zip(ids, found, strict=True)
    return {
        id_: one.data
        for id_, one in asked
        if one is not None and one.id == id_ and GitObject(kind, one.data).id == id_
    }
