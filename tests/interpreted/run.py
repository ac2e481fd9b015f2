"""Run in its own process by test_interpret: every case of `cases_*.py`, results as JSON."""

import importlib
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))


def cases() -> Iterator[tuple[str, Callable[[], None]]]:
    """Each public function that a file of cases defines, as `file:function`."""
    for path in sorted(FOLDER.glob("cases_*.py")):
        module = importlib.import_module(path.stem)
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == path.stem and not name.startswith("_"):
                yield f"{path.stem}:{name}", value


def main() -> None:
    """Print, for each case, nothing where it holds and its traceback where it does not."""
    results = {}
    for name, holds in cases():
        try:
            holds()
            results[name] = ""
        except Exception:  # noqa: BLE001 - the result is what went wrong
            results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
