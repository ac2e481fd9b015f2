"""The state of one policy check: scopes, heap, launches and refusals."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.gate.policy.names import Allowed
from workbench.gate.policy.refusals import finding, spelled
from workbench.gate.policy.values import (
    EMPTY,
    Arguments,
    Atom,
    Contents,
    Function,
    FunctionNode,
    Instance,
    Items,
    Kernel,
    Phase,
    Scope,
    Tensor,
    Tuple,
    Value,
    join,
    too_wide,
)
from workbench.gate.records import Finding

Names = dict[str, Value]
MOST_STEPS = 150_000
"""Expressions and statements evaluated in one check; ordinary candidates take 2,000 to 10,000."""


DEFAULTS, HOOKS = ".defaults", ".hooks"
"""Names under which a function's defaults and a kernel's hooks are asked for."""


class TooTangledError(Exception):
    """The code cannot be evaluated within the budget."""


@dataclass(slots=True)
class Frame:
    """One activation while it is evaluated; `names` changes from statement to statement."""

    scope: Scope
    phase: Phase
    names: Names = field(default_factory=dict)
    function: Function | None = None
    receiver: Value = EMPTY
    """The first argument of a method, for `super()` without arguments."""
    returned: Value = EMPTY
    yielded: Value = EMPTY
    leaving: list[list[Names]] = field(default_factory=list)
    """Names at each `break` and `continue`, one list per enclosing loop."""
    class_body: ast.ClassDef | None = None


@dataclass(slots=True)
class Activation:
    """One function evaluated for one set of arguments."""

    scope: Scope
    result: Value = EMPTY
    launches: bool = False
    round: int = 0
    running: bool = False
    asked: bool = False
    """It was called again before it had a result."""


class State:
    """The facts of one check. They only grow, so that evaluating until nothing changes terminates.

    A round has also changed nothing where no fact grew after it was read: then every evaluation of
    the round already saw all facts.
    """

    tree: ast.Module
    """The file."""

    def __init__(self, allowed: Allowed) -> None:
        self.allowed = allowed
        self.refused: dict[tuple[str, int, str], Finding] = {}
        self.notes: dict[str, Finding] = {}
        self.heap: dict[ast.AST, Contents] = {}
        self.members: dict[ast.AST, Names] = {}
        """Members of classes and their objects, and of functions, by the node that defines them."""
        self.bases: dict[ast.ClassDef, tuple[Value, ...]] = {}
        self.defaults: dict[FunctionNode, Names] = {}
        self.hooks: dict[ast.FunctionDef, dict[str, Value]] = {}
        """Functions that Triton calls around a launch, by role: heuristics, pruning, hooks."""
        self.kernel_scopes: dict[ast.FunctionDef, Scope] = {}
        self.class_scopes: dict[tuple[ast.AST, Scope], Scope] = {}
        self.contexts: dict[
            tuple[FunctionNode, Scope, Phase], dict[tuple[tuple[str, Value], ...], Activation]
        ] = {}
        """Activations of each function by the values of its parameters: equal ones behave alike."""
        self.pending: dict[ast.AST, tuple[str, Arguments]] = {}
        """Iterators made before any input existed: the library function and its arguments."""
        self.resuming: set[ast.AST] = set()
        self.implied: dict[ast.AST, ast.Call] = {}
        self.loaded: dict[ast.AST, ast.expr] = {}
        self.reached: set[ast.AST] = set()
        self.named: dict[FunctionNode, Function] = {}
        """Functions that code which runs has looked up: somebody may call them."""
        self.wrapped: dict[FunctionNode, set[FunctionNode]] = {}
        """Functions that wrap a function, by `functools.wraps`."""
        self.accounted: set[ast.AST] = set()
        """Functions that Triton or torch calls in a way that is evaluated, or never."""
        self.launched: set[Phase] = set()
        self.launches = 0
        self.changed = False
        self.asked: set[tuple[object, str]] = set()
        """What this round has read: names of scopes, members, entries of the heap."""
        self.round = 0
        self.steps = 0
        self.depth = 0
        self.now = Phase.SETUP
        """The phase in which the present code runs."""
        self.made_modules: set[Instance] = set()
        """Modules of the file that are constructed before any call: the judge walks over them."""
        self.lasting: set[ast.AST] = set()
        """Entries of containers, and classes of objects, that are made before any call."""
        self.carrying = False
        """Whether a buffer ever gets an input's contents: then it is not a statistic."""
        self.telling = 0
        """Above 0 while the message of an exception is evaluated."""

    def step(self, count: int = 1) -> None:
        """Count evaluations. Raises TooTangledError beyond the budget."""
        self.steps += count
        if self.steps > MOST_STEPS:
            raise TooTangledError(f"more than {MOST_STEPS} steps")

    def refuse(self, code: str, node: ast.AST, name: str = "", says: str = "") -> None:
        """Record one refusal, once per place and name."""
        line = getattr(node, "lineno", 0)
        name = name or spelled(node)
        self.refused.setdefault((code, line, name), finding(code, name, line or None, says))

    def grew(self, owner: object, name: str = "") -> None:
        """A fact has grown; what read it before has to be evaluated again."""
        if (owner, name) in self.asked or (owner, "*") in self.asked:
            self.changed = True

    def carry(self, value: Value) -> None:
        """A buffer gets a value."""
        if self.now is Phase.CALL and Tensor("input") in value and not self.carrying:
            self.carrying = True
            self.grew(self, "carrying")

    def record(self, scope: Scope, name: str, value: Value) -> None:
        """Remember that a name of a scope may have a value, for functions that close over it."""
        old = scope.ever.get(name, EMPTY)
        if not value <= old:
            scope.ever[name] = self.narrow(old | value, scope.node)
            self.grew(scope, name)

    def member(self, owner: ast.AST, name: str) -> Value:
        """What a member of a class, its objects or a function may be; empty when never set."""
        self.asked.add((owner, name))
        return self.members.get(owner, {}).get(name, EMPTY)

    def every_member(self, owner: ast.AST) -> Names:
        """All members of a class, its objects or a function."""
        self.asked.add((owner, "*"))
        return self.members.get(owner, {})

    def set_member(self, owner: ast.AST, name: str, value: Value) -> None:
        """Remember one more value of a member."""
        members = self.members.setdefault(owner, {})
        old = members.get(name, EMPTY)
        if name not in members or not value <= old:
            members[name] = self.narrow(old | value, owner)
            self.grew(owner, name)
            self.changed |= name.endswith("*")

    def contents(self, items: Items) -> Contents:
        """What a container holds."""
        self.asked.add((items.site, ""))
        return self.place(items)

    def place(self, items: Items) -> Contents:
        """The heap's entry of a container, to be written to."""
        if self.now is Phase.SETUP:
            self.lasting.add(items.site)
        return self.heap.setdefault(items.site, Contents())

    def put(self, items: Items, value: Value, key: str | int | None = None) -> None:
        """Remember that a container may hold a value, under a key where one is known."""
        contents = self.place(items)
        old = contents.elements if key is None else contents.keyed.get(key, EMPTY)
        if value <= old and (key is None or key in contents.keyed):
            return
        self.grew(items.site)
        new = self.narrow(old | value, items.site)
        if key is None:
            contents.elements = new
        else:
            contents.keyed[key] = new

    def narrow(self, value: Value, site: ast.AST) -> Value:
        """The value with less detail where it has grown too wide: tuples become one container."""
        self.steps += len(value) // 8
        if not too_wide(value):
            return value
        tuples = [atom for atom in value if isinstance(atom, Tuple)]
        if not tuples:
            return value
        pool = Items(site, "list")
        held = join(item for atom in tuples for item in atom.items)
        flat = self.narrow(held, site) - {pool}
        if not flat <= self.contents(pool).elements:
            self.contents(pool).elements |= flat
            self.changed = True
        return frozenset(atom for atom in value if not isinstance(atom, Tuple)) | {pool}

    def holds(self, value: Value, kinds: tuple[type[Atom], ...]) -> bool:
        """Whether a value is or contains one of these kinds, in containers and records included."""
        return any(isinstance(atom, kinds) for atom in self._walk(value, members=True))

    def within(self, value: Value) -> set[Atom]:
        """Everything in a value and in the containers it holds."""
        return set(self._walk(value, members=False))

    def _walk(self, value: Value, *, members: bool) -> Iterator[Atom]:
        """Each atom in a value once, containers opened; with `members`, instances too."""
        seen: set[Atom] = set()
        waiting = list(value)
        while waiting:
            atom = waiting.pop()
            if atom in seen:
                continue
            seen.add(atom)
            yield atom
            if isinstance(atom, Tuple):
                waiting.extend(join(atom.items))
            elif isinstance(atom, Items):
                waiting.extend(self.contents(atom).all())
            elif members and isinstance(atom, Instance):
                waiting.extend(join(self.every_member(atom.node).values()))

    def may_hold_tensor(self, value: Value) -> bool:
        """Whether tensor data can be reached from the value."""
        return self.holds(value, (Tensor,))

    def launched_by(self, kernel: Kernel, phase: Phase) -> None:
        """Count a launch."""
        self.reached.add(kernel.node)
        self.launched.add(phase)
        self.launches += 1
