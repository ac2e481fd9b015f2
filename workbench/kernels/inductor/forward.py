"""The body of the candidate's `forward`: allocate, launch, return, by the reference's own names."""

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import torch
from torch.utils import _pytree as pytree

from workbench.kernels.inductor.grids import grid_text, template_grid_text
from workbench.kernels.inductor.kernel_text import PlainKernel
from workbench.kernels.inductor.records import LiftRefused
from workbench.kernels.inductor.state import accessor, local_name
from workbench.kernels.inductor.trace import Traced
from workbench.kernels.inductor.wrapper import Allocate, Free, Launch, Program, Rename
from workbench.kernels.untyped import Untyped

_WIDTH = 92
"""Columns left inside a method of a class."""


class Forward:
    """One program in the candidate's words. `inputs` are the parameters of `forward`."""

    def __init__(
        self,
        traced: Traced,
        program: Program,
        kernels: Mapping[str, PlainKernel],
        grids: Mapping[str, str],
    ) -> None:
        self.inputs = _input_names(traced)
        self._traced = traced
        self._program = program
        self._kernels = kernels
        self._grids = grids
        self._held = _held_names(traced, self.inputs)
        nodes = traced.graph.graph.find_nodes(op="placeholder")
        held = list(self._held)
        states, constants = held[: len(traced.state)], held[len(traced.state) :]
        plain = [*states, *self.inputs, *constants]
        self._names = {node.name: name for node, name in zip(nodes, plain, strict=True)}
        self._dense = {  # names of contiguous tensors, with their number of elements
            name: t.numel()
            for name, t in zip(plain, traced.placeholders, strict=True)
            if t.is_contiguous()
        }
        self._launched = 0
        self._launches = sum(isinstance(step, Launch) for step in program.steps)
        strange = set(program.inputs) - self._names.keys()
        if strange:
            raise LiftRefused(f"Inductor's code wants {', '.join(sorted(strange))} besides tensors")

    def lines(self) -> Iterator[str]:
        """Statements in order, some of several lines."""
        yield from self._checks()
        used = self._used()
        for name, expression in self._held.items():
            if name in used:
                yield f"{name} = {expression}"
        last = max(
            (i for i, s in enumerate(self._program.steps) if isinstance(s, Allocate)), default=0
        )
        for i, step in enumerate(self._program.steps):
            match step:
                case Allocate():
                    yield self._allocation(step)
                case Rename(name=name, value=value):
                    text = self._text(value)
                    self._names[name] = name
                    if text in self._dense and isinstance(value, ast.Name):
                        self._dense[name] = self._dense[text]
                    yield f"{name} = {text}"
                case Launch():
                    yield from self._launch(step)
                case Free(name=name):
                    # Memory only matters while more is still to be allocated.
                    if i < last and name not in self._program.inputs:
                        yield f"del {name}"
        yield f"return {self._returned()}"

    def _checks(self) -> Iterator[str]:
        for name, tensor in zip(self.inputs, self._traced.inputs, strict=True):
            layout = (
                f"{name}.is_contiguous()"
                if tensor.is_contiguous()
                else f"{name}.stride() == {tuple(tensor.stride())}"
            )
            size = f"{name}.shape == {tuple(tensor.shape)}"
            yield f'assert {size} and {layout}, "lifted for one size"'

    def _used(self) -> set[str]:
        nodes: list[ast.AST] = list(self._program.outputs)
        for step in self._program.steps:
            if isinstance(step, Launch):
                nodes.extend(step.arguments)
            elif isinstance(step, Rename):
                nodes.append(step.value)
        found = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}
        return {self._names[name] for name in found if name in self._names}

    def _allocation(self, step: Allocate) -> str:
        self._names[step.name] = step.name
        device = f"{[*self.inputs, *self._held][0]}.device"
        if _is_dense(step.size, step.strides):
            self._dense[step.name] = prod(step.size)
            call = f"torch.empty({step.size}, dtype={step.dtype}, device={device})"
        else:
            call = (
                f"torch.empty_strided({step.size}, {step.strides}, "
                f"dtype={step.dtype}, device={device})"
            )
        return f"{step.name} = {call}"

    def _launch(self, step: Launch) -> Iterator[str]:
        kernel, form = self._kernels[step.kernel], self._grids[step.kernel]
        arguments = [self._text(argument) for argument in step.arguments]
        count = len(kernel.parameters)
        passed = dict(zip(kernel.parameters, arguments, strict=False))
        if form == "FixedGrid":
            grid = template_grid_text(kernel, [int(n) for n in arguments[count:]])
        else:
            grid = grid_text(kernel, form, passed)
        name = "grid" if self._launches == 1 else f"grid_{self._launched}"
        self._launched += 1
        yield f"{name} = {grid}"
        parts = [text for parameter, text in passed.items() if parameter not in kernel.dropped]
        parts += [f"{option}={value}" for option, value in kernel.options.items()]
        yield _call(f"{kernel.name}[{name}]", parts)

    def _returned(self) -> str:
        leaves = [_Text(self._text(value)) for value in self._program.outputs]
        spec = self._traced.output
        if spec.num_leaves != len(leaves):
            raise LiftRefused("the reference returns something besides tensors")
        tree = pytree.tree_unflatten(leaves, spec)
        if not _is_plain(tree):
            raise LiftRefused(f"the reference returns a {type(tree).__name__}")
        return repr(tree)

    def _text(self, node: ast.expr) -> str:
        """An expression of Inductor's with the candidate's names and plain torch views."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name, name)
            case ast.Call(
                func=ast.Name(id="reinterpret_tensor"), args=[base, size, strides, offset]
            ):
                return self._view(
                    self._text(base),
                    tuple(ast.literal_eval(size)),
                    tuple(ast.literal_eval(strides)),
                    int(ast.literal_eval(offset)),
                )
            case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
                return ast.unparse(node)
            case _:
                raise LiftRefused(
                    f"Inductor's code has an argument of a new form: {ast.unparse(node)}"
                )

    def _view(self, base: str, size: tuple[int, ...], strides: tuple[int, ...], offset: int) -> str:
        whole = self._dense.get(base) == prod(size)
        if offset == 0 and whole and _is_dense(size, strides):
            return f"{base}.view({size})"
        if offset == 0:
            return f"torch.as_strided({base}, {size}, {strides})"
        return f"torch.as_strided({base}, {size}, {strides}, {base}.storage_offset() + {offset})"


class _Text(str):
    """Text that shows itself without quotes, so that a tree of it prints as code."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _input_names(traced: Traced) -> list[str]:
    """The reference's own parameter names, as many as there are inputs."""
    parameters = inspect.signature(type(traced.model).forward).parameters
    plain = [
        name
        for name, p in list(parameters.items())[1:]
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    missing = [f"input_{i}" for i in range(len(plain), len(traced.inputs))]
    return [*plain, *missing][: len(traced.inputs)]


def _held_names(traced: Traced, inputs: Sequence[str]) -> dict[str, str]:
    """Local name to the expression that reads it: the state in order, then the constants."""
    taken = {*inputs, "torch", "triton", "tl", "nn", "grid"}
    names = {}
    constants = [f"constant_{i}" for i in range(len(traced.constants))]
    for held in (*traced.state, *constants):
        name = local_name(held, taken)
        taken.add(name)
        names[name] = accessor(held)
    return names


def _is_dense(size: Sequence[int], strides: Sequence[int]) -> bool:
    return torch.empty_strided(size, strides, device="meta").is_contiguous()


def _is_plain(tree: Untyped) -> bool:
    if isinstance(tree, _Text):
        return True
    if type(tree) in (tuple, list):
        return all(map(_is_plain, tree))
    return type(tree) is dict and all(map(_is_plain, tree.values()))


def _call(function: str, parts: Sequence[str]) -> str:
    line = f"{function}({', '.join(parts)})"
    if len(line) <= _WIDTH:
        return line
    return f"{function}(\n" + "".join(f"    {part},\n" for part in parts) + ")"
