"""Finds a problem file's module-level constants, and replaces them by a shape's values."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from workbench.errors import WorkbenchError
from workbench.problems.arithmetic import ArithmeticFault, evaluate_node, is_number
from workbench.problems.foreign import shown
from workbench.problems.records import Constant


def constants(
    tree: ast.Module, values: Mapping[str, Constant] | None = None
) -> dict[str, Constant]:
    """The module-level constants by name, in file order, with `values` replacing theirs.

    A constant is a name that the module's top level assigns once, from a literal (number, text,
    truth value) or from arithmetic over earlier constants. Nothing of the file runs. `values` must
    name constants; `check_values` checks that.
    """
    given = values or {}
    found: dict[str, Constant] = {}
    for name, node in _assignments(tree):
        value = given[name] if name in given else _constant(node, found)
        if value is not None:
            found[name] = value
    return found


def check_values(known: Mapping[str, Constant], values: Mapping[str, Constant], where: str) -> None:
    """Raise WorkbenchError for a value whose constant does not exist or has another type."""
    for name, value in values.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise WorkbenchError(
                f"there is no module-level constant `{name}` to give {shown(value)} to",
                where=where,
                todo=(f"did you mean `{near[0]}`? " if near else "")
                + f"constants of the file: {', '.join(known) or 'none'}",
            )
        if not _fits(value, known[name]):
            raise WorkbenchError(
                f"`{name}` is {shown(value)}, but the file gives it {known[name]!r}",
                where=where,
                todo=f"write a value of type {type(known[name]).__name__}",
            )


def substitute(tree: ast.Module, values: Mapping[str, Constant]) -> None:
    """Replace, in the tree itself, the expressions that the constants in `values` are assigned.

    Constants derived from them change when the module runs.
    """
    tree.body = [single for statement in tree.body for single in _singly(statement)]
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if name in values:
                statement.value = ast.copy_location(ast.Constant(values[name]), statement.value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=parts)):
                for i, target in enumerate(names):
                    if isinstance(target, ast.Name) and target.id in values:
                        parts[i] = ast.copy_location(ast.Constant(values[target.id]), parts[i])
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()) if name in values:
                new = ast.copy_location(ast.Constant(values[name]), statement)
                statement.value = new
            case _:
                pass


def whole_numbers(tree: ast.Module) -> dict[str, int]:
    """The constants that are an integer, or arithmetic over integers, and rest on no other name."""
    alone = {
        name: _constant(node, {})
        for name, node in _assignments(tree)
        if not isinstance(node, ast.Constant) or not isinstance(node.value, bool)
    }
    return {name: value for name, value in alone.items() if type(value) is int}


def _singly(statement: ast.stmt) -> list[ast.stmt]:
    """`height = width = 64` as an assignment for each name; any other statement as it is."""
    match statement:
        case ast.Assign(targets=[_, _, *_] as targets, value=value) if all(
            isinstance(target, ast.Name) for target in targets
        ):
            return [
                ast.copy_location(ast.Assign(targets=[target], value=value), statement)
                for target in targets
            ]
        case _:
            return [statement]


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names that the top level assigns exactly once, with their expressions, in file order."""
    single = [part for statement in tree.body for part in _singly(statement)]
    pairs = [pair for statement in single for pair in _targets(statement)]
    times = Counter(name for name, _ in pairs)
    return ((name, node) for name, node in pairs if times[name] == 1)


def _targets(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=parts)) if len(
            names
        ) == len(parts):
            for target, part in zip(names, parts, strict=True):
                if isinstance(target, ast.Name):
                    yield target.id, part
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            yield name, value  # counts as a second assignment, so that the name is not a constant
        case _:
            pass


def _constant(node: ast.expr, found: Mapping[str, Constant]) -> Constant | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | str):
        return node.value
    try:
        return evaluate_node(node, found)
    except (ArithmeticFault, RecursionError):
        return None


def _fits(value: Constant, old: Constant) -> bool:
    return is_number(value) if isinstance(old, float) else type(value) is type(old)
