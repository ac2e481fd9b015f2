"""Expressions in the abstract interpreter: the possible values of each kind, and refusals."""

import ast
from collections.abc import Callable

from workbench.gate.policy.members import is_dunder
from workbench.gate.policy.scopes import Scopes
from workbench.gate.policy.state import DEFAULTS, MOST_STEPS, Frame, TooTangledError
from workbench.gate.policy.tree import own_arguments
from workbench.gate.policy.values import (
    EMPTY,
    FRESH,
    NOTHING,
    PLAIN,
    UNKNOWN,
    Arguments,
    Function,
    FunctionNode,
    Items,
    Nothing,
    Phase,
    Plain,
    Tuple,
    Unknown,
    Value,
    has_tensor,
    join,
)


class Expressions(Scopes):
    """The layer that evaluates expressions."""

    def evaluate(self, node: ast.expr, frame: Frame) -> Value:
        """All possible values of the expression; refuses what the policy does not allow."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooTangledError(f"more than {MOST_STEPS} steps")
        rule = RULES.get(type(node))
        if rule is None:
            self.refuse("policy.unresolved", node)
            return UNKNOWN
        return rule(self, node, frame)

    def test(self, node: ast.expr, frame: Frame) -> None:
        """Evaluate a condition; the truth of a tensor reads one of its values."""
        value = self.evaluate(node, frame)
        if has_tensor(value) and frame.phase is Phase.CALL:
            self.refuse("policy.reads-values", node)

    # ---------------------------------------------------------------------------------- atoms

    def constant(self, node: ast.Constant, _: Frame) -> Value:
        """A literal."""
        return NOTHING if node.value is None else PLAIN

    def name(self, node: ast.Name, frame: Frame) -> Value:
        """A variable."""
        found = self.look_up(node.id, node, frame)
        for atom in found:
            if isinstance(atom, Function):
                self.named[atom.node] = atom
        return found

    def attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        """`value.name`."""
        return self.read_member(self.evaluate(node.value, frame), node.attr, node, frame)

    def subscripted(self, node: ast.Subscript, frame: Frame) -> Value:
        """`value[index]`."""
        value = self.evaluate(node.value, frame)
        index = self.evaluate(node.slice, frame)
        return self.subscript(value, index, literal_key(node.slice), node, frame)

    def sliced(self, node: ast.Slice, frame: Frame) -> Value:
        """`lower:upper:step`."""
        parts = [p for p in (node.lower, node.upper, node.step) if p is not None]
        return join([PLAIN, *(self.evaluate(part, frame) for part in parts)])

    def text(self, node: ast.JoinedStr, frame: Frame) -> Value:
        """An f-string; formatting a tensor reads it."""
        found = PLAIN
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.evaluate(part.value, frame)
                reads = frame.phase is Phase.CALL and not self.telling
                if reads and self.may_hold_tensor(value):
                    self.refuse("policy.reads-values", part.value)
                if part.format_spec is not None:
                    self.evaluate(part.format_spec, frame)
                found |= self.by_function("builtins.format", value, part.value)
        return found

    # ----------------------------------------------------------------------------- containers

    def tuple_of(self, node: ast.Tuple, frame: Frame) -> Value:
        """A tuple display."""
        if any(isinstance(element, ast.Starred) for element in node.elts):
            return self.make_list(node, self._elements(node.elts, frame))
        items = tuple(self.evaluate(element, frame) for element in node.elts)
        return self.narrow(frozenset({Tuple(items)}), node)

    def list_of(self, node: ast.List | ast.Set, frame: Frame) -> Value:
        """A list or set display."""
        items = Items(node, "list")
        self.place(items)
        for place, element in enumerate(node.elts):
            if isinstance(element, ast.Starred):
                self.put(items, self._elements([element], frame))
            else:
                self.put(items, self.evaluate(element, frame), place)
        return frozenset({items})

    def _elements(self, nodes: list[ast.expr], frame: Frame) -> Value:
        found: list[Value] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found.append(self.iterate(self.evaluate(node.value, frame), node, frame))
            else:
                found.append(self.evaluate(node, frame))
        return join(found)

    def dict_of(self, node: ast.Dict, frame: Frame) -> Value:
        """A dict display."""
        items = Items(node, "dict")
        self.place(items)
        made: Value = frozenset({items})
        for key, element in zip(node.keys, node.values, strict=True):
            value = self.evaluate(element, frame)
            if key is None:
                self.call_container(items, "update", Arguments((value,)), node, frame)
            else:
                self.store(made, self.evaluate(key, frame), literal_key(key), value, node)
        return made

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Assign to a target; the layer of statements does it."""
        raise NotImplementedError

    def assume(self, test: ast.expr, frame: Frame, *, holds: bool = True) -> None:
        """Take a test for decided; the layer of patterns does it."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------ operators

    def binary(self, node: ast.BinOp, frame: Frame) -> Value:
        """`left op right`."""
        left, right = self.evaluate(node.left, frame), self.evaluate(node.right, frame)
        return self.operate(left, right, node.op, node, frame)

    def operate(  # noqa: PLR0911 -- one case per kind of operand
        self, left: Value, right: Value, op: ast.operator, node: ast.AST, frame: Frame
    ) -> Value:
        """Arithmetic: on numbers anywhere, on tensors only before any input exists."""
        left, right = self.as_numbers(left), self.as_numbers(right)
        either = left | right
        if not left or not right:
            return EMPTY
        if isinstance(op, ast.MatMult):
            self.refuse("policy.operator-on-tensor", node)
            return UNKNOWN
        if has_tensor(either):
            if frame.phase is Phase.CALL:
                self.refuse("policy.operator-on-tensor", node)
            return FRESH
        if isinstance(op, ast.Mod) and self.may_hold_tensor(right) and frame.phase is Phase.CALL:
            self.refuse("policy.reads-values", node)
        if any(isinstance(atom, Tuple | Items) for atom in either):
            return self._combine(left, right, node)
        if all(isinstance(atom, Plain | Nothing) for atom in either):
            return self.calculate(left, right, op, node)
        if all(isinstance(atom, Unknown | Plain | Nothing) for atom in either):
            return UNKNOWN
        if isinstance(op, ast.BitOr):  # a union of types
            return either
        self.refuse("policy.unresolved", node)
        return UNKNOWN

    def _combine(self, left: Value, right: Value, node: ast.AST) -> Value:
        """Containers added, multiplied or merged."""
        match [*left], [*right]:
            case [Tuple(items=first)], [Tuple(items=second)]:
                return self.narrow(frozenset({Tuple(first + second)}), node)
        either = left | right
        kept = frozenset(a for a in either if isinstance(a, Items))
        if len(kept) == len(either - PLAIN):
            return kept
        return self.make_list(node, self.iterate_containers(either)) | (either & PLAIN)

    def unary(self, node: ast.UnaryOp, frame: Frame) -> Value:
        """`op operand`."""
        if isinstance(node.op, ast.Not):
            self.test(node.operand, frame)
            return PLAIN
        operand = self.evaluate(node.operand, frame)
        return self.operate(operand, PLAIN, ast.Add(), node, frame) if operand else EMPTY

    def compare(self, node: ast.Compare, frame: Frame) -> Value:
        """A chain of comparisons; `is` reads no values."""
        values = [self.evaluate(node.left, frame)]
        values += [self.evaluate(other, frame) for other in node.comparators]
        looks = [op for op in node.ops if not isinstance(op, ast.Is | ast.IsNot)]
        if not looks:
            return PLAIN
        self.compared(values, node, frame)
        self.compare_addresses(values, node)
        if any(isinstance(op, ast.In | ast.NotIn) for op in looks):
            self.check_key(values[0], join(values[1:]), EMPTY, node)
            values = [values[0], *([] if values[0] == NOTHING else map(self.searched, values[1:]))]
        if any(self.compares_tensors(value) for value in values) and not _with_none(node):
            if frame.phase is Phase.CALL:
                self.refuse("policy.operator-on-tensor", node)
            return FRESH
        return PLAIN

    # ---------------------------------------------------------------------------------- calls

    def called(self, node: ast.Call, frame: Frame) -> Value:
        """`function(arguments)`."""
        function = self.evaluate(node.func, frame)
        given = self.arguments(node, frame)
        return self.call(function, given, node, frame)

    def arguments(self, node: ast.Call, frame: Frame) -> Arguments:
        """The arguments of a call, by position and name where they are known."""
        positional: list[Value] = []
        rest: Value = EMPTY
        placed = True
        for argument in node.args:
            spread = isinstance(argument, ast.Starred)
            inner = argument.value if isinstance(argument, ast.Starred) else argument
            value = self.evaluate(inner, frame)
            match spread, placed, [*value]:
                case False, True, _:
                    positional.append(value)
                case True, True, [Tuple(items=items)]:
                    positional.extend(items)
                case _:  # behind a spread of unknown length nothing has a known place
                    placed = False
                    rest |= self.iterate(value, argument, frame) if spread else value
        keywords: list[tuple[str, Value]] = []
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, frame)
            if keyword.arg is not None:
                keywords.append((keyword.arg, value))
                continue
            for atom in value:
                if isinstance(atom, Items):
                    contents = self.contents(atom)
                    keywords += [(k, v) for k, v in contents.keyed.items() if isinstance(k, str)]
                    rest |= contents.elements
                else:
                    rest |= self.spread(atom, keyword.value, frame)
        return Arguments(tuple(positional), tuple(keywords), rest)

    def lambda_of(self, node: ast.Lambda, frame: Frame) -> Value:
        """A lambda."""
        made = self.function_of(node, frame)
        self.named.update({a.node: a for a in made if isinstance(a, Function)})
        return made

    def function_of(self, node: FunctionNode, frame: Frame) -> Value:
        """A function that is defined here, with its present defaults."""
        spec = node.args
        defaults = self.defaults.setdefault(node, {})
        for argument in own_arguments(spec):
            if is_dunder(argument.arg):
                self.refuse("policy.patches-object", node, argument.arg)
        places = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
        given = [
            *zip(places[len(places) - len(spec.defaults) :], spec.defaults, strict=True),
            *zip((a.arg for a in spec.kwonlyargs), spec.kw_defaults, strict=True),
        ]
        for name, default in given:
            if default is not None:
                value = self.evaluate(default, frame)
                if not value <= defaults.get(name, EMPTY):
                    defaults[name] = defaults.get(name, EMPTY) | value
                    self.grew(node, DEFAULTS)
        # Functions in a class body do not see its names.
        outer = frame.scope.parent if frame.class_body and frame.scope.parent else frame.scope
        return frozenset({Function(node, outer, owner=frame.class_body)})

    def walrus(self, node: ast.NamedExpr, frame: Frame) -> Value:
        """`name := value`."""
        value = self.evaluate(node.value, frame)
        self.assign(node.target, value, frame)
        return value

    def yielded(self, node: ast.Yield, frame: Frame) -> Value:
        """`yield value`."""
        frame.yielded |= self.evaluate(node.value, frame) if node.value else NOTHING
        return NOTHING

    def yielded_from(self, node: ast.YieldFrom, frame: Frame) -> Value:
        """`yield from values`."""
        inner = self.iterate(self.evaluate(node.value, frame), node, frame)
        frame.yielded |= inner
        return inner

    def starred(self, node: ast.Starred, frame: Frame) -> Value:
        """`*values`, in a subscript."""
        return self.iterate(self.evaluate(node.value, frame), node, frame)


def _with_none(node: ast.Compare) -> bool:
    """`tensor == None`: false without a look at its values."""
    equal = len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq)
    operands = (node.left, *node.comparators)
    return equal and any(isinstance(n, ast.Constant) and n.value is None for n in operands)


def literal_key(node: ast.expr) -> str | int | None:
    """The key where it is a literal; else None."""
    match node:
        case ast.Constant(value=str(key)):
            return key
        case ast.Constant(value=int(key)):
            return key
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(key))):
            return -key
    return None


Rule = Callable[..., Value]
RULES: dict[type[ast.AST], Rule] = {
    ast.Constant: Expressions.constant,
    ast.Name: Expressions.name,
    ast.Attribute: Expressions.attribute,
    ast.Subscript: Expressions.subscripted,
    ast.Slice: Expressions.sliced,
    ast.JoinedStr: Expressions.text,
    ast.Tuple: Expressions.tuple_of,
    ast.List: Expressions.list_of,
    ast.Set: Expressions.list_of,
    ast.Dict: Expressions.dict_of,
    ast.BinOp: Expressions.binary,
    ast.UnaryOp: Expressions.unary,
    ast.Compare: Expressions.compare,
    ast.Call: Expressions.called,
    ast.Lambda: Expressions.lambda_of,
    ast.NamedExpr: Expressions.walrus,
    ast.Yield: Expressions.yielded,
    ast.YieldFrom: Expressions.yielded_from,
    ast.Starred: Expressions.starred,
}
