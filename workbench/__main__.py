"""`python -m workbench`: the command where its script is not on PATH."""

from workbench.cli.main import main

main()
