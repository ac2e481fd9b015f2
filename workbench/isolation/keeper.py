"""The process between zygote and worker: it waits for the worker and takes everything along.

In a PID namespace it is process 1, so its end is the end of all that the worker started. Without
one it adopts the worker's orphans and kills them one by one. It runs nobody's code but this.
"""

import contextlib
import os
import select
import signal
import struct
from typing import NoReturn

from workbench.isolation.processes import kill_below
from workbench.isolation.syscalls import prctl

STATUS = struct.Struct("<ii")
"""What a keeper says when its worker has ended: exit code or -1, signal or 0."""

_PR_SET_CHILD_SUBREAPER = 36
_SWEEP_SECONDS = 20.0
_REAP_MILLISECONDS = 100


def become_keeper() -> None:
    """Before the worker is forked: orphans come to us, and a terminal's signals do not."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def keep(worker: int, leash: int, *, alone: bool) -> NoReturn:
    """Wait until the worker ends or the judge lets go of the leash; leave nothing behind.

    `alone`: this is process 1 of a PID namespace.
    """
    poll = select.poll()
    poll.register(leash, select.POLLIN)
    poll.register(os.pidfd_open(worker), select.POLLIN)
    ended: int | None = None
    held = True
    while held and ended is None:
        held = all(descriptor != leash for descriptor, _ in poll.poll(_REAP_MILLISECONDS))
        ended = _reap(worker)
    if ended is not None:
        exited = os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else -1
        killed = os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else 0
        with contextlib.suppress(OSError):
            os.write(leash, STATUS.pack(exited, killed))
    if not alone:
        kill_below(os.getpid(), _SWEEP_SECONDS)
    os._exit(0)


def _reap(worker: int) -> int | None:
    """Bury whoever has ended; the worker's wait status if it is among them."""
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            if dead[0] == worker:
                return dead[1]
    return None
