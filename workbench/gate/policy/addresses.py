"""What host code may do with an address: check alignment, and whether two tensors share memory."""

import ast
from functools import cached_property

from workbench.gate.policy.own_name import harmless_names
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
    Kernel,
    Known,
    Launcher,
    Method,
    Partial,
    Phase,
    Plain,
    Value,
)

_ADDRESS = Plain(address=True)
_WIDEST = 512
"""Largest alignment, bytes, that may be tested: that of torch's GPU allocator. Finer bits reveal
where a tensor lies, which varies from call to call and identifies a machine."""
_ALIGNING = ast.Mod | ast.BitAnd
_KEEPING = _ALIGNING | ast.Add | ast.Sub | ast.BitOr | ast.BitXor
"""Operators whose result reveals only the last bits of an address, or the end of a buffer."""
_KEPT_BY = frozenset({"format", "hex", "int", "max", "min", "repr", "str"})
"""Functions of numbers whose result is an address again."""
_TOLD_BY = frozenset({"all", "any", "bool", "print"})
_TEXTS = frozenset({"format", "hash", "repr", "str"})
"""Functions whose result reveals an object's address, unless its class defines otherwise."""
_SHOWING = (Bound, Class, Function, Kernel, Known, Launcher, Method, Partial)


class Addresses(State):
    """Tracks addresses."""

    def has_address(self, value: Value) -> bool:
        """Whether a value is or contains an address."""
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
        """Refuse to compare an address with anything but another address, 0 or None."""
        if not any(_ADDRESS in value for value in values):
            return
        operands = [node.left, *node.comparators]
        equal = all(isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot) for op in node.ops)
        for value, operand in zip(values, operands, strict=True):
            nothing = equal and isinstance(operand, ast.Constant) and operand.value in (0, None)
            if not nothing and not self.has_address(value):
                self.refuse("policy.address", node)

    def of_address(self, value: Value, node: ast.AST) -> None:
        """Refuse to select something by an address: an index, a text's method."""
        if _ADDRESS in value and not self.telling:
            self.refuse("policy.address", node)

    def by_function(self, path: str, given: Value, node: ast.AST) -> Value:
        """The result of a function of numbers for an address, or for objects with one."""
        name = path.rsplit(".", 1)[-1]
        lies = name in _TEXTS and any(map(self.shows_address, self.within(given)))
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

    @cached_property
    def _harmless_names(self) -> frozenset[ast.AST]:
        return harmless_names(self.tree)

    def own_name(self, node: ast.AST) -> None:
        """Refuse the module's own name where it may decide something."""
        if node not in self._harmless_names:
            says = "`__name__` decides something, and it tells who has imported the file"
            self.refuse("policy.address", node, says=says)

    def shows_address(self, atom: Atom) -> bool:
        """Whether an object's text and hash depend on where it lies, or on who made it.

        The text of a class names its module, which is another one wherever the file is imported.
        """
        if isinstance(atom, _SHOWING):
            return True
        match atom:
            case Instance(node=owner):
                named = any(self.member(owner, n) for n in ("__hash__", "__repr__", "__str__"))
                return not named and not owner.bases and not owner.decorator_list
        return False

    def remember(self, holder: Atom, value: Value, node: ast.AST) -> None:
        """Refuse to store an address in what outlives the call."""
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
        """Refuse to bind an address to a name that outlives the call."""
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
