"""Writes sidecars of the workbench's own, and recognises them."""

from collections.abc import Mapping

from workbench.problems.records import Constant

_MARK = "# Made by the workbench:"


def made_sidecar(name: str, values: Mapping[str, Constant]) -> str:
    """A sidecar's TOML with one shape that is smaller than the file's own."""
    pairs = ", ".join(f"{key} = {value}" for key, value in values.items())
    return (
        f"{_MARK} the file's own size is too large for Triton's interpreter.\n"
        "# On a machine with a GPU, leave this file out to run at the file's own size.\n"
        f'[[shape]]\nname = "{name}"\nvalues = {{ {pairs} }}\n'
    )


def size_made(sidecar: str) -> str:
    """The values in a sidecar that the workbench wrote, as text; empty for any other sidecar."""
    if not sidecar.startswith(_MARK):
        return ""
    return sidecar.partition("values = {")[2].partition("}")[0].strip()
