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
    told = _TOLD - _bound(tree)
    for call in found.of(ast.Call):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in told:
            for argument in call.args:
                harmless.add(argument)
                harmless |= _written(argument)
    return frozenset(harmless)


def _bound(tree: ast.Module) -> set[str]:
    """Names that the file gives to something of its own, by whatever spelling."""
    bound: set[str] = set()
    for node in walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
                | ast.alias(asname=str(name))
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.Constant(value=str(name))
                | ast.keyword(arg=str(name))
            ):
                bound.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
    return bound


def _written(argument: ast.expr) -> set[ast.AST]:
    """What is only put into an f-string or joined to a text, within an argument."""
    match argument:
        case ast.JoinedStr(values=parts):
            return {inner for part in parts for inner in walk(part) if isinstance(inner, ast.Name)}
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return {left, right} | _written(left) | _written(right)
    return set()
