"""Code that is less than a file: definitions that replace those of the same name in the base."""

import ast

from workbench.agents.reply_code import tree_of
from workbench.agents.reply_records import HandedBack, Repair
from workbench.agents.reply_text import parses
from workbench.kernels.source_flow import is_bare_constant

_Definition = ast.FunctionDef | ast.ClassDef


def merged(base: str, code: str) -> tuple[str, tuple[Repair, ...]] | HandedBack:
    """The base with the definitions of the code in place of its own.

    Certain only when every definition has one of the same name in the base, and nothing else than
    imports stands beside them.
    """
    theirs = _definitions(tree_of(code))
    ours = {node.name: node for node in _definitions(tree_of(base), strict=False) or ()}
    if not theirs:
        return HandedBack(code="partial", reason="send the whole file, or changes to it")
    new = sorted({node.name for node in theirs} - ours.keys())
    if new:
        says = f"{', '.join(new)} is in no place of the file: send the whole file"
        return HandedBack(code="partial", reason=says)
    lines = base.split("\n")
    given = code.split("\n")
    for node in sorted(theirs, key=lambda n: -_first(ours[n.name])):
        old = ours[node.name]
        lines[_first(old) - 1 : old.end_lineno] = given[_first(node) - 1 : node.end_lineno]
    text = "\n".join([*_new_imports(base, code), *lines])
    if parses(text) is None:
        return HandedBack(code="partial", reason="the definitions do not fit into the file")
    names = ", ".join(node.name for node in theirs)
    repair = Repair(code="merged", says=f"{names} replaced the definitions of the same name")
    return text, (repair,)


def joined(parts: list[str]) -> str | None:
    """Several blocks as one file: each defines what no other does, and together they parse."""
    names: set[str] = set()
    for part in parts:
        mine = {node.name for node in _definitions(tree_of(part), strict=False) or ()}
        if mine & names or parses(part) is None:
            return None
        names |= mine
    text = "\n\n".join(part.strip("\n") for part in parts) + "\n"
    return text if parses(text) is not None else None


def _definitions(tree: ast.Module, *, strict: bool = True) -> list[_Definition] | None:
    """Functions and classes at the top; None when there is more than these and imports."""
    found: list[_Definition] = []
    for place, node in enumerate(tree.body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node)
            continue
        beside = isinstance(node, ast.Import | ast.ImportFrom) or (
            not place and is_bare_constant(node)
        )
        if strict and not beside:
            return None
    return found


def _first(node: _Definition) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _new_imports(base: str, code: str) -> list[str]:
    known = {
        ast.unparse(n) for n in tree_of(base).body if isinstance(n, ast.Import | ast.ImportFrom)
    }
    wanted = [
        ast.unparse(n) for n in tree_of(code).body if isinstance(n, ast.Import | ast.ImportFrom)
    ]
    return [line for line in dict.fromkeys(wanted) if line not in known]
