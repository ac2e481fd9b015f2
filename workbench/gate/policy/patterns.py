"""What unpacking a value binds: assignment targets, match patterns, isinstance."""

import ast

from workbench.gate.policy.comprehensions import Comprehensions
from workbench.gate.policy.expressions import RULES
from workbench.gate.policy.fields import ordered_fields
from workbench.gate.policy.scopes import local_names
from workbench.gate.policy.state import Frame
from workbench.gate.policy.tree import children, walk
from workbench.gate.policy.values import (
    EMPTY,
    PLAIN,
    Arguments,
    Atom,
    Class,
    Descriptor,
    Function,
    Holder,
    Instance,
    Known,
    Nothing,
    Phase,
    Plain,
    Tensor,
    Tuple,
    Unknown,
    Value,
    has_tensor,
    join,
)

_OF_MODULES = ("holder", "modules")
"""Allowed library modules, of which no tensor and no number is an instance."""


_TENSOR = Known("torch.Tensor")
_MAY_BE_TENSOR = (Plain, Tensor, Unknown)
"""Kinds of values among which a tensor may be; of the others each is known to be something else."""
_MADE_BY_CALLS = ("abc.ABC", "builtins.object", "typing.Generic", "typing.NamedTuple")
"""Bases of classes whose instances are only made by calling the class."""


class Patterns(Comprehensions):
    """The layer that binds names to values and to their parts."""

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
        """Bind the names of a pattern: to the subject or any part of it."""
        inner = subject | self.iterate_containers(subject) | self._walked(subject, pattern, frame)
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
                self._capture_members(pattern, subject, inner - subject, frame)
                return
        if isinstance(pattern, ast.MatchSequence | ast.MatchMapping):
            inner -= frozenset(atom for atom in subject if isinstance(atom, Instance))
        for child in children(pattern):
            if isinstance(child, ast.pattern):
                self.capture(child, inner, frame)

    def _capture_members(
        self, pattern: ast.MatchClass, subject: Value, parts: Value, frame: Frame
    ) -> None:
        """Bind the names of `Class(part, name=part)`; `parts` are elements of the subject."""
        self.evaluate(pattern.cls, frame)
        for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            member = self.read_member(subject, name, pattern, frame)
            self.capture(part, member, frame)
        for place, part in enumerate(pattern.patterns):
            held = join(self._by_place(atom, place) for atom in subject)
            self.capture(part, parts | held, frame)

    def _walked(self, subject: Value, pattern: ast.pattern, frame: Frame) -> Value:
        """What a pattern of a sequence or a mapping takes out of objects of the file."""
        if not isinstance(pattern, ast.MatchSequence | ast.MatchMapping):
            return EMPTY
        found = EMPTY
        for atom in [one for one in subject if isinstance(one, Instance)]:
            for name in ("__getitem__", "get"):
                if self.find_member(atom.node, name):
                    getter = self.read_member(frozenset({atom}), name, pattern, frame)
                    found |= self.call(getter, Arguments((PLAIN, PLAIN)), pattern, frame)
        return found

    def boolean(self, node: ast.BoolOp, frame: Frame) -> Value:
        """`a and b`, `a or b`."""
        values = []
        before = frame.names
        for operand in node.values:
            values.append(self.evaluate(operand, frame))
            if not _binds(node):  # the next one is only reached where this one decided nothing
                frame.names = dict(frame.names)
                self.assume(operand, frame, holds=isinstance(node.op, ast.And))
        if not _binds(node):
            frame.names = before
        for value, operand in zip(values[:-1], node.values, strict=False):
            if has_tensor(value) and frame.phase is Phase.CALL:
                self.refuse("policy.reads-values", operand)
        return join(values)

    def choice(self, node: ast.IfExp, frame: Frame) -> Value:
        """`a if test else b`."""
        self.test(node.test, frame)
        if _binds(node):
            return self.evaluate(node.body, frame) | self.evaluate(node.orelse, frame)
        before, ends = frame.names, []
        for end, holds in ((node.body, True), (node.orelse, False)):
            frame.names = dict(before)
            self.assume(node.test, frame, holds=holds)
            ends.append(self.evaluate(end, frame))
        frame.names = before
        return join(ends)

    def _by_place(self, atom: Atom, place: int) -> Value:
        """What a pattern takes out of a value by its place: never a method."""
        if not isinstance(atom, Instance):
            return frozenset({atom})
        lineage = self.lineage(atom.node)
        fields = ordered_fields(lineage)
        if place < len(fields) and not any("__match_args__" in local_names(c) for c in lineage):
            return self.find_member(atom.node, fields[place])
        held = join(join(self.every_member(one).values()) for one in lineage)
        return frozenset(a for a in held if not isinstance(a, Function | Descriptor))

    def assume(self, test: ast.expr, frame: Frame, *, holds: bool = True) -> None:
        """Drop what a test by `isinstance` rules out; nothing where the test binds names."""
        if not _binds(test):
            self._assume(test, frame, holds)

    def _assume(self, test: ast.expr, frame: Frame, holds: bool) -> None:
        match test:
            case ast.BoolOp(op=op, values=parts) if isinstance(op, ast.And) is holds:
                for part in parts:
                    self._assume(part, frame, holds)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                self._assume(inner, frame, not holds)
            case ast.Call(
                func=ast.Name(id="isinstance") as called, args=[ast.Name(id=name), kinds]
            ):
                builtin = self.evaluate(called, frame) == {Known("builtins.isinstance")}
                if builtin and name in frame.names and name not in self.rebound:
                    held = frame.names[name]
                    frame.names[name] = (
                        self._among(held, kinds, frame) if holds else self._but(held, kinds, frame)
                    )

    def _among(self, held: Value, kinds: ast.expr, frame: Frame) -> Value:
        """Those that may be of these classes."""
        allowed = self.evaluate(kinds, frame)
        allowed |= self.iterate_containers(allowed)
        return frozenset(atom for atom in held if self._may_be(atom, allowed))

    def _but(self, held: Value, kinds: ast.expr, frame: Frame) -> Value:
        """What remains of those that are of none of these classes: no tensor, but something."""
        each = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
        if not any(self.evaluate(kind, frame) == {_TENSOR} for kind in each):
            return held
        return frozenset(Plain() if isinstance(atom, Tensor) else atom for atom in held)

    def _may_be_own(self, atom: Atom, classes: set[ast.ClassDef]) -> bool:
        """Whether an object may be one of these classes of the file."""
        bases = (path for owner in classes for path in self.library_bases(owner))
        if not all(path in _MADE_BY_CALLS or path.startswith("torch.nn.") for path in bases):
            return True
        if isinstance(atom, Instance):
            return not classes.isdisjoint(self.lineage(atom.node))
        return isinstance(atom, Unknown)

    def _may_be(self, atom: Atom, kinds: Value) -> bool:
        """Whether an object may be an instance of one of these classes."""
        own = {kind.node for kind in kinds if isinstance(kind, Class)}
        if own and all(isinstance(kind, Class | Tuple) for kind in kinds):
            return self._may_be_own(atom, own)
        if any(not isinstance(kind, Known | Tuple) for kind in kinds):
            return True
        if kinds == {_TENSOR}:
            return isinstance(atom, _MAY_BE_TENSOR)
        paths = {kind.path for kind in kinds if isinstance(kind, Known)}
        kept = {path: self.allowed.names.get(path) for path in paths}
        holders = {path for path, group in kept.items() if group and group.returns in _OF_MODULES}
        return not paths or holders != paths or self._may_hold(atom, paths)

    def _may_hold(self, atom: Atom, paths: set[str]) -> bool:
        """Whether an object may be one of these library modules."""
        match atom:
            case Instance():
                return bool(paths.intersection(self.library_bases(atom.node)))
            case Holder():
                return atom.path in paths or atom.path.endswith(".Module")
            case Plain() | Tensor() | Nothing():
                return False
        return True


def _binds(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.NamedExpr) for inner in walk(node))


RULES[ast.BoolOp] = Patterns.boolean
RULES[ast.IfExp] = Patterns.choice
