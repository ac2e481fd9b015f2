"""Entry point of an engine process: `python -m workbench.engine.process SESSION_FOLDER`."""

import sys
from pathlib import Path

from workbench.engine.serve import serve_session
from workbench.errors import WorkbenchError
from workbench.session.lock import SessionBusyError


def main() -> int:
    """Run the session named by the only argument; 0 when it ended in order."""
    try:
        ended = serve_session(Path(sys.argv[1]))
    except SessionBusyError:
        # Two screens asked for an engine at once; the other one has it.
        return 0
    except WorkbenchError as fault:
        sys.stderr.write(f"workbench engine: {fault}\n")
        return 2
    return 1 if ended.how == "failed" else 0


if __name__ == "__main__":
    sys.exit(main())
