"""Where the workbench keeps and finds its files: shipped data, settings, sessions, sockets."""

import os
import tomllib
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError, reason

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """The shipped folder `skills`, `themes` or `sessions`.

    A wheel carries them inside the package; a checkout keeps them beside it.
    """
    inside = _PACKAGE / "_shipped" / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def _named(variable: str) -> Path | None:
    """The folder that a variable names; a relative one is ignored, as XDG's specification says."""
    value = os.environ.get(variable, "")
    return Path(value) if value.startswith("/") else None


def home_folder() -> Path | None:
    """The person's home folder; None where neither HOME nor the list of users names one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def _xdg(variable: str, fallback: str) -> Path:
    """The folder that a variable names, else one in the person's home.

    Raises WorkbenchError where neither is known, as for a user id without an entry in a container.
    """
    named = _named(variable)
    if named is not None:
        return named
    home = home_folder()
    if home is None:
        raise WorkbenchError(
            "it is not known where your home folder is",
            where="environment variable HOME",
            todo=f"set HOME, or {variable} to a folder of yours",
        )
    return home / fallback


def config_home() -> Path:
    """Folder of the user's settings, cards, themes and key overrides."""
    return _xdg("XDG_CONFIG_HOME", ".config") / "workbench"


def read_settings(file: Path, what: str) -> dict[str, Any] | None:
    """The tables of a TOML file that a person writes; None where there is no such file.

    Raises WorkbenchError, which calls the contents `what`, for a file that is not readable TOML.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise WorkbenchError(
            f"{what} cannot be read: {reason(fault)}",
            where=str(file),
            todo="mend that line (the file is TOML), or move the file away",
        ) from fault


def data_home() -> Path:
    """Folder that holds `sessions/`, unless `--sessions` names another."""
    return _xdg("XDG_DATA_HOME", ".local/share") / "workbench"


def cache_home() -> Path:
    """Folder of files that can be rebuilt: compiled kernels, device ceilings, baselines."""
    return _xdg("XDG_CACHE_HOME", ".cache") / "workbench"


def runtime_home() -> Path:
    """Folder of sockets. Short, because a Unix socket's path may not exceed 107 bytes."""
    return (_named("XDG_RUNTIME_DIR") or Path("/tmp")) / f"workbench-{os.getuid()}"  # noqa: S108 -- a socket needs a short path
