"""Comprehensions in the abstract interpreter: names of their own, and one value for each round."""

import ast

from workbench.gate.policy.expressions import RULES, Expressions
from workbench.gate.policy.state import Frame
from workbench.gate.policy.tree import walk
from workbench.gate.policy.values import Items, Phase, Scope, Tuple, Value

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Comprehensions(Expressions):
    """The layer that evaluates comprehensions."""

    def comprehension(self, node: Comprehension, frame: Frame) -> Value:
        """A comprehension; a generator runs later, when inputs exist."""
        outside = frame
        if frame.class_body is not None:  # only its first iterable sees the names of the class
            inner = Scope(frame.scope.parent, node)
            scope = self.class_scopes.setdefault((node, frame.scope), inner)
            frame = Frame(scope, frame.phase, function=frame.function)
        before, phase = dict(frame.names), frame.phase
        if isinstance(node, ast.GeneratorExp):
            frame.phase = Phase.CALL
        targets: set[str] = set()
        made: Value | None = None
        for place, generator in enumerate(node.generators):
            where = frame if place else outside
            walked = self.evaluate(generator.iter, where)
            targets |= {n.id for n in walk(generator.target) if isinstance(n, ast.Name)}
            if isinstance(node, ast.GeneratorExp) and len(node.generators) == 1:
                made = self._each_of(walked, node, frame)
            if made is None:
                self.assign(generator.target, self.iterate(walked, generator.iter, where), frame)
                for condition in generator.ifs:
                    self.test(condition, frame)
                    self.assume(condition, frame)
        if made is None:
            made = self._collected(node, frame)
        frame.phase = phase
        for name in targets:
            frame.names.pop(name, None)
            if name in before:
                frame.names[name] = before[name]
        return made

    def _each_of(self, walked: Value, node: ast.GeneratorExp, frame: Frame) -> Value | None:
        """One value for each item of a tuple, so that each keeps its place; None for others."""
        (generator,) = node.generators
        match [*walked]:
            case [Tuple(items=items)] if not generator.ifs:
                made = []
                for item in items:
                    self.assign(generator.target, item, frame)
                    made.append(self.evaluate(node.elt, frame))
                return self.narrow(frozenset({Tuple(tuple(made))}), node)
        return None

    def _collected(self, node: Comprehension, frame: Frame) -> Value:
        """The container of what one round of a comprehension gives."""
        items = Items(node, "dict" if isinstance(node, ast.DictComp) else "list")
        made: Value = frozenset({items})
        if isinstance(node, ast.DictComp):
            key = self.evaluate(node.key, frame)
            self.store(made, key, None, self.evaluate(node.value, frame), node)
        else:
            self.put(items, self.evaluate(node.elt, frame))
        return made


RULES[ast.ListComp] = Comprehensions.comprehension
RULES[ast.SetComp] = Comprehensions.comprehension
RULES[ast.DictComp] = Comprehensions.comprehension
RULES[ast.GeneratorExp] = Comprehensions.comprehension
