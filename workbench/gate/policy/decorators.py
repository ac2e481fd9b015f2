"""What library decorators return for functions, kernels and classes of the file."""

import ast

from workbench.gate.policy.comparisons import Comparisons
from workbench.gate.policy.names import Allowed
from workbench.gate.policy.operators import OPERATORS
from workbench.gate.policy.tree import names_types, own_arguments
from workbench.gate.policy.values import (
    EMPTY,
    Arguments,
    Bound,
    Class,
    Decorator,
    Function,
    Instance,
    Kernel,
    Known,
    Method,
    Nothing,
    Partial,
    Unknown,
    Value,
)

_WITHOUT_FUNCTION = ("contextlib.nullcontext", "contextlib.suppress")
"""Contexts that decorate nothing: what they are given, they hold."""
DECORATED = (Function, Bound, Partial, Kernel, Class, Instance, Method, Known, Unknown)
"""What a decorator may be given to decorate."""


class Decorators(Comparisons):
    """The layer that decorates."""

    def __init__(self, allowed: Allowed) -> None:
        super().__init__(allowed)
        self.wrappers: set[ast.AST] = set()
        """Functions that say they wrap another: by `__wrapped__` its text counts as theirs."""

    def decorate(self, path: str, arguments: Arguments, name: str = "") -> Value:
        """A bare decorator returns the function; one with settings waits for it.

        `name` is the operator's, where the decorator makes one and its name is known.
        """
        match arguments.positional:
            case (value,) if value and all(isinstance(a, Function | Kernel | Class) for a in value):
                given = Arguments(keywords=arguments.keywords, rest=arguments.rest)
                return self.apply_decorator(Decorator(path, given), value)
        waiting = Decorator(path, arguments, name)
        if path in _WITHOUT_FUNCTION or self.allowed.names[path].returns == "decorator":
            return frozenset({waiting})
        # The function may also come by its keyword, behind a star, or among settings.
        every = arguments.all()
        functions = frozenset(a for a in every if isinstance(a, DECORATED))
        perhaps = not functions or Nothing() in every
        applied = self.apply_decorator(waiting, functions)
        return applied | (frozenset({waiting}) if perhaps else EMPTY)

    def apply_decorator(self, decorator: Decorator, value: Value) -> Value:
        """What a library decorator returns for a function, a kernel or a class."""
        if decorator.path.endswith("lru_cache"):
            return frozenset(with_cache(a) if isinstance(a, Function) else a for a in value)
        if decorator.path in OPERATORS and value:
            self._check_schema(value)
            made: Value = frozenset({Partial(value, (), (), operator=True)})
            self.name_operator(decorator.name, made)
            return made
        if decorator.path == "functools.wraps":
            self._take_members(decorator.given.all(), value)
        if decorator.path.endswith(".jit"):
            value = frozenset(self._kernel(a) if isinstance(a, Function) else a for a in value)
        for atom in value:
            if isinstance(atom, Kernel):
                self.take_hooks(decorator, atom)
        return value

    def _check_schema(self, value: Value) -> None:
        """Torch reads an operator's schema from its annotations, and evaluates texts among them."""
        for atom in value:
            node = atom.node if isinstance(atom, Function) else None
            if not isinstance(node, ast.FunctionDef):
                self.refuse("policy.unresolved", self.tree, "torch.library")
                continue
            every = [argument.annotation for argument in own_arguments(node.args)]
            for annotation in (*every, node.returns):
                if annotation is not None and not names_types(annotation):
                    self.refuse("policy.dynamic-code", annotation)

    def _take_members(self, wrapped: Value, value: Value) -> None:
        """`functools.wraps` copies what was assigned to the wrapped function."""
        targets = [target for target in value if isinstance(target, Function)]
        if len(targets) < len(value):
            self.refuse("policy.patches-object", self.tree, "functools.wraps")
        self.wrappers |= {target.node for target in targets}
        for source in [one for one in wrapped if isinstance(one, Function)]:
            self.wrapped.setdefault(source.node, set()).update(one.node for one in targets)
            for name, member in list(self.every_member(source.node).items()):
                for target in targets:
                    self.set_member(target.node, name, member)

    def take_hooks(self, decorator: Decorator, kernel: Kernel) -> None:
        """Remember what is called around launches; the layer of launches does it."""
        raise NotImplementedError

    def _kernel(self, function: Function) -> Kernel | Function:
        if not isinstance(function.node, ast.FunctionDef):
            return function
        self.kernel_scopes[function.node] = function.scope
        return Kernel(function.node)


def with_cache(function: Function) -> Function:
    """The function under `functools.lru_cache`."""
    return Function(function.node, function.scope, cached=True, owner=function.owner)
