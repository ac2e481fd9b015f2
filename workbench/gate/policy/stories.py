"""Library functions that no rule of the allow-list describes, each with its effect."""

import ast

from workbench.gate.policy.decorators import DECORATED, with_cache
from workbench.gate.policy.fields import ordered_fields
from workbench.gate.policy.launches import PARAMETERS, Launches
from workbench.gate.policy.library import Library
from workbench.gate.policy.reflection import OF_OBJECTS, Story
from workbench.gate.policy.state import Frame
from workbench.gate.policy.values import (
    EMPTY,
    NOTHING,
    PLAIN,
    Arguments,
    Atom,
    Bound,
    Class,
    Decorator,
    Function,
    Instance,
    Items,
    Kernel,
    Known,
    Partial,
    Phase,
    Plain,
    Tensor,
    Tuple,
    Unknown,
    Value,
    has_tensor,
    join,
)

_LAZY = frozenset(
    {f"builtins.{name}" for name in ("enumerate", "filter", "iter", "map", "reversed", "zip")}
    | {f"itertools.{name}" for name in ("accumulate", "combinations", "islice", "permutations")}
    | {"itertools.chain", "itertools.chain.from_iterable", "itertools.product"}
    | {"itertools.repeat", "itertools.zip_longest"}
)
"""Functions that return lazy iterators, which call functions among their arguments later."""


class Stories(Launches):
    """The layer that calls them."""

    def tell(self, path: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
        """The result of calling `path`; None where the rules define it."""
        story = _STORIES.get(path)
        if path in _LAZY and frame.phase is Phase.SETUP:
            self.pending[node] = path, arguments
        return None if story is None else story(self, arguments, node, frame)

    def resume(self, atom: Items, frame: Frame) -> None:
        """The elements of an iterator that was made before any input existed."""
        pending = self.pending.get(atom.site)
        if pending is None or frame.phase is Phase.SETUP or not isinstance(atom.site, ast.Call):
            return
        path, arguments = pending
        if atom.site not in self.resuming:
            self.resuming.add(atom.site)
            _STORIES[path](self, arguments, atom.site, frame)
            self.resuming.discard(atom.site)


def _collect(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    every = (*arguments.sources(), *(value for _, value in arguments.keywords))
    held = join(library.iterate(value, node, frame) for value in every)
    return library.make_list(node, held)


def _tuple(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    first = arguments.get(0, "iterable")
    known = frozenset(a for a in first if isinstance(a, Tuple))
    return known | (_collect(library, arguments, node, frame) if first - known else EMPTY)


def _dict(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    items = Items(node, "dict")
    library.put(items, arguments.rest)
    for value in arguments.sources():
        for atom in value:
            if isinstance(atom, Plain | Tensor):
                continue
            if isinstance(atom, Items | Tuple):
                source = frozenset({atom})
                library.call_container(items, "update", Arguments((source,)), node, frame)
            else:
                given = library.spread(atom, node, frame)
                library.put(items, given)
                library.put_pairs(items, given, node, frame)
    for name, value in arguments.keywords:
        library.put(items, value, name)
    return frozenset({items})


def _zip(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    columns = tuple(library.iterate(value, node, frame) for value in arguments.sources())
    filled = dict(arguments.keywords).get("fillvalue", EMPTY)
    if not arguments.rest and not filled:
        return library.make_list(node, frozenset({Tuple(columns)}))
    inner = library.make_list(library.implied_call(node), join([filled, *columns]))
    return library.make_list(node, inner)


def _enumerate(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    element = library.iterate(arguments.get(0, "iterable"), node, frame)
    return library.make_list(node, frozenset({Tuple((PLAIN, element))}))


def _map(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    columns = tuple(library.iterate(value, node, frame) for value in arguments.positional[1:])
    given = Arguments(columns, rest=library.iterate(arguments.rest, node, frame))
    return library.make_list(node, library.call(arguments.get(0, "f"), given, node, frame))


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


def _extreme(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`max` and `min`: one of the elements, or of the arguments."""
    match arguments.positional:
        case (one,) if not arguments.rest:
            elements = library.iterate(one, node, frame)
        case several:
            elements = join([*several, arguments.rest])
    library.order(elements, arguments, node, frame)
    number = library.by_function("builtins.max", elements, node)
    return number | (elements - PLAIN) | dict(arguments.keywords).get("default", EMPTY)


def _islice(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    return library.make_list(node, library.iterate(arguments.get(0, "iterable"), node, frame))


def _accumulate(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Each element, and what the function makes of two."""
    first = arguments.get(0, "iterable")
    held = library.iterate(first, node, frame) | dict(arguments.keywords).get("initial", EMPTY)
    function = arguments.get(1, "func") - NOTHING
    if not function and not held <= PLAIN:
        library.refuse("policy.operator-on-tensor", node)
    for _ in range(2):
        held |= library.call(function, Arguments((held, held)), node, frame)
    return library.make_list(node, held)


def _orders(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`permutations` and `combinations`: tuples of as many elements as one likes."""
    element = library.iterate(arguments.get(0, "iterable"), node, frame)
    inner = library.make_list(library.implied_call(node), element)
    return library.make_list(node, inner)


def _next(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    return library.iterate(arguments.get(0, "iterator"), node, frame) | arguments.get(1, "default")


def _cache(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del frame
    functions = [a for a in arguments.all() if isinstance(a, Function)]
    if any(isinstance(a, DECORATED) and a not in functions for a in arguments.all()):
        library.refuse("policy.unresolved", node)
    return frozenset(map(with_cache, functions)) or frozenset(
        {Decorator("functools.lru_cache", Arguments())}
    )


def _partial(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del node, frame
    target = arguments.get(0, "func")
    settings = arguments.positional[1:], arguments.keywords
    return frozenset({Partial(target, *settings, rest=arguments.rest)})


def _reduce(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    held = library.iterate(arguments.get(1, "iterable"), node, frame) | arguments.get(2, "initial")
    result = library.call(arguments.get(0, "function"), Arguments((held, held)), node, frame)
    return held | library.call(arguments.get(0, "function"), Arguments((result, held)), node, frame)


def _namespace(library: Library, arguments: Arguments, node: ast.Call, _: Frame) -> Value:
    given = join(arguments.sources())
    held = given | library.iterate_containers(given)
    return library.make_record(node, dict(arguments.keywords), held)


def _record_class(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`namedtuple`: a call fills fields that are not known by place."""
    del node, frame
    given = dict(arguments.keywords).get("defaults", EMPTY) | arguments.rest
    rest = library.iterate_containers(given)
    return frozenset({Partial(frozenset({Known("types.SimpleNamespace")}), (), (), rest=rest)})


def _field(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    keywords = dict(arguments.keywords)
    factory = keywords.get("default_factory", EMPTY) | arguments.rest
    library.hand_over(factory, node)
    made = library.call(factory - PLAIN, Arguments(), node, frame)
    return made | keywords.get("default", EMPTY) | arguments.rest


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
    return arguments.all() or PLAIN


def _cast(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del node, frame
    return arguments.get(1, "val")


def _config(library: Library, arguments: Arguments, node: ast.Call, _: Frame) -> Value:
    placed = zip(PARAMETERS["Config"], arguments.positional, strict=False)
    fields = {**dict(placed), **dict(arguments.keywords)}
    return library.make_record(node, fields, PLAIN | arguments.rest)


def _wraps(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`wraps(function)`: with settings it assigns whatever it is told to."""
    del frame
    wrapped = arguments.get(0, "wrapped")
    if arguments.rest or arguments.after_first() - wrapped or not all(map(_is_function, wrapped)):
        library.refuse("policy.patches-object", node)
    return frozenset({Decorator("functools.wraps", Arguments((wrapped,)))})


def _is_function(atom: Atom) -> bool:
    return isinstance(atom, Function | Bound | Kernel | Class | Unknown)


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
    if arguments.after_first():  # a factory of the dict
        library.refuse("policy.unresolved", node)
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


def _generator(_: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    del arguments, node, frame
    return frozenset({Known("torch.Generator")})


def _padded(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`pad`: any mode but constant does more than move bytes."""
    constant = any(isinstance(n, ast.Constant) and n.value == "constant" for n in _mode(node))
    if arguments.get(2, "mode") and not constant and frame.phase is Phase.CALL:
        library.refuse("policy.torch-compute", node, "pad(mode=...)")
    return library.moved(arguments.all())


def _mode(node: ast.Call) -> list[ast.expr]:
    return [*node.args[2:3], *(k.value for k in node.keywords if k.arg == "mode")]


def _default(library: Library, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    factory = arguments.get(0, "factory") - NOTHING
    library.hand_over(factory, node)
    made = library.call(factory, Arguments(), node, frame)
    others = Arguments(arguments.positional[1:], arguments.keywords, arguments.rest)
    filled = _dict(library, others, node, frame)
    for items in filled:
        if isinstance(items, Items):
            library.put(items, made)
    return filled


_STORIES: dict[str, Story] = {
    **OF_OBJECTS,
    **{f"builtins.{name}": _collect for name in ("list", "set", "frozenset", "reversed", "iter")},
    **dict.fromkeys(("itertools.chain", "itertools.product", "collections.deque"), _collect),
    **dict.fromkeys(("builtins.dict", "collections.OrderedDict"), _dict),
    **dict.fromkeys(("builtins.zip", "itertools.zip_longest"), _zip),
    "builtins.tuple": _tuple,
    "builtins.enumerate": _enumerate,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "builtins.sorted": _sorted,
    **dict.fromkeys(("builtins.max", "builtins.min"), _extreme),
    "itertools.islice": _islice,
    "itertools.accumulate": _accumulate,
    **dict.fromkeys(("itertools.combinations", "itertools.permutations"), _orders),
    "builtins.next": _next,
    "builtins.print": _print,
    **dict.fromkeys(("functools.cache", "functools.lru_cache"), _cache),
    "functools.partial": _partial,
    "functools.reduce": _reduce,
    "functools.wraps": _wraps,
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
    **dict.fromkeys(("logging.getLogger", "logging.Logger.getChild"), _logger),
    **dict.fromkeys(("torch.Generator", "torch.Generator.manual_seed"), _generator),
    "torch.nn.functional.pad": _padded,
    "collections.defaultdict": _default,
}
