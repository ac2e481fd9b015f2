"""Run in its own process by test_interpret: every case of `cases.py`, results as JSON."""

import json
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import cases


def main() -> None:
    """Print, for each case, nothing where it holds and its traceback where it does not."""
    results = {}
    for name in cases.NAMES:
        try:
            getattr(cases, name)()
            results[name] = ""
        except Exception:  # noqa: BLE001 - the result is what went wrong
            results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
