"""Reads the screen's settings, `[tui]` and `[keys]` of `config.toml`, and collects their faults."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from workbench.paths import config_home
from workbench.tui.keys import Keymap, keymap, nearest


class TuiSettings(Struct, frozen=True, kw_only=True):
    """`[tui]` in `config.toml`."""

    refresh_hz: Annotated[float, Meta(ge=0.1, le=30)] = 2.0
    """How often the meters of a running session may be painted, times a second."""
    glyphs: Literal["unicode", "ascii"] = "unicode"
    mouse: bool = True
    """False leaves the mouse to the terminal, so that it selects text as usual."""
    theme: str = "workbench-dark"
    """`NO_COLOR` in the environment overrules it."""


class Settings(Struct, frozen=True, kw_only=True):
    """The settings, and a line for each entry that cannot be used."""

    tui: TuiSettings = TuiSettings()
    keymap: Keymap = keymap({})
    faults: tuple[str, ...] = ()


def load_settings(path: Path | None = None) -> Settings:
    """Read `config.toml`; a missing file gives the defaults, and so does each wrong entry.

    Raises WorkbenchError when no folder of settings is known.
    """
    file = path or config_home() / "config.toml"
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        return Settings(faults=(f"{file.name} is not read: {fault}",))
    faults: list[str] = []
    tui = _tui(_table(tables, "tui", faults), faults)
    wanted = _table(tables, "keys", faults)
    strings = {name: keys for name, keys in wanted.items() if isinstance(keys, str)}
    faults += [f'keys.{name}: wants a text such as "r,enter"' for name in wanted.keys() - strings]
    keys = keymap(strings)
    return Settings(tui=tui, keymap=keys, faults=(*faults, *(f"keys: {f}" for f in keys.faults)))


def _table(tables: dict[str, Any], name: str, faults: list[str]) -> dict[str, Any]:
    table = tables.get(name, {})
    if isinstance(table, dict):
        return table
    faults.append(f"{name}: wants a table, [{name}]")
    return {}


def _tui(table: dict[str, Any], faults: list[str]) -> TuiSettings:
    """The valid entries: each is checked alone, so that one wrong value spares the others."""
    good: dict[str, Any] = {}
    for key, value in table.items():
        if key not in TuiSettings.__struct_fields__:
            faults.append(
                f"tui.{key}: no such setting{nearest(key, TuiSettings.__struct_fields__)}"
            )
            continue
        try:
            msgspec.convert({key: value}, TuiSettings)
        except msgspec.ValidationError as fault:
            faults.append(f"tui.{key}: {str(fault).split(' - at')[0]}")
        else:
            good[key] = value
    return msgspec.convert(good, TuiSettings)
