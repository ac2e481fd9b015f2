"""Loads a problem from disk into a record, reading and checking it as text: nothing of it runs."""

import ast
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from workbench.errors import WorkbenchError, reason
from workbench.problems.constants import constants
from workbench.problems.foreign import NotRegular, parse_python, read_regular
from workbench.problems.records import Precision, Problem, Shape
from workbench.problems.sidecar import Sidecar, read_sidecar

SUITE = Path(__file__).resolve().parent / "suite"
"""The shipped problems: `NAME/problem.py` with `problem.toml`, `seed.py`, sometimes `expert.py`."""

LARGEST_FILE = 1 << 20
"""Largest file in bytes (ours); the largest public KernelBench file has less than 20 kB."""

_NEEDED = {
    "Model": "class Model(nn.Module)",
    "get_inputs": "def get_inputs()",
    "get_init_inputs": "def get_init_inputs()",
}


def load_problem(ref: str | Path) -> Problem:
    """The problem that `ref` names: a KernelBench-form file, or the name of a shipped problem.

    A `Path`, or text with a slash or ending in `.py`, is a file. Nothing of the file runs. Raises
    WorkbenchError for anything wrong with the file or its sidecar.
    """
    if isinstance(ref, Path) or "/" in ref or ref.endswith(".py"):
        path = Path(ref).expanduser()
        return _load(path, name=path.stem)
    if ref in shipped_problems():
        return _load(SUITE / ref / "problem.py", name=ref, beside=SUITE / ref)
    raise _unknown(ref, shipped_problems())


def shipped_problems() -> tuple[str, ...]:
    """Names that `load_problem` knows, sorted."""
    return tuple(sorted(path.parent.name for path in SUITE.glob("*/problem.py")))


def parse_problem(source: str, where: str) -> ast.Module:
    """The syntax tree of a problem file's text.

    Raises WorkbenchError if it is not Python, or lacks one of KernelBench's three names.
    """
    if not source.strip():
        raise WorkbenchError("the problem file is empty", where=where, todo=_form())
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        line = getattr(fault, "lineno", None)
        raise WorkbenchError(
            f"the problem file is not Python: {getattr(fault, 'msg', None) or fault}",
            where=f"{where}, line {line}" if line else where,
            todo=_form(),
        ) from fault
    defined = _bound(tree.body)
    missing = [name for name in _NEEDED if name not in defined]
    if missing:
        raise WorkbenchError(
            f"the problem file lacks {' and '.join(f'`{_NEEDED[name]}`' for name in missing)}",
            where=where,
            todo=_why_missing(missing, defined),
        )
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name.startswith("get_"):
            _check_no_arguments(function, where)
    return tree


def _load(path: Path, *, name: str, beside: Path | None = None) -> Problem:
    """Load a file; `beside` is the folder of a shipped problem, which has its kernels."""
    source = _read(path, "problem file")
    tree = parse_problem(source, str(path))
    told = path.with_suffix(".toml")
    text = _read(told, "sidecar") if told.exists() else ""
    sidecar = read_sidecar(text, told, tree) if text else Sidecar()
    return Problem(
        name=name,
        path=path.resolve(),
        source=source,
        sidecar=text,
        shapes=sidecar.shapes() or (Shape(name="file"),),
        tolerance=sidecar.tolerances(),
        precision=sidecar.precision or _usual_precision(tree),
        roofline=sidecar.work(),
        family=sidecar.family,
        selections=tuple(sidecar.selection),
        layouts=tuple(dict.fromkeys(sidecar.layouts)),
        seed=_shipped(beside, "seed.py"),
        expert=_shipped(beside, "expert.py"),
    )


def _shipped(folder: Path | None, name: str) -> Path | None:
    """The path of a kernel that is shipped with a problem; None where there is none."""
    return folder / name if folder is not None and (folder / name).is_file() else None


def _read(path: Path, kind: str) -> str:
    """Text of a regular UTF-8 file of at most LARGEST_FILE bytes."""
    where = str(path)
    try:
        data = read_regular(path, LARGEST_FILE)
    except NotRegular as fault:
        raise WorkbenchError(
            f"the {kind} is {fault}", where=where, todo="name a text file on disk"
        ) from fault
    except FileNotFoundError as fault:
        raise WorkbenchError(
            f"there is no such {kind}", where=where, todo="check the path"
        ) from fault
    except (OSError, ValueError) as fault:
        raise WorkbenchError(
            f"the {kind} cannot be read: {reason(fault)}",
            where=where,
            todo="check its permissions",
        ) from fault
    if len(data) > LARGEST_FILE:
        raise WorkbenchError(
            f"the {kind} is larger than the limit of {LARGEST_FILE:,} bytes",
            where=where,
            todo="make tensors in get_inputs() instead of writing them out",
        )
    return _decode(data, kind, where)


def _decode(data: bytes, kind: str, where: str) -> str:
    if b"\0" in data:
        raise WorkbenchError(
            f"the {kind} is a binary file", where=where, todo="name a text file in UTF-8"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = data[: fault.start].count(b"\n") + 1
        raise WorkbenchError(
            f"the {kind} is not UTF-8: byte 0x{data[fault.start]:02x}",
            where=f"{where}, line {line}",
            todo="save it as UTF-8",
        ) from fault


def _unknown(ref: str, names: Sequence[str]) -> WorkbenchError:
    near = get_close_matches(ref, names, n=1)
    return WorkbenchError(
        f"there is no shipped problem {ref!r}" if ref else "no problem is named",
        todo=(f"did you mean {near[0]}? " if near else "")
        + f"shipped: {', '.join(names)}; or give the path of a file, as in ./my_problem.py",
    )


def _bound(body: Sequence[ast.stmt]) -> set[str]:
    """Names that the module level binds, looking into `if`, `try` and `with`."""
    names: set[str] = set()
    waiting = list(body)
    while waiting:
        statement = waiting.pop()
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name for alias in aliases)
            case ast.If() | ast.Try() | ast.With():
                for field in ("body", "orelse", "finalbody"):
                    waiting += getattr(statement, field, [])
                for handler in getattr(statement, "handlers", []):
                    waiting += handler.body
            case _:
                pass
    return names


def _check_no_arguments(function: ast.FunctionDef, where: str) -> None:
    arguments = function.args
    needed = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    needed += arguments.kw_defaults.count(None)
    if function.name in _NEEDED and needed > 0:
        raise WorkbenchError(
            f"`{function.name}` needs {needed} argument{'s' if needed > 1 else ''}",
            where=f"{where}, line {function.lineno}",
            todo="it is called with none: read sizes from module-level constants",
        )


def _why_missing(missing: Sequence[str], defined: set[str]) -> str:
    if "ModelNew" in defined and "Model" in missing:
        return "this is a candidate: name the reference here and the candidate as the kernel"
    return _form()


def _form() -> str:
    return f"a problem file has {', '.join(_NEEDED.values())}, as in KernelBench"


def _usual_precision(tree: ast.Module) -> Precision:
    """The precision that the file itself promises, if no sidecar does.

    A module-level `ALLOW_TF32` states it; otherwise PyTorch's default holds, which is TF32 for
    convolutions and IEEE for everything else.
    """
    said = constants(tree).get("ALLOW_TF32")
    if isinstance(said, bool):
        return Precision.TF32 if said else Precision.IEEE
    names = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    names |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    convolves = any(name.lower().startswith("conv") for name in names)
    return Precision.TF32 if convolves else Precision.IEEE
