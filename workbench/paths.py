"""Where the workbench keeps and finds its files: shipped data, settings, sessions, sockets."""

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """The shipped folder `skills`, `themes` or `sessions`.

    A wheel carries them inside the package; a checkout keeps them beside it.
    """
    inside = _PACKAGE / "_shipped" / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def _xdg(variable: str, fallback: Path) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification says that a relative path is to be ignored.
    return Path(value) if value.startswith("/") else fallback


def config_home() -> Path:
    """Folder of the user's settings, cards, themes and key overrides."""
    return _xdg("XDG_CONFIG_HOME", Path.home() / ".config") / "workbench"


def data_home() -> Path:
    """Folder that holds `sessions/`, unless `--sessions` names another."""
    return _xdg("XDG_DATA_HOME", Path.home() / ".local" / "share") / "workbench"


def cache_home() -> Path:
    """Folder of files that can be rebuilt: compiled kernels, device ceilings, baselines."""
    return _xdg("XDG_CACHE_HOME", Path.home() / ".cache") / "workbench"


def runtime_home() -> Path:
    """Folder of sockets. Short, because a Unix socket's path may not exceed 107 bytes."""
    return _xdg("XDG_RUNTIME_DIR", Path("/tmp")) / f"workbench-{os.getuid()}"  # noqa: S108
