"""Online softmax taken apart: a loop that finds the maximum, then a loop that sums exponentials."""

import ast
from dataclasses import dataclass, field

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.dead import without_unread
from workbench.kernels.edits.fusing import dedented
from workbench.kernels.edits.online_softmax import ONLINE_SOFTMAX, is_maximum_of_block
from workbench.kernels.edits.splice import Splice
from workbench.kernels.inverses.base import Inverse, Removable, puts_back
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, Loop, argument

_EXPONENTIALS = frozenset({"exp", "exp2"})


@dataclass(eq=False)
class _Online:
    """A loop that carries a running maximum and rescales its sums whenever it grows."""

    kernel: JitKernel
    loop: Loop
    maximum: str
    grown: ast.Assign
    """`new = tl.maximum(maximum, tl.max(x))`."""
    stand_ins: set[str]
    """Names of the new maximum: `new`, and `shift` where it is guarded against -inf."""
    dropped: set[ast.stmt] = field(default_factory=set)
    lines: dict[ast.stmt, dict[ast.AST, str]] = field(default_factory=dict)
    """What is replaced in each statement that stays."""
    rewritten: dict[ast.stmt, str] = field(default_factory=dict)
    """Statements that are rewritten, without what is replaced in `lines`."""
    sums: int = 0

    def is_new(self, node: ast.expr) -> bool:
        """The new maximum, `[:, None]` looked through."""
        inner = node.value if isinstance(node, ast.Subscript) else node
        return isinstance(inner, ast.Name) and inner.id in self.stand_ins

    def is_shrink(self, node: ast.expr | None) -> bool:
        """`exp(maximum - new)`, named or not."""
        inner = node.value if isinstance(node, ast.Subscript) else node
        match self.kernel.flow.resolve(inner):
            case (
                ast.Call(args=[ast.BinOp(left=ast.Name(id=name), op=ast.Sub(), right=new)]) as call
            ):
                is_power = self.kernel.names.op(call) in _EXPONENTIALS
                return is_power and name == self.maximum and self.is_new(new)
            case _:
                return False


def _online(kernel: JitKernel) -> _Online:
    """Raises EditRefused where no loop has the form."""
    for loop in kernel.loops:
        match loop.node.body[-1]:
            case ast.Assign(targets=[ast.Name(id=maximum)], value=ast.Name(id=new)):
                pass
            case _:
                continue
        match [d.statement for d in kernel.flow.definitions.get(new, [])]:
            case [ast.Assign() as grown] if grown in loop.node.body and _raises(
                kernel, grown.value, maximum
            ):
                found = _Online(kernel, loop, maximum, grown, {new})
                found.dropped = {loop.node.body[-1], grown}
                _sort(found)
                return found
            case _:
                pass
    raise EditRefused("no loop raises a maximum and rescales its sums")


def _raises(kernel: JitKernel, node: ast.expr, maximum: str) -> bool:
    match node:
        case ast.Call(args=[a, b]) if kernel.names.op(node) == "maximum":
            other = b if isinstance(a, ast.Name) and a.id == maximum else a
            mine = a if other is b else b
            ours = isinstance(mine, ast.Name) and mine.id == maximum
            return ours and is_maximum_of_block(kernel, other)
        case _:
            return False


def _sort(found: _Online) -> None:
    """Say of every statement of the loop what becomes of it in the second loop."""
    for statement in found.loop.node.body:
        if statement in found.dropped:
            continue
        if _is_guard(found, statement) or _is_scale(found, statement):
            found.dropped.add(statement)
        elif not _is_sum(found, statement):
            found.lines[statement] = _replaced(found, statement)
    if not found.sums:
        raise EditRefused("no sum is rescaled with the maximum")


def _is_guard(found: _Online, statement: ast.stmt) -> bool:
    """`shift = tl.where(new == -inf, 0, new)`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[_, zero, new]) as call):
            guards = found.kernel.names.op(call) == "where" and found.is_new(new)
            if guards and isinstance(zero, ast.Constant) and zero.value == 0:
                found.stand_ins.add(name)
                return True
        case _:
            pass
    return False


def _is_scale(found: _Online, statement: ast.stmt) -> bool:
    """`shrink = exp(maximum - new)`, or a sum that is rescaled in a statement of its own."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Call() as call) if found.is_shrink(call):
            return True
        case ast.AugAssign(target=ast.Name(), op=ast.Mult(), value=value):
            scales = found.is_shrink(value)
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.BinOp(left=left, op=ast.Mult(), right=right)
        ):
            sides = ((left, right), (right, left))
            scales = any(
                isinstance(a, ast.Name) and a.id == name and found.is_shrink(b) for a, b in sides
            )
        case _:
            return False
    found.sums += scales
    return scales


def _is_sum(found: _Online, statement: ast.stmt) -> bool:
    """`total = total * shrink + added`, or a product that starts from `acc * shrink`."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.BinOp(op=ast.Mult()) as scaled, op=ast.Add(), right=added),
        ) if _scaled_name(found, scaled) == name:
            found.lines[statement] = _replaced(found, added)
            found.rewritten[statement] = name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
            found.kernel.names.op(call) == "dot"
        ):
            start = argument(call, 2, "acc")
            if not isinstance(start, ast.BinOp) or _scaled_name(found, start) != name:
                return False
            found.lines[statement] = {**_replaced(found, call, without=start), start: name}
        case _:
            return False
    found.sums += 1
    return True


def _scaled_name(found: _Online, node: ast.BinOp) -> str:
    """S of `S * shrink`, either way round; empty for another product."""
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(one, ast.Name) and isinstance(node.op, ast.Mult) and found.is_shrink(other):
            return one.id
    return ""


def _replaced(found: _Online, node: ast.AST, without: ast.AST | None = None) -> dict[ast.AST, str]:
    """The new maximum in exponentials of a statement; refused where it is used otherwise."""
    skipped = set() if without is None else {id(n) for n in ast.walk(without)}
    inside = {
        id(n)
        for call in ast.walk(node)
        if found.kernel.names.op(call) in _EXPONENTIALS
        for n in ast.walk(call)
    }
    replaced: dict[ast.AST, str] = {}
    for name in (n for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in skipped):
        if name.id in found.stand_ins and id(name) in inside:
            replaced[name] = found.maximum
        elif name.id in {*found.stand_ins, found.maximum} or found.is_shrink(name):
            raise EditRefused(f"line {name.lineno} uses the maximum in another way")
    return replaced


def _two_passes(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    found = _online(kernel)
    splice, loop = Splice(source), found.loop
    if not isinstance(loop.node, ast.For) or loop.node.body[0].lineno == loop.line:
        raise EditRefused("the loop is not over a range")
    header = splice.text(loop.node).split("\n")[0].rstrip("\r")
    if not header.rstrip().endswith(":"):
        raise EditRefused("the loop's header spans several lines")
    unit = splice.indentation(loop.node.body[0])[len(splice.indentation(loop.node)) :]
    lines = [header]
    for statement in _needed(found):
        lines += [unit + one for one in dedented(splice, statement, splice.text(statement))]
    lines.append(f"{unit}{found.maximum} = {splice.text(found.grown.value)}")
    splice.insert_before(loop.node, *lines, "")
    for statement in loop.node.body:
        if statement in found.dropped:
            splice.remove(statement)
        elif statement in found.rewritten:
            name, value = found.rewritten[statement], _added(statement)
            text = f"{name} += {splice.text_with(value, found.lines[statement])}"
            splice.replace_statement(statement, *dedented(splice, statement, text))
        else:
            for node, text in found.lines[statement].items():
                splice.replace(node, text)
    without = without_unread(splice.result(), kernel.name)
    if not puts_back(ONLINE_SOFTMAX, without, kernel.name, {}):
        raise EditRefused("the two loops would not become one again")
    return (
        Removable(
            lines=(loop.line, found.grown.lineno),
            locus="loop",
            says=f"{found.maximum} found while sums are made",
            source=without,
        ),
    )


def _added(statement: ast.stmt) -> ast.expr:
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        return statement.value.right
    raise EditRefused(f"line {statement.lineno} adds nothing")


def _needed(found: _Online) -> list[ast.stmt]:
    """Statements of the loop that the maximum of a block is computed from."""
    body = found.loop.node.body
    wanted = set(names_in(found.grown.value))
    kept: list[ast.stmt] = []
    for statement in reversed(body[: body.index(found.grown)]):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name in wanted:
                    kept.append(statement)
                    wanted |= names_in(value)
            case _:
                raise EditRefused(f"line {statement.lineno} does more than compute")
    return kept[::-1]


ONE_PASS = Inverse(
    category="one-pass-softmax",
    edit=ONLINE_SOFTMAX.id,
    says="a pass for the maximum and a pass for the sums, where one made both",
    find=_two_passes,
)
