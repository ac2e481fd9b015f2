"""One of Inductor's kernels as a plain `@triton.jit` function, and how it is to be launched."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from msgspec import Struct

from workbench.kernels.inductor.functions import is_library_call, plain_call
from workbench.kernels.inductor.heuristics import Heuristics
from workbench.kernels.inductor.records import LiftRefused
from workbench.problems.records import Precision

_TILE = re.compile(r"(BLOCK_[MNK]|GROUP_M)$")
"""Constants inside a template that are tile sizes: they become parameters of the launch."""

_PREFIX = re.compile(r"^triton_(?:poi|per|red|tem|tmp|unk|spl)_")

_VIEWS = re.compile(
    r"_(?:_unsafe_view|view|reshape|clone|copy|t|transpose|permute|expand|squeeze|unsqueeze|select|slice)"
    r"(?=_)"
)
"""Operators in a kernel's name that compute nothing."""


class PlainKernel(Struct, frozen=True, kw_only=True):
    """A kernel that needs nothing but Triton."""

    name: str
    source: str
    """Source without the decorator."""
    helpers: dict[str, str]
    """Functions of its own that it needs, name to text with decorator."""
    parameters: tuple[str, ...]
    """Inductor's positional parameters in order, dropped ones included."""
    dropped: frozenset[str]
    """Parameters that the body never reads: sizes it knows by heart."""
    sizes: dict[str, int]
    """Integers that the body sets by name: `xnumel`, `M`, `BATCH`."""
    options: dict[str, int]
    """Keywords of the launch: tile sizes, num_warps, num_stages."""


def plain_kernel(name: str, text: str, heuristics: Heuristics, precision: Precision) -> PlainKernel:
    """Rewrite one kernel's text; its fp32 products get the `precision` that was promised.

    Raises LiftRefused for inline assembly.
    """
    if "tl.inline_asm_elementwise" in text:
        raise LiftRefused("Inductor writes inline assembly for one of its functions")
    tree = ast.parse(text)
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    main = functions.pop(name)
    body = _segment(text, main)
    sizes = _sizes(main)
    inside = {n: v for n, v in _constexprs(main).items() if _TILE.match(n) and isinstance(v, int)}
    for change in (_without_tiles, _with_derived_even_k, _plain_calls):
        body = _rewrite(body, change)
    # Inductor reads the promise from flags whose names differ between versions of torch.
    body = re.sub(r"allow_tf32=\w+", f'input_precision="{precision}"', body)
    body = _without_aliases(body)
    body = _without_unused(body)
    used = {n.id for n in ast.walk(ast.parse(body)) if isinstance(n, ast.Name)}
    blocks = {n: v for n, v in (*inside.items(), *heuristics.blocks.items()) if n in used}
    parameters = [a.arg for a in main.args.args if a.annotation is None]
    dropped = frozenset(p for p in parameters if p in sizes or p.removeprefix("arg_") not in used)
    kept = [p.removeprefix("arg_") for p in parameters if p not in dropped]
    plain_name = _name(name)
    return PlainKernel(
        name=plain_name,
        source=_signature(plain_name, kept, list(blocks)) + _statements(body),
        helpers={
            n: "@triton.jit\n" + plain_function(_segment(text, f)) for n, f in functions.items()
        },
        parameters=tuple(parameters),
        dropped=dropped,
        sizes=sizes,
        options=blocks | {"num_warps": heuristics.num_warps, "num_stages": heuristics.num_stages},
    )


def plain_function(text: str) -> str:
    """A device function's text with plain Triton in place of library calls."""
    return _rewrite(text, _plain_calls)


def _name(name: str) -> str:
    """Inductor's name without its own prefix and without views: `fused_add_mul_1`."""
    plain = _PREFIX.sub("", name)
    while (shorter := _VIEWS.sub("", plain)) != plain:
        plain = shorter
    return re.sub(r"^fused_(\d+)$", r"fused_copy_\1", plain)


def _segment(text: str, function: ast.FunctionDef) -> str:
    """The function's own lines, decorators left out."""
    return "\n".join(text.splitlines()[function.lineno - 1 : function.end_lineno]) + "\n"


def _sizes(function: ast.FunctionDef) -> dict[str, int]:
    found = {}
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))):
                found[name] = value
            case _:
                pass
    return found


def _constexprs(function: ast.FunctionDef) -> Mapping[str, object]:
    found = {}
    for statement in function.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value)):
                found[name] = value
            case _:
                pass
    return found


Span = tuple[ast.expr | ast.stmt | ast.keyword, str]
Change = Callable[[ast.FunctionDef], Iterator[Span]]


def _rewrite(text: str, change: Change) -> str:
    """Apply `change` until it has nothing left to replace; each yields nodes and their new text."""
    while spans := list(change(_function(text))):
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        places = sorted(
            (
                starts[n.lineno - 1] + n.col_offset,
                starts[_end(n) - 1] + (n.end_col_offset or 0),
                new,
            )
            for n, new in spans
        )
        for start, end, new in reversed(places):
            before, after = text[:start], text[end:]
            if not new and after.startswith("\n"):  # a statement that goes takes its line along
                before, after = before.rstrip(" "), after[1:]
            text = before + new + after
    return text


def _function(text: str) -> ast.FunctionDef:
    return cast(ast.FunctionDef, ast.parse(text).body[0])


def _end(node: ast.expr | ast.stmt | ast.keyword) -> int:
    return node.end_lineno or node.lineno


def _without_tiles(function: ast.FunctionDef) -> Iterator[Span]:
    for statement in function.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)) if _TILE.match(name):
                yield statement, ""
            case _:
                pass


def _with_derived_even_k(function: ast.FunctionDef) -> Iterator[Span]:
    """`EVEN_K` follows BLOCK_K instead of remembering what it was for one of them."""
    size = _sizes(function).get("K")
    for statement in function.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id="EVEN_K"), value=ast.Constant() as value) if size:
                yield value, f"{size} % BLOCK_K == 0"
            case _:
                pass


def _plain_calls(function: ast.FunctionDef) -> Iterator[Span]:
    """Innermost library calls as plain Triton; assertions inside a kernel go."""
    for node in ast.walk(function):
        match node:
            case ast.Expr(value=ast.Call(func=called)) if ast.unparse(called) == "tl.device_assert":
                yield node, ""
            case ast.Call() if not any(map(is_library_call, _below(node))):
                new = plain_call(node)
                if new is not None:
                    yield node, new
            case _:
                pass


def _below(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield from ast.walk(child)


def _without_aliases(text: str) -> str:
    """A template's parameter is called A, not arg_A; `A = arg_A` goes."""
    text = re.sub(r"\barg_(\w+)", r"\1", text)
    return re.sub(r"^ +(\w+) = \1\n", "", text, flags=re.MULTILINE)


def _without_unused(text: str) -> str:
    """Drop assignments to names that nothing reads, again and again until none is left."""

    def unused(function: ast.FunctionDef) -> Iterator[Span]:
        read = {
            n.id
            for n in ast.walk(function)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        for node in ast.walk(function):
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ) if name not in read and "atomic" not in ast.unparse(value):
                    yield node, ""
                case _:
                    pass

    return _rewrite(text, unused)


def _signature(name: str, parameters: list[str], blocks: list[str]) -> str:
    parts = [*parameters, *(f"{block}: tl.constexpr" for block in blocks)]
    line = f"def {name}({', '.join(parts)}):\n"
    if len(line) <= 100:
        return line
    return f"def {name}(\n" + "".join(f"    {part},\n" for part in parts) + "):\n"


def _statements(text: str) -> str:
    """The function's text after its signature, without the blank lines that removals leave."""
    first = _function(text).body[0].lineno
    lines = [line.rstrip() for line in text.splitlines()[first - 1 :]]
    kept = [line for before, line in zip(["", *lines], lines, strict=False) if line or before]
    return "\n".join(kept).rstrip() + "\n"
