"""Two launches that can become one: which tensor goes between them, and the host without it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.naming import FreeNames
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source, read_source
from workbench.kernels.source_flow import names_in, stored_names
from workbench.kernels.source_kernel import JitKernel

_MADE = frozenset({"torch.empty", "torch.empty_like"})
_PLAIN = frozenset({"triton.cdiv", "triton.next_power_of_2", "min", "max", "len", "int"})
_ASKING = frozenset({"numel", "size", "stride", "dim", "element_size"})
"""Methods that read no element of a tensor."""
_SHAPES = frozenset({"shape", "dtype", "device", "ndim", *_ASKING})


@dataclass(frozen=True, eq=False)
class Pair:
    """A launch, and a later one that reads what it wrote, in one function of the host."""

    producer: JitKernel
    consumer: JitKernel
    first: LaunchSite
    second: LaunchSite
    body: list[ast.stmt]
    """Body of the host function."""
    between: str
    """The tensor's name on the host."""
    stored: str
    """The producer's parameter for it."""
    loaded: str
    """The consumer's."""
    out: str
    """The name of what the consumer writes; the same as `between` when it works in place."""
    result: str
    """The consumer's parameter for that."""

    def statement(self, launch: LaunchSite) -> ast.stmt:
        """The statement that is one of the two launches."""
        return next(s for s in self.body if isinstance(s, ast.Expr) and s.value is launch.call)


def pair(source: Source, producer: JitKernel) -> Pair:
    """The launch of a kernel with the one that reads its result.

    Raises EditRefused when there is none, or when something else would see the difference.
    """
    first = _only_launch(source, producer)
    body = _body(first)
    reasons = ["no later launch of the same function reads what this one writes"]
    for second in source.launches:
        consumer = source.kernel(second.kernel)
        beside = second.scope.function is first.scope.function and second.line > first.line
        if consumer is None or not beside or consumer.name == producer.name:
            continue
        try:
            return _checked(source, (producer, consumer), (first, second), body)
        except EditRefused as refused:
            reasons.append(refused.why)
    raise EditRefused(reasons[-1])


def _only_launch(source: Source, kernel: JitKernel) -> LaunchSite:
    launches = source.launches_of(kernel.name)
    if len(launches) != 1 or launches[0].starred:
        raise EditRefused(f"`{kernel.name}` is not launched in exactly one way")
    return launches[0]


def _body(launch: LaunchSite) -> list[ast.stmt]:
    function = launch.scope.function
    for statement in () if function is None else function.body:
        if isinstance(statement, ast.Expr) and statement.value is launch.call:
            return list(function.body) if function is not None else []
    raise EditRefused(f"line {launch.line} does not stand in a function's own body")


def _checked(
    source: Source,
    kernels: tuple[JitKernel, JitKernel],
    launches: tuple[LaunchSite, LaunchSite],
    body: list[ast.stmt],
) -> Pair:
    producer, consumer = kernels
    first, second = launches
    if _only_launch(source, consumer) is not second or _body(second) != body:
        raise EditRefused(f"line {second.line} is not launched beside line {first.line}")
    if source.autotuned(consumer) or source.heuristics(consumer):
        raise EditRefused(f"`{consumer.name}` is autotuned, or has parameters by heuristics")
    written = {a.base for a in producer.accesses if a.kind != "load"}
    read = {a.base for a in consumer.loads}
    named = {_name(first.argument(producer, p)): p for p in sorted(written)}
    shared = {_name(second.argument(consumer, p)): p for p in sorted(read)}
    common = sorted((set(named) & set(shared)) - {""})
    stores = [a for a in consumer.accesses if a.kind != "load"]
    if len(common) != 1 or len(stores) != 1 or stores[0].op != "store" or not stores[0].base:
        raise EditRefused(f"line {second.line} does not turn one tensor into another")
    out = _name(second.argument(consumer, stores[0].base))
    (between,) = common
    found = Pair(
        *(producer, consumer, first, second, body),
        *(between, named[between], shared[between], out, stores[0].base),
    )
    _check_tensors(source, found)
    _check_between(source, found)
    return found


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _check_tensors(source: Source, found: Pair) -> None:
    """Refuse unless both tensors are made here, alike, and nobody else sees the first."""
    flow = source.host_flow(found.first.scope)
    made = {} if flow is None else {n: flow.single(n) for n in (found.between, found.out)}
    for name, call in made.items():
        if not isinstance(call, ast.Call) or source.names.dotted(call.func) not in _MADE:
            raise EditRefused(f"`{name}` is not made by torch.empty beside the launches")
    if flow is None or not made:
        raise EditRefused(f"line {found.first.line} does not stand in a function's own body")
    kinds = {_dtype(source, made, name) for name in made}
    if len(kinds) != 1:
        raise EditRefused(f"`{found.between}` and `{found.out}` may differ in type")
    _check_reads(found)
    _check_given_once(found)


def _check_reads(found: Pair) -> None:
    """Refuse where anything but the launches themselves needs what the first one stores."""
    launches = (found.first, found.second)
    given = {id(argument) for launch in launches for argument in _arguments(launch)}
    in_calls = {id(n) for launch in launches for n in ast.walk(launch.call)}
    in_place = found.out == found.between
    for node in (n for s in found.body for n in ast.walk(s)):
        if not isinstance(node, ast.Name) or node.id != found.between or id(node) in given:
            continue
        if not isinstance(node.ctx, ast.Load) or (in_place and id(node) not in in_calls):
            continue
        if not _asks_shape(found, node):
            raise EditRefused(f"line {node.lineno} reads `{found.between}` too")


def _check_given_once(found: Pair) -> None:
    """Refuse a tensor that a launch knows under two names."""
    first = [_name(a) for a in _arguments(found.first)]
    second = [_name(a) for a in _arguments(found.second)]
    in_place = found.out == found.between
    if not in_place and found.out in first:
        raise EditRefused(f"the first launch is given `{found.out}` too")
    most = 2 if in_place and found.loaded != found.result else 1
    if first.count(found.between) != 1 or second.count(found.between) > most:
        raise EditRefused(f"a launch is given `{found.between}` twice")


def _arguments(launch: LaunchSite) -> list[ast.expr]:
    return [*launch.call.args, *(k.value for k in launch.call.keywords)]


def _asks_shape(found: Pair, node: ast.Name) -> bool:
    """Whether only a tensor's shape or dtype is read."""
    for holder in (n for s in found.body for n in ast.walk(s)):
        match holder:
            case ast.Attribute(value=value, attr=attribute) if value is node:
                return attribute in _SHAPES
            case ast.Call(func=ast.Attribute(attr="empty_like"), args=[inner, *_]) if inner is node:
                return True
            case _:
                pass
    return False


def _dtype(source: Source, made: dict[str, ast.expr | None], name: str) -> str:
    """What a tensor's dtype is called on the host; empty for torch's default."""
    call = made.get(name)
    if not isinstance(call, ast.Call):
        return f"{name}.dtype"
    given = next((k.value for k in call.keywords if k.arg == "dtype"), None)
    if given is None and source.names.dotted(call.func) == "torch.empty_like" and call.args:
        return _dtype(source, made, ast.unparse(call.args[0]))
    text = "" if given is None else ast.unparse(given)
    owner = text.removesuffix(".dtype")
    return _dtype(source, made, owner) if owner in made and owner != text else text


def _check_between(source: Source, found: Pair) -> None:
    """Refuse unless what stands between the launches only asks for shapes and makes tensors."""
    needed = names_in(found.statement(found.first))
    for statement in in_between(found):
        if not isinstance(statement, ast.Assign):
            raise EditRefused(f"line {statement.lineno} stands between the launches")
        if needed & set(stored_names(statement)):
            raise EditRefused(f"line {statement.lineno} changes what the first launch is given")
        for call in (n for n in ast.walk(statement.value) if isinstance(n, ast.Call)):
            dotted = source.names.dotted(call.func)
            method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if dotted not in _MADE | _PLAIN and method not in _ASKING:
                raise EditRefused(f"line {call.lineno} does something between the launches")


def in_between(found: Pair) -> list[ast.stmt]:
    """Statements of the host behind the first launch and before the second."""
    first, second = (found.body.index(found.statement(s)) for s in (found.first, found.second))
    return found.body[first + 1 : second]


# The host without the second launch.


def rewrite_host(splice: Splice, found: Pair, added: dict[str, str]) -> None:
    """One launch where there were two; `added` are arguments that the first is given besides."""
    first, second = found.statement(found.first), found.statement(found.second)
    made = _made_by(found)
    kept = made is not None and found.between in names_in(made)
    moved = [s for s in in_between(found) if not (kept and s is made)]
    for statement in moved:
        splice.insert_before(first, *dedented(splice, statement, splice.text(statement)))
        splice.remove(statement)
    for name, text in added.items():
        splice.set_keyword(found.first.call, name, text)
    splice.remove(second)
    if kept and made is not None:
        # The second tensor is made like the first, which takes its place.
        splice.remove(made)
        after = found.body[found.body.index(second) + 1 :]
        for node in (n for s in after for n in ast.walk(s)):
            if isinstance(node, ast.Name) and node.id == found.out:
                splice.replace(node, found.between)
    elif found.out != found.between:
        given = found.first.argument(found.producer, found.stored)
        if given is not None:
            splice.replace(given, found.out)
    if not _named_elsewhere(splice.source, found):
        splice.remove(found.consumer.node, paragraph=True)


def _made_by(found: Pair) -> ast.stmt | None:
    for statement in found.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if name == found.out != found.between:
                return statement
            case _:
                pass
    return None


def _named_elsewhere(source: Source, found: Pair) -> bool:
    own = {id(n) for n in ast.walk(found.second.call)} | {
        id(n) for n in ast.walk(found.consumer.node)
    }
    return any(
        isinstance(n, ast.Name) and n.id == found.consumer.name and id(n) not in own
        for n in ast.walk(source.tree)
    )


def dedented(splice: Splice, statement: ast.stmt, text: str) -> list[str]:
    """A statement's text as lines without the indentation that it has where it stands."""
    indentation = splice.indentation(statement)
    first, *rest = text.splitlines()
    return [first, *(line.removeprefix(indentation) for line in rest)]


def without_unread_locals(text: str, kernel: str, names: frozenset[str]) -> str:
    """The text without assignments of the named locals beside a launch that nothing reads now."""
    while True:
        source = read_source(text)
        unread = list(_unread_locals(source, kernel, names))
        if not unread:
            return text
        splice = Splice(source)
        for statement in unread:
            splice.remove(statement)
        text = splice.result()


def _unread_locals(source: Source, kernel: str, names: frozenset[str]) -> Iterator[ast.stmt]:
    for launch in source.launches_of(kernel):
        function = launch.scope.function
        if function is None:
            return
        read = {
            n.id
            for n in ast.walk(function)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        for statement in function.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) if name in names - read:
                    yield statement
                case _:
                    pass


# The consumer's words in the producer.


class Words:
    """What names of the consumer are called in the producer, and parameters it needs for them."""

    def __init__(self, splice: Splice, found: Pair) -> None:
        self._splice = splice
        self._found = found
        self._names = FreeNames(found.producer)
        self.renamed: dict[str, str] = {}
        self.added: dict[str, str] = {}

    def fresh(self, stem: str) -> str:
        """A name that the producer does not have."""
        return self._names.take(stem)

    def of(self, name: str) -> str | None:
        """The producer's word for a parameter or local of the consumer; None for a global."""
        if name in self.renamed:
            return self.renamed[name]
        consumer = self._found.consumer
        parameter = consumer.parameter(name)
        if parameter is None:
            if name not in consumer.flow.definitions:
                return None
            self.renamed[name] = self._names.take(name)
            return self.renamed[name]
        given = self._found.second.argument(consumer, name) or parameter.default
        if given is None:
            raise EditRefused(f"line {self._found.second.line} does not show what `{name}` is")
        known = self._passed(given, parameter.constexpr)
        self.renamed[name] = known or self._add(name, given, parameter.constexpr)
        return self.renamed[name]

    def _passed(self, given: ast.expr, constexpr: bool) -> str:
        """The producer's parameter that is given the same name already."""
        for parameter in self._found.producer.parameters:
            passed = self._found.first.argument(self._found.producer, parameter.name)
            same = passed is not None and ast.dump(passed) == ast.dump(given)
            if same and parameter.constexpr == constexpr and not isinstance(given, ast.Constant):
                return parameter.name
        return ""

    def _add(self, name: str, given: ast.expr, constexpr: bool) -> str:
        fresh = self._names.take(name)
        kind = f": {self._splice.source.names.spell('tl.constexpr')}" if constexpr else ""
        self._splice.add_parameter(self._found.producer, f"{fresh}{kind}")
        self.added[fresh] = self._splice.text(given)
        return fresh

    def translated(self, statement: ast.AST, replaced: dict[ast.AST, str]) -> str:
        """Text of a part of the consumer in the producer's words."""
        outer = {id(n) for node in replaced for n in ast.walk(node)}
        whole: dict[ast.AST, str] = {}
        inside = set(ast.walk(statement))
        for node in inside:
            if node in replaced:
                whole[node] = replaced[node]
            elif isinstance(node, ast.Name) and id(node) not in outer:
                word = self.of(node.id)
                if word is not None and word != node.id:
                    whole[node] = word
        return self._splice.text_with(statement, whole)
