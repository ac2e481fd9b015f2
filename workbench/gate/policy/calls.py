"""Calls in the abstract interpreter: the candidate's functions, classes and callable objects."""

import ast

from workbench.gate.policy.decorators import DECORATED
from workbench.gate.policy.fields import field_names
from workbench.gate.policy.library import CALLABLE, KEPT
from workbench.gate.policy.members import OF_NAMED_TUPLES, PLAIN_MODULES, WHATEVER
from workbench.gate.policy.registering import CONTEXT, Registering
from workbench.gate.policy.state import DEFAULTS, Activation, Frame, TooTangledError
from workbench.gate.policy.tree import is_generator, survey
from workbench.gate.policy.values import (
    EMPTY,
    NOTHING,
    PLAIN,
    UNKNOWN,
    Arguments,
    Atom,
    Bound,
    Class,
    Decorator,
    Descriptor,
    Function,
    FunctionNode,
    Holder,
    Instance,
    Items,
    Kernel,
    Known,
    Launcher,
    Method,
    Nothing,
    Partial,
    Phase,
    Plain,
    Scope,
    Super,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
)

_DEEPEST_CALL = 24
_MOST_CONTEXTS = 24
_VIEW_MODULES = frozenset({"torch.nn.Identity", "torch.nn.Flatten", "torch.nn.Unflatten"})
_IMPLIED = ("__hash__", "__len__", "__repr__", "__str__")
_ASKED = ("__getitem__", "__iter__", "__next__")
"""Methods by which Triton, torch and patterns walk over an object that hides in another."""
_HANDED = ("__enter__", "__exit__", "__getitem__", "__iter__", "__next__", "keys")


class Calls(Registering):
    """The layer that calls values."""

    def run_body(self, function: Function, frame: Frame) -> None:
        """Evaluate a function's body in a frame; implemented by the layer of statements."""
        raise NotImplementedError

    def call(self, value: Value, arguments: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Everything that calling the value may return."""
        if len(value) == 1:  # as nearly always
            return self._call_atom(next(iter(value)), arguments, node, frame)
        return join(self._call_atom(atom, arguments, node, frame) for atom in value)

    def _call_atom(  # noqa: C901, PLR0911, PLR0912 -- one case per kind of value
        self, atom: Atom, given: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        self.step()
        match atom:
            case Known():
                site = node if isinstance(node, ast.Call) else self.implied_call(node)
                return self.call_known(atom.path, given, site, frame)
            case Function():
                return self._call_function(atom, given, node, frame)
            case Bound():
                return self._call_function(atom.function, given.after(atom.owner), node, frame)
            case Partial():
                target = atom.target | self.fakes_of(atom) if atom.operator else atom.target
                return self.call(target, _completed(atom, given), node, frame)
            case Launcher():
                return self.launch(atom, given, node, frame)
            case Method():
                return self._call_method(atom, given, node, frame)
            case Class():
                return self._construct(atom, given, node, frame)
            case Decorator():
                return self._decorate(atom, given, node)
            case Instance() | Holder() | Items():
                return self._call_object(atom, given, node, frame)
            case Descriptor():
                return self.call(atom.function, given, node, frame)
            case Nothing():  # it raises
                return EMPTY
            case Kernel():  # it raises, but for the function within it
                self.refuse("policy.unresolved", node)
                return UNKNOWN
            case Unknown():
                return UNKNOWN
            case Plain():
                return self._call_plain(atom, given, node)
        self.refuse("policy.unresolved", node)
        return UNKNOWN

    def _call_plain(self, atom: Plain, given: Arguments, node: ast.AST) -> Value:
        """Call what is data as far as anybody knows: it may call methods of what it is given."""
        if atom.setting:
            self.refuse("policy.module-called", node)
            return UNKNOWN
        if not self._may_take(given, node):
            self.refuse("policy.unresolved", node)
            return UNKNOWN
        self.hand_over(given.all(), node)
        for instance in self.instances_in(given.all()):
            self.call_special(instance, self.own_names(instance.node), node)
        return self.by_function("builtins.format", given.all(), node)

    def _call_method(  # noqa: C901, PLR0911 -- one case per kind of owner
        self, atom: Method, given: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        owner = atom.owner
        match owner:
            case Tensor():
                self.hand_over(given.all(), node)
                return self.call_tensor(owner, atom.name, given, node, frame)
            case Items(kind="modules" | "sequential") if atom.name in self.allowed.module_methods:
                return self.call_module(owner, atom.name, given, node, frame)
            case Items():
                return self.call_container(owner, atom.name, given, node, frame)
            case Descriptor():
                return frozenset({_extended(owner, atom.name, given)})
            case Instance() | Class() if atom.name in OF_NAMED_TUPLES:
                return self._call_named_tuple(owner, atom.name, given, node, frame)
            case Holder() | Instance():
                return self.call_module(owner, atom.name, given, node, frame)
            case Class():
                return self._apply_autograd(owner, given, node, frame)
            case Partial():
                return self.register(owner, atom.name, given, node, frame)
            case Kernel() if atom.name == "run":
                return self.run_kernel(owner, given, node, frame)
            case Kernel():
                self.check_passed(owner.node, given, node)
                return frozenset({owner})
            case Super():
                return NOTHING
            case _:
                return PLAIN

    def _may_take(self, given: Arguments, node: ast.AST) -> bool:
        """Whether a method of a number or text may be given these: it might return them."""
        every = given.all()
        match node:
            case ast.Call(func=ast.Attribute(attr="format")):  # it gives a text
                kept: tuple[type[Atom], ...] = CALLABLE
            case _:
                kept = KEPT
        return not self.may_hold_tensor(every) and not any(
            isinstance(atom, kept) for atom in self.as_numbers(frozenset(self.within(every)))
        )

    def _decorate(self, atom: Decorator, given: Arguments, node: ast.AST) -> Value:
        """Apply a decorator that waits for what it decorates, and takes nothing else."""
        value = given.all()
        single = len(given.positional) + len(given.keywords) <= 1
        if not single or not all(isinstance(a, DECORATED) for a in value):
            self.refuse("policy.unresolved", node)
            return UNKNOWN
        return self.apply_decorator(atom, value)

    def _call_named_tuple(
        self, atom: Instance | Class, name: str, given: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """`_replace`, `_asdict` and the like; all objects of a class share their fields."""
        fields = field_names(atom.node)
        if name == "_asdict":
            return self.make_dict(node, {f: self.member(atom.node, f) for f in fields})
        for field in fields:
            new = dict(given.keywords).get(field, given.rest)
            if name == "_make":
                new = self.iterate(given.all(), node, frame)
            self.set_member(atom.node, field, new)
        return frozenset({Instance(atom.node)})

    def _call_object(
        self, atom: Instance | Holder | Items, given: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if isinstance(atom, Instance):
            receiver: Value = frozenset({atom})
            name = "__call__" if self.find_member(atom.node, "__call__") else "forward"
            if self.find_member(atom.node, name):
                library = any(p.startswith("torch.nn.") for p in self.library_bases(atom.node))
                if library and not self._is_own(atom.node, name):
                    self.refuse("policy.module-called", node)
                return self.call(self.read_member(receiver, name, node, frame), given, node, frame)
        if isinstance(atom, Holder) and atom.path in _VIEW_MODULES:
            return given.get(0, "input")
        if isinstance(atom, Items) and atom.kind == "sequential":
            # Every layer may receive what any other returns.
            flowing = given.get(0, "input")
            for _ in range(2):
                flowing |= self.call(self.contents(atom).all(), Arguments((flowing,)), node, frame)
            return flowing
        self.refuse(
            "policy.module-called" if isinstance(atom, Holder) else "policy.unresolved", node
        )
        return UNKNOWN

    def _is_own(self, owner: ast.ClassDef, name: str) -> bool:
        """Whether calling a module cannot end up in what a library's class does."""
        lineage = self.lineage(owner)
        holders = set(self.library_bases(owner)) - set(PLAIN_MODULES)
        return not holders or any(self.surely_has(one, name) for one in lineage)

    def _apply_autograd(self, owner: Class, given: Arguments, node: ast.AST, frame: Frame) -> Value:
        receiver: Value = frozenset({owner})
        forward = self.read_member(receiver, "forward", node, frame)
        if not self.find_member(owner.node, "setup_context"):
            return self.call(forward, given.after(CONTEXT), node, frame)
        result = self.call(forward, given, node, frame)
        setup = self.read_member(receiver, "setup_context", node, frame)
        inputs: Value = frozenset({Tuple(given.positional)})
        if given.rest:
            inputs = self.make_list(self.implied_call(node), given.all())
        self.call(setup, Arguments((CONTEXT, inputs, result)), node, frame)
        return result

    # ------------------------------------------------------------------------------ functions

    def _call_function(
        self, function: Function, given: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        bindings = self.bind_parameters(function, given)
        phase = Phase.CALL if self.generates(function.node) else frame.phase
        activation, bindings = self._activation(function, bindings, phase)
        if activation.round != self.round:
            activation.round = self.round
            self._run(function, bindings, phase, activation)
        else:
            activation.asked |= activation.running
            self.launches += activation.launches
        if function.cached:
            self._check_cached(given, activation.result, node)
        return activation.result

    def _check_cached(self, given: Arguments, result: Value, node: ast.AST) -> None:
        """Refuse a cache of results that hold tensors, unless it is keyed by sizes only."""
        keys = self.within(given.all())
        shown = any(isinstance(atom, Tensor) for atom in keys) or self.has_address(given.all())
        if shown or (self.may_hold_tensor(given.all()) and self.may_hold_tensor(result)):
            self.refuse("policy.caches-output", node)

    def generates(self, node: FunctionNode) -> bool:
        """Whether calling the function returns a generator; most files have none."""
        found = survey(self.tree)
        return bool(found.of(ast.Yield) or found.of(ast.YieldFrom)) and is_generator(node)

    def bind_parameters(self, function: Function, given: Arguments) -> dict[str, Value]:
        """The value of each parameter; one that may be missing also has its default."""
        spec = function.node.args
        self.asked.add((function.node, DEFAULTS))
        defaults = self.defaults.get(function.node, {})
        places = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
        bound: dict[str, Value] = {}
        for place, name in enumerate([*places, *(argument.arg for argument in spec.kwonlyargs)]):
            position = place if place < len(places) else len(given.positional)
            named = "" if place < len(spec.posonlyargs) else name  # then only its place counts
            value = given.get(position, named)
            sure = position < len(given.positional) or named in dict(given.keywords)
            bound[name] = value if sure else value | defaults.get(name, EMPTY)
        if spec.vararg:
            extra = given.positional[len(places) :]
            loose = self.make_list(spec.vararg, join(extra) | given.rest) if given.rest else EMPTY
            bound[spec.vararg.arg] = loose or frozenset({Tuple(extra)})
        if spec.kwarg:
            items = Items(spec.kwarg, "dict")
            self.put(items, given.rest)
            for name, value in given.keywords:
                if name not in bound or name in places[: len(spec.posonlyargs)]:
                    self.put(items, value, name)
            bound[spec.kwarg.arg] = frozenset({items})
        return bound

    def _activation(
        self, function: Function, bindings: dict[str, Value], phase: Phase
    ) -> tuple[Activation, dict[str, Value]]:
        known = self.contexts.setdefault((function.node, function.scope, phase), {})
        key = tuple(sorted_items(bindings))
        if key in known:
            return known[key], bindings
        if len(known) < _MOST_CONTEXTS:
            known[key] = Activation(Scope(function.scope, function.node))
            return known[key], bindings
        # Too many contexts: one activation stands for the rest, evaluated again as it grows.
        common = known.setdefault((), Activation(Scope(function.scope, function.node)))
        for name, value in bindings.items():
            old = common.scope.ever.get(name, EMPTY)
            self.changed |= not value <= old
            self.record(common.scope, name, value)
            bindings[name] = old | value
        return common, bindings

    def _run(
        self, function: Function, bindings: dict[str, Value], phase: Phase, activation: Activation
    ) -> None:
        if self.depth >= _DEEPEST_CALL:
            raise TooTangledError(f"calls nest deeper than {_DEEPEST_CALL}")
        frame = Frame(activation.scope, phase, dict(bindings), function)
        frame.receiver = next(iter(bindings.values()), EMPTY)
        for name, value in bindings.items():
            self.record(activation.scope, name, value)
        self.reached.add(function.node)
        before, outer = self.launches, self.now
        self.now = phase
        self.depth += 1
        activation.running, activation.asked = True, False
        try:
            self.run_body(function, frame)
        finally:
            self.depth -= 1
            self.now = outer
            activation.running = False
        result = frame.returned
        if self.generates(function.node):
            result = self.make_list(function.node, frame.yielded | frame.returned)
        launches = activation.launches or self.launches > before
        grew = launches > activation.launches or not result <= activation.result
        activation.launches = launches
        activation.result = self.narrow(activation.result | result, function.node)
        self.changed |= grew and activation.asked

    # -------------------------------------------------------------------------------- classes

    def _construct(self, atom: Class, given: Arguments, node: ast.AST, frame: Frame) -> Value:
        made = Instance(atom.node)
        receiver: Value = frozenset({made})
        if self.now is Phase.SETUP:
            self.lasting.add(atom.node)
        self.reached.add(atom.node)
        self.call_special(made, _IMPLIED, node)
        self.call_special(made, _ASKED, node, PLAIN)
        self.compare_own(made, node)
        if set(self.library_bases(atom.node)) & set(PLAIN_MODULES) and self.now is Phase.SETUP:
            self.made_modules.add(made)
        if any(path.startswith("builtins.") for path in self.library_bases(atom.node)):
            self.set_member(atom.node, WHATEVER, given.all())
        if self.find_member(atom.node, "__init__"):
            initialiser = self.read_member(receiver, "__init__", node, frame)
            self.call(initialiser, given, node, frame)
            return receiver
        return self.fill(made, given, node, frame)

    def hand_over(self, value: Value, node: ast.AST, *, classes: bool = False) -> None:
        """Evaluate functions and objects that are given to a library, which may call them."""
        super().hand_over(value, node, classes=classes)
        for atom in self.instances_in(value):
            self.call_special(atom, _HANDED, node)


def sorted_items(bindings: dict[str, Value]) -> list[tuple[str, Value]]:
    """Bindings in an order that does not depend on how the call was spelled."""
    return sorted(bindings.items(), key=lambda item: item[0])


def _completed(atom: Partial, given: Arguments) -> Arguments:
    """The arguments of a partial with those of its call; behind a star none has a known place."""
    rest, placed = atom.rest | given.rest, given.positional
    if atom.rest and placed:
        rest, placed = join([rest, *placed]), ()
    return Arguments(atom.arguments + placed, atom.keywords + given.keywords, rest)


def _extended(owner: Descriptor, name: str, given: Arguments) -> Descriptor:
    """The property after `setter`, `deleter` or `getter`."""
    function = given.get(0, f"f{name[:3]}")
    if name == "getter":
        return Descriptor("property", owner.function | function, owner.setter)
    return Descriptor("property", owner.function, owner.setter | function)
