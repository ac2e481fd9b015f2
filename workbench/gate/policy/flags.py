"""Which environment variables host code may ask for: those that no worker has."""

import ast
import re

_OF_WORKERS = re.compile(
    r"CC|CXX|HOME|HOSTNAME|LANG|LOGNAME|OLDPWD|PATH|PWD|SHELL|SHLVL|TERM|USER|_"
    r"|(COMPUTE|CUDA|INJECTION|KMP|LC|LD|MKL|NCU|NSIGHT|NSYS|NV|NVIDIA|OMP|OPENBLAS|PYTHON|PYTORCH"
    r"|SANITIZER|TEMP|TMP|TORCH|TRITON|WORKBENCH|XDG)\w*"
)
"""Names by which the workers of one stage could be told from those of another."""


def asked_flag(node: ast.Call) -> str:
    """The variable that `os.getenv("NAME")` asks for; empty where a worker might have it."""
    match node.args:
        case [ast.Constant(value=str(name)), *_] if not _OF_WORKERS.fullmatch(name):
            return name
    return ""
