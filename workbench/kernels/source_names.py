"""Resolves an expression to a Triton name, however the file spells its imports."""

import ast
from collections import Counter
from collections.abc import Iterator

_LANGUAGE = "triton.language"
_SHELVES = ("math.", "extra.cuda.libdevice.", "extra.libdevice.", "core.", "standard.")
"""Submodules whose functions the language also offers at its top."""
_TRITON = frozenset({"jit", "autotune", "heuristics", "Config", "cdiv", "next_power_of_2"})
"""What `from triton import *` brings, as far as anything here reads it."""


class Names:
    """The imports of one file: resolves a name in it, and spells a name for it."""

    def __init__(self, tree: ast.Module) -> None:
        self._bound: dict[str, str] = {}
        self._everything_of: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.split(".")[0]
                    self._bound[name] = alias.name if alias.asname else name
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    if alias.name == "*":
                        self._everything_of.add(node.module)
                    else:
                        self._bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        self._own = frozenset(_own_names(tree)) if self._everything_of else frozenset()
        for name, value in _aliases(tree):
            full = self._raw(value)
            if full.startswith("triton."):
                self._bound[name] = full

    def dotted(self, node: ast.AST | None) -> str:
        """The canonical name: `tl.load`, `triton.cdiv`, `torch.empty`; empty if not a name.

        The language is always `tl`, and its submodules are folded into it: `tl.math.exp` and
        libdevice's `exp` are both `tl.exp`.
        """
        full = self._raw(node)
        if full == _LANGUAGE:
            return "tl"
        if full.startswith(f"{_LANGUAGE}."):
            full = "tl." + full.removeprefix(f"{_LANGUAGE}.")
        if full.startswith("tl."):
            for shelf in _SHELVES:
                full = full.replace(f"tl.{shelf}", "tl.", 1)
        return full

    def _raw(self, node: ast.AST | None) -> str:
        match node:
            case ast.Name(id=name):
                return self._bound.get(name) or self._starred(name)
            case ast.Attribute(value=value, attr=attribute):
                base = self._raw(value)
                return f"{base}.{attribute}" if base else ""
            case _:
                return ""

    def _starred(self, name: str) -> str:
        """A name that no import names: with `import *`, one of the language or of Triton."""
        if name in self._own:
            return name
        if "triton" in self._everything_of and name in _TRITON:
            return f"triton.{name}"
        return f"{_LANGUAGE}.{name}" if _LANGUAGE in self._everything_of else name

    def op(self, node: ast.AST | None) -> str:
        """The Triton operation that a call makes: `load` for `tl.load(...)`; otherwise empty."""
        if not isinstance(node, ast.Call):
            return ""
        name = self.dotted(node.func)
        return name.removeprefix("tl.") if name.startswith("tl.") else ""

    def spell(self, name: str) -> str | None:
        """How this file can write `tl.exp` or `triton.cdiv`; None without a suitable import."""
        package, _, member = name.partition(".")
        wanted = _LANGUAGE if package == "tl" else package
        full = f"{wanted}.{member}"
        for local, bound in sorted(self._bound.items()):
            if bound == wanted:
                return f"{local}.{member}"
            if bound == full:
                return local
        if wanted == _LANGUAGE and self._bound.get("triton") == "triton":
            return f"triton.language.{member}"
        return None


def _own_names(tree: ast.Module) -> Iterator[str]:
    """Names that the file itself binds anywhere, or takes as a parameter."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name


def _aliases(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """`load = tl.load` at module level, where nothing else in the file binds the name."""
    found = [
        (target.id, value)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target, value in [(statement.targets[0], statement.value)]
        if isinstance(target, ast.Name) and isinstance(value, ast.Name | ast.Attribute)
    ]
    bound = Counter(_own_names(tree)) if found else Counter()
    yield from ((name, value) for name, value in found if bound[name] == 1)
