"""Where host code may use the name of its own module, which tells who has imported it."""

import ast

from workbench.gate.policy.tree import survey, walk

_MAIN = "__main__"
_TOLD = frozenset(
    {"critical", "custom_op", "debug", "error", "getChild", "getLogger", "info", "print"}
    | {"triton_op", "warn", "warning"}
)
"""Functions that write the name down, or name something by it."""


def harmless_names(tree: ast.Module) -> frozenset[ast.AST]:
    """Uses of `__name__` that decide nothing: compared with `"__main__"`, written, or a name."""
    found = survey(tree)
    harmless: set[ast.AST] = set()
    for node in found.of(ast.Compare):
        match node:
            case ast.Compare(
                left=one, ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=text)]
            ) if text == _MAIN:
                harmless.add(one)
    for call in found.of(ast.Call):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in _TOLD:
            for argument in call.args:
                harmless.add(argument)
                harmless |= _written(argument)
    return frozenset(harmless)


def _written(argument: ast.expr) -> set[ast.AST]:
    """What is only put into an f-string or joined to a text, within an argument."""
    match argument:
        case ast.JoinedStr(values=parts):
            return {inner for part in parts for inner in walk(part) if isinstance(inner, ast.Name)}
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return {left, right} | _written(left) | _written(right)
    return set()
