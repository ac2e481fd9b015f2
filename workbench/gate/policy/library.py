"""Calls of library functions in the abstract interpreter, by the rules of the allow-list."""

import ast
from collections.abc import Iterable

from workbench.gate.policy.decorators import Decorators
from workbench.gate.policy.names import Group
from workbench.gate.policy.refusals import code_of_name, spelled
from workbench.gate.policy.state import Frame
from workbench.gate.policy.values import (
    ADDRESS,
    ANYTHING,
    BUFFER,
    EMPTY,
    FRESH,
    INPUT,
    PLAIN,
    STATE,
    UNKNOWN,
    Arguments,
    Atom,
    Bound,
    Class,
    Descriptor,
    Function,
    Holder,
    Instance,
    Items,
    Kernel,
    Known,
    Method,
    Nothing,
    Partial,
    Phase,
    Plain,
    Scope,
    Tensor,
    Tuple,
    Value,
)

_ARITHMETIC = frozenset(["abs", "divmod", "max", "min", "pow", "round", "sum"])
_SIZED = frozenset(
    f"torch.{name}"
    for name in (
        "arange",
        "empty",
        "empty_strided",
        "eye",
        "full",
        "ones",
        "scalar_tensor",
        "zeros",
    )
)
"""Functions that make tensors out of numbers: a tensor among these is read."""
_ASK = frozenset({"all", "any", "bool", "bytes", "format", "hash", "repr", "str"})
"""Functions of numbers that give no object back."""
_AFTER_ONE = frozenset(
    f"torch.{name}"
    for name in (
        *("as_strided", "broadcast_to", "chunk", "diagonal", "empty_like", "flatten", "full_like"),
        *("movedim", "moveaxis", "narrow", "ones_like", "permute", "reshape", "select", "split"),
        *("squeeze", "swapaxes", "swapdims", "tensor_split", "transpose", "unbind", "unflatten"),
        *("unsqueeze", "zeros_like"),
    )
)
"""Functions of one tensor and numbers: another tensor among these is read."""
_CONSTRUCTORS = ("__init__", "__post_init__")
_CARRIED = (Tensor, Function, Bound, Partial, Instance, Known, Method)
"""What an exception must not carry unseen."""
_INERT = (Plain, Tensor, Nothing)
CALLABLE = (Function, Bound, Partial, Method)
KEPT = (*CALLABLE, Instance)
"""What must not come back as a number from a function that keeps what it is given."""
_KEEPERS = (".Benchmark", ".Counter", ".constexpr", ".slice", "enum.Enum", "enum.Flag")
"""Functions of numbers whose result gives back the very containers that it was given."""
_LOOKING = frozenset({"autograd context", "checks", "inspection", "messages"})
"""Groups of functions that give nothing back of what they are given."""


class Library(Decorators):
    """The layer that calls what the candidate imported."""

    catches: bool
    """Whether code of the file may catch an exception that other code raised."""

    def call_known(self, path: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
        """Call a library function by its full name."""
        group = self.allowed.names.get(path)
        if group is None:
            self.refuse(code_of_name(path), node, path.removeprefix("builtins."))
            return UNKNOWN
        if group.where == "setup" and frame.phase is Phase.CALL:
            self.refuse("policy.torch-compute", node, path)
            return FRESH
        told = self.tell(path, arguments, node, frame)
        if told is not None:
            return told
        if group.returns not in ("identity", "decorator", "operator"):
            calls = group.returns == "plain" and group.group != "inspection"
            self.hand_over(arguments.all(), node, classes=calls)
        if group.returns == "plain" and group.group not in _LOOKING:
            self.check_objects(path, arguments, node)
        plain = group.arguments == "plain" or path in _SIZED
        numbers = arguments.after_first() if path in _AFTER_ONE else arguments.all()
        held = (plain or path in _AFTER_ONE) and self.may_hold_tensor(numbers)
        if held and frame.phase is Phase.CALL:
            self.refuse(_code_of_argument(path), node)
            return UNKNOWN
        if group.returns in ("state", "type") and frame.phase is Phase.CALL:
            kept = self._kept(group, path, arguments, node)
            if kept is not None:
                return kept
        return self._result(group, path, arguments, node) | (
            FRESH if held and self._computes(path) else EMPTY
        )

    def _computes(self, path: str) -> bool:
        """Whether a function of numbers makes a tensor of tensors."""
        first, _, last = path.rpartition(".")
        return last in _ARITHMETIC or first in ("operator", "numpy")

    def check_objects(self, path: str, arguments: Arguments, node: ast.AST) -> None:
        """Refuse to give objects of the file to what works on numbers: it may hand them on."""
        if path.rsplit(".", 1)[-1] in _ASK:
            return
        objects = self.as_numbers(frozenset(self.within(arguments.all())))
        held = path.endswith(_KEEPERS) and self.may_hold_tensor(objects)
        if held or any(isinstance(atom, KEPT) for atom in objects):
            self.refuse("policy.unresolved", node)

    def evaluate(self, node: ast.expr, frame: Frame) -> Value:
        """The values of an expression; implemented by the layer of expressions."""
        raise NotImplementedError

    def tell(self, path: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
        """The result of `path` where no rule describes it; implemented by the layer of stories."""
        raise NotImplementedError

    def hand_over(self, value: Value, node: ast.AST, *, classes: bool = False) -> None:
        """Evaluate functions that are given to a library, which may call them with anything.

        `classes`: whether it may call classes too, or only inspects them.
        """
        if all(isinstance(atom, _INERT) for atom in value):  # as nearly always
            return
        for atom in self.functions_in(value, classes=classes):
            self.call_anyhow(atom, ANYTHING, node)
        if any(isinstance(atom, Kernel) and atom.bare for atom in self.within(value)):
            self.refuse("policy.unresolved", node)

    def functions_in(self, value: Value, *, classes: bool = False) -> Value:
        """The candidate's functions within a value and the containers it holds."""
        found: set[Atom] = set()
        for atom in self.within(value):
            if isinstance(atom, CALLABLE) or (classes and isinstance(atom, Class)):
                found.add(atom)
            elif isinstance(atom, Instance):
                receiver: Value = frozenset({atom})
                called = self.find_member(atom.node, "__call__")
                found |= {Bound(f, receiver) for f in called if isinstance(f, Function)}
        return frozenset(found)

    def instances_in(self, value: Value) -> list[Instance]:
        """The candidate's objects within a value and the containers it holds."""
        return [atom for atom in self.within(value) if isinstance(atom, Instance)]

    def implied_call(self, node: ast.AST) -> ast.Call:
        """A call node for what a decorator or a library function calls; one per place."""
        called = ast.Call(func=ast.Name(id="call", ctx=ast.Load()), args=[], keywords=[])
        return self.implied.setdefault(node, ast.copy_location(called, node))

    def call_anyhow(
        self, atom: Atom, each: Value, node: ast.AST, phase: Phase = Phase.CALL
    ) -> None:
        """Call something of the candidate's with every parameter being `each`."""
        spec, bound = self._signature(atom)
        if isinstance(atom, Method) and isinstance(atom.owner, Items):
            given = Arguments((each,))
        elif spec is not None:
            count = len(spec.posonlyargs) + len(spec.args) - bound
            keywords = tuple((argument.arg, each) for argument in spec.kwonlyargs)
            given = Arguments((each,) * max(count, 0), keywords, each)
        elif isinstance(atom, Class):
            given = Arguments(rest=each)
        else:
            return
        self.call(frozenset({atom}), given, node, Frame(Scope(None, node), phase))

    def _signature(self, atom: Atom) -> tuple[ast.arguments | None, int]:
        """The parameters of a function that a value calls, and how many of them it gives itself."""
        inner: Atom | None = atom
        if isinstance(atom, Class):
            inner = next(iter(self.find_member(atom.node, "__init__")), None)
        bound = int(isinstance(atom, Bound | Class))
        while isinstance(inner, Partial | Bound):
            target = {inner.function} if isinstance(inner, Bound) else inner.target
            inner = next(iter(target), None)
        return (inner.node.args, bound) if isinstance(inner, Function) else (None, 0)

    def call_special(
        self,
        atom: Instance,
        names: Iterable[str],
        node: ast.AST,
        each: Value = ANYTHING,
        phase: Phase = Phase.CALL,
    ) -> None:
        """Evaluate methods and properties that Python or a library calls by itself."""
        receiver: Value = frozenset({atom})
        for name in names:
            for member in self.find_member(atom.node, name):
                functions = member.function if isinstance(member, Descriptor) else {member}
                for function in functions:
                    if isinstance(function, Function):
                        self.call_anyhow(Bound(function, receiver), each, node, phase)

    def own_names(self, owner: ast.ClassDef) -> list[str]:
        """Every member of a class and of its bases in the file, without constructors."""
        every = (name for one in self.lineage(owner) for name in self.every_member(one))
        return [name for name in dict.fromkeys(every) if name not in _CONSTRUCTORS]

    def carry_out(self, arguments: Arguments) -> None:
        """`out=buffer` writes the other arguments into it."""
        named = dict(arguments.keywords).get("out", EMPTY)
        if Tensor("buffer") in named | arguments.rest:
            self.carry(frozenset(self.within(arguments.all())))

    def moved(self, given: Value) -> Value:
        """A new tensor with the contents of these; a copy of an input is an input."""
        return INPUT if Tensor("input") in self.within(given) else FRESH

    def _result(  # noqa: C901, PLR0911 -- one case per word of allowed.toml
        self, group: Group, path: str, arguments: Arguments, node: ast.Call
    ) -> Value:
        first = arguments.get(0, "input") | arguments.get(0, "tensors")
        match group.returns:
            case "tensor" | "moved" as kind:
                self.carry_out(arguments)
                return self.moved(arguments.all()) if kind == "moved" else FRESH
            case "same":
                return frozenset(a for a in first if isinstance(a, Tensor)) or FRESH
            case "views":
                held = first | self.iterate_containers(first)
                return self.make_list(node, frozenset(a for a in held if isinstance(a, Tensor)))
            case "state":
                return BUFFER if path.endswith("Buffer") else STATE
            case "holder":
                return frozenset({Holder(path)})
            case "modules":
                return self._modules(path, arguments, node)
            case "descriptor":
                fields = {"base": first | arguments.get(0, "tensor") | arguments.get(0, "base")}
                return self.make_record(node, fields, PLAIN)
            case "identity" | "decorator" | "operator":
                return self.decorate(path, arguments)
            case "type":
                return self._made_by_type(path, arguments, node)
            case "namespace":
                self.refuse("policy.unresolved", node)
                return UNKNOWN
            case _:
                return self.by_function(path, arguments.all(), node)

    def _made_by_type(self, path: str, arguments: Arguments, node: ast.Call) -> Value:
        """What a call of a class gives: of an exception, also what it carries."""
        if path.startswith("builtins.") and self.catches:
            self.check_objects(path, arguments, node)
        if path.startswith("builtins.") and self.holds(arguments.all(), _CARRIED):
            kept = frozenset({Tuple((*arguments.positional, arguments.rest))})
            return self.make_record(node, {"args": kept})
        if not path.startswith("builtins."):
            self.check_objects(path, arguments, node)
        if path == "builtins.object" and self.now is Phase.CALL:
            return ADDRESS  # all that an object is known by
        return FRESH if path.endswith("Tensor") else PLAIN

    def _kept(self, group: Group, path: str, arguments: Arguments, node: ast.Call) -> Value | None:
        """What a type makes of tensors while ModelNew is called; None where it is given none."""
        given = arguments.all()
        if group.returns == "state":  # a tensor that is called a parameter stays what it was
            return frozenset(a for a in given if isinstance(a, Tensor)) or None
        words = path.startswith("builtins.") and path != "builtins.object"
        if words or path.endswith("Tensor") or not self.may_hold_tensor(given):
            return None
        self.refuse("policy.unresolved", node)
        return UNKNOWN

    def _modules(self, path: str, arguments: Arguments, node: ast.Call) -> Value:
        items = Items(node, "sequential" if path.endswith("Sequential") else "modules")
        every = arguments.all()
        inner = self.iterate_containers(every)
        loose = every if items.kind == "sequential" else EMPTY
        for atom in loose | inner | self.iterate_containers(inner):
            if not isinstance(atom, Tuple | Plain):
                self.put(items, frozenset({atom}) - {items})
        return frozenset({items})

    # -------------------------------------------------------------------------------- methods

    def call_tensor(
        self, atom: Tensor, name: str, arguments: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """A method of a tensor, asked again: it may have been looked up in another phase."""
        for group in self.allowed.methods.get(name, ()):
            if not self.permits(group, atom, frame):
                continue
            if group.arguments == "plain" and self.may_hold_tensor(arguments.all()):
                code = "reads-values" if "views" in group.group else "torch-compute"
                self.refuse(f"policy.{code}", node)
            if atom.origin in ("buffer", "state"):
                self._use_state(group, name, arguments, node, frame)
            match group.returns:
                case "plain":
                    return PLAIN
                case "address":
                    return ADDRESS
                case "tensor":
                    return FRESH
                case "views":
                    return self.make_list(node, frozenset({atom}))
                case _:
                    # `x.type()` without an argument names the dtype.
                    return frozenset({atom}) | (PLAIN if name == "type" else EMPTY)
        self.refuse("policy.torch-compute", node)
        return UNKNOWN

    def _use_state(
        self, group: Group, name: str, arguments: Arguments, node: ast.AST, frame: Frame
    ) -> None:
        """Follow inputs that are copied into the state; refuse to read or update it by them."""
        if name == "copy_":
            self.carry(arguments.all())
        elif group.where == "buffer":
            self.check_update(arguments.all(), node, frame)
        elif group.where == "state":
            self.asked.add((self, "carrying"))
            if frame.phase is Phase.CALL and self.carrying:
                self.refuse("policy.reads-values", node)

    def check_update(self, given: Value, node: ast.AST, frame: Frame) -> None:
        """Refuse to update a buffer by an input itself: what it learns of one, kernels work out."""
        self.asked.add((self, "carrying"))
        if frame.phase is Phase.CALL and (self.carrying or Tensor("input") in given):
            says = f"`{spelled(node)}` computes on an input outside a kernel"
            self.refuse("policy.torch-compute", node, says=says)


def _code_of_argument(path: str) -> str:
    name = path.rsplit(".", 1)[-1]
    arithmetic = name in _ARITHMETIC or path.startswith("operator.")
    return "policy.operator-on-tensor" if arithmetic else "policy.reads-values"
