"""Value numbering over straight-line kernel code: which expressions are sure to hold the same.

Local value numbering (Cocke and Schwartz, Programming Languages and their Compilers, 1970), over
statements instead of machine instructions. A load's number counts the stores to its base before it.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from workbench.kernels.source_flow import stored_names
from workbench.kernels.source_kernel import Access, JitKernel

_IMPURE = frozenset({"rand", "randn", "randint", "device_print", "inline_asm_elementwise"})
_PLAIN = frozenset({"float", "int", "min", "max", "range", "abs"})


@dataclass
class Numbering:
    """Numbers of names and expressions while walking down a kernel's text."""

    kernel: JitKernel
    names: dict[str, int] = field(default_factory=dict)
    _known: dict[str, int] = field(default_factory=dict)
    _memory: dict[str, int] = field(default_factory=dict)
    _fresh: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self._accesses = {a.call: a for a in self.kernel.accesses}

    def of(self, node: ast.expr) -> int:
        """The number of an expression here: equal numbers mean equal values."""
        if not self._is_pure(node):
            return next(self._fresh)
        return self._intern(self._key(node))

    def load_key(self, access: Access) -> str:
        """What a load reads: address, mask and how often its base was written before."""
        mask = "" if access.mask is None else self._key(access.mask)
        return f"load {self._key(access.pointer)} {mask} {self._version(access.base)}"

    def bind(self, name: str, node: ast.expr) -> bool:
        """Bind a name to an expression; False when it already holds that value."""
        number = self.of(node)
        if self.names.get(name) == number:
            return False
        self.names[name] = number
        return True

    def forget(self, name: str) -> None:
        """The name holds something that nothing else is known to equal."""
        self.names[name] = next(self._fresh)

    def step(self, statement: ast.stmt) -> bool:
        """Walk over one statement; False when it changes nothing and may be left out."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if self._is_pure(value):
                return self.bind(name, value)
            case _:
                for name in sorted(set(stored_names(statement))):
                    self.forget(name)
                self._written(statement)
                return True

    def _written(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            access = self._accesses.get(node) if isinstance(node, ast.Call) else None
            if access is not None and access.kind != "load":
                self._memory[access.base] = next(self._fresh)

    def _is_pure(self, node: ast.expr) -> bool:
        return all(self._is_pure_call(n) for n in ast.walk(node) if isinstance(n, ast.Call))

    def _is_pure_call(self, call: ast.Call) -> bool:
        access = self._accesses.get(call)
        if access is not None:
            return access.kind == "load"
        op = self.kernel.names.op(call)
        if op:
            return op not in _IMPURE
        # A method such as `x.to(...)` is pure; a plain name may be a helper that stores.
        return not isinstance(call.func, ast.Name) or call.func.id in _PLAIN

    def _version(self, base: str) -> str:
        """How often a base was written; one that could not be followed may be any tensor."""
        return f"{self._memory.get(base, 0)}.{self._memory.get('', 0)}"

    def _intern(self, key: str) -> int:
        if key not in self._known:
            self._known[key] = next(self._fresh)
        return self._known[key]

    def _key(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            if node.id not in self.names:
                self.names[node.id] = next(self._fresh)
            return f"#{self.names[node.id]}"
        access = self._accesses.get(node) if isinstance(node, ast.Call) else None
        memory = "" if access is None else f"@{self._version(access.base)}"
        parts = [
            f"{name}={self._field(value)}"
            for name, value in ast.iter_fields(node)
            if not isinstance(value, ast.expr_context)
        ]
        return f"{type(node).__name__}{memory}({','.join(parts)})"

    def _field(self, value: object) -> str:
        if isinstance(value, ast.AST):
            return self._key(value)
        if isinstance(value, list):
            return "[" + ",".join(self._field(v) for v in value) + "]"
        return repr(value)
