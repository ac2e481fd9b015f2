"""Library functions whose effect no rule of the allow-list describes: what each one does."""

import ast
from collections.abc import Callable

from workbench.gate.policy.fields import ordered_fields
from workbench.gate.policy.launches import PARAMETERS, Launches
from workbench.gate.policy.library import Library, with_cache
from workbench.gate.policy.state import Frame
from workbench.gate.policy.values import (
    EMPTY,
    NOTHING,
    PLAIN,
    UNKNOWN,
    Arguments,
    Class,
    Decorator,
    Descriptor,
    Function,
    Holder,
    Instance,
    Items,
    Kernel,
    Known,
    Nothing,
    Partial,
    Phase,
    Super,
    Tuple,
    Value,
    has_tensor,
    join,
)

_LAZY = frozenset(
    {f"builtins.{name}" for name in ("enumerate", "filter", "iter", "map", "reversed", "zip")}
    | {"itertools.chain", "itertools.chain.from_iterable", "itertools.product"}
    | {"itertools.repeat", "itertools.zip_longest"}
)
"""Give their elements one by one: functions among their arguments run when they are asked."""
_WEIGHTS = ("weight", "bias")
"""How the numbered parameters of recurrent modules begin: `weight_ih_l0`."""
Story = Callable[[Library, Arguments, ast.Call, Frame], Value]


class Stories(Launches):
    """Calls them."""

    def tell(self, path: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
        """What calling `path` gives; None where the rules say it."""
        story = _STORIES.get(path)
        if path in _LAZY and frame.phase is Phase.SETUP:
            self.pending[node] = path, arguments
        return None if story is None else story(self, arguments, node, frame)

    def resume(self, atom: Items, frame: Frame) -> None:
        """An iterator that was made before any input existed, and gives elements now."""
        pending = self.pending.get(atom.site)
        if pending is None or frame.phase is Phase.SETUP or not isinstance(atom.site, ast.Call):
            return
        path, arguments = pending
        if atom.site not in self.resuming:
            self.resuming.add(atom.site)
            _STORIES[path](self, arguments, atom.site, frame)
            self.resuming.discard(atom.site)


def _collect(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    held = join(library.iterate(value, node, frame) for value in arguments.positional)
    return library.make_list(node, held)


def _tuple(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    first = arguments.get(0, "iterable")
    known = frozenset(a for a in first if isinstance(a, Tuple))
    return known | (_collect(library, arguments, node, frame) if first - known else EMPTY)


def _dict(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    items = Items(node, "dict")
    for value in arguments.positional:
        for atom in value:
            if isinstance(atom, Items):
                library.call_container(
                    items, "update", Arguments((frozenset({atom}),)), node, frame
                )
            else:
                library.put(items, library.spread(atom, node, frame))
    for name, value in arguments.keywords:
        library.put(items, value, name)
    pairs = library.contents(items).all()
    library.put(items, library.iterate_containers(pairs))
    for atom in pairs:
        if isinstance(atom, Instance):
            library.put(items, library.iterate(frozenset({atom}), node, frame))
    return frozenset({items})


def _zip(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    columns = tuple(library.iterate(value, node, frame) for value in arguments.positional)
    return library.make_list(node, frozenset({Tuple(columns)}))


def _enumerate(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    element = library.iterate(arguments.get(0, "iterable"), node, frame)
    return library.make_list(node, frozenset({Tuple((PLAIN, element))}))


def _map(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    columns = tuple(library.iterate(value, node, frame) for value in arguments.positional[1:])
    return library.make_list(
        node, library.call(arguments.get(0, "f"), Arguments(columns), node, frame)
    )


def _filter(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    element = library.iterate(arguments.get(1, "iterable"), node, frame)
    chooser = arguments.get(0, "f")
    chosen = library.call(chooser - NOTHING, Arguments((element,)), node, frame)
    if has_tensor(chosen | (element if chooser & NOTHING else EMPTY)) and frame.phase is Phase.CALL:
        library.refuse("policy.reads-values", node)
    return library.make_list(node, element)


def _sorted(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    element = library.iterate(arguments.get(0, "iterable"), node, frame)
    library.order(element, arguments, node, frame)
    return library.make_list(node, element)


def _next(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    return library.iterate(arguments.get(0, "iterator"), node, frame) | arguments.get(1, "default")


def _getattr(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    target, name = arguments.get(0, "object"), _name_of_member(node)
    own = all(isinstance(atom, Instance | Nothing) for atom in target)
    weights = all(isinstance(atom, Holder) for atom in target) and name.startswith(_WEIGHTS)
    if not name or (name.endswith("*") and not own and not weights):
        library.refuse("policy.dynamic-name", node)
        return UNKNOWN
    fallback = arguments.get(2, "default")
    if (
        fallback
        and own
        and not any(library.find_member(a.node, name) for a in target if isinstance(a, Instance))
    ):
        return fallback
    return library.read_member(target, name, node, frame) | fallback


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


_OF_AUTOTUNERS = ("best_config", "configs", "fn")
"""Tell an autotuned kernel from a plain one, and nothing of what runs them."""
_CPU_TENSORS = frozenset(
    f"torch.{kind}Tensor" for kind in ("BFloat16", "Float", "Half", "Int", "Long")
)
"""Types that no tensor on a GPU is of."""


def _name_of_member(node: ast.Call) -> str:
    """The name in getattr and setattr; `w*` for an f-string that begins with `w`; else empty."""
    match node.args[1:2]:
        case [ast.Constant(value=str(text))]:
            return text
        case [ast.JoinedStr(values=[ast.Constant(value=str(text)), *_])] if text[0].isalpha():
            return text + "*"
    return ""


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
    own = [Class(a.node) for a in arguments.positional[0] if isinstance(a, Instance)]
    return frozenset(own) or PLAIN


def _member_kind(kind: str) -> Story:
    def story(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
        del node, frame
        function = arguments.get(0, "function")
        match kind:
            case "property":
                others = arguments.get(1, "fset") | arguments.get(2, "fdel")
                getter = function | arguments.get(0, "fget")
                return frozenset({Descriptor("property", getter - NOTHING, others - NOTHING)})
            case "staticmethod":
                return frozenset({Descriptor("staticmethod", function)})
            case _:
                return frozenset({Descriptor("classmethod", function)})

    return story


def _cache(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del node, frame
    functions = [a for a in arguments.get(0, "user_function") if isinstance(a, Function)]
    return frozenset(map(with_cache, functions)) or frozenset(
        {Decorator("functools.lru_cache", Arguments())}
    )


def _partial(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del node, frame
    target = arguments.get(0, "func")
    return frozenset({Partial(target, arguments.positional[1:], arguments.keywords)})


def _reduce(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    held = library.iterate(arguments.get(1, "iterable"), node, frame) | arguments.get(2, "initial")
    result = library.call(arguments.get(0, "function"), Arguments((held, held)), node, frame)
    return held | library.call(arguments.get(0, "function"), Arguments((result, held)), node, frame)


def _namespace(library: Library, arguments: Arguments, node: ast.Call, _: Frame) -> Value:
    return library.make_record(node, dict(arguments.keywords), join(arguments.positional))


def _record_class(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del arguments, node, frame
    return frozenset({Partial(frozenset({Known("types.SimpleNamespace")}), (), ())})


def _field(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    keywords = dict(arguments.keywords)
    library.hand_over(keywords.get("default_factory", EMPTY), node)
    made = library.call(keywords.get("default_factory", EMPTY), Arguments(), node, frame)
    return made | keywords.get("default", EMPTY)


def _flatten(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    outer = library.iterate(arguments.get(0, "iterable"), node, frame)
    return library.make_list(node, library.iterate(outer, node, frame))


def _print(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del frame
    if "file" in dict(arguments.keywords):
        library.refuse("policy.forbidden-name", node, "print(file=...)")
    return NOTHING


def _identity(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del node, frame
    return arguments.get(0, "x") or PLAIN


def _cast(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del node, frame
    return arguments.get(1, "val")


def _config(library: Library, arguments: Arguments, node: ast.Call, _: Frame) -> Value:
    placed = zip(PARAMETERS["Config"], arguments.positional, strict=False)
    fields = {**dict(placed), **dict(arguments.keywords)}
    return library.make_record(node, fields, PLAIN | arguments.rest)


def _wraps(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del library, arguments, node, frame
    return frozenset({Decorator("functools.wraps", Arguments())})


def _replaced(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`dataclasses.replace`: all objects of a class share their fields."""
    changed = Arguments(keywords=arguments.keywords, rest=arguments.rest)
    for atom in arguments.get(0, "obj"):
        if isinstance(atom, Instance):
            library.call(frozenset({Class(atom.node)}), changed, node, frame)
    return arguments.get(0, "obj")


def _as_dict(library: Library, arguments: Arguments, node: ast.Call, _: Frame) -> Value:
    found: dict[str, Value] = {}
    for atom in arguments.get(0, "obj"):
        if isinstance(atom, Instance):
            for name in ordered_fields(library.lineage(atom.node)):
                found[name] = found.get(name, EMPTY) | library.find_member(atom.node, name)
    return library.make_dict(node, found)


def _deferred(path: str) -> Story:
    def story(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
        del node, frame
        return library.decorate(path, arguments)

    return story


def _set_allocator(library: Library, arguments: Arguments, node: ast.Call, _: Frame) -> Value:
    for function in library.functions_in(arguments.all(), classes=True):
        library.call_anyhow(function, PLAIN | NOTHING, node)
    return NOTHING


def _logger(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del arguments, node, frame
    return frozenset({Known("logging.Logger")})


def _default(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    items = Items(node, "dict")
    library.hand_over(arguments.get(0, "factory"), node)
    library.put(items, library.call(arguments.get(0, "factory"), Arguments(), node, frame))
    return frozenset({items})


_STORIES: dict[str, Story] = {
    **{f"builtins.{name}": _collect for name in ("list", "set", "frozenset", "reversed", "iter")},
    **dict.fromkeys(("itertools.chain", "itertools.product", "collections.deque"), _collect),
    **dict.fromkeys(("builtins.dict", "collections.OrderedDict"), _dict),
    **dict.fromkeys(("builtins.zip", "itertools.zip_longest"), _zip),
    "builtins.tuple": _tuple,
    "builtins.enumerate": _enumerate,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "builtins.sorted": _sorted,
    "builtins.next": _next,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.hasattr": _hasattr,
    "builtins.isinstance": _isinstance,
    "builtins.super": _super,
    "builtins.print": _print,
    "builtins.type": _type,
    "builtins.property": _member_kind("property"),
    "builtins.staticmethod": _member_kind("staticmethod"),
    "builtins.classmethod": _member_kind("classmethod"),
    **dict.fromkeys(("functools.cache", "functools.lru_cache"), _cache),
    "functools.partial": _partial,
    "functools.reduce": _reduce,
    "functools.wraps": _wraps,
    "functools.cached_property": _member_kind("property"),
    "dataclasses.replace": _replaced,
    "dataclasses.asdict": _as_dict,
    "dataclasses.dataclass": _deferred("dataclasses.dataclass"),
    "dataclasses.field": _field,
    "types.SimpleNamespace": _namespace,
    "collections.namedtuple": _record_class,
    "itertools.chain.from_iterable": _flatten,
    **dict.fromkeys(("copy.copy", "copy.deepcopy", "itertools.repeat"), _identity),
    "typing.cast": _cast,
    **dict.fromkeys(("triton.Config", "triton.runtime.Config"), _config),
    "triton.set_allocator": _set_allocator,
    "logging.getLogger": _logger,
    "collections.defaultdict": _default,
}
