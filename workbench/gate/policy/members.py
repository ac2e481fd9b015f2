"""Attributes in the abstract interpreter: reading `value.name` and assigning to it."""

import ast
import re
from functools import cached_property

from workbench.gate.policy.flags import flags_asked
from workbench.gate.policy.names import Group
from workbench.gate.policy.operators import Operators
from workbench.gate.policy.refusals import code_of_name, spelled
from workbench.gate.policy.state import Frame
from workbench.gate.policy.tree import survey
from workbench.gate.policy.values import (
    ANYTHING,
    BUFFER,
    EMPTY,
    PLAIN,
    SETTING,
    STATE,
    UNKNOWN,
    Arguments,
    Atom,
    Bound,
    Caught,
    Class,
    Descriptor,
    Function,
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
    Super,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
)

_READS = frozenset({"cpu", "item", "numpy", "tolist"})
_FRAMES = re.compile(
    r"(tb|f|gi|cr|ag)_(frame|back|locals|globals|builtins|code|next|await|yieldfrom)"
)
_STATE_NAMES = re.compile(r".*(weight|bias).*")
_BUFFER_NAMES = re.compile(r"running_(mean|var)|num_batches_tracked")
_PARTS = re.compile(
    r"out_proj|self_attn|multihead_attn|linear\d|norm\d?|dropout\d?|encoder|decoder|layers|activation"
)
_CONTAINER_METHODS = frozenset(
    {"add", "append", "appendleft", "clear", "copy", "count", "difference", "discard", "extend"}
    | {"get", "index", "insert", "intersection", "items", "keys", "pop", "popitem", "popleft"}
    | {"remove", "reverse", "setdefault", "sort", "union", "update", "values"}
)
# `warmup` returns a compiled kernel; Triton's softmax tutorial reads its register count.
_KERNEL_SETTINGS = frozenset(
    {"arg_names", "best_config", "configs", "metadata", "n_regs", "n_spills", "params"}
    | {"_init_handles"}
)
# What must not be hidden in an object whose members are not tracked.
ACTIVE = (Tensor, Function, Bound, Partial, Known, Method, Holder, Instance, Class)
_METHODS = (Function, Descriptor)
"""What the body of an enum makes no member of: each is found by way of the class."""
OF_NAMED_TUPLES = ("_asdict", "_fields", "_make", "_replace")
"""Methods of named tuples that are public although they begin with an underscore."""
WHATEVER = "()"
"""The member of a class that stands for all arguments of its constructor."""
PLAIN_MODULES = ("torch.nn.Module", "torch.nn.modules.Module")
"""The class of modules that compute nothing by themselves."""


def is_dunder(name: str) -> bool:
    """Whether a name belongs to Python's own protocols."""
    return name.startswith("__") and name.endswith("__")


class Members(Operators):
    """The layer that looks members up and assigns them."""

    def call(self, value: Value, arguments: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Call a value; implemented by the layer of calls."""
        raise NotImplementedError

    def iterate_containers(self, value: Value) -> Value:
        """The elements of the containers in a value; implemented by the layer of containers."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------- reading

    def read_member(self, value: Value, name: str, node: ast.AST, frame: Frame) -> Value:
        """All possible values of `value.name`."""
        if len(value) == 1:  # as nearly always
            return self._member_of(next(iter(value)), name, node, frame)
        return join(self._member_of(atom, name, node, frame) for atom in value)

    def _member_of(  # noqa: C901, PLR0911, PLR0912 -- one case per kind of value
        self, atom: Atom, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        if name in ("__name__", "__doc__", "__qualname__") and self._names_itself(atom, name):
            return PLAIN
        match atom:
            case Known():
                return self.known(f"{atom.path}.{name}", node)
            case Tensor():
                return self._tensor_member(atom, name, node, frame)
            case Instance() | Class():
                return self._own_member(atom, name, node, frame)
            case Super():
                return self._super_member(atom, name, node, frame)
            case Holder():
                return self._holder_member(atom, name, node)
            case Items() | Tuple():
                return self._container_member(atom, name, node)
            case Kernel():
                return self._kernel_member(atom, name, node)
            case Function() if self.member(atom.node, name):
                return self.member(atom.node, name)
            case Nothing() | Unknown():
                return frozenset({atom}) - {Nothing()}
            case Plain() | Launcher():
                self.of_address(frozenset({atom}), node)
                return self._plain_member(name, node)
            case Descriptor(kind="property") if name in ("deleter", "getter", "setter"):
                return frozenset({Method(atom, name)})
            case Partial(operator=True) if name in ("register_autograd", "register_fake"):
                return frozenset({Method(atom, name)})
            case Partial(operator=True) if name == "default":
                return frozenset({atom})
            case Caught():
                if name in ("value", "obj"):  # it may be any object
                    return self._no_member(name, node)
                carried = name in ("args", "name")
                return ANYTHING if carried else self._plain_member(name, node)
        return self._no_member(name, node)

    def _names_itself(self, atom: Atom, name: str) -> bool:
        """Whether a name is the file's or torch's, and not that of what stands in for a library."""
        match atom:
            case Known(path):
                return path == "torch.Tensor" or (path == "builtins.type" and bool(self.telling))
            case Kernel():
                return name == "__name__"
            case Partial() | Launcher() | Method():
                return bool(self.telling)
        return True

    @cached_property
    def _asked_for_flags(self) -> frozenset[ast.AST]:
        """Expressions of which nothing but `.get` is read."""
        return frozenset(n.value for n in survey(self.tree).of(ast.Attribute) if n.attr == "get")

    @cached_property
    def _flags_asked(self) -> frozenset[ast.AST]:
        """Expressions of which nothing but the presence or the text of flags is read."""
        return flags_asked(self.tree)

    def known(self, path: str, node: ast.AST) -> Value:
        """A library object by its full name, refused unless the allow-list has it."""
        path = path.replace("typing_extensions.", "typing.", 1)
        group = self.allowed.names.get(path)
        if path == "os.environ" and node in self._flags_asked:
            return PLAIN
        if path == "os.environ" and node not in self._asked_for_flags:
            self.refuse("policy.forbidden-name", node, path)
            return UNKNOWN
        if path == "builtins.__name__":
            self.own_name(node)
        if path == "torch.ops" or path.startswith("torch.ops."):
            own = self.own_operator(path)
            if not own:
                self.refuse(code_of_name(path), node, path)
            return own
        if group is not None and group.returns == "constant":
            return PLAIN
        if group is not None or self.allowed.is_namespace(path) or self.allowed.is_language(path):
            return frozenset({Known(path)})
        self.refuse(code_of_name(path), node, path.removeprefix("builtins."))
        return UNKNOWN

    def permits(self, group: Group, atom: Tensor, frame: Frame) -> bool:
        """Whether a rule's `where` holds for this tensor here."""
        match group.where:
            case "setup":
                return frame.phase is Phase.SETUP
            case "state":
                return atom.origin in ("state", "buffer")
            case "buffer":
                return atom.origin == "buffer"
            case _:
                return True

    def _tensor_member(self, atom: Tensor, name: str, node: ast.AST, frame: Frame) -> Value:
        for group in self.allowed.attributes.get(name, ()):
            return PLAIN if group.returns == "plain" else frozenset({atom})
        if any(self.permits(group, atom, frame) for group in self.allowed.methods.get(name, ())):
            return frozenset({Method(atom, name)})
        if name.startswith("_"):
            self.refuse("policy.private-name", node)
        else:
            self.refuse("policy.reads-values" if name in _READS else "policy.torch-compute", node)
        return UNKNOWN

    def _own_member(self, atom: Instance | Class, name: str, node: ast.AST, frame: Frame) -> Value:
        found = self.find_member(atom.node, name)
        if found:
            bound = join(self._bind(value, atom, node, frame) for value in found)
            members = self.members_of_enum(atom.node, found) if isinstance(atom, Class) else EMPTY
            return self.beside_members(bound) | members if members else bound
        if is_dunder(name):
            return self._no_member(name, node)
        for path in self.library_bases(atom.node):
            inherited = self._inherited(atom, path, name, node)
            if inherited:
                return inherited
        if self.of_named_tuple(atom.node):
            return self.member(atom.node, WHATEVER) | PLAIN
        self.refuse("policy.unresolved", node)
        return EMPTY

    def _bind(self, found: Atom, atom: Instance | Class, node: ast.AST, frame: Frame) -> Value:
        receiver: Value = frozenset({atom})
        if isinstance(found, Descriptor):
            if found.kind == "property":
                return self.call(found.function, Arguments((receiver,)), node, frame)
            if found.kind == "staticmethod":
                return found.function
            receiver = frozenset({Class(atom.node)})
            return frozenset(Bound(f, receiver) for f in found.function if isinstance(f, Function))
        if isinstance(found, Function) and found.owner is not None and isinstance(atom, Instance):
            return frozenset({Bound(found, receiver)})
        return frozenset({found})

    def _inherited(  # noqa: PLR0911 -- one case per library class
        self, atom: Instance | Class, path: str, name: str, node: ast.AST
    ) -> Value:
        if path == "torch.autograd.Function":
            return frozenset({Method(atom, name)}) if name == "apply" else EMPTY
        if path.startswith("enum.") and name == "value":
            # `Kind["a"].value` belongs to the class here: any of its members may be meant.
            every = join(self.every_member(atom.node).values())
            return PLAIN | frozenset(a for a in every if not isinstance(a, _METHODS))
        if path == "typing.NamedTuple" and name in OF_NAMED_TUPLES:
            return frozenset({Method(atom, name)})
        if path == "typing.NamedTuple" or path.startswith("enum."):
            return EMPTY if name.startswith("_") else PLAIN
        if not path.startswith("torch.nn."):
            held = self.member(atom.node, WHATEVER)
            kept = frozenset({Tuple((held,))}) if held else EMPTY
            return ANYTHING | kept if name == "args" else EMPTY
        if name == "training":
            return PLAIN
        if name in self.allowed.module_methods:
            return frozenset({Method(atom, name)})
        return EMPTY if path in PLAIN_MODULES else self._holder_member(Holder(path), name, node)

    def _bind_super(self, found: Atom, atom: Super, node: ast.AST, frame: Frame) -> Value:
        if isinstance(found, Function):
            return frozenset({Bound(found, atom.owner)})
        owners = [one for one in atom.owner if isinstance(one, Instance | Class)]
        return join(self._bind(found, one, node, frame) for one in owners) or frozenset({found})

    def _super_member(self, atom: Super, name: str, node: ast.AST, frame: Frame) -> Value:
        for base in join(self.bases.get(atom.node, ())):
            found = self.find_member(base.node, name) if isinstance(base, Class) else EMPTY
            if found:
                return join(self._bind_super(f, atom, node, frame) for f in found)
        if name in ("__init__", "__post_init__", "__init_subclass__", "extra_repr"):
            return frozenset({Method(atom, name)})
        if name in self.allowed.module_methods:
            return frozenset(Method(o, name) for o in atom.owner if isinstance(o, Instance))
        self.refuse(
            "policy.module-called" if name in ("forward", "__call__") else "policy.private-name",
            node,
        )
        return UNKNOWN

    def _holder_member(self, atom: Holder, name: str, node: ast.AST) -> Value:
        if name in self.allowed.module_methods:
            return frozenset({Method(atom, name)})
        if name.startswith(("register_", "forward")) or name == "compile":
            self.refuse("policy.module-called", node)
            return UNKNOWN
        if name.startswith("_"):
            return self._no_member(name, node)
        if _BUFFER_NAMES.fullmatch(name):
            return BUFFER
        if _STATE_NAMES.fullmatch(name):
            return STATE
        return frozenset({atom}) if _PARTS.fullmatch(name) else SETTING

    def _container_member(self, atom: Items | Tuple, name: str, node: ast.AST) -> Value:
        if isinstance(atom, Items) and atom.kind == "record" and not name.startswith("_"):
            contents = self.contents(atom)
            if name == "all_kwargs" and self.may_hold_tensor(frozenset({atom})):
                return self._no_member(name, node)
            return contents.keyed.get(name, EMPTY) | contents.elements
        modules = isinstance(atom, Items) and atom.kind in ("modules", "sequential")
        if name in _CONTAINER_METHODS or (modules and name in self.allowed.module_methods):
            return frozenset({Method(atom, name)})
        return self._no_member(name, node)

    def _kernel_member(self, atom: Kernel, name: str, node: ast.AST) -> Value:
        if name in ("best_config", "configs"):  # with the hooks that the file gave them
            given = self.hooks.get(atom.node, {}).get("configs", EMPTY)
            return PLAIN | (given if name == "configs" else self.iterate_containers(given))
        if name in _KERNEL_SETTINGS:
            return PLAIN
        if name == "fn":
            return frozenset({Kernel(atom.node, bare=True)})
        if name in ("run", "warmup"):
            return frozenset({Method(atom, name)})
        return self._no_member(name, node)

    def _plain_member(self, name: str, node: ast.AST) -> Value:
        if name.startswith("_") or _FRAMES.fullmatch(name):
            return self._no_member(name, node)
        return PLAIN

    def _no_member(self, name: str, node: ast.AST) -> Value:
        private = name.startswith("_") or _FRAMES.fullmatch(name)
        self.refuse("policy.private-name" if private else "policy.forbidden-name", node)
        return UNKNOWN

    # ------------------------------------------------------------------------------- writing

    def write_member(
        self, value: Value, name: str, new: Value, node: ast.AST, frame: Frame
    ) -> None:
        """Assign `value.name = new`; refused where the object is not the candidate's own."""
        for atom in value:
            if is_dunder(name):
                self.refuse("policy.patches-object", node)
            elif not self._write(atom, name, new, node, frame):
                self.refuse("policy.patches-object", node, spelled(node))

    def _write(  # noqa: PLR0911 -- one case per kind of value
        self, atom: Atom, name: str, new: Value, node: ast.AST, frame: Frame
    ) -> bool:
        """Whether the candidate may make the assignment."""
        self.remember(atom, new, node)
        match atom:
            case Instance() | Class():
                if name in self.allowed.module_internals and self.library_bases(atom.node):
                    return False
                self._set_property(atom, name, new, node, frame)
                self.set_member(atom.node, name, new)
            case Function():
                self.set_member(atom.node, name, new)
            case Items() if atom.kind == "record":
                self.put(atom, new, name)
            case Tensor():
                self.carry(new)
                return name in ("requires_grad", "grad") or (
                    name == "data" and atom.origin in ("state", "buffer")
                )
            case Holder():
                return frame.phase is Phase.SETUP and _fits_holder(name, new)
            case Known():
                return atom.path == "torch.autograd.function.FunctionCtx"
            case Plain():
                return not self.holds(new, ACTIVE)
            case Nothing() | Unknown():
                return True
            case _:
                return False
        return True

    def delete_property(self, owner: Value, name: str, node: ast.AST, frame: Frame) -> None:
        """`del value.name`, which may call a property's deleter."""
        for atom in owner:
            for member in self.find_member(atom.node, name) if isinstance(atom, Instance) else ():
                if isinstance(member, Descriptor):
                    self.call(member.setter, Arguments((frozenset({atom}),)), node, frame)

    def _set_property(
        self, atom: Instance | Class, name: str, new: Value, node: ast.AST, frame: Frame
    ) -> None:
        for member in self.find_member(atom.node, name):
            if isinstance(member, Descriptor):
                self.call(member.setter, Arguments((frozenset({atom}), new)), node, frame)


def _fits_holder(name: str, new: Value) -> bool:
    """Whether a value may become a library module's member: a tensor where it is read as one."""
    kinds = Plain | Nothing
    if _BUFFER_NAMES.fullmatch(name) or _STATE_NAMES.fullmatch(name):
        kinds |= Tensor
    return all(isinstance(atom, kinds) for atom in new)
