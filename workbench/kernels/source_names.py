"""Resolves an expression to a Triton name, however the file spells its imports."""

import ast

_LANGUAGE = "triton.language"
_SHELVES = ("math.", "extra.cuda.libdevice.", "extra.libdevice.", "core.", "standard.")
"""Submodules whose functions the language also offers at its top."""


class Names:
    """The imports of one file: resolves a name in it, and spells a name for it."""

    def __init__(self, tree: ast.Module) -> None:
        self._bound: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.split(".")[0]
                    self._bound[name] = alias.name if alias.asname else name
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self._bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"

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
                return self._bound.get(name, name)
            case ast.Attribute(value=value, attr=attribute):
                base = self._raw(value)
                return f"{base}.{attribute}" if base else ""
            case _:
                return ""

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
