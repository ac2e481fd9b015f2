"""Shipped cards that stay as they are for tests of the choice, however the library grows."""

from pathlib import Path

from msgspec import structs

from workbench.skills.library import Library, load_library

IDS = frozenset(
    {
        "row-on-chip",
        "loop-to-tile",
        "online-softmax",
        "split-reduction",
        "hoist-loads",
        "dot-tf32",
        "dot-tf32x3",
        "tile-attention",
        "tile-float",
        "tile-half",
        "grow-block",
        "shrink-block",
        "group-order",
        "persistent",
        "rows-per-program",
        "more-warps",
        "fewer-warps",
        "num-stages",
        "loop-stages",
        "loop-unroll",
        "constant-dimensions",
        "static-loops",
        "divide-once",
        "drop-masks",
        "contiguous-offsets",
        "keep-rereads",
        "evict-streamed",
        "keep-shared",
        "bypass-l1",
    }
)


def twenty_nine_cards() -> Library:
    """These, without the evidence that sessions have added to them."""
    skills = load_library(Path("/nonexistent")).skills
    return Library(
        {
            name: structs.replace(
                skills[name], card=structs.replace(skills[name].card, evidence=(), admission=())
            )
            for name in skills
            if name in IDS
        }
    )
