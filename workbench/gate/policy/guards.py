"""Exceptions and contexts in the abstract interpreter: try, with, raise, assert."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from workbench.gate.policy.patterns import Patterns
from workbench.gate.policy.scopes import join_names
from workbench.gate.policy.state import Frame, Names
from workbench.gate.policy.tree import own_nodes, walk
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
    FunctionNode,
    Instance,
    Items,
    Known,
    Nothing,
    Plain,
    Unknown,
    Value,
    join,
)

_STACK = "contextlib.ExitStack"
_LEAVES = ast.Return | ast.Break | ast.Continue


class Guards(Patterns):
    """The layer that executes blocks which may end early, and what follows them."""

    def block(self, statements: list[ast.stmt], frame: Frame) -> bool:
        """Execute statements; implemented by the layer of statements."""
        raise NotImplementedError

    def raised(self, node: ast.Raise, frame: Frame) -> bool:
        """`raise`; its message may contain anything, since the call fails."""
        with self.final_words():
            for part in (node.exc, node.cause):
                if part is not None:
                    made = self.evaluate(part, frame)
                    for atom in made:
                        if isinstance(atom, Class):
                            self.call(frozenset({atom}), Arguments(), part, frame)
        return False

    def asserted(self, node: ast.Assert, frame: Frame) -> None:
        """`assert`."""
        self.test(node.test, frame)
        if node.msg is not None:
            with self.final_words():
                self.evaluate(node.msg, frame)
        self.assume(node.test, frame)

    @contextmanager
    def final_words(self) -> Iterator[None]:
        """A message may contain tensors, unless the file could catch it and read it."""
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
        middle = self._midway(start, node.body, frame)
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

    def _midway(self, start: Names, body: list[ast.stmt], frame: Frame) -> Names:
        """The names after a body that may have stopped anywhere: any value that they ever had."""
        changed = {n.id for s in body for n in walk(s) if isinstance(n, ast.Name)}
        self.asked.add((frame.scope, "*"))
        return {
            name: start.get(name, EMPTY) | frame.scope.ever.get(name, EMPTY)
            for name in {*start, *(changed & frame.scope.ever.keys())}
        }

    def _caught(self) -> Value:
        """What a handler may catch: any exception, the file's own included."""
        own = [c for c in self.bases if any("builtins." in b for b in self.library_bases(c))]
        return frozenset({Caught(), *(Instance(c) for c in own)})

    def tell(self, path: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
        """The result of calling `path`; None where the rules define it."""
        if not path.startswith(_STACK):
            return super().tell(path, arguments, node, frame)
        first = arguments.get(0, "callback")
        match path.removeprefix(_STACK):
            case ".enter_context":
                given = arguments.all() - {Known(_STACK)}
                if any(map(self._may_swallow, given)):
                    self.refuse("policy.fallback", node)
                return join(self._enter(atom, node, frame) for atom in given)
            case ".callback":
                others = Arguments(arguments.positional[1:], arguments.keywords, arguments.rest)
                self.call(first, others, node, frame)
                return first
        return frozenset({Known(_STACK)})

    def with_context(self, node: ast.With, frame: Frame) -> bool:
        """`with`; where it may swallow, the body may end anywhere and execution continue behind."""
        swallows = False
        for item in node.items:
            value = self.evaluate(item.context_expr, frame)
            swallows |= any(map(self._may_swallow, value))
            entered = join(self._enter(a, item.context_expr, frame) for a in value)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered, frame)
        start, before = dict(frame.names), self.launches
        reached = self.block(node.body, frame)
        if not swallows:
            return reached
        if self.launches > before:
            self.refuse("policy.fallback", node, "with")
        middle = self._midway(start, node.body, frame)
        frame.names = join_names([middle, frame.names]) if reached else middle
        return True

    def _may_swallow(self, atom: Atom) -> bool:
        """Whether leaving a context may swallow an exception; no library context does."""
        match atom:
            case Instance():
                exits = self.find_member(atom.node, "__exit__")
                return any(isinstance(e, Function) and _says_so(e.node) for e in exits)
            case Decorator(path="contextlib.suppress"):
                return True
            case Items(site=ast.FunctionDef() as made):
                tries = [n for n in own_nodes(made) if isinstance(n, ast.Try)]
                return any(_swallows(h.body) for t in tries for h in t.handlers)
        return False

    def _enter(self, atom: Atom, node: ast.expr, frame: Frame) -> Value:
        match atom:
            case Decorator():
                return atom.given.all() | NOTHING
            case Items(kind="list"):  # the generator of a contextmanager
                return self.contents(atom).all()
            case Instance():
                receiver: Value = frozenset({atom})
                leave = self.read_member(receiver, "__exit__", node, frame)
                ended = (PLAIN | NOTHING, self._caught() | NOTHING, PLAIN | NOTHING)
                self.call(leave, Arguments(ended), node, frame)
                enter = self.read_member(receiver, "__enter__", node, frame)
                return self.call(enter, Arguments(), node, frame)
            case Plain() | Unknown() | Known(path="contextlib.ExitStack"):
                return frozenset({atom})
            case Nothing():
                return EMPTY
        self.refuse("policy.unresolved", node)
        return UNKNOWN


def _swallows(body: list[ast.stmt]) -> bool:
    """Whether a handler can end without raising."""
    if any(isinstance(n, _LEAVES) for statement in body for n in walk(statement)):
        return True
    return not body or not isinstance(body[-1], ast.Raise)


def _says_so(leave: FunctionNode) -> bool:
    """Whether an `__exit__` may return a true value."""
    if isinstance(leave, ast.Lambda):
        return True
    given = [n.value for n in own_nodes(leave) if isinstance(n, ast.Return) and n.value]
    return any(not isinstance(value, ast.Constant) or bool(value.value) for value in given)
