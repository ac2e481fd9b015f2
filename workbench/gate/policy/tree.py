"""Cached traversals of a syntax tree: the policy needs each a dozen times."""

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeVar, cast

Node = TypeVar("Node", bound=ast.AST)

_KEY = "_workbench_children"
_WORDS = frozenset(
    {"arg", "asname", "attr", "ctx", "id", "kind", "level", "module", "type_comment"}
)
"""Fields that hold no node except `Load`, `Store` and `Del`."""


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """For each kind of node, the fields that may hold others."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        names = self[kind] = tuple(name for name in kind._fields if name not in _WORDS)
        return names


_FIELDS = _Fields({ast.Constant: (), ast.MatchSingleton: ()})


def children(node: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes below this one, without `Load`, `Store` and `Del`."""
    names = _FIELDS[type(node)]
    if not names:
        return ()
    held = node.__dict__
    known: tuple[ast.AST, ...] | None = held.get(_KEY)
    if known is None:
        found: list[ast.AST] = []
        for name in names:
            value = held.get(name)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [child for child in value if isinstance(child, ast.AST)]
        known = held[_KEY] = tuple(found)
    return known


_OWN, _YIELDS = "_workbench_own", "_workbench_yields"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
"""Nodes with a scope of their own."""


def own_nodes(node: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a scope that is not inside an inner function or class."""
    known: tuple[ast.AST, ...] | None = node.__dict__.get(_OWN)
    if known is None:
        found: list[ast.AST] = []
        waiting = list(children(node))
        while waiting:
            inner = waiting.pop()
            found.append(inner)
            if not isinstance(inner, SCOPES):
                waiting += children(inner)
        known = node.__dict__[_OWN] = tuple(found)
    return known


def is_generator(node: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether calling the function returns a generator: its own body yields."""
    known: bool | None = node.__dict__.get(_YIELDS)
    if known is None:
        known = node.__dict__[_YIELDS] = _yields(node)
    return known


def _yields(node: ast.FunctionDef | ast.Lambda) -> bool:
    waiting: list[ast.AST] = list(node.body) if isinstance(node, ast.FunctionDef) else [node.body]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(inner, SCOPES):
            waiting += children(inner)
    return False


def walk(node: ast.AST) -> list[ast.AST]:
    """This node and all below it, level by level as in `ast.walk`."""
    found = [node]
    for inner in found:
        found += children(inner)
    return found


@dataclass(slots=True)
class Survey:
    """Facts about a whole tree, from one traversal."""

    depth: int = 0
    """Number of levels of nodes."""
    _kinds: dict[type[ast.AST], list[ast.AST]] = field(default_factory=lambda: defaultdict(list))

    def add(self, level: list[ast.AST]) -> None:
        """Add one more level of nodes."""
        self.depth += 1
        for node in level:
            self._kinds[type(node)].append(node)

    def of(self, kind: type[Node]) -> list[Node]:
        """All nodes of a kind, in the order of `walk`."""
        return cast("list[Node]", self._kinds.get(kind, []))


_SURVEY = "_workbench_survey"


def survey(tree: ast.Module) -> Survey:
    """Traverse a tree, once."""
    known: Survey | None = tree.__dict__.get(_SURVEY)
    if known is None:
        known = tree.__dict__[_SURVEY] = Survey()
        level: list[ast.AST] = [tree]
        while level:
            known.add(level)
            level = [child for node in level for child in children(node)]
    return known


def own_arguments(spec: ast.arguments) -> list[ast.arg]:
    """Every parameter of a function."""
    loose = [argument for argument in (spec.vararg, spec.kwarg) if argument is not None]
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *loose]


_TYPES = ast.Name | ast.Attribute | ast.Subscript | ast.Tuple | ast.List | ast.BinOp
_BESIDE = ast.BitOr | ast.expr_context


def names_types(annotation: ast.expr) -> bool:
    """Whether evaluating an annotation, and texts within it, calls nothing."""
    for node in walk(annotation):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and not _text_names_types(node.value):
                return False
        elif not isinstance(node, _TYPES | _BESIDE):
            return False
    return True


def _text_names_types(text: str) -> bool:
    try:
        return names_types(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError):
        return False


_SURE = "_workbench_sure"


def sure_names(node: ast.Module | ast.ClassDef) -> frozenset[str]:
    """Names that a body binds on every way through it, and never deletes."""
    known: frozenset[str] | None = node.__dict__.get(_SURE)
    if known is None:
        sure: set[str] = set()
        for statement in node.body:
            match statement:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    sure.add(name)
                case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                    sure |= {a.asname or a.name.partition(".")[0] for a in aliases}
                case ast.Assign(targets=targets):
                    inner = (n for target in targets for n in walk(target))
                    sure |= {n.id for n in inner if isinstance(n, ast.Name)}
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                    sure.add(name)
        gone = (t for d in own_nodes(node) if isinstance(d, ast.Delete) for t in d.targets)
        sure -= {target.id for target in gone if isinstance(target, ast.Name)}
        known = node.__dict__[_SURE] = frozenset(sure)
    return known
