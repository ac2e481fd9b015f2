"""Definitions and imports in the abstract interpreter: functions, classes, modules."""

import ast

from workbench.gate.policy.classes import MIXED_IN
from workbench.gate.policy.refusals import code_of_import
from workbench.gate.policy.state import Frame
from workbench.gate.policy.statements import Statements
from workbench.gate.policy.tree import own_arguments
from workbench.gate.policy.values import (
    PLAIN,
    UNKNOWN,
    Arguments,
    Class,
    Instance,
    Known,
    Partial,
    Scope,
    Unknown,
    Value,
)

_BASES = (
    "abc.",
    "builtins.",
    "collections.abc.",
    "enum.",
    "torch.autograd.Function",
    "torch.nn.",
    "typing.",
)

_ENUM: Value = frozenset({Known("enum.Enum")})


class Definitions(Statements):
    """The layer that executes definitions."""

    def define_function(self, node: ast.FunctionDef, frame: Frame) -> None:
        """`def`: decorators, defaults and annotations run now, the body when it is called."""
        if frame.class_body is not None and node.name in self.allowed.module_internals:
            self.refuse("policy.special-method", node, node.name)
        decorators = [self.evaluate(decorator, frame) for decorator in node.decorator_list]
        self._take_type_parameters(node, frame)
        value = self.function_of(node, frame)
        for argument in own_arguments(node.args):
            self.annotation(argument.annotation, frame)
        self.annotation(node.returns, frame)
        for decorator, written in zip(
            reversed(decorators), reversed(node.decorator_list), strict=True
        ):
            value = self.call(decorator, Arguments((value,)), written, frame)
        self.bind(node.name, value, node, frame)

    def define_class(self, node: ast.ClassDef, frame: Frame) -> None:
        """`class`: its body runs now."""
        self._take_type_parameters(node, frame)
        self.bases[node] = tuple(self._base(base, node, frame) for base in node.bases)
        for keyword in node.keywords:
            self.evaluate(keyword.value, frame)
            if keyword.arg != "total" or self.library_bases(node) != ("typing.TypedDict",):
                self.refuse("policy.special-method", node, f"{node.name}({keyword.arg}=...)")
        decorators = [self.evaluate(decorator, frame) for decorator in node.decorator_list]
        # A class body is not a scope for what is defined in it.
        outer = frame.scope.parent if frame.class_body and frame.scope.parent else frame.scope
        scope = self.class_scopes.setdefault((node, outer), Scope(outer, node))
        self.members.setdefault(node, {})
        self.block(node.body, Frame(scope, frame.phase, class_body=node))
        value: Value = frozenset({Class(node)})
        if any(path.startswith("enum.") for path in self.library_bases(node)):
            made = Instance(node)  # for each member, while the body ends
            self.call_special(made, ("__init__", "__post_init__"), node, PLAIN, frame.phase)
        for decorator, written in zip(
            reversed(decorators), reversed(node.decorator_list), strict=True
        ):
            value = self.call(decorator, Arguments((value,)), written, frame)
        self.bind(node.name, value, node, frame)

    def define_alias(self, node: ast.stmt, frame: Frame) -> None:
        """`type X = ...` of Python 3.12; nothing evaluates its right side."""
        name = getattr(node, "name", None)
        if isinstance(name, ast.Name):
            self.bind(name.id, PLAIN, node, frame)

    def _take_type_parameters(self, node: ast.FunctionDef | ast.ClassDef, frame: Frame) -> None:
        """`[T]` of Python 3.12, in the scope around: a name may then also mean what it meant."""
        for parameter in getattr(node, "type_params", ()):
            self.record(frame.scope, parameter.name, PLAIN)

    def _base(self, base: ast.expr, node: ast.ClassDef, frame: Frame) -> Value:
        value = self.evaluate(base, frame)
        mixed = len(node.bases) == 2 and self.evaluate(node.bases[1], frame) == _ENUM
        if mixed and value <= MIXED_IN:
            return value
        for atom in value:
            library = isinstance(atom, Known) and atom.path.startswith(_BASES)
            plain = isinstance(atom, Known) and self.allowed.names.get(atom.path)
            types = plain and plain.returns in ("type", "holder", "modules")
            if not (library and types) and not isinstance(atom, Class | Partial | Unknown):
                self.refuse("policy.base-class", base)
        return value

    def import_module(self, node: ast.Import, frame: Frame) -> None:
        """`import a.b as c`."""
        for alias in node.names:
            root = alias.name.partition(".")[0]
            path = alias.name if alias.asname else root
            self.bind(alias.asname or root, self._imported(alias.name, path, node), node, frame)

    def import_names(self, node: ast.ImportFrom, frame: Frame) -> None:
        """`from a import b as c`; a star would bind names that nobody can see here."""
        module = node.module or ""
        if node.level or module not in self.allowed.imports:
            self.refuse(code_of_import(module), node, "." * node.level + module)
        for alias in node.names:
            if alias.name == "*":
                self.refuse("policy.forbidden-import", node, f"from {module} import *")
                continue
            path = f"{module}.{alias.name}"
            allowed = module in self.allowed.imports and not node.level
            value: Value = frozenset({Known(path)}) if allowed else UNKNOWN
            if module == "__future__":
                continue
            self.bind(alias.asname or alias.name, value, node, frame)

    def _imported(self, module: str, path: str, node: ast.Import) -> Value:
        if module not in self.allowed.imports:
            self.refuse(code_of_import(module), node, module)
            return UNKNOWN
        return frozenset({Known(path)})
