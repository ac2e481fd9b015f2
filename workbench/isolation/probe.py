"""What this machine's sandbox is worth, found out by trying to break it from inside a worker."""

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.isolation.context import JobContext
from workbench.isolation.records import Flavor, Layer, Limits
from workbench.isolation.wire import Blob
from workbench.isolation.workshop import Workshop

_JOB = "workbench.isolation.probe:attempts"
_SECONDS = 30.0


def probe() -> list[Layer]:
    """Every layer as a worker on this machine reports it, then whether it holds when tried.

    Takes a fraction of a second; needs no torch. Raises WorkbenchError when no worker starts.
    """
    with (
        Workshop() as workshop,
        tempfile.NamedTemporaryFile(prefix="workbench-probe-") as secret,
        workshop.worker(Flavor.BARE, Limits(wall_seconds=_SECONDS)) as worker,
    ):
        asked = {"secret": secret.name, "judge": os.getpid()}
        reply = worker.call(_JOB, asked)
        held = [
            Layer(
                name=name, ok=not done, detail="tried: it went through" if done else "tried: denied"
            )
            for name, done in reply.body["done"].items()
        ]
        return [
            Layer(name="isolation", ok=worker.isolation != "process only", detail=worker.isolation),
            *worker.layers,
            *held,
        ]


def attempts(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Job: try what a candidate must not be able to do; which of it could be done."""
    del bench, blobs
    secret, judge = Path(request["secret"]), int(request["judge"])
    tries: dict[str, Callable[[], object]] = {
        "reading outside the scratch folder": secret.read_bytes,
        "writing outside the scratch folder": lambda: secret.write_bytes(b"seen"),
        "changing another file's mode": lambda: secret.chmod(0o600),
        "opening a network socket": lambda: socket.socket(socket.AF_INET).close(),
        "opening a local socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "reading the judge's environment": Path(f"/proc/{judge}/environ").read_bytes,
        "signalling the judge": lambda: os.kill(judge, 0),
        "starting a process": _fork,
    }
    return {"done": {name: _goes_through(attempt) for name, attempt in tries.items()}}, []


def _goes_through(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
