"""Parts of the main screen, each drawn from one `tui.scene.Scene`."""
