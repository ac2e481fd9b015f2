"""What a class of the file has, by itself and by those that it derives from."""

import ast
from functools import cached_property

from workbench.gate.policy.addresses import Addresses
from workbench.gate.policy.fields import may_be_dataclasses
from workbench.gate.policy.tree import sure_names, survey
from workbench.gate.policy.values import (
    EMPTY,
    Class,
    Descriptor,
    Function,
    Instance,
    Known,
    Partial,
    Plain,
    Value,
    join,
)

MIXED_IN: Value = frozenset({Known("builtins.int"), Known("builtins.str")})
"""Classes of which the members of an enum may be too, as in `class Mode(str, Enum)`."""
_NUMBERS = frozenset(
    {"enum.IntEnum", "enum.IntFlag", "enum.StrEnum", "builtins.int", "builtins.str"}
)
"""Bases of classes whose objects are numbers or texts."""


class Classes(Addresses):
    """The layer that finds members of classes."""

    def find_member(self, owner: ast.ClassDef, name: str) -> Value:
        """A member by the class and its bases in the file; wildcards stand for computed names.

        Where the class itself may lack it, Python looks further, and so does this.
        """
        self.asked.add((owner, "*" if name.endswith("*") else name))
        members = self.members.get(owner, {})
        found = members.get(name, EMPTY)
        if name.endswith("*"):
            found |= join(v for k, v in members.items() if k.startswith(name[:-1]))
        else:
            found |= join(v for k, v in members.items() if k[-1] == "*" and name.startswith(k[:-1]))
        if found and self.surely_has(owner, name):
            return found
        return found | join(
            self.find_member(base.node, name)
            for value in self.bases.get(owner, ())
            for base in value
            if isinstance(base, Class) and base.node is not owner
        )

    def lineage(self, owner: ast.ClassDef) -> list[ast.ClassDef]:
        """A class of the file and its bases, repetitions included."""
        found = [owner]
        for base in join(self.bases.get(owner, ())):
            if isinstance(base, Class) and base.node is not owner:
                found += self.lineage(base.node)
        return found

    def library_bases(self, owner: ast.ClassDef) -> tuple[str, ...]:
        """Full names of the library classes that a class derives from."""
        paths: list[str] = []
        for base in join(self.bases.get(owner, ())):
            if isinstance(base, Known):
                paths.append(base.path)
            elif isinstance(base, Class) and base.node is not owner:
                paths.extend(self.library_bases(base.node))
        return tuple(dict.fromkeys(paths))

    def surely_has(self, owner: ast.ClassDef, name: str) -> bool:
        """Whether a class's own body binds a member on every way, and nothing deletes it."""
        return name in sure_names(owner) and name not in self._deleted

    @cached_property
    def _deleted(self) -> frozenset[str]:
        """Names of members that the file deletes somewhere."""
        targets = (t for node in survey(self.tree).of(ast.Delete) for t in node.targets)
        return frozenset(t.attr for t in targets if isinstance(t, ast.Attribute))

    def members_of_enum(self, owner: ast.ClassDef | None, found: Value) -> Value:
        """An object for each member of an enum; where all are plain their values will do."""
        if owner is None or any(isinstance(atom, Function | Descriptor) for atom in found):
            return EMPTY
        if not any(path.startswith("enum.") for path in self.library_bases(owner)):
            return EMPTY
        every = join(self.every_member(owner).values())
        return EMPTY if all(isinstance(a, Plain) for a in every) else frozenset({Instance(owner)})

    def walk_class(self, owner: ast.ClassDef) -> Value:
        """What a loop over a class yields: the members of an enum, and none of its methods."""
        every = join(self.every_member(owner).values())
        members = self.members_of_enum(owner, EMPTY)
        return self.beside_members(every) | members if members else every

    def beside_members(self, values: Value) -> Value:
        """Of an enum's values those that are followed as they are, beside its members."""
        # A newer Python makes a method of a partial.
        return frozenset(atom for atom in values if isinstance(atom, Plain | Partial))

    def as_numbers(self, value: Value) -> Value:
        """The value, with enum members that are numbers or text replaced by those."""
        if not any(isinstance(atom, Instance) for atom in value):
            return value
        return frozenset(
            Plain()
            if isinstance(a, Instance) and not _NUMBERS.isdisjoint(self.library_bases(a.node))
            else a
            for a in value
        )

    def made_by_module(self, owner: ast.ClassDef) -> bool:
        """Whether arguments go to `nn.Module.__init__`, which keeps none in annotated names."""
        modules = any(path.startswith("torch.nn.") for path in self.library_bases(owner))
        return modules and not may_be_dataclasses(self.lineage(owner), self.tree)

    def of_named_tuple(self, owner: ast.ClassDef) -> bool:
        """Whether a class derives from what `collections.namedtuple` made."""
        return any(isinstance(base, Partial) for base in join(self.bases.get(owner, ())))
