"""Where the value of a kernel's parameter or launch option comes from in the host code."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from workbench.kernels.edits.base import EditRefused, Parameter
from workbench.kernels.source import LaunchSite, Scope, Source
from workbench.kernels.source_flow import stored_names
from workbench.kernels.source_kernel import JitKernel

_DEEPEST = 20


@dataclass(frozen=True, eq=False)
class Site:
    """The expression that decides a value."""

    node: ast.expr

    @property
    def value(self) -> Parameter | None:
        """Its value when it is written out; None when it is computed."""
        return literal(self.node)


@dataclass(frozen=True, eq=False)
class Given:
    """Everything that decides one value."""

    sites: tuple[Site, ...]
    absent: tuple[LaunchSite, ...]
    """Launches that leave it to the default."""

    @property
    def values(self) -> tuple[Parameter, ...]:
        """The different values that are written out."""
        return tuple(dict.fromkeys(s.value for s in self.sites if s.value is not None))

    @property
    def computed(self) -> bool:
        """Whether some value is computed instead of written out."""
        return any(s.value is None for s in self.sites)


def literal(node: ast.AST | None) -> Parameter | None:
    """The value of a number, text or flag that is written out; None for anything else."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case _:
            return None


def parameter_sites(source: Source, kernel: JitKernel, name: str) -> Given:
    """Where every launch of the kernel takes the value of one parameter from.

    A launch, a name or attribute that feeds it, the autotuner's configurations, or the default in
    the signature. Raises EditRefused when that cannot be told.
    """
    launches = _launches(source, kernel)
    if name in source.heuristics(kernel):
        raise EditRefused(f"`{name}` is computed by heuristics")
    configs = [c.values[name] for c in source.configs(kernel) if name in c.values]
    if configs:
        return Given(tuple(_distinct(follow(source, c, _MODULE) for c in configs)), ())
    if source.autotuned(kernel) and not source.configs(kernel):
        raise EditRefused("the autotuner's configurations are not spelled out")
    found, absent = [], []
    for launch in launches:
        given = launch.argument(kernel, name)
        if given is not None:
            found.append(follow(source, given, launch.scope))
        elif launch.starred:
            raise EditRefused(f"line {launch.line} hides its arguments behind a star")
        else:
            absent.append(launch)
    parameter = kernel.parameter(name)
    if absent and parameter is not None and parameter.default is not None:
        found.append(follow(source, parameter.default, _MODULE))
        absent = []
    return Given(tuple(_distinct(found)), tuple(absent))


def option_sites(source: Source, kernel: JitKernel, name: str) -> Given:
    """As `parameter_sites`, for a launch option such as `num_warps`."""
    launches = _launches(source, kernel)
    configs = source.configs(kernel)
    if source.autotuned(kernel) and not configs:
        raise EditRefused("the autotuner's configurations are not spelled out")
    if configs:
        missing = [c for c in configs if name not in c.options]
        if missing:
            raise EditRefused(f"line {missing[0].call.lineno} leaves `{name}` to its default")
        options = [c.options[name] for c in configs]
        return Given(tuple(_distinct(follow(source, o, _MODULE) for o in options)), ())
    found, absent = [], []
    for launch in launches:
        given = launch.keyword(name)
        if given is not None:
            found.append(follow(source, given, launch.scope))
        elif any(k.arg is None for k in launch.call.keywords):
            raise EditRefused(f"line {launch.line} hides its keywords behind two stars")
        else:
            absent.append(launch)
    return Given(tuple(_distinct(found)), tuple(absent))


_MODULE = Scope(None, None)


def _launches(source: Source, kernel: JitKernel) -> tuple[LaunchSite, ...]:
    launches = source.launches_of(kernel.name)
    if not launches:
        raise EditRefused(f"`{kernel.name}` is not launched in a form that can be read")
    return launches


def _distinct(sites: Iterator[Site] | list[Site]) -> Iterator[Site]:
    seen = set()
    for site in sites:
        if site.node not in seen:
            seen.add(site.node)
            yield site


def follow(source: Source, node: ast.expr, scope: Scope) -> Site:
    """The expression behind a name or attribute, as far as it is bound exactly once.

    Raises EditRefused when it is bound in several places.
    """
    for _ in range(_DEEPEST):
        behind = _behind(source, node, scope)
        if behind is None:
            return Site(node)
        node, scope = behind
    raise EditRefused(f"the value of line {node.lineno} is followed too far")


def _behind(source: Source, node: ast.expr, scope: Scope) -> tuple[ast.expr, Scope] | None:
    match node:
        case ast.Name(id=name):
            return _behind_name(source, name, scope)
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if scope.owner is not None:
            return _behind_attribute(name, scope.owner)
        case _:
            return None


def _behind_name(source: Source, name: str, scope: Scope) -> tuple[ast.expr, Scope] | None:
    flow = source.host_flow(scope)
    if flow is not None:
        bound = flow.definitions.get(name, [])
        if len(bound) > 1:
            raise EditRefused(f"`{name}` is set in {len(bound)} places")
        if bound and name not in flow.parameters:
            value = bound[0].value
            plain = bound[0].how == "assign" and value is not None
            return (value, scope) if plain and value is not None else None
        if name in flow.parameters:
            return _behind_default(source, name, scope)
    value = source.module_value(name)
    return None if value is None else (value, _MODULE)


def _behind_default(source: Source, name: str, scope: Scope) -> tuple[ast.expr, Scope] | None:
    """A host function's default, when no call of the function overrides it."""
    function = scope.function
    if function is None:
        return None
    arguments = function.args
    plain = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
    defaults = dict(zip(reversed(plain), reversed(arguments.defaults), strict=False))
    defaults |= {
        a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d
    }
    default = defaults.get(name)
    if default is None:
        return None
    position = plain.index(name) if name in plain else len(plain)
    for call in ast.walk(source.tree):
        if isinstance(call, ast.Call) and _called(call) == function.name:
            starred = any(isinstance(a, ast.Starred) for a in call.args)
            offset = 1 if isinstance(call.func, ast.Attribute) and plain[:1] == ["self"] else 0
            by_keyword = any(k.arg in {name, None} for k in call.keywords)
            if starred or by_keyword or len(call.args) + offset > position:
                raise EditRefused(f"line {call.lineno} passes `{name}`")
    return default, _MODULE


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


@lru_cache(maxsize=512)
def _behind_attribute(name: str, owner: ast.ClassDef) -> tuple[ast.expr, Scope] | None:
    found: list[tuple[ast.expr, Scope]] = []
    for member in owner.body:
        if isinstance(member, ast.Assign) and name in set(stored_names(member)):
            found.append((member.value, _MODULE))
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            scope = Scope(member, owner)
            found += [(v, scope) for n in ast.walk(member) for v in _set_on_self(n, name)]
    if len(found) > 1:
        raise EditRefused(f"`self.{name}` is set in {len(found)} places")
    return found[0] if found else None


def _set_on_self(node: ast.AST, name: str) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=value
        ) if attribute == name:
            yield value
        case ast.AnnAssign(
            target=ast.Attribute(value=ast.Name(id="self"), attr=attribute), value=value
        ) if attribute == name and value is not None:
            yield value
        case _:
            return


def feeding(source: Source, node: ast.expr, scope: Scope) -> Iterator[ast.expr]:
    """An expression, and every expression behind the names that it reads, each once."""
    seen: set[ast.AST] = set()
    ahead: list[tuple[ast.expr, Scope]] = [(node, scope)]
    while ahead:
        current, where = ahead.pop()
        if current in seen:
            continue
        seen.add(current)
        yield current
        flow = source.host_flow(where)
        for inner in ast.walk(current):
            match inner:
                case ast.Name(id=name, ctx=ast.Load()) if flow and name in flow.definitions:
                    bound = flow.definitions[name]
                    ahead += [(d.value, where) for d in bound if d.value is not None]
                case ast.Name(id=name) if (function := source.host_function(name)) is not None:
                    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
                    ahead += [(v, Scope(function, None)) for v in returned if v is not None]
                case ast.Name() | ast.Attribute():
                    behind = _quietly_behind(source, inner, where)
                    if behind is not None:
                        ahead.append(behind)


def _quietly_behind(source: Source, node: ast.expr, scope: Scope) -> tuple[ast.expr, Scope] | None:
    try:
        return _behind(source, node, scope)
    except EditRefused:
        return None
