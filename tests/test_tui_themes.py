"""Themes: legible, complete, and a bad one is told and skipped."""

from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from workbench.tui.theme import load_themes, variables_for

OURS = {theme.name: theme for theme in load_themes().themes}
TEXT, TINTED = 4.5, 4.0
"""Least contrast of text (WCAG 2 AA), and of any role on any tint, met or not; of those that are
met `test_tui_grids.py` wants 4.5 too."""


def luminance(color: Color) -> float:
    def linear(value: int) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b)


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def palette(name: str) -> dict[str, str]:
    theme = OURS[name]
    return {**theme.to_color_system().generate(), **theme.variables}


@pytest.mark.parametrize("name", ["workbench-dark", "workbench-light"])
@pytest.mark.parametrize("ground", ["background", "surface"])
def test_every_colour_of_text_is_legible(name: str, ground: str) -> None:
    colours = palette(name)
    for role in (
        "foreground", "primary", "secondary", "accent", "success", "warning", "error", "muted",
        "faint", "lane-0", "lane-1", "lane-2",
    ):  # fmt: skip
        assert contrast(colours[role], colours[ground]) >= TEXT, role


@pytest.mark.parametrize("name", ["workbench-dark", "workbench-light"])
@pytest.mark.parametrize("ground", ["added", "removed", "added-word", "removed-word", "cursor"])
def test_code_and_the_selected_row_are_legible_on_their_tints(name: str, ground: str) -> None:
    colours = palette(name)
    assert contrast(colours["foreground"], colours[ground]) >= TEXT
    for role in ("accent", "primary", "success", "error", "muted", "lane-1", "lane-2"):
        assert contrast(colours[role], colours[ground]) >= TINTED, role


@pytest.mark.parametrize("name", ["workbench-dark", "workbench-light"])
def test_greys_stay_grey_in_256_colours(name: str) -> None:
    colours = palette(name)
    for role in ("muted", "faint", "line", "cursor", "foreground", "background"):
        if name == "workbench-light" and role == "cursor":
            continue  # a blue tint on purpose
        assert Color.parse(colours[role]).hsl.s <= 0.5
        spread = Color.parse(colours[role])
        assert max(spread.rgb) - min(spread.rgb) <= 16


def test_the_theme_without_colours_names_none() -> None:
    mono = OURS["workbench-mono"]
    assert "workbench-mono" in load_themes().colourless
    colours = {value for key, value in mono.variables.items() if not key.endswith("-style")}
    assert colours == {"ansi_default"}
    assert {mono.primary, mono.background, mono.error} == {"ansi_default"}


@pytest.mark.parametrize("name", sorted(BUILTIN_THEMES))
def test_a_foreign_theme_gets_the_variables_it_lacks(name: str) -> None:
    variables = variables_for(BUILTIN_THEMES[name])
    assert set(OURS["workbench-dark"].variables) <= set(variables)
    for value in variables.values():
        Color.parse(value)


def test_a_persons_theme_is_taken_and_bad_ones_are_told_and_skipped(tmp_path: Path) -> None:
    shipped = Path(__file__).parent.parent / "themes"
    (tmp_path / "good.toml").write_text('name = "mine"\nprimary = "#336699"\n')
    (tmp_path / "colour.toml").write_text('name = "x"\nprimary = "#336699"\naccent = "blurple"\n')
    (tmp_path / "field.toml").write_text('name = "y"\nprimary = "#336699"\nacccent = "#000000"\n')
    (tmp_path / "toml.toml").write_text("name = \n")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"\n')
    found = load_themes((shipped, tmp_path))
    assert "mine" in {theme.name for theme in found.themes}
    assert len(found.faults) == 4
    text = "\n".join(found.faults)
    assert "colour.toml: key accent: 'blurple' is not a colour" in text
    assert "acccent" in text
    assert {"workbench-dark", "workbench-light", "workbench-mono"} <= {
        theme.name for theme in found.themes
    }
