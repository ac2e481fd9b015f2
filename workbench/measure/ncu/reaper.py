"""Runs a program and leaves no process behind, however the program, its children or we end.

`python -m workbench.measure.ncu.reaper SECONDS PROGRAM ...` becomes a subreaper, so that it
inherits whatever the program starts and abandons. It ends them all when the program ends, when the
time is over, or when its stdin closes, which happens when the judge dies. Exit code: the
program's, 124 for a timeout, 137 when a signal killed it or stdin closed.
"""

import os
import select
import subprocess
import sys

from workbench.isolation.keeper import become_keeper
from workbench.isolation.processes import kill_below

TIMED_OUT = 124
KILLED = 137
_SWEEP_SECONDS = 20.0


def main() -> int:
    """Run the program that the arguments name."""
    seconds, command = float(sys.argv[1]), sys.argv[2:]
    become_keeper()
    ran = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(os.pidfd_open(ran.pid), select.POLLIN)
    happened = [descriptor for descriptor, _ in poll.poll(seconds * 1000)]
    code = ran.poll() if 0 not in happened else KILLED
    kill_below(os.getpid(), _SWEEP_SECONDS)
    if code is None:
        return TIMED_OUT
    return code if code >= 0 else KILLED


if __name__ == "__main__":
    sys.exit(main())
