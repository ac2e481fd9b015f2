"""What statements do: flow, definitions, guards and imports."""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

from workbench.gate.policy.patterns import Patterns
from workbench.gate.policy.scopes import join_names
from workbench.gate.policy.state import Frame
from workbench.gate.policy.tree import walk
from workbench.gate.policy.values import (
    EMPTY,
    NOTHING,
    PLAIN,
    UNKNOWN,
    Arguments,
    Atom,
    Caught,
    Class,
    Decorator,
    Function,
    Instance,
    Items,
    Nothing,
    Plain,
    Tensor,
    Unknown,
    Value,
    join,
)

_LEAVES = ast.Return | ast.Break | ast.Continue
_BOOKKEEPING = ast.Add | ast.Sub | ast.Mult | ast.Div


class Statements(Patterns):
    """Executes statements. Each rule says whether the next statement is reached."""

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
        self.assign(node.target, new, frame)

    # ----------------------------------------------------------------------------------- flow

    def condition(self, node: ast.If, frame: Frame) -> bool:
        """`if`; the part that only a script runs is not part of a candidate."""
        if is_main_guard(node.test):
            return self.block(node.orelse, frame)
        self.test(node.test, frame)
        start, ends = frame.names, []
        for body, known in ((node.body, node.test), (node.orelse, None)):
            frame.names = dict(start)
            if known is not None:
                self.assume(known, frame)
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

        self._loop(once, frame)
        return self.block(node.orelse, frame)

    def while_loop(self, node: ast.While, frame: Frame) -> bool:
        """`while`; one that nothing can leave is refused."""
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if endless and not _can_leave(node.body):
            self.refuse("policy.endless-loop", node)

        def once() -> bool:
            self.test(node.test, frame)
            return self.block(node.body, frame)

        left = self._loop(once, frame)
        return left if endless else self.block(node.orelse, frame)

    def _loop(self, once: Callable[[], bool], frame: Frame) -> bool:
        """Run a body until it adds nothing; whether `break` can leave it."""
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
        """`break` and `continue`: both meet again after the loop."""
        if frame.leaving:
            frame.leaving[-1].append(dict(frame.names))
        return False

    def returned(self, node: ast.Return, frame: Frame) -> bool:
        """`return`."""
        frame.returned |= self.evaluate(node.value, frame) if node.value else NOTHING
        return False

    def raised(self, node: ast.Raise, frame: Frame) -> bool:
        """`raise`; its message may quote anything, since the call fails."""
        with self.final_words():
            for part in (node.exc, node.cause):
                if part is not None:
                    self.evaluate(part, frame)
        return False

    def asserted(self, node: ast.Assert, frame: Frame) -> None:
        """`assert`."""
        self.test(node.test, frame)
        if node.msg is not None:
            with self.final_words():
                self.evaluate(node.msg, frame)

    @contextmanager
    def final_words(self) -> Iterator[None]:
        """A message may quote tensors, unless the file could catch it and read on."""
        quoting = not self.catches
        self.telling += quoting
        yield
        self.telling -= quoting

    def attempt(self, node: ast.Try, frame: Frame) -> bool:
        """`try`; nothing may swallow the failure of a launch."""
        start, before = dict(frame.names), self.launches
        reached = self.block(node.body, frame)
        launched = self.launches > before
        ends = []
        if reached and self.block(node.orelse, frame):
            ends.append(frame.names)
        # A handler may start at any point of the body: any value the names ever had.
        changed = {n.id for s in node.body for n in walk(s) if isinstance(n, ast.Name)}
        self.asked.add((frame.scope, "*"))
        middle = {
            name: start.get(name, EMPTY) | frame.scope.ever.get(name, EMPTY)
            for name in {*start, *(changed & frame.scope.ever.keys())}
        }
        for handler in node.handlers:
            frame.names = dict(middle)
            if handler.type is not None:
                self.evaluate(handler.type, frame)
            if handler.name:
                self.bind(handler.name, self._caught(), handler, frame)
            if launched and _swallows(handler.body):
                self.refuse("policy.fallback", handler, "except")
            if self.block(handler.body, frame):
                ends.append(frame.names)
        if launched and any(isinstance(n, _LEAVES) for s in node.finalbody for n in walk(s)):
            self.refuse("policy.fallback", node, "finally")
        frame.names = join_names(ends) if ends else middle
        return self.block(node.finalbody, frame) and bool(ends)

    def _caught(self) -> Value:
        """What a handler may catch: any exception, the file's own included."""
        own = [c for c in self.bases if any("builtins." in b for b in self.library_bases(c))]
        return frozenset({Caught(), *(Instance(c) for c in own)})

    def with_context(self, node: ast.With, frame: Frame) -> bool:
        """`with`."""
        for item in node.items:
            value = self.evaluate(item.context_expr, frame)
            entered = join(self._enter(a, item.context_expr, frame) for a in value)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered, frame)
        return self.block(node.body, frame)

    def _enter(self, atom: Atom, node: ast.expr, frame: Frame) -> Value:
        match atom:
            case Decorator():
                return atom.given.all() | NOTHING
            case Items(kind="list"):  # the generator of a contextmanager
                return self.contents(atom).all()
            case Instance():
                receiver: Value = frozenset({atom})
                leave = self.read_member(receiver, "__exit__", node, frame)
                self.call(leave, Arguments((PLAIN, PLAIN, PLAIN)), node, frame)
                enter = self.read_member(receiver, "__enter__", node, frame)
                return self.call(enter, Arguments(), node, frame)
            case Plain() | Unknown():
                return frozenset({atom})
            case Nothing():
                return EMPTY
        self.refuse("policy.unresolved", node)
        return UNKNOWN

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
        """An expression for its effect."""
        self.evaluate(node.value, frame)

    def deleted(self, node: ast.Delete, frame: Frame) -> None:
        """`del`."""
        for target in node.targets:
            match target:
                case ast.Attribute():
                    owner = self.evaluate(target.value, frame)
                    if not all(isinstance(a, Instance | Class | Nothing | Unknown) for a in owner):
                        self.refuse("policy.patches-object", target)
                case ast.Subscript():
                    self.evaluate(target.value, frame)

    def nothing(self, _: ast.stmt, frame: Frame) -> None:
        """`pass`, `global`, `nonlocal`."""
        del frame

    def define_function(self, node: ast.FunctionDef, frame: Frame) -> None:
        """`def`."""
        raise NotImplementedError

    def define_class(self, node: ast.ClassDef, frame: Frame) -> None:
        """`class`."""
        raise NotImplementedError

    def import_module(self, node: ast.Import, frame: Frame) -> None:
        """`import`."""
        raise NotImplementedError

    def import_names(self, node: ast.ImportFrom, frame: Frame) -> None:
        """`from ... import`."""
        raise NotImplementedError

    @cached_property
    def lazy_annotations(self) -> bool:
        """Whether the file asks for annotations that are never evaluated."""
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


def _swallows(body: list[ast.stmt]) -> bool:
    """Whether a handler can end without raising."""
    if any(isinstance(n, _LEAVES) for statement in body for n in walk(statement)):
        return True
    return not body or not isinstance(body[-1], ast.Raise)


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
