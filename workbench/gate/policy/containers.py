"""Containers in the abstract interpreter: iteration, subscripts, methods of lists and dicts."""

import ast

from workbench.gate.policy.fields import (
    dataclasses_in_order,
    field_names,
    ordered_fields,
)
from workbench.gate.policy.keys import Key, asked_key, lists_places, literal, possible_keys
from workbench.gate.policy.members import ACTIVE, WHATEVER, Members
from workbench.gate.policy.refusals import spelled
from workbench.gate.policy.state import Frame
from workbench.gate.policy.values import (
    EMPTY,
    NOTHING,
    PLAIN,
    UNKNOWN,
    Arguments,
    Atom,
    Class,
    Instance,
    Items,
    Kernel,
    Known,
    Launcher,
    Nothing,
    Phase,
    Plain,
    Tensor,
    Tuple,
    Unknown,
    Value,
    has_tensor,
    join,
)

_STORES = frozenset({"add", "append", "appendleft", "insert"})
_MERGES = frozenset({"extend", "update", "union"})


class Containers(Members):
    """The layer that reads and writes containers."""

    def make_list(self, site: ast.AST, elements: Value) -> Value:
        """A list made at that place."""
        items = Items(site, "list")
        self.put(items, elements - {items})
        return frozenset({items})

    def make_dict(self, site: ast.AST, fields: dict[str, Value], rest: Value = EMPTY) -> Value:
        """A dict with these keys, and `rest` under others."""
        return self._filled(Items(site, "dict"), fields, rest)

    def make_record(self, site: ast.AST, fields: dict[str, Value], rest: Value = EMPTY) -> Value:
        """An object whose members are known by name."""
        return self._filled(Items(site, "record"), fields, rest)

    def _filled(self, items: Items, fields: dict[str, Value], rest: Value) -> Value:
        self.put(items, rest)
        for name, value in fields.items():
            self.put(items, value, name)
        return frozenset({items})

    def fill(self, atom: Instance, given: Arguments, node: ast.AST, frame: Frame) -> Value:
        """An object whose class has no constructor of its own: its fields get the arguments."""
        receiver: Value = frozenset({atom})
        if "typing.TypedDict" in self.library_bases(atom.node):
            return self.make_dict(node, dict(given.keywords), given.rest)
        if self.of_named_tuple(atom.node):
            self.set_member(atom.node, WHATEVER, given.all())
            return receiver
        lineage = self.lineage(atom.node)
        if self.made_by_module(atom.node):
            return receiver
        named = "typing.NamedTuple" in self.library_bases(atom.node) and len(lineage) == 1
        fields, rest = ordered_fields(lineage), Arguments(rest=given.all())
        # Fields whose order is unknown may get any of the arguments.
        sure = named or not fields or not given.all()
        known = sure or dataclasses_in_order(lineage, self.tree)
        for place, name in enumerate(fields):
            value = given.get(place, name) if known else rest.rest
            if value:
                self.set_member(atom.node, name, value)
        if self.find_member(atom.node, "__post_init__"):
            after = self.read_member(receiver, "__post_init__", node, frame)
            self.call(after, Arguments() if known else rest, node, frame)
        return receiver

    def iterate_containers(self, value: Value) -> Value:
        """The elements of the containers in a value."""
        return join(
            join(a.items) if isinstance(a, Tuple) else self.contents(a).all()
            for a in value
            if isinstance(a, Tuple | Items)
        )

    # ------------------------------------------------------------------------------ iterating

    def iterate(self, value: Value, node: ast.AST, frame: Frame) -> Value:
        """The values of a loop over the value."""
        return join(self._iterate_atom(atom, node, frame) for atom in value)

    def _iterate_atom(  # noqa: PLR0911 -- one case per kind of value
        self, atom: Atom, node: ast.AST, frame: Frame
    ) -> Value:
        match atom:
            case Tensor() | Unknown():
                return frozenset({atom})
            case Plain():
                return PLAIN
            case Tuple():
                return join(atom.items)
            case Items(kind="dict" | "meta"):
                return self.contents(atom).keys | PLAIN
            case Items():
                self.resume(atom, frame)
                return self.contents(atom).all()
            case Instance():
                return self.iterate_instance(atom, node, frame)
            case Class():
                return self.walk_class(atom.node)
            case Nothing():
                return EMPTY
        self.refuse("policy.unresolved", node)
        return UNKNOWN

    def compared(self, values: list[Value], node: ast.AST, frame: Frame) -> None:
        """Evaluate how objects are compared; implemented by the layer of comparisons."""
        raise NotImplementedError

    def order(self, elements: Value, given: Arguments, node: ast.AST, frame: Frame) -> None:
        """Sorting; implemented by the layer of comparisons."""
        raise NotImplementedError

    def resume(self, atom: Items, frame: Frame) -> None:
        """Advance a lazy iterator; implemented by the layer of stories."""
        raise NotImplementedError

    def iterate_instance(self, atom: Instance, node: ast.AST, frame: Frame) -> Value:
        """The values of a loop over an object of the candidate."""
        receiver: Value = frozenset({atom})
        if "typing.NamedTuple" in self.library_bases(atom.node):
            return join(self.fields(atom.node))
        if self.of_named_tuple(atom.node):
            return self.member(atom.node, WHATEVER)
        if self.find_member(atom.node, "__next__"):
            stepper = self.read_member(receiver, "__next__", node, frame)
            return self.call(stepper, Arguments(), node, frame)
        if self.find_member(atom.node, "__iter__"):
            walker = self.read_member(receiver, "__iter__", node, frame)
            walked = self.call(walker, Arguments(), node, frame) - receiver
            return self.iterate(walked, node, frame)
        getter = self.read_member(receiver, "__getitem__", node, frame)
        return self.call(getter, Arguments((PLAIN,)), node, frame)

    def spread(self, atom: Atom, node: ast.AST, frame: Frame) -> Value:
        """What a dict or `**` takes from an object: the values for `keys`, or its elements."""
        receiver: Value = frozenset({atom})
        if not isinstance(atom, Instance) or not self.find_member(atom.node, "keys"):
            return self._iterate_atom(atom, node, frame)
        names = self.call(self.read_member(receiver, "keys", node, frame), Arguments(), node, frame)
        getter = self.read_member(receiver, "__getitem__", node, frame)
        keys = self.iterate(names, node, frame)
        return self.call(getter, Arguments((keys,)), node, frame)

    def fields(self, owner: ast.ClassDef) -> list[Value]:
        """The annotated fields of a record class, in order."""
        return [self.member(owner, name) for name in field_names(owner)]

    def unpack(self, value: Value, count: int, node: ast.AST, frame: Frame) -> list[Value]:
        """The value unpacked into `count` values, by position where positions are known."""
        parts = [EMPTY] * count
        for atom in value:
            if isinstance(atom, Tuple) and len(atom.items) == count:
                parts = [part | item for part, item in zip(parts, atom.items, strict=True)]
            elif (
                isinstance(atom, Instance)
                and "typing.NamedTuple" in self.library_bases(atom.node)
                and len(field_names(atom.node)) == count
            ):
                fields = self.fields(atom.node)
                parts = [part | field for part, field in zip(parts, fields, strict=True)]
            else:
                every = self._iterate_atom(atom, node, frame)
                parts = [part | every for part in parts]
        return parts

    # ----------------------------------------------------------------------------- subscripts

    def subscript(
        self, value: Value, index: Value, key: Key, node: ast.Subscript, frame: Frame
    ) -> Value:
        """What `value[index]` may be; `key` is the index where it is a literal."""
        self.check_key(index, value, EMPTY, node)
        if not all(isinstance(atom, Items) and atom.kind != "list" for atom in value):
            self.of_address(index, node)
        self.of_address(value, node)
        return join(self._subscript_atom(atom, index, key, node, frame) for atom in value)

    def check_key(self, key: Value, containers: Value, new: Value, node: ast.AST) -> None:
        """Refuse a container that holds tensors, including `new`, by addresses."""
        parts = self._parts(key)
        if Plain(address=True) not in parts and not has_tensor(parts):
            return
        for atom in containers:
            self.remember(atom, key, node)
        held = (self.contents(atom).all() for atom in containers if isinstance(atom, Items))
        if has_tensor(join([new, *held])):
            self.refuse("policy.caches-output", node)

    def _parts(self, value: Value) -> Value:
        """The value with the items of its tuples."""
        return value | join(self._parts(i) for a in value if isinstance(a, Tuple) for i in a.items)

    def _subscript_atom(  # noqa: PLR0911 -- one case per kind of value
        self, atom: Atom, index: Value, key: Key, node: ast.Subscript, frame: Frame
    ) -> Value:
        match atom:
            case Kernel():
                return frozenset({Launcher(atom, index)})
            case Tensor():
                return self._index_tensor(atom, index, node, frame)
            case Tuple():
                return self._index_tuple(atom, key, node)
            case Items():
                return self._index_items(atom, key, node)
            case Known() | Class() | Unknown():  # a generic type, an enum, or refused before
                owner = atom.node if isinstance(atom, Class) else None
                return frozenset({atom}) | self.members_of_enum(owner, EMPTY)
            case Plain():
                return PLAIN
            case Nothing():
                return EMPTY
            case Instance():
                if "typing.NamedTuple" in self.library_bases(atom.node):
                    return join(self.fields(atom.node))
                getter = self.read_member(frozenset({atom}), "__getitem__", node, frame)
                return self.call(getter, Arguments((index,)), node, frame)
        self.refuse("policy.unresolved", node)
        return UNKNOWN

    def _index_tensor(self, atom: Tensor, index: Value, node: ast.AST, frame: Frame) -> Value:
        by = "a tensor" if self.may_hold_tensor(index) else lists_places(node)
        if by and frame.phase is Phase.CALL:
            says = f"`{spelled(node)}` gathers: a tensor is indexed by {by}"
            self.refuse("policy.torch-compute", node, says=says)
        return frozenset({atom})

    def _index_tuple(self, atom: Tuple, key: Key, node: ast.Subscript) -> Value:
        if isinstance(key, int) and -len(atom.items) <= key < len(atom.items):
            return atom.items[key]
        if not isinstance(node.slice, ast.Slice):
            return join(atom.items)
        parts = (node.slice.lower, node.slice.upper, node.slice.step)
        match [literal(part) for part in parts]:
            case [int() | None as lower, int() | None as upper, int() | None as step] if step != 0:
                return frozenset({Tuple(atom.items[lower:upper:step])})
        return self.make_list(node, join(atom.items))

    def _index_items(self, atom: Items, key: Key, node: ast.Subscript) -> Value:
        if isinstance(node.slice, ast.Slice):
            return frozenset({atom})
        may_be = None if isinstance(key, str) else possible_keys(node.slice, self.tree)
        contents = self.contents(atom)
        if may_be is None or atom.kind not in ("dict", "meta"):
            return self._under(atom, key)
        held = join(value for name, value in contents.keyed.items() if may_be(str(name)))
        return held | contents.elements | (PLAIN if atom.kind == "meta" else EMPTY)

    def _under(self, atom: Items, key: Key) -> Value:
        """What a container holds under a key; everything where the key is unknown."""
        contents = self.contents(atom)
        if not isinstance(key, str) or atom.kind not in ("dict", "meta"):
            return contents.all()
        # A parameter that a grid function reads and the launch does not pass is chosen by autotune.
        missing = PLAIN if atom.kind == "meta" else EMPTY
        return contents.keyed.get(key, missing) | contents.elements

    def store(self, value: Value, index: Value, key: Key, new: Value, node: ast.AST) -> None:
        """Assign `value[index] = new`."""
        for atom in value:
            match atom:
                case Items():
                    self.check_key(index, frozenset({atom}), new, node)
                    self._store_key(atom, index)
                    self.remember(atom, index | new, node)
                    self.put(atom, new, key if isinstance(key, str) else None)
                    if atom.kind == "list" and not isinstance(key, str | int):  # it may be a slice
                        self.put(atom, self.iterate_containers(new) - {atom})
                case Plain():
                    self.check_hidden(new, node)
                case Tensor() if self.may_hold_tensor(index) or lists_places(node):
                    self.refuse("policy.torch-compute", node)
                case Tensor(origin="buffer"):
                    self.carry(new)
                case Known() | Kernel():
                    self.refuse("policy.patches-object", node)

    def check_hidden(self, new: Value, node: ast.AST) -> None:
        """Refuse to put into what counts as a number, such as an array, what is followed."""
        if self.holds(new, ACTIVE):
            says = f"`{spelled(node)}` keeps a tensor or a function where it cannot be followed"
            self.refuse("policy.unresolved", node, says=says)

    def _store_key(self, atom: Items, index: Value) -> None:
        contents = self.place(atom)
        if not index <= contents.keys:
            contents.keys |= index
            self.grew(atom.site)

    # -------------------------------------------------------------------------------- methods

    def call_container(  # noqa: PLR0911 -- one case per kind of method
        self, atom: Items, name: str, arguments: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """A method of a list, dict or set."""
        first, second = arguments.get(0, "key"), arguments.get(1, "default")
        if name in _STORES or name in _MERGES or name == "setdefault":
            self.remember(atom, arguments.all(), node)
        if name in _STORES:
            last = arguments.positional[-1] if arguments.positional else EMPTY
            self.put(atom, last | arguments.rest)
            return NOTHING
        contents = self.contents(atom)
        if name in _MERGES:
            self._merge(atom, arguments, node, frame)
            return frozenset({atom})
        if name in ("get", "pop", "popleft", "setdefault"):
            self.check_key(first, frozenset({atom}), second, node)
            if name == "setdefault":
                self._store_key(atom, first)
                self.put(atom, second)
            asked = self._under(atom, asked_key(node, arguments)) | NOTHING
            return second | (asked if name == "get" else self.contents(atom).all())
        if name == "items":
            pair = Tuple((contents.keys | PLAIN, contents.all()))
            return self.make_list(node, frozenset({pair}))
        if name == "popitem":
            return frozenset({Tuple((contents.keys | PLAIN, contents.all()))})
        if name == "values":
            return self.make_list(node, contents.all())
        return self._other_container(atom, name, arguments, node, frame)

    def _other_container(
        self, atom: Items, name: str, arguments: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        match name:
            case "keys":
                return self.make_list(node, self.contents(atom).keys | PLAIN)
            case "sort":
                self.order(self.contents(atom).all(), arguments, node, frame)
                return NOTHING
            case "count" | "index" | "remove" if frame.phase is Phase.CALL:
                held = self.contents(atom).all() | arguments.all()
                self.compared([held], node, frame)
                if self.may_hold_tensor(held):
                    self.refuse("policy.operator-on-tensor", node)
                return PLAIN
            case "copy" | "intersection" | "difference":
                return frozenset({atom})
            case _:
                return PLAIN

    def put_pairs(self, atom: Items, pairs: Value, node: ast.AST, frame: Frame) -> None:
        """Fill a dict with pairs of a key and a value."""
        for pair in pairs:
            match pair:
                case Tuple(items=(key, value)):
                    self._store_key(atom, key)
                    self.put(atom, value)
                case Plain() | Nothing():
                    self.put(atom, PLAIN)
                case _:
                    self.put(atom, self._iterate_atom(pair, node, frame))

    def _merge(self, atom: Items, arguments: Arguments, node: ast.AST, frame: Frame) -> None:
        self.put(atom, arguments.rest - {atom})
        for value in arguments.sources():
            for source in value:
                if isinstance(source, Plain | Tensor) and value is arguments.rest:
                    continue
                pairs = isinstance(source, Tuple) or (
                    isinstance(source, Items) and source.kind in ("list", "modules", "sequential")
                )
                if atom.kind == "dict" and pairs:
                    self.put_pairs(atom, self._iterate_atom(source, node, frame), node, frame)
                elif isinstance(source, Items):
                    contents = self.contents(source)
                    self.put(atom, contents.elements)
                    for key, held in contents.keyed.items():
                        self.put(atom, held, key if atom.kind != "list" else None)
                else:
                    self.put(atom, self.spread(source, node, frame))
        for key, held in arguments.keywords:
            self.put(atom, held, key)
