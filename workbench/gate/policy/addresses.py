"""What an address may serve for: alignment, and whether two tensors share memory."""

import ast

from workbench.gate.policy.state import State
from workbench.gate.policy.values import (
    ADDRESS,
    PLAIN,
    Atom,
    Bound,
    Class,
    Function,
    Instance,
    Items,
    Phase,
    Plain,
    Value,
)

_ADDRESS = Plain(address=True)
_WIDEST = 512
"""Bytes of the widest alignment that may be asked for: what torch's allocator on a GPU gives. More
tells where a tensor lies, which is chance on one machine and a mark of the machine on another."""
_ALIGNING = ast.Mod | ast.BitAnd
_KEEPING = _ALIGNING | ast.Add | ast.Sub | ast.BitOr | ast.BitXor
"""Operators whose result says of an address no more than its last digits, or where memory ends."""
_KEPT_BY = frozenset({"format", "hex", "int", "max", "min", "repr", "str"})
"""Functions of numbers that give an address again."""
_TOLD_BY = frozenset({"all", "any", "bool", "print"})
_TEXTS = frozenset({"format", "hash", "repr", "str"})
"""Functions that give away where an object lies, unless its class says otherwise."""


class Addresses(State):
    """Follows addresses."""

    def has_address(self, value: Value) -> bool:
        """Whether an address is in there, containers included."""
        if value == PLAIN or not value:  # as nearly always
            return False
        return _ADDRESS in self.within(value)

    def calculate(self, left: Value, right: Value, op: ast.operator, node: ast.AST) -> Value:
        """Arithmetic on numbers and settings."""
        if _ADDRESS not in left | right:
            return PLAIN
        sizes = _operand(node) if isinstance(op, _ALIGNING) else []
        if any(map(_small, sizes)):
            return PLAIN
        wide = any(isinstance(size, ast.Constant) for size in sizes)
        if (wide or not isinstance(op, _KEEPING)) and not self.telling:
            self.refuse("policy.address", node)
            return PLAIN
        return ADDRESS

    def compare_addresses(self, values: list[Value], node: ast.Compare) -> None:
        """Refuse to compare an address with anything but another or nothing."""
        if not any(_ADDRESS in value for value in values):
            return
        operands = [node.left, *node.comparators]
        equal = all(isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot) for op in node.ops)
        for value, operand in zip(values, operands, strict=True):
            nothing = equal and isinstance(operand, ast.Constant) and operand.value in (0, None)
            if not nothing and not self.has_address(value):
                self.refuse("policy.address", node)

    def of_address(self, value: Value, node: ast.AST) -> None:
        """Refuse what picks something out by an address: an index, a text's method."""
        if _ADDRESS in value and not self.telling:
            self.refuse("policy.address", node)

    def by_function(self, path: str, given: Value, node: ast.AST) -> Value:
        """What a function of numbers makes of an address, or of objects that lie somewhere."""
        name = path.rsplit(".", 1)[-1]
        lies = name in _TEXTS and any(map(self.shows_address, given))
        if not lies and not self.has_address(given):
            return PLAIN
        if name in _TOLD_BY or path.startswith(("logging.", "warnings.")):
            return PLAIN
        if name == "gcd" and any(map(_small, getattr(node, "args", ()))):
            return PLAIN
        if name not in _KEPT_BY and not self.telling:
            self.refuse("policy.address", node)
            return PLAIN
        return ADDRESS

    def shows_address(self, atom: Atom) -> bool:
        """Whether an object's text and hash are made of where it lies."""
        match atom:
            case Function() | Bound():
                return True
            case Instance(node=owner):
                named = any(self.member(owner, n) for n in ("__hash__", "__repr__", "__str__"))
                return not named and not owner.bases and not owner.decorator_list
        return False

    def remember(self, holder: Atom, value: Value, node: ast.AST) -> None:
        """Refuse to keep an address in what outlives the call."""
        if self.now is Phase.SETUP or not self.has_address(value):
            return
        match holder:
            case Items(site=made) | Instance(node=made):
                lasts = made in self.lasting
            case _:
                lasts = isinstance(holder, Class | Function)
        if lasts:
            self.forget(value, node)

    def forget(self, value: Value, node: ast.AST) -> None:
        """Refuse to keep an address under a name that outlives the call."""
        if self.now is Phase.CALL and self.has_address(value):
            self.refuse("policy.caches-output", node)


def _operand(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return [right] if isinstance(op, ast.Mod) else [left, right]
        case ast.AugAssign(value=value):
            return [value]
    return []


def _small(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and 0 < node.value <= _WIDEST
