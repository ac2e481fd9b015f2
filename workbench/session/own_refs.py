"""Which references of a session's repository are the workbench's."""

from workbench.session.code import coded
from workbench.session.layout import BEST, MAIN, numbered
from workbench.session.moves import move_number
from workbench.session.spends import spend_number


def is_own(name: str) -> bool:
    """Whether a name is that of a version, a move, a spend, generated code, `main` or `best`."""
    numbers = (numbered(name), move_number(name), spend_number(name))
    return any(one is not None for one in numbers) or coded(name) or name in {MAIN, BEST}
