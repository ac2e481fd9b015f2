"""What unpacking a value binds: assignment targets, match patterns, isinstance."""

import ast

from workbench.gate.policy.expressions import Expressions
from workbench.gate.policy.state import Frame
from workbench.gate.policy.tree import children, walk
from workbench.gate.policy.values import (
    Atom,
    Holder,
    Instance,
    Known,
    Nothing,
    Phase,
    Plain,
    Tensor,
    Tuple,
    Value,
    has_tensor,
)

_OF_MODULES = ("holder", "modules")
"""Of the allow-list: library modules, which no tensor and no number is an instance of."""


class Patterns(Expressions):
    """Binds names to values and to their parts."""

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Assign a value to a name, member, element or pattern."""
        match target:
            case ast.Name():
                self.bind(target.id, value, target, frame)
            case ast.Tuple() | ast.List():
                self._unpack(target, value, frame)
            case ast.Attribute():
                self.write_member(
                    self.evaluate(target.value, frame), target.attr, value, target, frame
                )
            case ast.Subscript():
                index = self.evaluate(target.slice, frame)
                key = target.slice.value if isinstance(target.slice, ast.Constant) else None
                literal = key if isinstance(key, str) else None
                self.store(self.evaluate(target.value, frame), index, literal, value, target)
            case ast.Starred():
                self.assign(target.value, self.make_list(target, value), frame)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value, frame: Frame) -> None:
        if any(isinstance(element, ast.Starred) for element in target.elts):
            every = self.iterate(value, target, frame)
            parts = [every] * len(target.elts)
        else:
            parts = self.unpack(value, len(target.elts), target, frame)
        for element, part in zip(target.elts, parts, strict=True):
            self.assign(element, part, frame)

    def capture(self, pattern: ast.pattern, subject: Value, frame: Frame) -> None:
        """Bind what a pattern captures: the subject or any part of it."""
        inner = subject | self.iterate_containers(subject)
        match pattern:
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self.bind(name, inner, pattern, frame)
            case ast.MatchMapping(rest=str(name)):
                self.bind(name, inner, pattern, frame)
            case ast.MatchValue():
                self.compared([subject, self.evaluate(pattern.value, frame)], pattern, frame)
                if has_tensor(subject) and frame.phase is Phase.CALL:
                    self.refuse("policy.operator-on-tensor", pattern.value)
            case ast.MatchClass():
                self.evaluate(pattern.cls, frame)
                for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
                    member = self.read_member(subject, name, pattern, frame)
                    self.capture(part, member, frame)
                for part in pattern.patterns:
                    self.capture(part, inner, frame)
                return
        for child in children(pattern):
            if isinstance(child, ast.pattern):
                self.capture(child, inner, frame)

    def assume(self, test: ast.expr, frame: Frame) -> None:
        """Drop what `isinstance` rules out where it holds; nothing where the test binds names."""
        if not any(isinstance(node, ast.NamedExpr) for node in walk(test)):
            self._assume(test, frame)

    def _assume(self, test: ast.expr, frame: Frame) -> None:
        match test:
            case ast.BoolOp(op=ast.And(), values=parts):
                for part in parts:
                    self._assume(part, frame)
            case ast.Call(
                func=ast.Name(id="isinstance") as called, args=[ast.Name(id=name), kinds]
            ):
                builtin = self.evaluate(called, frame) == {Known("builtins.isinstance")}
                if builtin and name in frame.names and name not in self.rebound:
                    allowed = self.evaluate(kinds, frame)
                    allowed |= self.iterate_containers(allowed)
                    frame.names[name] = frozenset(
                        atom for atom in frame.names[name] if self._may_be(atom, allowed)
                    )

    def _may_be(self, atom: Atom, kinds: Value) -> bool:
        """Whether an object may be an instance of one of these classes."""
        paths = {kind.path for kind in kinds if isinstance(kind, Known)}
        if any(not isinstance(kind, Known | Tuple) for kind in kinds):
            return True
        kept = {path: self.allowed.names.get(path) for path in paths}
        holders = {path for path, group in kept.items() if group and group.returns in _OF_MODULES}
        if not paths or holders != paths:
            return True
        match atom:
            case Instance():
                return bool(paths.intersection(self.library_bases(atom.node)))
            case Holder():
                return atom.path in paths or atom.path.endswith(".Module")
            case Plain() | Tensor() | Nothing():
                return False
        return True
