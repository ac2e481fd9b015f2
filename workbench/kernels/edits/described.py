"""The tensor descriptors of a kernel: what they say of their tensors, in the kernel's own terms.

Made by the host and passed as arguments (`TensorDescriptor`), or made in the kernel
(`tl.make_tensor_descriptor`).
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.dead import drop_unused_local
from workbench.kernels.edits.sites import literal
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_kernel import JitKernel, argument

_HOST = "triton.tools.tensor_descriptor.TensorDescriptor"


@dataclass(eq=False)
class Described:
    """One descriptor. Texts are expressions of the kernel, one an axis."""

    name: str
    """What the kernel calls it."""
    pointer: str
    """What the kernel calls the tensor's address once the descriptor is gone."""
    shape: list[str]
    strides: list[str]
    block: list[str]
    made: ast.stmt | None = None
    """The statement of the kernel that makes it; None when the host does."""
    added: dict[str, list[str]] = field(default_factory=dict)
    """Parameters that the kernel has to be given: what each launch passes."""
    passed: list[tuple[LaunchSite, ast.expr, ast.Call]] = field(default_factory=list)
    """Each launch with its argument and the call that makes the descriptor."""

    def names(self, kernel: JitKernel) -> list[ast.Name]:
        """Every place of the kernel's body where it is read."""
        return kernel.reads(self.name)

    def leave(self, splice: Splice, kernel: JitKernel) -> None:
        """Take its making out, and pass what it held."""
        if self.made is not None:
            splice.remove(self.made)
        for name in self.added:
            splice.add_parameter(kernel, name)
        for place, (launch, given, call) in enumerate(self.passed):
            base = argument(call, 0, "base")
            if base is None:
                raise EditRefused(f"line {call.lineno} makes a descriptor of nothing")
            splice.replace(given, splice.text(base))
            for name, texts in self.added.items():
                splice.set_keyword(launch.call, name, texts[place])
            drop_unused_local(splice, launch, given)


def described(source: Source, kernel: JitKernel) -> list[Described]:
    """Every descriptor of a kernel. Raises EditRefused when there is none, or one is unclear."""
    found = [*_of_kernel(kernel), *_of_host(source, kernel)]
    if not found:
        raise EditRefused("no memory is accessed through descriptors")
    return found


def _of_kernel(kernel: JitKernel) -> Iterator[Described]:
    for name, definitions in kernel.flow.definitions.items():
        call = kernel.flow.single(name)
        if not isinstance(call, ast.Call) or kernel.names.op(call) != "make_tensor_descriptor":
            continue
        pointer = argument(call, 0, "base")
        if not isinstance(pointer, ast.Name):
            raise EditRefused(f"line {call.lineno} describes a computed address")
        shape, strides, block = (
            [_grouped(ast.unparse(e), e) for e in _elements(argument(call, place, part))]
            for place, part in ((1, "shape"), (2, "strides"), (3, "block_shape"))
        )
        made = definitions[0].statement
        yield Described(name, pointer.id, shape, strides, block, made=made)


def _elements(node: ast.expr | None) -> list[ast.expr]:
    if not isinstance(node, ast.List | ast.Tuple):
        raise EditRefused("a descriptor's extents are not spelled out")
    return node.elts


def _grouped(text: str, node: ast.expr) -> str:
    plain = isinstance(node, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript)
    return text if plain else f"({text})"


def _of_host(source: Source, kernel: JitKernel) -> Iterator[Described]:
    launches = source.launches_of(kernel.name)
    for parameter in kernel.parameters:
        calls = [_made(source, kernel, launch, parameter.name) for launch in launches]
        if not any(call is not None for call in calls):
            continue
        if source.autotuned(kernel):
            raise EditRefused("the autotuner may resize the blocks of the descriptors")
        found: Described | None = None
        for launch, call in zip(launches, calls, strict=True):
            given = launch.argument(kernel, parameter.name)
            if call is None or given is None or launch.starred:
                raise EditRefused(f"line {launch.line} passes no descriptor that can be read")
            one = _read(source, kernel, launch, parameter.name, call)
            one.passed.append((launch, given, call))
            found = one if found is None else _joined(found, one)
        if found is not None:
            yield found


def _made(source: Source, kernel: JitKernel, launch: LaunchSite, name: str) -> ast.Call | None:
    """The call that makes the descriptor that a launch passes; None for anything else."""
    flow = source.host_flow(launch.scope)
    given = launch.argument(kernel, name)
    behind = given if flow is None else flow.resolve(given)
    if not isinstance(behind, ast.Call):
        return None
    dotted = source.names.dotted(behind.func)
    return behind if dotted in {_HOST, f"{_HOST}.from_tensor"} else None


def _joined(first: Described, other: Described) -> Described:
    same = (first.shape, first.strides, first.block) == (other.shape, other.strides, other.block)
    if not same or list(first.added) != list(other.added):
        raise EditRefused(f"launches describe `{first.name}` differently")
    first.passed += other.passed
    for name, texts in other.added.items():
        first.added[name] += texts
    return first


def _read(
    source: Source, kernel: JitKernel, launch: LaunchSite, name: str, call: ast.Call
) -> Described:
    base = argument(call, 0, "base")
    if source.names.dotted(call.func) == _HOST:
        shape, strides, block = (
            _elements(argument(call, place, part))
            for place, part in ((1, "shape"), (2, "strides"), (3, "block_shape"))
        )
    else:
        block = _elements(argument(call, 1, "block_shape"))
        if base is None:
            raise EditRefused(f"line {call.lineno} makes a descriptor of nothing")
        held = ast.unparse(base)
        shape = [_parsed(f"{held}.shape[{i}]") for i in range(len(block))]
        strides = [_parsed(f"{held}.stride({i})") for i in range(len(block) - 1)]
        strides.append(_parsed("1"))
    found = Described(name, name, [], [], [])
    for place, (extent, stride, size) in enumerate(zip(shape, strides, block, strict=True)):
        found.block.append(_block(source, kernel, launch, size))
        # An axis of extent one needs no bound.
        one = found.block[-1] == "1"
        found.shape.append("" if one else _named(source, kernel, launch, extent, found, "size"))
        kind = f"stride{place}"
        found.strides.append(_named(source, kernel, launch, stride, found, kind))
    return found


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _block(source: Source, kernel: JitKernel, launch: LaunchSite, size: ast.expr) -> str:
    """The compile-time parameter that is a block's extent, or its number."""
    flow = source.host_flow(launch.scope)
    values = {}
    for name in kernel.constexprs:
        given = launch.argument(kernel, name)
        if given is not None and ast.dump(given) == ast.dump(size) and literal(size) is None:
            return name
        behind = given if flow is None else flow.resolve(given)
        if isinstance(behind, ast.Name):
            behind = source.module_value(behind.id) or behind
        if behind is not None:
            values[name] = ast.dump(behind)
    behind = size if flow is None else flow.resolve(size)
    if isinstance(behind, ast.Name):
        behind = source.module_value(behind.id) or behind
    wanted = "" if behind is None else ast.dump(behind)
    same = [name for name, value in values.items() if value == wanted and name in kernel.blocks]
    number = literal(behind)
    if len(same) == 1 and number != 1:
        return same[0]
    if isinstance(number, int):
        return str(number)
    raise EditRefused(f"the kernel is not given the extent `{ast.unparse(size)}` of a block")


def _named(
    source: Source,
    kernel: JitKernel,
    launch: LaunchSite,
    node: ast.expr,
    found: Described,
    kind: str,
) -> str:
    """What the kernel calls a host expression: a number, a parameter, a product, or a new name."""
    number = literal(node)
    if isinstance(number, int):
        return str(number)
    wanted = _canonical(source, launch, node)
    for parameter in kernel.parameters:
        given = launch.argument(kernel, parameter.name)
        if given is not None and _canonical(source, launch, given) == wanted:
            return parameter.name
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            sides = [_named(source, kernel, launch, n, found, kind) for n in (left, right)]
            return f"{sides[0]} * {sides[1]}"
        case _:
            pass
    name = f"{found.name}_{kind}" if kind != "size" else f"{found.name}_size{len(found.shape)}"
    if name in kernel.flow.parameters or name in kernel.flow.definitions or name in found.added:
        raise EditRefused(f"the kernel has a `{name}` already")
    found.added[name] = [ast.unparse(node)]
    return name


def _canonical(source: Source, launch: LaunchSite, node: ast.expr) -> str:
    """A host expression with its names followed: `m` of `m, k = x.shape` is `x.shape[0]`."""
    flow = source.host_flow(launch.scope)
    if isinstance(node, ast.Name) and flow is not None:
        known = flow.known(node.id)
        if known is not None:
            return _canonical(source, launch, known)
        bound = flow.definitions.get(node.id, [])
        if len(bound) == 1 and bound[0].how == "unpack":
            match bound[0].statement:
                case ast.Assign(
                    targets=[ast.Tuple(elts=names)], value=ast.Attribute(attr="shape") as shape
                ):
                    place = [n.id if isinstance(n, ast.Name) else "" for n in names].index(node.id)
                    return f"{ast.unparse(shape)}[{place}]"
                case _:
                    pass
    match node:
        case ast.Call(
            func=ast.Attribute(value=tensor, attr="size"), args=[ast.Constant(value=int(i))]
        ):
            return f"{ast.unparse(tensor)}.shape[{i}]"
        case _:
            return ast.unparse(node)
