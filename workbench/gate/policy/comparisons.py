"""Comparisons in the abstract interpreter: methods that Python calls, and reads of tensors."""

import ast

from workbench.gate.policy.containers import Containers
from workbench.gate.policy.state import Frame
from workbench.gate.policy.values import (
    EMPTY,
    PLAIN,
    Arguments,
    Function,
    Instance,
    Items,
    Phase,
    Tuple,
    Value,
    has_tensor,
    join,
)


class Comparisons(Containers):
    """The layer that compares, searches and sorts."""

    def compared(self, values: list[Value], node: ast.AST, frame: Frame) -> None:
        """Evaluate the methods by which objects of the file are compared with other values."""
        every = join(values)
        every |= self.iterate_containers(every)
        asked = {"__contains__": values[0], "__eq__": every}
        for atom in [one for one in every if isinstance(one, Instance)]:
            if isinstance(node, ast.Compare) and not self.find_member(atom.node, "__contains__"):
                self._search(atom, node, frame)
            for name, other in asked.items():
                for method in self.find_member(atom.node, name):
                    given = Arguments((frozenset({atom}), other))
                    self.call(frozenset({method}), given, node, frame)

    def _search(self, atom: Instance, node: ast.Compare, frame: Frame) -> None:
        """`in` on an object without `__contains__`: Python iterates over its elements."""
        looks = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
        walks = any(self.find_member(atom.node, name) for name in ("__iter__", "__getitem__"))
        if looks and walks:
            self.iterate_instance(atom, node, frame)

    def compare_own(self, atom: Instance, node: ast.AST) -> None:
        """Evaluate how objects of a class are compared, as for the keys of a dict."""
        for method in self.find_member(atom.node, "__eq__"):
            if isinstance(method, Function):
                given = Arguments((frozenset({atom}), frozenset({atom}) | PLAIN))
                frame = Frame(method.scope, Phase.CALL)
                self.call(frozenset({method}), given, node, frame)

    def searched(self, value: Value) -> Value:
        """What `in` compares with: the elements, of a dict its keys."""
        return join(
            self.contents(atom).keys if atom.kind in ("dict", "meta") else self.contents(atom).all()
            for atom in value
            if isinstance(atom, Items)
        ) | join(join(atom.items) for atom in value if isinstance(atom, Tuple))

    def compares_tensors(self, value: Value) -> bool:
        """Whether comparing a value compares tensors: it is one, or a record that holds some."""
        if has_tensor(value):
            return True
        compared = frozenset(a for a in value if not isinstance(a, Instance) or self._by_fields(a))
        return self.may_hold_tensor(compared)

    def _by_fields(self, atom: Instance) -> bool:
        """Whether objects of a class are compared field by field: dataclasses, named tuples."""
        lineage = self.lineage(atom.node)
        named = "typing.NamedTuple" in self.library_bases(atom.node)
        return named or any(owner.decorator_list for owner in lineage)

    def order(self, elements: Value, given: Arguments, node: ast.AST, frame: Frame) -> None:
        """Sorting: it compares the elements, or what `key` returns for them."""
        keyer = dict(given.keywords).get("key", EMPTY)
        keys = self.call(keyer, Arguments((elements,)), node, frame) if keyer else elements
        if self.compares_tensors(keys) and frame.phase is Phase.CALL:
            self.refuse("policy.operator-on-tensor", node)
