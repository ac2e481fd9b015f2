"""Repairs of structure: class name, imports, the order of arguments, a test at the end."""

import ast
import builtins
from collections.abc import Iterable

from workbench.agents.reply_records import HandedBack, Repair, Signature
from workbench.agents.reply_text import parses
from workbench.kernels.source_flow import is_bare_constant

NAME = "ModelNew"

IMPORTS = {
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "triton": "import triton",
    "tl": "import triton.language as tl",
    "math": "import math",
    "libdevice": "from triton.language.extra import libdevice",
}
"""What a name that is used and never bound can only mean in a candidate."""

Fixed = tuple[str, tuple[Repair, ...]] | HandedBack


def completed(code: str, signature: Signature | None) -> Fixed:
    """A candidate from code that parses, or why it cannot be one."""
    text, repairs = _without_main(code)
    named = _named(text)
    if isinstance(named, HandedBack):
        return named
    text, more = named
    repairs += more
    if signature is not None:
        ordered = _ordered(text, signature)
        if isinstance(ordered, HandedBack):
            return ordered
        text, more = ordered
        repairs += more
    text, more = _imported(text)
    return text, repairs + more


def tree_of(code: str) -> ast.Module:
    """The tree of code that is known to parse."""
    return parses(code) or ast.Module(body=[], type_ignores=[])


def classes(tree: ast.Module) -> list[ast.ClassDef]:
    """Classes at the top of the file, also under a guard."""
    return [node for node in _top(tree.body) if isinstance(node, ast.ClassDef)]


def _top(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _top(node.body)


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == name), None)


def _found(node: ast.ClassDef, name: str, among: list[ast.ClassDef]) -> ast.FunctionDef | None:
    """A class's own method, or the one that it has from a class of the same file."""
    by_name = {known.name: known for known in among}
    seen: set[str] = set()
    queue = [node]
    while queue:
        at = queue.pop(0)
        own = _method(at, name)
        if own is not None:
            return own
        seen.add(at.name)
        bases = [base.id for base in at.bases if isinstance(base, ast.Name)]
        queue += [by_name[base] for base in bases if base in by_name and base not in seen]
    return None


def left_out(code: str) -> bool:
    """Whether a statement is `...` among others: there the writer left something out."""
    bodies = [getattr(node, "body", None) for node in ast.walk(tree_of(code))]
    return any(
        len([n for n in body if not _is_constant(n, str)]) > 1
        and any(_is_constant(node, type(...)) for node in body)
        for body in bodies
        if isinstance(body, list)
    )


def hollow_kernels(code: str) -> set[str]:
    """Names of kernels whose body is yet to be filled."""
    functions = [node for node in ast.walk(tree_of(code)) if isinstance(node, ast.FunctionDef)]
    return {f.name for f in functions if _is_empty(f) and any(map(_is_jit, f.decorator_list))}


def _is_jit(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] == "jit"


def without_words(code: str) -> str:
    """A file without what stands before or behind it and is Python by chance: `Done`, `{code}`.

    Only an expression or a note (`Result: fast`) on a name that nobody defines is taken for that.
    """
    tree = tree_of(code)
    known = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    known |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_stored(n)}
    imported = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    known |= {(a.asname or a.name).partition(".")[0] for n in imported for a in n.names}
    known |= set(dir(builtins))
    body = list(tree.body)
    while body and _is_words(body[0], known):
        body.pop(0)
    while body and _is_words(body[-1], known):
        body.pop()
    if not body or len(body) == len(tree.body):
        return code
    lines = code.split("\n")
    first, last = tree.body.index(body[0]), tree.body.index(body[-1])
    begin = tree.body[first - 1].end_lineno if first else 0
    end = tree.body[last].end_lineno if last + 1 < len(tree.body) else None
    return "\n".join(lines[begin:end])


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _is_words(node: ast.stmt, known: set[str]) -> bool:
    if isinstance(node, ast.AnnAssign) and node.value is None:
        said: ast.expr = node.annotation
    elif isinstance(node, ast.Expr):
        said = node.value
    else:
        return False
    names = {n.id for n in ast.walk(said) if isinstance(n, ast.Name)}
    return bool(names) and not names <= known


def _is_constant(node: ast.stmt, kind: type) -> bool:
    held = node.value if isinstance(node, ast.Expr) else None
    return isinstance(held, ast.Constant) and isinstance(held.value, kind)


def _unwritten(forward: ast.FunctionDef | None) -> HandedBack | None:
    """Why a model computes nothing; None where it does."""
    if forward is None:
        return HandedBack(code="no-forward", reason=f"{NAME} has no method `forward`")
    if not _is_empty(forward):
        return None
    says = f"`forward` of {NAME} does nothing yet: send the whole file"
    return HandedBack(code="elided", reason=says)


def _is_empty(function: ast.FunctionDef) -> bool:
    """Whether a body is a place to be filled: `pass`, `...` or NotImplementedError."""
    body = [node for node in function.body if not _is_constant(node, str)]
    if not body:
        return True
    first = body[0]
    raised = ast.unparse(first) if isinstance(first, ast.Raise) else ""
    stands = isinstance(first, ast.Pass) or _is_constant(first, type(...))
    return len(body) == 1 and (stands or "NotImplementedError" in raised)


# -- class name -----------------------------------------------------------------------------


def _named(code: str) -> Fixed:
    """With a class ModelNew: the only module that there is takes that name."""
    tree = tree_of(code)
    found = classes(tree)
    ours = [c for c in found if c.name == NAME]
    if len({ast.dump(c) for c in ours if c in tree.body}) > 1:
        return HandedBack(code="ambiguous", reason=f"the file defines {NAME} twice: send one")
    if ours:
        return _unwritten(_found(ours[-1], "forward", found)) or (code, ())
    modules = [c for c in found if _method(c, "forward") is not None and _is_module(c)]
    if len(modules) != 1:
        names = ", ".join(c.name for c in modules)
        says = f"which of {names} it is, is not certain" if modules else "there is none"
        return HandedBack(code="no-model", reason=f"the file must define class {NAME}; {says}")
    old = modules[0].name
    if any(isinstance(n, ast.Name) and n.id == NAME for n in ast.walk(tree)):
        return HandedBack(code="no-model", reason=f"{NAME} is used but not defined as a class")
    spans = [
        _span(code, n.lineno, n.col_offset, old)
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and n.id == old
    ]
    spans.append(_class_name(code, modules[0]))
    text = _replaced(code, spans, NAME)
    return text, (Repair(code="class-name", says=f"class {old} became {NAME}", added=NAME),)


def _is_module(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split(".")[-1] == "Module" for base in node.bases)


Span = tuple[int, int]
"""Characters of the text, from and to."""


def _offset(code: str, line: int, column: int) -> int:
    """Where a node's byte column is in the text."""
    lines = code.split("\n")
    before = sum(len(text) + 1 for text in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode("utf-8", "ignore"))


def _span(code: str, line: int, column: int, word: str) -> Span:
    start = _offset(code, line, column)
    return start, start + len(word)


def _class_name(code: str, node: ast.ClassDef) -> Span:
    start = code.index(node.name, _offset(code, node.lineno, node.col_offset) + len("class"))
    return start, start + len(node.name)


def _replaced(code: str, spans: list[Span], word: str) -> str:
    for start, end in sorted(spans, reverse=True):
        code = code[:start] + word + code[end:]
    return code


# -- arguments ------------------------------------------------------------------------------


def _ordered(code: str, signature: Signature) -> Fixed:
    """With arguments in the problem's order: the caller passes them by place."""
    repairs: tuple[Repair, ...] = ()
    for method, wanted in (("__init__", signature.init), ("forward", signature.forward)):
        there = classes(tree_of(code))
        model = [c for c in there if c.name == NAME][-1]
        function = _found(model, method, there)
        if function is None:
            # An inherited constructor takes what nn.Module takes: nothing.
            if method == "__init__" and wanted:
                says = f"{NAME} needs a constructor that takes ({', '.join(wanted)})"
                return HandedBack(code="signature", reason=says)
            continue
        fault = _mismatch(function, wanted)
        if fault:
            says = f"`{method}` {fault}; keep the reference's arguments ({', '.join(wanted)})"
            return HandedBack(code="signature", reason=says)
        names = [a.arg for a in function.args.args[1:]]
        if len(names) == len(wanted) and names != list(wanted) and set(names) == set(wanted):
            reordered = _reorder(code, function, wanted)
            if reordered is None:
                says = f"`{method}` takes its arguments in another order than the reference"
                return HandedBack(code="signature", reason=says)
            code = reordered
            says = f"the arguments of {method} were put into the reference's order"
            repairs += (Repair(code="argument-order", says=says),)
    return code, repairs


def _mismatch(function: ast.FunctionDef, wanted: tuple[str, ...]) -> str:
    """Why a function cannot be called with the reference's arguments by place; else empty."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1:]
    needed = len(names) - len(arguments.defaults)
    alone = [
        a.arg
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    if alone:
        return f"needs the keyword {alone[0]}"
    if len(names) < len(wanted) and arguments.vararg is None:
        return f"takes {len(names)} arguments, not {len(wanted)}"
    if needed > len(wanted):
        return f"needs {needed} arguments, not {len(wanted)}"
    return ""


def _reorder(code: str, function: ast.FunctionDef, wanted: tuple[str, ...]) -> str | None:
    """The text with the same arguments in the wanted order; None where defaults stand between."""
    arguments = function.args
    if arguments.defaults or arguments.posonlyargs:
        return None
    given = arguments.args[1:]
    spans = [
        (
            _offset(code, a.lineno, a.col_offset),
            _offset(code, a.end_lineno or a.lineno, a.end_col_offset or a.col_offset),
        )
        for a in given
    ]
    text_of = {a.arg: code[s:e] for a, (s, e) in zip(given, spans, strict=True)}
    for name, (start, end) in reversed(list(zip(wanted, spans, strict=True))):
        code = code[:start] + text_of[name] + code[end:]
    return code


# -- imports --------------------------------------------------------------------------------


def _imported(code: str) -> tuple[str, tuple[Repair, ...]]:
    """With the imports of names that are used and never bound."""
    tree = tree_of(code)
    bound = _bound(tree)
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    missing = [name for name in IMPORTS if name in used - bound]
    if not missing:
        return code, ()
    lines = code.split("\n")
    at = _import_line(tree)
    added = [IMPORTS[name] for name in missing]
    repairs = tuple(
        Repair(code="missing-import", says=f"added `{line}`", added=line) for line in added
    )
    return "\n".join([*lines[:at], *added, *lines[at:]]), repairs


def _bound(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                names |= {(a.asname or a.name).split(".")[0] for a in node.names}
            case ast.ExceptHandler(name=str(name)):
                names.add(name)
    return names


def _import_line(tree: ast.Module) -> int:
    """Lines before the first statement that may follow an import: docstring, __future__."""
    at = 0
    for place, node in enumerate(tree.body):
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not future and not (place == 0 and is_bare_constant(node)):
            break
        at = node.end_lineno or node.lineno
    return at


# -- a test at the end ----------------------------------------------------------------------


def _without_main(code: str) -> tuple[str, tuple[Repair, ...]]:
    """Without `if __name__ == "__main__":`, which never runs where candidates run."""
    tree = tree_of(code)
    last = tree.body[-1] if tree.body else None
    if not (isinstance(last, ast.If) and len(tree.body) > 1 and not last.orelse):
        return code, ()
    if ast.unparse(last.test).replace("'", '"') != '__name__ == "__main__"':
        return code, ()
    kept = "\n".join(code.split("\n")[: last.lineno - 1]).rstrip("\n") + "\n"
    return kept, (Repair(code="main-guard", says="a test at the end was removed"),)
