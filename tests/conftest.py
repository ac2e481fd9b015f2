"""Keeps a developer's own machine out of the tests, and skips what this machine cannot show."""

import atexit
import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, and nothing of what is tested. The same
# examples come in every run; `pytest --hypothesis-profile=explore` draws others.
LASTING = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("workbench", derandomize=True, **LASTING)
settings.register_profile("explore", derandomize=False, **LASTING)
settings.load_profile("workbench")

# One thread each: the tests run side by side, and the interpreter's numpy calls are small.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for each test: no settings, sessions or git identity leak in or out."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "no-gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_COLOR", "COLORTERM", "WORKBENCH_SESSIONS", "GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Leave a file's tests on one worker of `-n`: each would set up what they share anew."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` visibly where there is no NVIDIA GPU; files with a slow test first.

    A test of a minute that comes last leaves the other workers of `-n` without work.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    if Path("/dev/nvidiactl").exists():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this machine"))


def pytest_collection_finish() -> None:
    """What was imported stays: no collection has to walk through it before the end."""
    gc.freeze()
    atexit.register(gc.unfreeze)


def pytest_make_parametrize_id(val: object) -> str | None:
    """A long text is named by its beginning and its length."""
    if isinstance(val, str) and len(val) > 60:
        return f"{ascii(val[:40])[1:-1]} ... {len(val)}"
    return None
