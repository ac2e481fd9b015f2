"""Dialogs that go on drawing the session while they lie over the main screen."""

import asyncio
from typing import Self

from textual.geometry import Region
from textual.screen import ModalScreen

from workbench.tui.scene import Scene


class Following(ModalScreen[None]):
    """Gets every moment that the main screen gets."""

    def show_scene(self, scene: Scene) -> None:
        """Draw another moment."""
        raise NotImplementedError


class Prepared(Following):
    """Opens before all of it is read; `ready` is set when it may be painted, or never will be."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()

    def on_unmount(self) -> None:
        """Nothing waits for a dialog that is gone."""
        self.ready.set()

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """As Textual's, but the layout that the first paint needs anyhow is not painted twice."""
        first = not regions and not self.ready.is_set()
        return super().refresh(
            *regions, repaint=repaint and not first, layout=layout, recompose=recompose
        )
