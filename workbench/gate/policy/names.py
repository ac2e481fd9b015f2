"""Which names a candidate's host code may use: the allow-list, read from `allowed.toml`."""

import textwrap
from functools import cache
from importlib import resources
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

Returns = Literal[
    "address",
    "buffer",
    "constant",
    "decorator",
    "descriptor",
    "holder",
    "identity",
    "modules",
    "moved",
    "namespace",
    "operator",
    "plain",
    "same",
    "self",
    "special",
    "state",
    "tensor",
    "type",
    "views",
]


class Group(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names that share one rule. `allowed.toml` explains the keys."""

    group: str
    says: str
    names: Annotated[tuple[str, ...], Meta(min_length=1)]
    prefix: str = ""
    returns: Returns
    arguments: Literal["any", "plain"] = "any"
    where: Literal["anywhere", "setup", "state", "buffer"] = "anywhere"


class Imports(Struct, frozen=True, forbid_unknown_fields=True):
    """Modules that may be imported."""

    says: str
    names: tuple[str, ...]


class Internals(Struct, frozen=True, forbid_unknown_fields=True):
    """Members of a library class that a candidate must leave alone."""

    says: str
    names: frozenset[str]


class KernelNames(Struct, frozen=True, forbid_unknown_fields=True):
    """Names that may be used inside a function that Triton compiles."""

    says: str
    builtins: tuple[str, ...]
    refused_names: tuple[str, ...]
    """Members of `triton.language` that lead out of it."""
    refused_members: tuple[str, ...]
    """Members of Triton values that lead to the interpreter's arrays."""
    recorded: tuple[str, ...]
    """Allowed, and mentioned in the report."""
    refused_options: tuple[str, ...]
    """Options of a launch that bring code or compiler flags which are not in the file."""


class AllowedFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`allowed.toml` as it is written."""

    imports: Imports
    name: tuple[Group, ...]
    method: tuple[Group, ...]
    attribute: tuple[Group, ...]
    module_method: tuple[Group, ...]
    module_internals: Internals
    kernel: KernelNames


class Allowed:
    """The allow-list, indexed by full dotted name and by member name."""

    def __init__(self, file: AllowedFile) -> None:
        self.file = file
        self.imports = frozenset(file.imports.names)
        self.names = {group.prefix + name: group for group in file.name for name in group.names}
        self.attributes = _by_member(file.attribute)
        self.methods = _by_member(file.method)
        self.module_methods = _by_member(file.module_method)
        self.module_internals = file.module_internals.names
        self.kernel = file.kernel
        self._namespaces = frozenset(
            path.rsplit(".", cut)[0]
            for path in (*self.names, *(f"{module}.x" for module in self.imports))
            for cut in range(1, path.count(".") + 1)
        )

    def is_namespace(self, path: str) -> bool:
        """Whether allowed names live below `path`, so that it may be bound to a short name."""
        group = self.names.get(path)
        return path in self._namespaces or (group is not None and group.returns == "namespace")

    def is_language(self, path: str) -> bool:
        """Whether a name is a public one of `triton.language`: harmless until it is called."""
        if not path.startswith("triton.language."):
            return False
        parts = path.split(".")[2:]
        return not any(p.startswith("_") or p in self.kernel.refused_names for p in parts)


def _by_member(groups: tuple[Group, ...]) -> dict[str, tuple[Group, ...]]:
    members: dict[str, tuple[Group, ...]] = {}
    for group in groups:
        for name in group.names:
            members[name] = (*members.get(name, ()), group)
    return members


@cache
def allowed() -> Allowed:
    """The shipped allow-list. Read once; it is immutable."""
    text = resources.files("workbench.gate.policy").joinpath("allowed.toml").read_bytes()
    return Allowed(msgspec.toml.decode(text, type=AllowedFile))


def explain_policy() -> dict[str, object]:
    """The allow-list as data: what `gate --explain-policy --json` prints."""
    file = allowed().file
    return {
        "imports": {"says": file.imports.says, "names": list(file.imports.names)},
        "names": [_entry(group) for group in file.name],
        "tensor_methods": [_entry(group) for group in file.method],
        "tensor_attributes": [_entry(group) for group in file.attribute],
        "module_methods": [_entry(group) for group in file.module_method],
        "module_internals": sorted(file.module_internals.names),
        "kernel": msgspec.to_builtins(file.kernel),
    }


def policy_text() -> str:
    """The allow-list for a person: what `gate --explain-policy` prints."""
    file = allowed().file
    parts = [
        _paragraph("imports", file.imports.says, file.imports.names),
        *(
            _paragraph(f"{g.prefix or 'Python'} {g.group}".strip(), _rule(g), g.names)
            for g in file.name
        ),
        *(_paragraph(f"tensor methods: {g.group}", _rule(g), g.names) for g in file.method),
        *(_paragraph(f"tensor attributes: {g.group}", _rule(g), g.names) for g in file.attribute),
        *(_paragraph(f"module methods: {g.group}", _rule(g), g.names) for g in file.module_method),
        _paragraph("inside kernels", file.kernel.says, file.kernel.builtins),
    ]
    return "\n\n".join(parts)


_WHERE = {
    "anywhere": "",
    "setup": "; only before ModelNew is called",
    "state": "; only of parameters and buffers",
    "buffer": "; only of buffers in the state_dict",
}


def _rule(group: Group) -> str:
    numbers = "; not on tensors" if group.arguments == "plain" else ""
    return f"{group.says}{numbers}{_WHERE[group.where]}"


def _paragraph(title: str, says: str, names: tuple[str, ...]) -> str:
    listed = textwrap.fill(" ".join(names), 96, initial_indent="    ", subsequent_indent="    ")
    return f"{title}: {says}\n{listed}"


def _entry(group: Group) -> dict[str, object]:
    return {
        "group": group.group,
        "says": group.says,
        "names": [group.prefix + name for name in group.names],
        "arguments": group.arguments,
        "where": group.where,
    }
