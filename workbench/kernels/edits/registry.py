"""Every edit there is, by id."""

from workbench.kernels.edits.base import Applied, Edit, EditRefused, Undo, undo
from workbench.kernels.edits.blocks import BLOCK_SIZE
from workbench.kernels.edits.launch_options import NUM_STAGES, NUM_WARPS

__all__ = ["EDITS", "Applied", "Edit", "EditRefused", "Undo", "undo"]

EDITS: dict[str, Edit] = {
    edit.id: edit
    for edit in (
        BLOCK_SIZE,
        NUM_WARPS,
        NUM_STAGES,
    )
}
