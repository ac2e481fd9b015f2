"""Statements in the abstract interpreter: control flow, definitions and imports."""

import ast
import sys
from collections.abc import Callable
from functools import cached_property

from workbench.gate.policy.guards import Guards
from workbench.gate.policy.scopes import join_names
from workbench.gate.policy.state import Frame
from workbench.gate.policy.tree import walk
from workbench.gate.policy.values import (
    NOTHING,
    Class,
    Function,
    Instance,
    Items,
    Nothing,
    Plain,
    Tensor,
    Unknown,
    has_tensor,
)

_BOOKKEEPING = ast.Add | ast.Sub | ast.Mult | ast.Div


class Statements(Guards):
    """The layer that executes statements. A rule returns whether the next one is reached."""

    def block(self, statements: list[ast.stmt], frame: Frame) -> bool:
        """Execute statements in order, until one does not fall through."""
        return all(self.statement(statement, frame) for statement in statements)

    def statement(self, node: ast.stmt, frame: Frame) -> bool:
        """Execute one statement."""
        self.step()
        rule = _RULES.get(type(node))
        if rule is None:
            self.refuse("policy.unresolved", node)
            return True
        return getattr(self, rule)(node, frame) is not False

    def run_body(self, function: Function, frame: Frame) -> None:
        """Evaluate a function's body."""
        if isinstance(function.node, ast.Lambda):
            frame.returned |= self.evaluate(function.node.body, frame)
        elif self.block(function.node.body, frame):
            frame.returned |= NOTHING

    # ------------------------------------------------------------------------------ assigning

    def assignment(self, node: ast.Assign, frame: Frame) -> None:
        """`a = b = value`."""
        value = self.evaluate(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame)

    def annotated(self, node: ast.AnnAssign, frame: Frame) -> None:
        """`a: type = value`; outside functions Python evaluates the type too."""
        if frame.function is None or not isinstance(node.target, ast.Name):
            self.annotation(node.annotation, frame)
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, frame), frame)

    def annotation(self, node: ast.expr | None, frame: Frame) -> None:
        """A type: evaluated like any expression, since Python does."""
        if node is not None and not self.lazy_annotations:
            self.evaluate(node, frame)

    def augmented(self, node: ast.AugAssign, frame: Frame) -> None:
        """`a += value`; buffers of the state_dict may be updated in place."""
        loaded = self.loaded.setdefault(node, ast.copy_location(_as_load(node.target), node.target))
        old, value = self.evaluate(loaded, frame), self.evaluate(node.value, frame)
        tensors = [atom for atom in old if isinstance(atom, Tensor)]
        buffers = tensors and all(atom.origin == "buffer" for atom in tensors)
        if buffers and isinstance(node.op, _BOOKKEEPING):
            self.check_update(value, node, frame)
            return
        new = self.operate(old, value, node.op, node, frame)
        for atom in old:
            if isinstance(atom, Items):
                self.put(atom, self.iterate_containers(value))
            elif isinstance(atom, Plain) and not has_tensor(value):
                self.check_hidden(value, node)
        self.assign(node.target, new, frame)

    # ----------------------------------------------------------------------------------- flow

    def condition(self, node: ast.If, frame: Frame) -> bool:
        """`if`; the part that only a script runs is not part of a candidate."""
        if is_main_guard(node.test):
            return self.block(node.orelse, frame)
        self.test(node.test, frame)
        start, ends = frame.names, []
        for body, holds in ((node.body, True), (node.orelse, False)):
            frame.names = dict(start)
            self.assume(node.test, frame, holds=holds)
            if self.block(body, frame):
                ends.append(frame.names)
        frame.names = join_names(ends) if ends else start
        return bool(ends)

    def for_loop(self, node: ast.For, frame: Frame) -> bool:
        """`for`."""
        values = self.evaluate(node.iter, frame)

        def once() -> bool:
            self.assign(node.target, self.iterate(values, node.iter, frame), frame)
            return self.block(node.body, frame)

        return self._otherwise(node.orelse, self._loop(once, frame), frame)

    def _otherwise(self, orelse: list[ast.stmt], left: bool, frame: Frame) -> bool:
        """`else` of a loop, which a `break` skips."""
        behind = dict(frame.names)
        reached = self.block(orelse, frame)
        if left:
            frame.names = join_names([behind, frame.names]) if reached else behind
        return reached or left

    def while_loop(self, node: ast.While, frame: Frame) -> bool:
        """`while`; one that nothing can leave is refused."""
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if endless and not _can_leave(node.body):
            self.refuse("policy.endless-loop", node)

        def once() -> bool:
            self.test(node.test, frame)
            return self.block(node.body, frame)

        left = self._loop(once, frame)
        return left if endless else self._otherwise(node.orelse, left, frame)

    def _loop(self, once: Callable[[], bool], frame: Frame) -> bool:
        """Execute a body until it adds nothing; returns whether `break` can leave it."""
        frame.leaving.append([])
        while True:
            before = dict(frame.names)
            ends = [before, *frame.leaving[-1]]
            if once():
                ends.append(frame.names)
            frame.names = {
                name: self.narrow(value, frame.scope.node)
                for name, value in join_names(ends).items()
            }
            if frame.names == before:
                return bool(frame.leaving.pop())

    def leave(self, _: ast.Break | ast.Continue, frame: Frame) -> bool:
        """`break` and `continue`: both join again after the loop."""
        if frame.leaving:
            frame.leaving[-1].append(dict(frame.names))
        return False

    def returned(self, node: ast.Return, frame: Frame) -> bool:
        """`return`."""
        frame.returned |= self.evaluate(node.value, frame) if node.value else NOTHING
        return False

    def match(self, node: ast.Match, frame: Frame) -> bool:
        """`match`: a captured name may be the subject or any part of it."""
        subject = self.evaluate(node.subject, frame)
        start, ends = frame.names, []
        for case in node.cases:
            frame.names = dict(start)
            self.capture(case.pattern, subject, frame)
            if case.guard is not None:
                self.test(case.guard, frame)
            if self.block(case.body, frame):
                ends.append(frame.names)
        frame.names = join_names([start, *ends])
        return True

    # ---------------------------------------------------------------------------- the small ones

    def expression(self, node: ast.Expr, frame: Frame) -> None:
        """An expression, for its effect."""
        self.evaluate(node.value, frame)

    def deleted(self, node: ast.Delete, frame: Frame) -> None:
        """`del`."""
        for target in node.targets:
            match target:
                case ast.Attribute():
                    owner = self.evaluate(target.value, frame)
                    self.delete_property(owner, target.attr, target, frame)
                    if not all(isinstance(a, Instance | Class | Nothing | Unknown) for a in owner):
                        self.refuse("policy.patches-object", target)
                case ast.Subscript():
                    self.evaluate(target.value, frame)
                    self.evaluate(target.slice, frame)

    def nothing(self, _: ast.stmt, frame: Frame) -> None:
        """`pass`, `global`, `nonlocal`."""
        del frame

    def define_function(self, node: ast.FunctionDef, frame: Frame) -> None:
        """`def`."""
        raise NotImplementedError

    def define_class(self, node: ast.ClassDef, frame: Frame) -> None:
        """`class`."""
        raise NotImplementedError

    def define_alias(self, node: ast.stmt, frame: Frame) -> None:
        """`type`."""
        raise NotImplementedError

    def import_module(self, node: ast.Import, frame: Frame) -> None:
        """`import`."""
        raise NotImplementedError

    def import_names(self, node: ast.ImportFrom, frame: Frame) -> None:
        """`from ... import`."""
        raise NotImplementedError

    @cached_property
    def lazy_annotations(self) -> bool:
        """Whether the file requests annotations that are never evaluated."""
        return any(
            isinstance(n, ast.ImportFrom)
            and n.module == "__future__"
            and any(a.name == "annotations" for a in n.names)
            for n in self.tree.body
        )


def is_main_guard(test: ast.expr) -> bool:
    """`__name__ == "__main__"`: false in a worker, which names the module itself."""
    match test:
        case ast.Compare(
            left=ast.Name(id="__name__"),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value="__main__")],
        ):
            return True
    return False


def _as_load(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name(id=name):
            return ast.Name(id=name, ctx=ast.Load())
        case ast.Attribute(value=value, attr=attr):
            return ast.Attribute(value=value, attr=attr, ctx=ast.Load())
        case ast.Subscript(value=value, slice=index):
            return ast.Subscript(value=value, slice=index, ctx=ast.Load())
    return target


def _can_leave(body: list[ast.stmt]) -> bool:
    leaves = ast.Return | ast.Break | ast.Raise | ast.Assert | ast.Yield | ast.YieldFrom | ast.Try
    return any(isinstance(n, leaves) for statement in body for n in walk(statement))


_RULES: dict[type[ast.stmt], str] = {
    ast.Assign: "assignment",
    ast.AnnAssign: "annotated",
    ast.AugAssign: "augmented",
    ast.If: "condition",
    ast.For: "for_loop",
    ast.While: "while_loop",
    ast.Break: "leave",
    ast.Continue: "leave",
    ast.Return: "returned",
    ast.Raise: "raised",
    ast.Assert: "asserted",
    ast.Try: "attempt",
    ast.With: "with_context",
    ast.Match: "match",
    ast.Expr: "expression",
    ast.Delete: "deleted",
    ast.Pass: "nothing",
    ast.Global: "nothing",
    ast.Nonlocal: "nothing",
    ast.FunctionDef: "define_function",
    ast.ClassDef: "define_class",
    ast.Import: "import_module",
    ast.ImportFrom: "import_names",
}
if sys.version_info >= (3, 12):
    _RULES[ast.TypeAlias] = "define_alias"
