"""Abstract values of the policy: what is known of a value before anything runs.

A `Value` is a set of possibilities; the empty set means that nothing has reached it yet. Abstract
interpretation after Cousot and Cousot (POPL 1977); objects are named by where they are made.
"""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

FunctionNode = ast.FunctionDef | ast.Lambda


class Phase(Enum):
    """When code runs. Before any input exists, tensor arithmetic can only make constants."""

    SETUP = "while the module is imported and constructed"
    CALL = "while ModelNew is called"


class Scope:
    """The names of one activation as inner functions see them: every value ever bound."""

    def __init__(self, parent: "Scope | None", node: ast.AST) -> None:
        self.parent = parent
        self.node = node
        self.ever: dict[str, Value] = {}


@dataclass(frozen=True, slots=True)
class Plain:
    """A number, string, dtype, device, shape or setting: holds no tensor data."""

    address: bool = False
    """Whether it comes from `data_ptr()`: harmless as a number, a replay attack as the key of a
    cache."""
    setting: bool = False
    """Of a library module: may be read. Called, it would be a method of the module."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """None: calling it or reading a member raises, so that nothing follows."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A torch tensor."""

    origin: Literal["input", "state", "buffer", "fresh"]


@dataclass(frozen=True, slots=True)
class Known:
    """A library object by its full dotted name, also when it is reached through an alias."""

    path: str


@dataclass(frozen=True, slots=True)
class Decorator:
    """`triton.autotune(...)` and the like, waiting for the function."""

    path: str
    given: "Arguments"
    name: str = ""
    """Of the operator that it makes, where it makes one and the name is known."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function that Triton compiles."""

    node: ast.FunctionDef
    bare: bool = False
    """`kernel.fn`: the Python function that the decorators wrap."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """`kernel[grid]`."""

    kernel: Kernel
    grid: "Value"


@dataclass(frozen=True, slots=True)
class Holder:
    """An nn module made by the library."""

    path: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function or lambda of the candidate."""

    node: FunctionNode
    scope: Scope
    cached: bool = False
    """Under `functools.lru_cache`."""
    owner: ast.ClassDef | None = None
    """The class whose body defines it, for `super()`."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A function with its first argument bound."""

    function: Function
    owner: "Value"


@dataclass(frozen=True, slots=True)
class Partial:
    """`functools.partial`."""

    target: "Value"
    arguments: tuple["Value", ...]
    keywords: tuple[tuple[str, "Value"], ...]
    operator: bool = False
    """An operator of torch's that calls the target."""
    rest: "Value" = frozenset()
    """Arguments whose place is not known."""


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the candidate."""

    node: ast.ClassDef


@dataclass(frozen=True, slots=True)
class Instance:
    """Every object of a class of the candidate."""

    node: ast.ClassDef


@dataclass(frozen=True, slots=True)
class Super:
    """`super()` in a method of that class."""

    node: ast.ClassDef
    owner: "Value"


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple whose length is known."""

    items: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A mutable container, named by the place that makes it; its contents are on the heap."""

    site: ast.AST
    kind: Literal["list", "dict", "meta", "record", "modules", "sequential"]
    """`meta` is what a grid function gets; `record` is read by attributes."""


@dataclass(frozen=True, slots=True)
class Method:
    """A library method that was looked up and not yet called."""

    owner: "Atom"
    name: str


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Declares how a class member is reached: `property`, `staticmethod`, `classmethod`."""

    kind: Literal["property", "staticmethod", "classmethod"]
    function: "Value"
    setter: "Value" = frozenset()
    """Of a property: the functions that assigning and deleting call."""


@dataclass(frozen=True, slots=True)
class Caught:
    """An exception that a handler names: it carries whatever was raised with it."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """What follows from something that was refused: its finding exists, so nothing more is said."""


Atom = (
    Plain
    | Nothing
    | Tensor
    | Known
    | Decorator
    | Kernel
    | Launcher
    | Holder
    | Function
    | Bound
    | Partial
    | Class
    | Instance
    | Super
    | Tuple
    | Items
    | Method
    | Descriptor
    | Caught
    | Unknown
)
Value = frozenset[Atom]

EMPTY: Value = frozenset()
PLAIN: Value = frozenset({Plain()})
ADDRESS: Value = frozenset({Plain(address=True)})
SETTING: Value = frozenset({Plain(setting=True)})
NOTHING: Value = frozenset({Nothing()})
FRESH: Value = frozenset({Tensor("fresh")})
INPUT: Value = frozenset({Tensor("input")})
STATE: Value = frozenset({Tensor("state")})
BUFFER: Value = frozenset({Tensor("buffer")})
UNKNOWN: Value = frozenset({Unknown()})
ANYTHING: Value = PLAIN | INPUT
"""What a library may pass to a function that it is given."""

_DEEPEST_TUPLE = 4
_MOST_ATOMS = 24


@dataclass(slots=True)
class Contents:
    """What one container may hold."""

    elements: Value = EMPTY
    """Under keys or positions that are not known."""
    keyed: dict[str | int, Value] = field(default_factory=dict)
    keys: Value = EMPTY

    def all(self) -> Value:
        """Every element."""
        return join([self.elements, *self.keyed.values()])


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call."""

    positional: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    rest: Value = EMPTY
    """Elements of `*args` and `**kwargs` whose place is not known."""

    def all(self) -> Value:
        """Every argument."""
        if not self.positional and not self.keywords:
            return self.rest
        return join([*self.positional, *(value for _, value in self.keywords), self.rest])

    def get(self, position: int, name: str) -> Value:
        """The argument at that place or of that name; empty when it is not given."""
        if position < len(self.positional):
            return self.positional[position]
        return dict(self.keywords).get(name, self.rest)

    def sources(self) -> tuple[Value, ...]:
        """The arguments by place, and last those whose place is not known, if any."""
        return (*self.positional, self.rest) if self.rest else self.positional

    def after_first(self) -> Value:
        """Every argument but the first by place."""
        return Arguments(self.positional[1:], self.keywords, self.rest).all()

    def after(self, first: Value) -> "Arguments":
        """With one more argument in front."""
        return Arguments((first, *self.positional), self.keywords, self.rest)


def join(values: Iterable[Value]) -> Value:
    """Any of these."""
    return EMPTY.union(*values)


def value_depth(value: Value) -> int:
    """How deep tuples nest in a value."""
    inner = [item for atom in value if isinstance(atom, Tuple) for item in atom.items]
    if not inner:
        return int(any(isinstance(atom, Tuple) for atom in value))
    return 1 + max(value_depth(item) for item in inner)


def too_wide(value: Value) -> bool:
    """Whether a value must lose detail, or the analysis might never end."""
    return len(value) > _MOST_ATOMS or value_depth(value) >= _DEEPEST_TUPLE


def has_tensor(value: Value) -> bool:
    """Whether the value itself may be a tensor."""
    return any(isinstance(atom, Tensor) for atom in value)
