"""Base classes of dialogs that keep following the session while they cover the main screen."""

import asyncio
from typing import Self

from textual.geometry import Region
from textual.screen import ModalScreen

from workbench.tui.scene import Scene


class Following(ModalScreen[None]):
    """A dialog that gets every new scene."""

    def show_scene(self, scene: Scene) -> None:
        """Draw a new scene."""
        raise NotImplementedError


class Prepared(Following):
    """A dialog that opens before its contents are read.

    `ready` is set when it can be painted, or when it is gone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()

    def on_unmount(self) -> None:
        """Let nobody wait for a dialog that is gone."""
        self.ready.set()

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """As Textual's, but do not paint before `ready`: the first paint would be painted twice."""
        first = not regions and not self.ready.is_set()
        return super().refresh(
            *regions, repaint=repaint and not first, layout=layout, recompose=recompose
        )
