"""Which environment variables host code may ask for: those that no worker has."""

import ast
import re

from workbench.gate.policy.tree import survey

_OF_WORKERS = re.compile(
    r"CC|CXX|HOME|HOSTNAME|LANG|LOGNAME|OLDPWD|PATH|PWD|SHELL|SHLVL|TERM|USER|_"
    r"|(COMPUTE|CUDA|INJECTION|KMP|LC|LD|MKL|NCU|NSIGHT|NSYS|NV|NVIDIA|OMP|OPENBLAS|PYTHON|PYTORCH"
    r"|SANITIZER|TEMP|TMP|TORCH|TRITON|WORKBENCH|XDG)\w*"
)
"""Names by which the workers of one stage could be told from those of another."""


def is_flag(node: ast.expr) -> bool:
    """Whether an expression is the literal name of a variable that no worker has."""
    match node:
        case ast.Constant(value=str(name)):
            return not _OF_WORKERS.fullmatch(name)
    return False


def flags_asked(tree: ast.Module) -> frozenset[ast.AST]:
    """Expressions of which nothing is read but flags, by `in` or a literal subscript."""
    found = survey(tree)
    asked: set[ast.AST] = set()
    for node in found.of(ast.Compare):
        match node:
            case ast.Compare(left=name, ops=[ast.In() | ast.NotIn()], comparators=[place]):
                asked |= {place} if is_flag(name) else set()
    for part in found.of(ast.Subscript):
        if isinstance(part.ctx, ast.Load) and is_flag(part.slice):
            asked.add(part.value)
    return frozenset(asked)
