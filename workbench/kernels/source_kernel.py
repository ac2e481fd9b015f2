"""Reads one GPU function's text: parameters, loops, memory accesses, products, reductions."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from workbench.kernels.source_flow import Flow, conjuncts, reads_of, unspread
from workbench.kernels.source_names import Names

_RANGES = {"range": "range", "tl.range": "tl.range", "tl.static_range": "static_range"}
_REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum"})
_SCANS = frozenset({"cumsum", "cumprod", "associative_scan", "sort", "topk"})
_TRANSCENDENTAL = frozenset(
    {"exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "sigmoid", "softmax"}
    | {"tanh", "pow", "sqrt_rn", "div_rn"}
)
_THROUGH = frozenset(
    {"multiple_of", "max_contiguous", "max_constancy", "cast", "advance", "make_block_ptr"}
    | {"make_tensor_descriptor", "broadcast_to"}
)
"""Calls whose result is an address derived from their first argument."""


@dataclass(frozen=True, eq=False)
class KernelParameter:
    """One parameter of a GPU function."""

    name: str
    constexpr: bool
    default: ast.expr | None
    argument: ast.arg


@dataclass(frozen=True, eq=False)
class Loop:
    """One loop of a kernel. `start`, `stop` and `step` are None for a `while`."""

    kind: Literal["range", "tl.range", "static_range", "while", "other"]
    node: ast.For | ast.While
    variable: str
    start: ast.expr | None
    stop: ast.expr | None
    step: ast.expr | None
    """None when the step is one."""
    depth: int
    """Number of enclosing loops."""

    @property
    def line(self) -> int:
        """Line of its header."""
        return self.node.lineno


@dataclass(frozen=True, eq=False)
class Access:
    """One load, store or atomic."""

    kind: Literal["load", "store", "atomic"]
    op: str
    """`load`, `store`, `atomic_add`, ..."""
    call: ast.Call
    pointer: ast.expr
    base: str
    """The pointer parameter that the address starts from; empty when it cannot be told."""
    mask: ast.expr | None
    other: ast.expr | None
    value: ast.expr | None
    """What is stored; None for a load."""
    loops: tuple[Loop, ...]
    """Enclosing loops, outermost first."""

    @property
    def line(self) -> int:
        """Its line in the file."""
        return self.call.lineno

    def option(self, name: str) -> ast.expr | None:
        """A keyword argument such as `eviction_policy`."""
        return keyword_argument(self.call, name)


def keyword_argument(call: ast.Call, name: str) -> ast.expr | None:
    """An argument given by keyword; None when there is none."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """An argument given by position or by keyword; None when absent or hidden behind `*`."""
    if any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if position < len(call.args):
        return call.args[position]
    return keyword_argument(call, name)


class JitKernel:
    """A function decorated with `triton.jit`."""

    def __init__(self, node: ast.FunctionDef, names: Names) -> None:
        self.name = node.name
        self.node = node
        self.names = names
        self.flow = Flow(node, names)
        self.parameters = tuple(_parameters(node, names))
        self.loops: tuple[Loop, ...] = tuple(_loops(node.body, names, 0))

    @property
    def line(self) -> int:
        """Line of its `def`."""
        return self.node.lineno

    @property
    def constexprs(self) -> tuple[str, ...]:
        """Names of its compile-time parameters."""
        return tuple(p.name for p in self.parameters if p.constexpr)

    def parameter(self, name: str) -> KernelParameter | None:
        """The parameter of that name."""
        return next((p for p in self.parameters if p.name == name), None)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Each node's parent."""
        return {child: node for node in ast.walk(self.node) for child in ast.iter_child_nodes(node)}

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that contains a node of this kernel."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def reads(self, name: str) -> list[ast.Name]:
        """Every place of the body where a name is read."""
        return [node for statement in self.node.body for node in reads_of(name, statement)]

    def loops_of(self, node: ast.AST) -> tuple[Loop, ...]:
        """Loops around a node, outermost first; a node in a loop's header is not inside it."""
        found: list[Loop] = []
        inside = {id(loop.node): loop for loop in self.loops}
        child = node
        while child is not self.node:
            holder = self.parents[child]
            loop = inside.get(id(holder))
            if loop is not None and isinstance(child, ast.stmt):
                found.append(loop)
            child = holder
        return tuple(reversed(found))

    def calls(self, *ops: str) -> tuple[ast.Call, ...]:
        """Calls of the named Triton operations, in the order of the text."""
        return tuple(c for c in self._calls if self.names.op(c) in ops)

    @cached_property
    def _calls(self) -> tuple[ast.Call, ...]:
        found = [n for s in self.node.body for n in ast.walk(s) if isinstance(n, ast.Call)]
        return tuple(sorted(found, key=lambda c: (c.lineno, c.col_offset)))

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """Loads, stores and atomics, in the order of the text; descriptor methods too."""
        return tuple(a for c in self._calls if (a := self._access(c)) is not None)

    def _access(self, call: ast.Call) -> Access | None:
        op = self.names.op(call)
        if not op:
            return self._method(call)
        if op not in {"load", "store"} and not op.startswith("atomic_"):
            return None
        pointer = argument(call, 0, "pointer")
        if pointer is None:
            return None
        if op == "load":
            kind, value, mask = "load", None, argument(call, 1, "mask")
        else:
            kind = "store" if op == "store" else "atomic"
            extra = 1 if op == "atomic_cas" else 0
            value, mask = argument(call, 1 + extra, "value"), argument(call, 2 + extra, "mask")
        return Access(
            kind=kind,  # type: ignore[arg-type]  # one of the three literals above
            op=op,
            call=call,
            pointer=pointer,
            base=self.base(pointer),
            mask=None if isinstance(mask, ast.Constant) and mask.value is None else mask,
            other=argument(call, 2, "other") if op == "load" else None,
            value=value,
            loops=self.loops_of(call),
        )

    def _method(self, call: ast.Call) -> Access | None:
        """`descriptor.load([...])` and `descriptor.store([...], value)`."""
        match call.func:
            case ast.Attribute(value=ast.Name() as holder, attr="load" | "store" as op):
                pass
            case _:
                return None
        if holder.id not in self.flow.parameters and self.flow.single(holder.id) is None:
            return None
        return Access(
            kind="load" if op == "load" else "store",
            op=op,
            call=call,
            pointer=holder,
            base=self.base(holder),
            mask=None,
            other=None,
            value=argument(call, 1, "value") if op == "store" else None,
            loops=self.loops_of(call),
        )

    def by_descriptor(self, access: Access) -> bool:
        """Whether an access is a method of a tensor descriptor."""
        return not self.names.op(access.call) and isinstance(access.call.func, ast.Attribute)

    def base(self, pointer: ast.expr) -> str:
        """The parameter that an address starts from: the leftmost term of its sums.

        Names are followed; empty when no parameter is found.
        """
        return self._base(pointer, frozenset())

    def _base(self, node: ast.expr | None, seen: frozenset[str]) -> str:
        match node:
            case ast.Name(id=name):
                found = "" if name in seen else self._base_of_name(name, seen | {name})
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                found = self._base(left, seen) or self._base(right, seen)
            case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[_]):
                found = self._base(inner, seen)
            case ast.Call() if self.names.op(node) in _THROUGH:
                found = self._base(argument(node, 0, "base"), seen)
            case _:
                found = ""
        return found

    def _base_of_name(self, name: str, seen: frozenset[str]) -> str:
        parameter = self.parameter(name)
        if parameter is not None:
            return "" if parameter.constexpr else name
        for definition in self.flow.definitions.get(name, []):
            found = self._base(definition.value, seen) if definition.how == "assign" else ""
            if found:
                return found
        return ""

    @property
    def loads(self) -> tuple[Access, ...]:
        """The loads among the accesses."""
        return tuple(a for a in self.accesses if a.kind == "load")

    @property
    def stores(self) -> tuple[Access, ...]:
        """The stores among the accesses."""
        return tuple(a for a in self.accesses if a.kind == "store")

    @property
    def dots(self) -> tuple[ast.Call, ...]:
        """`tl.dot` and `tl.dot_scaled`."""
        return self.calls("dot", "dot_scaled")

    @property
    def reductions(self) -> tuple[ast.Call, ...]:
        """`tl.sum`, `tl.max`, ..., also as methods of a tensor."""
        return self._either(_REDUCTIONS)

    @property
    def scans(self) -> tuple[ast.Call, ...]:
        """Scans and sorts."""
        return self._either(_SCANS)

    @property
    def transcendentals(self) -> tuple[ast.Call, ...]:
        """Calls that run on the special-function unit."""
        return self._either(_TRANSCENDENTAL)

    def _either(self, ops: frozenset[str]) -> tuple[ast.Call, ...]:
        """Calls of operations, by name or as a method of what the kernel computed."""
        return tuple(c for c in self._calls if self.names.op(c) in ops or self._by_method(c) in ops)

    def _by_method(self, call: ast.Call) -> str:
        """The method that a call names; empty for a function, of a module too."""
        computed = {*self.flow.definitions, *self.flow.parameters}
        match call.func:
            case ast.Attribute(value=ast.Name(id=holder), attr=method) if holder in computed:
                return method
            case ast.Attribute(value=ast.Name() | ast.Attribute()):
                return ""
            case ast.Attribute(attr=method):
                return method
            case _:
                return ""

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        """Compile-time parameters that set the extent of some block.

        Where descriptors move blocks there is no `tl.arange`, so the step of a loop that loads and
        the shape of a sum count instead.
        """
        found: list[str] = []
        constexprs = set(self.constexprs)
        moved = [a for a in self.accesses if self.by_descriptor(a)]
        steps = [lp.step for lp in self.loops if any(lp in access.loops for access in moved)]
        shapes = [argument(c, 0, "shape") for c in self.calls("zeros", "full") if moved]
        sides = [e for s in shapes if isinstance(s, ast.List | ast.Tuple) for e in s.elts]
        for extent in (*steps, *sides):
            if isinstance(extent, ast.Name) and extent.id in constexprs and extent.id not in found:
                found.append(extent.id)
        for call in self.calls("arange"):
            for name in sorted(self.flow.reaches(argument(call, 1, "end")) & constexprs):
                if name not in found:
                    found.append(name)
        return tuple(found)

    @cached_property
    def helpers(self) -> frozenset[str]:
        """Plain names that it calls; jit helpers are among them."""
        return frozenset(c.func.id for c in self._calls if isinstance(c.func, ast.Name))

    def masks(self) -> Iterator[tuple[Access, ast.expr]]:
        """Every conjunct of every mask."""
        for access in self.accesses:
            for conjunct in self.mask_parts(access.mask):
                yield access, conjunct

    def mask_parts(self, mask: ast.expr | None) -> Iterator[ast.expr]:
        """The conjuncts of a mask, with names resolved and `[:, None]` removed."""
        for part in conjuncts(mask):
            behind = self.flow.resolve(unspread(part))
            if behind is not part and isinstance(behind, ast.BinOp | ast.Compare | ast.IfExp):
                yield from self.mask_parts(behind)
            else:
                yield part

    def bound(self, conjunct: ast.expr) -> tuple[str, ast.expr] | None:
        """(dimension parameter, index) of `index < dimension` or `dimension > index`; else None.

        `index < dimension - offset` counts too: it bounds what remains after an offset.
        """
        match conjunct:
            case ast.Compare(left=index, ops=[ast.Lt()], comparators=[limit]):
                pass
            case ast.Compare(left=limit, ops=[ast.Gt()], comparators=[index]):
                pass
            case _:
                return None
        if isinstance(limit, ast.BinOp) and isinstance(limit.op, ast.Sub):
            limit = limit.left
        behind = self.flow.resolve(limit)
        if isinstance(behind, ast.Name) and behind.id in self.flow.parameters:
            return behind.id, index
        return None


def _parameters(node: ast.FunctionDef, names: Names) -> Iterator[KernelParameter]:
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    padding: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    defaults = [*padding, *arguments.defaults, *arguments.kw_defaults]
    for a, default in zip([*plain, *arguments.kwonlyargs], defaults, strict=True):
        yield KernelParameter(a.arg, _is_constexpr(a.annotation, names), default, a)


def _is_constexpr(annotation: ast.expr | None, names: Names) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.rpartition(".")[2] == "constexpr"
    return names.dotted(annotation).rpartition(".")[2] == "constexpr"


def _loops(body: list[ast.stmt], names: Names, depth: int) -> Iterator[Loop]:
    for statement in body:
        inner = depth
        if isinstance(statement, ast.For | ast.While):
            yield _loop(statement, names, depth)
            inner = depth + 1
        for field in ("body", "orelse"):
            yield from _loops(getattr(statement, field, []), names, inner)


def _loop(node: ast.For | ast.While, names: Names, depth: int) -> Loop:
    if isinstance(node, ast.While):
        return Loop("while", node, "", None, None, None, depth)
    variable = node.target.id if isinstance(node.target, ast.Name) else ""
    call = node.iter
    kind = _RANGES.get(names.dotted(call.func)) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or kind is None or not call.args:
        return Loop("other", node, variable, None, None, None, depth)
    zero = ast.copy_location(ast.Constant(value=0), call)
    if len(call.args) == 1 and argument(call, 1, "arg2") is None:
        return Loop(kind, node, variable, zero, call.args[0], None, depth)  # type: ignore[arg-type]  # from the table
    start, stop = call.args[0], argument(call, 1, "arg2")
    return Loop(kind, node, variable, start, stop, argument(call, 2, "step"), depth)  # type: ignore[arg-type]  # from the table
