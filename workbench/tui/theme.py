"""Loads themes from TOML files: the shipped ones and the user's own."""

from pathlib import Path

import msgspec
from msgspec import Struct, structs
from textual.color import Color, ColorParseError
from textual.theme import Theme

from workbench.paths import config_home, shipped

DARK = "workbench-dark"
MONO = "workbench-mono"
SHADES = {"muted": 0.72, "faint": 0.52, "line": 0.24, "cursor": 0.15}
"""Our greys, for themes without them: blends of background and text, by the share of text."""
TINTS = {"added": 0.14, "removed": 0.14, "added-word": 0.3, "removed-word": 0.3}
"""Our diff backgrounds, for themes without them: blends of background and green or red."""


class ThemeFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A theme's TOML file: Textual's theme fields, whether it uses colours, and our variables."""

    name: str
    primary: str
    secondary: str | None = None
    accent: str | None = None
    foreground: str | None = None
    background: str | None = None
    surface: str | None = None
    panel: str | None = None
    boost: str | None = None
    success: str | None = None
    warning: str | None = None
    error: str | None = None
    dark: bool = True
    ansi: bool = False
    colours: bool = True
    """False: roles are told apart by weight, dimness and reversal alone."""
    variables: dict[str, str] = {}


class Themes(Struct, frozen=True, kw_only=True):
    """Every usable theme, the names of those without colours, and a line per file skipped."""

    themes: tuple[Theme, ...]
    colourless: frozenset[str]
    faults: tuple[str, ...]


def load_themes(folders: tuple[Path, ...] | None = None) -> Themes:
    """The shipped themes and the user's, which replace shipped ones of the same name.

    A file that cannot be used is skipped; `faults` has its name and the reason.
    """
    found: dict[str, ThemeFile] = {}
    faults: list[str] = []
    for folder in folders or (shipped("themes"), config_home() / "themes"):
        for path in sorted(folder.glob("*.toml")):
            try:
                theme = _read(path)
            except (OSError, ValueError, msgspec.DecodeError) as fault:
                faults.append(f"{path.name}: {fault}")
            else:
                found[theme.name] = theme
    return Themes(
        themes=tuple(_theme(file) for file in found.values()),
        colourless=frozenset(file.name for file in found.values() if not file.colours),
        faults=tuple(faults),
    )


def _read(path: Path) -> ThemeFile:
    """The checked file. Raises OSError, ValueError or msgspec.DecodeError with the reason."""
    theme = msgspec.toml.decode(path.read_bytes(), type=ThemeFile)
    colours = {name: getattr(theme, name) for name in _COLOUR_FIELDS} | theme.variables
    for key, value in colours.items():
        if value is None or key.endswith("-style"):
            continue
        try:
            Color.parse(value)
        except ColorParseError as fault:
            raise ValueError(f"key {key}: {value!r} is not a colour") from fault
    return theme


_COLOUR_FIELDS = tuple(
    name for name in ThemeFile.__struct_fields__
    if name not in {"name", "dark", "ansi", "colours", "variables"}
)  # fmt: skip


def _theme(file: ThemeFile) -> Theme:
    fields = structs.asdict(file)
    del fields["colours"]
    return Theme(**fields)


def variables_for(theme: Theme) -> dict[str, str]:
    """Our variables for a theme that does not define them: greys, lanes and diff tints."""
    known = theme.to_color_system().generate()
    if theme.ansi:
        names = (*SHADES, *TINTS, "lane-0", "lane-1", "lane-2")
        return dict.fromkeys(names, "ansi_default") | {"faint": "ansi_bright_black"}
    ground, ink = Color.parse(known["background"]), Color.parse(known["foreground"])
    variables = {name: ground.blend(ink, share).hex for name, share in SHADES.items()}
    for name, share in TINTS.items():
        tint = Color.parse(known["success" if name.startswith("added") else "error"])
        variables[name] = ground.blend(tint, share).hex
    lanes = (known["primary"], known["secondary"], known["accent"])
    return variables | {f"lane-{index}": colour for index, colour in enumerate(lanes)}
