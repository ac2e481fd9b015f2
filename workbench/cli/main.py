"""The `workbench` command: what there is to call, and how faults become exit codes."""

import sys
from typing import Annotated

import typer

from workbench.cli import (
    bench,
    code,
    decide,
    doctor,
    gate,
    knowledge,
    learn,
    look,
    plan,
    run,
    transfer,
    verify,
)
from workbench.cli.emit import ReaderLeft
from workbench.cli.say import Exit, explain

app = typer.Typer(
    name="workbench",
    help="Make GPU kernels faster one gated step at a time; every step is a git commit.",
    epilog="Example: workbench run softmax --headless --steps 6",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        print(f"workbench {metadata.version('kernel-workbench')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Options of every command."""
    del version, debug


for _module in (
    run,
    learn,
    gate,
    look,
    code,
    decide,
    plan,
    knowledge,
    transfer,
    verify,
    doctor,
    bench,
):
    _module.register(app)


def main() -> None:
    """Entry point: run a command and leave with its exit code."""
    debug = "--debug" in sys.argv
    # `--debug` may stand anywhere on the line, also behind the command.
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if not arguments and sys.stdin.isatty() and sys.stdout.isatty():
        arguments = ["home"]
    try:
        code = app(args=arguments, prog_name="workbench", standalone_mode=False)
    except typer.Exit as leave:
        code = leave.exit_code
    except typer.Abort:
        code = Exit.INTERRUPTED
    except ReaderLeft:
        # Not an error of ours.
        code = Exit.YES
    except (Exception, KeyboardInterrupt) as fault:  # noqa: BLE001 -- the last line of defence
        code = explain(fault, debug=debug, json="--json" in arguments)
    sys.exit(int(code or 0))


if __name__ == "__main__":
    main()
