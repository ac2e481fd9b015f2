"""What our apps have in common: settings, themes, glyphs, key bar, messages."""

import os
from pathlib import Path
from typing import Any

from workbench.tui.leave import Leave
from workbench.tui.look import Look, look_for
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.scene import Scene
from workbench.tui.settings import Settings, load_settings
from workbench.tui.theme import DARK, MONO, Themes, load_themes, variables_for
from workbench.tui.typeahead import TypeAhead


class Skinned(TypeAhead[Leave]):
    """An app with the user's theme, keys and glyphs."""

    folder: Path
    """The folder of sessions."""

    CSS_PATH = "workbench.tcss"
    TITLE = "workbench"

    def __init__(self, settings: Settings | None = None, themes: Themes | None = None) -> None:
        self.settings = settings or load_settings()
        self._themes = themes or load_themes()
        colourless = "NO_COLOR" in os.environ
        # Textual alone would turn colours into truecolor greys; its ANSI mode sends none.
        super().__init__(ansi_color=True if colourless else None)
        self.animation_level = "none"
        for theme in self._themes.themes:
            self.register_theme(theme)
        wanted = MONO if colourless else self.settings.tui.theme
        self._no_theme = wanted not in self.available_themes
        self.theme = DARK if self._no_theme else wanted

    def run(self, **options: Any) -> Leave | None:  # noqa: ANN401 -- Textual's own keyword arguments
        """Show the app until the user leaves."""
        options.setdefault("mouse", self.settings.tui.mouse)
        return super().run(**options)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours for a theme that does not give them."""
        return variables_for(self.current_theme)

    @property
    def scene(self) -> Scene:
        """What is shown now."""
        raise NotImplementedError

    def go_to(self, path: Path) -> None:
        """Show another session instead."""
        raise NotImplementedError

    @property
    def look(self) -> Look:
        """The look of the theme and glyphs in force."""
        colours = self.theme not in self._themes.colourless and not self.no_color
        return look_for(colours=colours, ascii_glyphs=self.settings.tui.glyphs == "ascii")

    def dress(self) -> None:
        """Apply the user's keys and glyphs, and repaint when resumed after ctrl+z."""
        # Textual takes the terminal back after ctrl+z, and leaves it empty.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self.set_keymap(self.settings.keymap.overrides)
        self.set_class(self.settings.tui.glyphs == "ascii", "ascii")

    def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        """Treat a click on a key in the bar as that key."""
        self.simulate_key(event.key)

    def tell_faults(self) -> None:
        """Show which settings and themes could not be used."""
        faults = [*self.settings.faults, *self._themes.faults]
        if self._no_theme:
            faults.append(f"tui.theme: no theme {self.settings.tui.theme!r}; {DARK} is used")
        if faults:
            text = "\n".join(faults)
            self.notify(text, title="Settings", severity="warning", timeout=12, markup=False)

    def report(self, fault: Exception) -> None:
        """Show a fault as a message."""
        self.notify(str(fault), severity="error", timeout=10, markup=False)
