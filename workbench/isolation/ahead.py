"""What our own code compiled once, laid into the caches of every later worker.

A worker's caches are its own and begin empty, so each would compile the driver's helper and our
own kernels again: 0.75 s of the 1.5 s that a first launch takes on an H200. What is laid in was
made in a worker in which no candidate ever ran, and each worker gets a copy: what it does to that
reaches nobody else.
"""

import shutil
from pathlib import Path

from workbench.isolation.scratch import PLACES

_CACHE = PLACES["TRITON_CACHE_DIR"]
_GROUP = "__grp__*"
"""Triton's lists of the files that belong together, by their full paths (runtime/cache.py)."""


class MadeAhead:
    """Cached files below `folder`, which is the judge's own."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder / _CACHE
        self._came_from = ""

    def take(self, scratch: Path) -> None:
        """Keep what a worker made. It must have run our own code alone, and be at rest."""
        shutil.copytree(scratch / _CACHE, self._kept, symlinks=True)
        self._came_from = str(scratch)

    def give(self, scratch: Path) -> None:
        """Lay a copy into the caches of a worker that is still to be started."""
        if not self._came_from:
            return
        theirs = scratch / _CACHE
        shutil.copytree(self._kept, theirs, symlinks=True)
        for group in theirs.rglob(_GROUP):
            group.write_text(group.read_text().replace(self._came_from, str(scratch)))
