"""Options and arguments that several commands share, so that they mean the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Sessions = Annotated[
    Path | None,
    typer.Option(
        "--sessions",
        metavar="DIR",
        envvar="WORKBENCH_SESSIONS",
        help="Folder of the sessions [default: $XDG_DATA_HOME/workbench/sessions].",
    ),
]
SessionName = Annotated[
    str,
    typer.Argument(metavar="SESSION", help="Name or folder of a session [default: the newest]."),
]
In = Annotated[
    str,
    typer.Option(
        "--session",
        metavar="SESSION",
        help="Name or folder of the session, in place of the argument.",
    ),
]
Version = Annotated[
    str,
    typer.Argument(metavar="VERSION", help="v3 or 3, `best`, `main` or `pending` [default: best]."),
]
Waiting = Annotated[
    str, typer.Argument(metavar="VERSION", help="The version that waits, like v3 or 3.")
]

Shipped = Annotated[
    bool,
    typer.Option("--shipped", help="With --write: into shipped cards themselves, not your copies."),
]

Mode = Annotated[
    str, typer.Option(help="manual, review or auto [default: review on a screen, else auto].")
]
Device = Annotated[str, typer.Option(help="auto, cuda:N, a GPU's UUID, or cpu.")]
Devices = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="auto, cuda:N, a GPU's UUID, or cpu; several GPUs: cuda:0,cuda:1 or cuda:all.",
    ),
]
Target = Annotated[
    str, typer.Option(help="Without a GPU: the one to compile and model for, like sm90.")
]
Steps = Annotated[int | None, typer.Option(min=0, help="Stop after this many gated candidates.")]
Usd = Annotated[float | None, typer.Option(min=0, max=1e9, help="Stop after this many dollars.")]
GpuSeconds = Annotated[
    float | None,
    typer.Option(min=0, max=1e9, help="Stop after a GPU was held for so many seconds."),
]
WallSeconds = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1e9,
        help="Stop after this many seconds of work, not counting waits for you; no step starts "
        "that would not fit.",
    ),
]
Goal = Annotated[
    str | None,
    typer.Option(
        metavar="GOAL",
        help="Stop when the best reaches it: 1.5x against the seed, a time like 900us, or none.",
    ),
]
Ascii = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII characters only.")]
