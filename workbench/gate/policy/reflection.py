"""Library functions that inspect objects and their members, or declare those."""

import ast
from collections.abc import Callable

from workbench.gate.policy.flags import is_flag
from workbench.gate.policy.library import Library
from workbench.gate.policy.members import PLAIN_MODULES
from workbench.gate.policy.state import Frame
from workbench.gate.policy.tree import survey
from workbench.gate.policy.values import (
    EMPTY,
    NOTHING,
    PLAIN,
    UNKNOWN,
    Arguments,
    Class,
    Descriptor,
    Holder,
    Instance,
    Kernel,
    Known,
    Nothing,
    Super,
    Tensor,
    Value,
)

_WEIGHTS = ("weight", "bias")
"""Prefixes of the numbered parameters of recurrent modules: `weight_ih_l0`."""
Story = Callable[[Library, Arguments, ast.Call, Frame], Value]


_OF_AUTOTUNERS = ("best_config", "configs", "fn")
"""Tell an autotuned kernel from a plain one, and nothing of what runs them."""
_CPU_TENSORS = frozenset(
    f"torch.{kind}Tensor" for kind in ("BFloat16", "Float", "Half", "Int", "Long")
)
"""Types that no tensor on a GPU is of."""


def _getattr(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    target, name = arguments.get(0, "object"), _name_of_member(node)
    own = all(isinstance(atom, Instance | Nothing) for atom in target)
    weights = all(isinstance(atom, Holder) for atom in target) and name.startswith(_WEIGHTS)
    if not name or (name.endswith("*") and not own and not weights):
        library.refuse("policy.dynamic-name", node)
        return UNKNOWN
    fallback = arguments.get(2, "default")
    lacks = own and not any(
        library.find_member(a.node, name) or _from_library(library, a, name)
        for a in target
        if isinstance(a, Instance)
    )
    if fallback and lacks:
        return fallback
    return library.read_member(target, name, node, frame) | fallback


def _from_library(library: Library, atom: Instance, name: str) -> bool:
    """Whether an object may have a member by a library class that its class derives from."""
    bases = set(library.library_bases(atom.node)) - {"builtins.object", "abc.ABC"}
    if bases <= set(PLAIN_MODULES):
        return bool(bases) and name in library.allowed.module_methods
    return True


def _setattr(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    target, name = arguments.get(0, "object"), _name_of_member(node)
    if not name or (name.endswith("*") and not all(isinstance(a, Instance) for a in target)):
        library.refuse("policy.dynamic-name", node)
        return UNKNOWN
    library.write_member(target, name, arguments.get(2, "value"), node, frame)
    return NOTHING


def _hasattr(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    name = _name_of_member(node)
    for atom in arguments.get(0, "object"):
        if isinstance(atom, Instance | Class) and name and library.find_member(atom.node, name):
            library.read_member(frozenset({atom}), name, node, frame)  # it may be a property
    if name.startswith("__"):
        library.refuse("policy.private-name", node)
    kernels = any(isinstance(atom, Kernel) for atom in arguments.get(0, "object"))
    if kernels and name not in _OF_AUTOTUNERS:
        library.refuse("policy.forbidden-name", node)
    return PLAIN


def _isinstance(library: Library, arguments: Arguments, node: ast.Call, _: Frame) -> Value:
    kinds = arguments.get(1, "classinfo")
    for atom in kinds | library.iterate_containers(kinds):
        if isinstance(atom, Known) and atom.path in _CPU_TENSORS:
            library.refuse("policy.forbidden-name", node, atom.path)
    return PLAIN


def _name_of_member(node: ast.Call) -> str:
    """The name in getattr and setattr; `w*` for an f-string that begins with `w`; else empty."""
    match node.args[1:2]:
        case [ast.Constant(value=str(text))]:
            return text
        case [ast.JoinedStr(values=[ast.Constant(value=str(text)), *_])] if text[0].isalpha():
            return text + "*"
    return ""


def _flag(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`os.getenv("NAME", default)`: no worker has the variable, but the call may be another's."""
    called = library.evaluate(node.func, frame)
    direct = len(called) == 1 and called <= _ASKS_FLAG
    placed = len(arguments.positional) == len(node.args)
    if not direct or not placed or not any(map(is_flag, node.args[:1])):
        library.refuse("policy.forbidden-name", node)
        return UNKNOWN
    return PLAIN | NOTHING | arguments.get(1, "default")


def _import(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`importlib.import_module("NAME")`: what `import NAME as ...` does."""
    called = library.evaluate(node.func, frame)
    match node.args, node.keywords:
        case [ast.Constant(value=str(name))], []:
            if called == _IMPORTS and len(arguments.positional) == 1:
                if name in library.allowed.imports:
                    return frozenset({Known(name)})
                library.refuse("policy.forbidden-import", node, name)
                return UNKNOWN
    library.refuse("policy.dynamic-code", node)
    return UNKNOWN


def _range(library: Library, _: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`range_push`, `range_pop`: how deep ranges nest is known only where a profiler looks."""
    del frame
    if not any(statement.value is node for statement in survey(library.tree).of(ast.Expr)):
        library.refuse("policy.forbidden-name", node)
    return PLAIN


def _super(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    owner = frame.function.owner if frame.function else None
    given = [a.node for a in arguments.get(0, "type") if isinstance(a, Class)]
    if not given and owner is None:
        library.refuse("policy.unresolved", node)
        return UNKNOWN
    receiver = arguments.get(1, "object") or frame.receiver
    owners = given or ([owner] if owner is not None else [])
    return frozenset(Super(each, receiver) for each in owners)


def _type(library: Library, arguments: Arguments, node: ast.Call, _: Frame) -> Value:
    if len(arguments.positional) != 1:
        library.refuse("policy.dynamic-code", node, "type")
        return UNKNOWN
    if any(isinstance(atom, Kernel) for atom in arguments.positional[0]):
        library.refuse("policy.forbidden-name", node, "type(kernel)")
    own = frozenset(Class(a.node) for a in arguments.positional[0] if isinstance(a, Instance))
    tensors = any(isinstance(a, Tensor) for a in arguments.positional[0])
    return own | (frozenset({Known("torch.Tensor")}) if tensors else EMPTY) or _TYPE


def _member_kind(kind: str) -> Story:
    def story(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
        del node, frame
        function = arguments.get(0, "function")
        match kind:
            case "property":
                others = arguments.get(1, "fset") | arguments.get(2, "fdel")
                getter = function | arguments.get(0, "fget") | arguments.get(0, "func")
                return frozenset({Descriptor("property", getter - NOTHING, others - NOTHING)})
            case "staticmethod":
                return frozenset({Descriptor("staticmethod", function)})
            case _:
                return frozenset({Descriptor("classmethod", function)})

    return story


_TYPE: Value = frozenset({Known("builtins.type")})
"""The type of something of a library's, or of a number: it may be compared, called and quoted."""
_IMPORTS: Value = frozenset({Known("importlib.import_module")})
_ASKS_FLAG: Value = frozenset({Known("os.environ.get"), Known("os.getenv")})
OF_OBJECTS: dict[str, Story] = {
    **dict.fromkeys(("os.environ.get", "os.getenv"), _flag),
    "importlib.import_module": _import,
    "torch.cuda.nvtx.range_push": _range,
    "torch.cuda.nvtx.range_pop": _range,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.hasattr": _hasattr,
    "builtins.isinstance": _isinstance,
    "builtins.super": _super,
    "builtins.type": _type,
    "builtins.property": _member_kind("property"),
    "builtins.staticmethod": _member_kind("staticmethod"),
    "builtins.classmethod": _member_kind("classmethod"),
    "functools.cached_property": _member_kind("property"),
}
