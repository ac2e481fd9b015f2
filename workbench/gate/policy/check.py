"""Whether a candidate's source keeps to what host code may do, before any of it runs."""

import ast
import time
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from workbench.gate.policy.kernels import Kernels
from workbench.gate.policy.names import allowed, explain_policy
from workbench.gate.policy.private import name_privately
from workbench.gate.policy.refusals import NOTED, finding
from workbench.gate.policy.state import Frame, TooTangledError
from workbench.gate.policy.statements import is_main_guard
from workbench.gate.policy.texts import foreign_encoding, hidden_definition
from workbench.gate.policy.tree import children, own_nodes, survey
from workbench.gate.policy.values import (
    ANYTHING,
    EMPTY,
    INPUT,
    NOTHING,
    PLAIN,
    Arguments,
    Bound,
    Class,
    Descriptor,
    Function,
    Instance,
    Items,
    Phase,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
)
from workbench.gate.records import Finding, Outcome, Stage, StageReport
from workbench.problems.foreign import parse_python

__all__ = ["check", "check_bytes", "explain_policy", "input_kinds"]

Kind = Literal["tensor", "number", "several", "unknown", "tensors"]
"""What one input of a problem is: `several` is one argument that is a list of tensors, `tensors`
any number of tensor arguments."""

LARGEST_SOURCE = 1 << 20
"""Bytes; ours. The largest lifted KernelBench level 3 network is a quarter of it."""
DEEPEST_SOURCE = 120
"""Levels of nesting in the syntax tree; ours. Hand-written kernels stay under 30."""
_MOST_ROUNDS = 40
_RANKS = {"policy.inductor-output": -1, "policy.no-launch": 1, "policy.unresolved": 1}
_REMEMBERED = 4
"""Files whose report is cached: a verdict without a session checks before its workers start and
after."""
_FUNCTIONS = (ast.FunctionDef, ast.Lambda, ast.AsyncFunctionDef)
_NUMBERS = frozenset({"int", "float", "bool", "str"})


def check_bytes(content: bytes, inputs: Sequence[Kind] = ()) -> StageReport:
    """As `check`, for a file's bytes, which need not be text. Reports are cached."""
    return _checked(content, tuple(inputs))


@lru_cache(maxsize=_REMEMBERED)
def _checked(content: bytes, inputs: tuple[Kind, ...]) -> StageReport:
    try:
        return check(content.decode("utf-8-sig"), inputs)
    except UnicodeDecodeError as fault:
        return _report([finding("policy.not-text", str(fault))], 0.0)


def check(source: str, inputs: Sequence[Kind] = ()) -> StageReport:
    """Judge a candidate's source. Pure: runs nothing of it, imports no torch, never raises.

    `inputs` says what each argument of `ModelNew.forward` is, as `input_kinds` reads it from the
    problem; without it every argument counts as a tensor unless it is annotated as a number.
    """
    started = time.perf_counter()
    try:
        findings = _findings(source, inputs)
    except (RecursionError, MemoryError):  # the parser reports its own stack as memory
        findings = [finding("policy.too-deep", "deeper than Python's stack")]
    except TooTangledError as fault:
        findings = [finding("policy.too-complex", str(fault))]
    return _report(findings, time.perf_counter() - started)


def input_kinds(problem: str) -> tuple[Kind, ...]:
    """What each element of a problem's `get_inputs()` is, from its source; empty when unclear."""
    try:
        machine = Machine(_parse(problem), ())
        machine.run_module()
        return machine.kinds_of_inputs()
    except (SyntaxError, ValueError, RecursionError, TooTangledError, MemoryError):
        return ()


def _report(findings: list[Finding], seconds: float) -> StageReport:
    refused = [f for f in findings if f.code != NOTED]
    return StageReport(
        stage=Stage.POLICY,
        outcome=Outcome.FAILED if refused else Outcome.PASSED,
        says=refused[0].says if refused else "host code only allocates, views, copies and launches",
        findings=tuple(findings),
        seconds=seconds,
    )


def _findings(source: str, inputs: Sequence[Kind]) -> list[Finding]:
    if len(source) > LARGEST_SOURCE:
        return [finding("policy.too-large", f"{len(source)} characters")]
    encoding = foreign_encoding(source)
    if encoding:
        return [finding("policy.not-text", f"it declares the encoding {encoding}", 1)]
    try:
        tree = _parse(source)
    except SyntaxError as fault:
        return [finding("policy.syntax", fault.msg, fault.lineno)]
    except ValueError as fault:  # NUL bytes, lone surrogates
        return [finding("policy.syntax", str(fault))]
    depth = survey(tree).depth
    if depth > DEEPEST_SOURCE:
        return [finding("policy.too-deep", f"{depth} levels")]
    machine = Machine(tree, inputs)
    machine.run()
    for kernel in machine.kernel_scopes:
        line = hidden_definition(kernel, source)
        if line is not None:
            machine.refuse("policy.kernel-text", kernel, kernel.name)
    refused = sorted(machine.refused.values(), key=_decisive_first)
    return [*refused, *machine.notes.values()]


def _decisive_first(found: Finding) -> tuple[int, int]:
    """What explains the rest comes first, what is missing last; else the order of the file."""
    return _RANKS.get(found.code, 0), found.line or 0


def _parse(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        tree = parse_python(source)
    name_privately(tree, source)
    return tree


class Machine(Kernels):
    """Interprets a file abstractly until a fixed point is reached."""

    def __init__(self, tree: ast.Module, inputs: Sequence[Kind]) -> None:
        super().__init__(allowed(), tree)
        self.inputs = tuple(inputs)

    def run(self) -> None:
        """Evaluate everything that a worker would run, then check what nothing runs."""
        for _ in range(_MOST_ROUNDS):
            self.round += 1
            self.changed = False
            self.asked.clear()
            self.refused.clear()
            self.notes.clear()
            self.launched.clear()
            self.reached.clear()
            self.named.clear()
            self.run_module()
            self.run_model()
            self.call_uncalled()
            self.check_kernels()
            if not self.changed:
                self.sweep()
                return
        raise TooTangledError(f"still learning after {_MOST_ROUNDS} rounds")

    def run_module(self) -> None:
        """Execute the module's body, as an import does."""
        frame = Frame(self.module, Phase.SETUP)
        self.now = Phase.SETUP
        self.block(self.tree.body, frame)

    def run_model(self) -> None:
        """Construct ModelNew and call it once."""
        self.asked.add((self.module, "ModelNew"))
        named = self.module.ever.get("ModelNew", EMPTY)
        setup = Frame(self.module, Phase.SETUP)
        if not any(isinstance(atom, Class) for atom in named):
            self.refuse("policy.no-model", self.tree, "ModelNew")
            return
        for model in named:  # a later line may give the name to something else that is called
            site = model.node if isinstance(model, Class) else self.tree
            made = self.call(frozenset({model}), Arguments(rest=PLAIN), site, setup)
            if not all(isinstance(atom, Instance | Unknown) for atom in made):
                self.refuse("policy.no-model", self.tree, "ModelNew")
            self._call_model(made, site)
        for instance in sorted(self.made_modules, key=lambda one: one.node.lineno):
            for name in self.own_names(instance.node):
                # The judge moves, loads and prints modules, which would run overridden methods.
                if name in self.allowed.module_methods:
                    made = frozenset({instance})
                    self._call_override(made, name, instance.node, setup)
        if Phase.CALL not in self.launched:
            self.refuse("policy.no-launch", self.tree, "ModelNew.forward")

    def call_uncalled(self) -> None:
        """Call what code that runs has looked up and nothing has called: something may."""
        while not self.refused:
            waiting = self.named.keys() - self.reached - self.accounted - self._backward()
            if not waiting:
                return
            for node in sorted(waiting, key=lambda one: (one.lineno, one.col_offset)):
                self.reached.add(node)
                self.call_anyhow(self.named[node], ANYTHING, node)

    def _backward(self) -> set[ast.AST]:
        """Members of autograd functions, and what they wrap: no call of a model runs these."""
        owners = [c for c in self.bases if "torch.autograd.Function" in self.library_bases(c)]
        held = [atom for c in owners for value in self.every_member(c).values() for atom in value]
        kept = join(a.function if isinstance(a, Descriptor) else frozenset({a}) for a in held)
        nodes: set[ast.AST] = {atom.node for atom in kept if isinstance(atom, Function)}
        return nodes | {inner for inner, around in self.wrapped.items() if around & nodes}

    def _call_override(self, made: Value, name: str, node: ast.ClassDef, frame: Frame) -> None:
        loaded = PLAIN | frozenset({Tensor("state")})
        for atom in self.read_member(made, name, node, frame):
            if isinstance(atom, Bound):
                self.call(frozenset({atom}), Arguments(rest=loaded), node, frame)

    def _call_model(self, made: Value, node: ast.ClassDef | ast.Module) -> None:
        frame = Frame(self.module, Phase.CALL)
        self.now = Phase.CALL
        for instance in made:
            if not isinstance(instance, Instance):
                continue
            named = "__call__" if self.find_member(instance.node, "__call__") else "forward"
            for forward in self.read_member(frozenset({instance}), named, node, frame):
                self.call(frozenset({forward}), self._inputs(forward), node, frame)

    def _inputs(self, forward: object) -> Arguments:
        """The arguments of forward: as the problem defines them, or by their annotations."""
        function = forward.function if isinstance(forward, Bound) else forward
        if not isinstance(function, Function):
            return Arguments((INPUT,))
        spec = function.node.args
        names = [*spec.posonlyargs, *spec.args][isinstance(forward, Bound) :]
        if self.inputs == ("tensors",):
            given = len(names) - len(spec.defaults)
            return Arguments((INPUT,) * given, rest=INPUT if spec.vararg else EMPTY)
        if self.inputs:
            return Arguments(tuple(self._input(kind, spec) for kind in self.inputs))
        values = tuple(_by_annotation(argument.annotation) for argument in names)
        return Arguments(values, rest=INPUT if spec.vararg or spec.kwarg else EMPTY)

    def _input(self, kind: Kind, site: ast.AST) -> Value:
        if kind == "several":
            return self.make_list(site, INPUT)
        return PLAIN if kind == "number" else INPUT

    def kinds_of_inputs(self) -> tuple[Kind, ...]:
        """What `get_inputs` of this module returns, element by element."""
        value = self.module.ever.get("get_inputs", EMPTY)
        frame = Frame(self.module, Phase.SETUP)
        self.round += 1
        given = self.call(value, Arguments(), self.tree, frame)
        match [*given]:
            case [Items() as items]:
                contents = self.contents(items)
                parts = [contents.keyed.get(i, EMPTY) for i in range(len(contents.keyed))]
                if not contents.elements:
                    return tuple(map(_kind, parts))
                return ("tensors",) if _kind(contents.all()) == "tensor" else ()
            case [Tuple(items=parts)]:
                return tuple(map(_kind, parts))
        return ()

    def sweep(self) -> None:
        """Check code that nothing calls: it cannot compute, but must not hide refused code."""
        for node in _live_functions(self.tree):
            if node not in self.reached:
                for inner in own_nodes(node):
                    self._sweep_node(inner)

    def _sweep_node(self, node: ast.AST) -> None:
        frame = Frame(self.module, Phase.SETUP)
        match node:
            case ast.Import():
                self.import_module(node, frame)
            case ast.ImportFrom():
                self.import_names(node, frame)
            case ast.Name(id=name) if name not in self.module.ever:
                if name in ("exec", "eval", "compile", "__import__", "globals", "locals", "vars"):
                    self.refuse("policy.dynamic-code", node)
            case ast.Attribute(attr=name) if name.startswith("__") and name != "__init__":
                if name not in ("__name__", "__doc__", "__version__"):
                    self.refuse("policy.private-name", node)


def _live_functions(tree: ast.Module) -> list[ast.AST]:
    """Every function except those that only run as a script."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    lambdas = survey(tree).of(ast.Lambda)
    while waiting:
        node = waiting.pop()
        if isinstance(node, _FUNCTIONS):
            found.append(node)
        if isinstance(node, ast.If) and is_main_guard(node.test):
            waiting += node.orelse
        elif lambdas:
            waiting += children(node)
        else:  # then no function stands in an expression
            waiting += [child for child in children(node) if not isinstance(child, ast.expr)]
    return found


def _by_annotation(annotation: ast.expr | None) -> Value:
    match annotation:
        case ast.Name(id=name) if name in _NUMBERS:
            return PLAIN
        case ast.Subscript(value=ast.Name(id="Optional"), slice=ast.Name(id=name)):
            return (PLAIN if name in _NUMBERS else INPUT) | NOTHING
    return INPUT


def _kind(value: Value) -> Kind:
    if value and all(isinstance(atom, Tensor) for atom in value):
        return "tensor"
    if value and value <= PLAIN | NOTHING:
        return "number"
    return "several" if any(isinstance(atom, Items | Tuple) for atom in value) else "unknown"
