"""Launches in the abstract interpreter: kernel arguments, and host functions that Triton calls."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workbench.gate.policy.modules import Modules
from workbench.gate.policy.refusals import spelled
from workbench.gate.policy.state import DEFAULTS, HOOKS, Frame
from workbench.gate.policy.values import (
    EMPTY,
    NOTHING,
    PLAIN,
    Arguments,
    Atom,
    Decorator,
    Function,
    Instance,
    Items,
    Kernel,
    Known,
    Launcher,
    Nothing,
    Phase,
    Plain,
    Scope,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
)

_CONSTANTS = "_workbench_constants"
_SIZES = (Plain, Tuple, Items, Nothing, Unknown)
"""Kinds of values of a grid that is not a function."""
_PASSED = (Plain, Nothing, Kernel, Tuple, Items, Unknown)
"""What a kernel may be given besides tensors and names of Triton's language."""
_TUNING = "configs key prune_configs_by reset_to_zero restore_value pre_hook post_hook warmup rep"
_OF_A_CONFIG = "kwargs num_warps num_stages num_ctas maxnreg pre_hook ir_override"
PARAMETERS = {
    "autotune": (*_TUNING.split(), "use_cuda_graph", "do_bench"),
    "heuristics": ("values",),
    "Config": tuple(_OF_A_CONFIG.split()),
}
"""Parameters that may be passed by position (triton 3.6 to 3.9); `jit` takes its own by name only.
"""
_CALLED = ("do_bench", "launch_metadata", "post_hook", "pre_hook", "repr", "values")
"""Parameters that Triton calls, or whose elements it calls."""
_PRUNING = ("perf_model", "early_config_prune")
_CONFIGS = "configs"
_LOOSE = ""
"""The role of an argument whose name is unknown here: it is called in every role."""


class Launches(Modules):
    """The layer that launches kernels."""

    def take_hooks(self, decorator: Decorator, kernel: Kernel) -> None:
        """Remember the functions that a decorator of Triton's calls around each launch."""
        given = self.within(decorator.given.all())
        self.accounted |= {atom.node for atom in given if isinstance(atom, Function)}
        hooks = self.hooks.setdefault(kernel.node, {})
        for role, value in self._roles(decorator):
            if not value <= hooks.get(role, EMPTY):
                hooks[role] = hooks.get(role, EMPTY) | value
                self.grew(kernel.node, HOOKS)
        if decorator.path.endswith("heuristics"):
            self._check_dicts(decorator.given.all(), kernel.node)
        inner = self.within(decorator.given.all())
        if any(isinstance(atom, Kernel) and atom.bare for atom in inner):
            self.refuse("policy.unresolved", kernel.node)

    def _roles(self, decorator: Decorator) -> Iterator[tuple[str, Value]]:
        """What is called, by its role."""
        given, parameters = decorator.given, PARAMETERS.get(decorator.path.rsplit(".", 1)[-1], ())
        named = dict(zip(parameters, given.positional, strict=False)) | dict(given.keywords)
        for name in _CALLED:
            if name in named:
                yield name, _callable(self.within(named[name]))
        yield _CONFIGS, named.get(_CONFIGS, EMPTY)
        for atom in named.get("prune_configs_by", EMPTY):
            if not isinstance(atom, Items):
                yield _LOOSE, _callable(self.within(frozenset({atom})))
                continue
            contents = self.contents(atom)
            yield _LOOSE, _callable(self.within(contents.elements))
            for name in _PRUNING:
                yield name, _callable(self.within(contents.keyed.get(name, EMPTY)))
        yield _LOOSE, _callable(self.within(given.rest))
        objects = (a for a in self.within(given.all()) if isinstance(a, Instance))
        yield _LOOSE, frozenset(objects)

    # ------------------------------------------------------------------------------- launches

    def launch(self, atom: Launcher, given: Arguments, node: ast.AST, frame: Frame) -> Value:
        """`kernel[grid](...)`: checks the kernel's arguments, evaluates host functions called
        around it.
        """
        kernel = atom.kernel.node
        self.asked |= {(kernel, DEFAULTS), (kernel, HOOKS)}
        passed = {**self.defaults.get(kernel, {}), **self._passed(kernel, given)}
        self.check_arguments(kernel, passed, node, given.rest)
        sizes: Value = frozenset(a for a in atom.grid if isinstance(a, _SIZES))
        if atom.grid - sizes or self.hooks.get(kernel):
            meta = self._call_hooks(kernel, passed, given.rest, node, frame)
            sizes |= self.call(atom.grid - sizes, Arguments((meta,)), node, frame)
        for grid in [one for one in self.within(sizes) if isinstance(one, Instance)]:
            self.call_special(grid, self.own_names(grid.node), node)
        if self.may_hold_tensor(sizes):
            self.refuse("policy.reads-values", node)
        self.launched_by(atom.kernel, frame.phase)
        return PLAIN

    def _call_hooks(
        self,
        kernel: ast.FunctionDef,
        passed: dict[str, Value],
        rest: Value,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Call what Triton calls around a launch; returns the dict of arguments that it passes."""
        items = Items(kernel.args, "meta")
        self.put(items, rest)
        for name, value in passed.items():
            self.put(items, value, name)
        meta: Value = frozenset({items})
        for role, hook in self.hooks.get(kernel, {}).items():
            self._call_hook(role, hook, passed, meta, node, frame)
        return meta

    def run_kernel(self, kernel: Kernel, given: Arguments, node: ast.AST, frame: Frame) -> Value:
        """`kernel.run(..., grid=..., warmup=False)`: what `kernel[grid](...)` calls."""
        named = dict(given.keywords)
        grid = named.pop("grid", given.rest)
        named.pop("warmup", None)
        passed = Arguments(given.positional, tuple(named.items()), given.rest)
        return self.launch(Launcher(kernel, grid), passed, node, frame)

    def _call_hook(
        self,
        role: str,
        hook: Value,
        passed: dict[str, Value],
        meta: Value,
        node: ast.AST,
        frame: Frame,
    ) -> None:
        """Call the function of a role as Triton's autotuner, heuristics and launcher do."""
        if role == _CONFIGS:
            self._call_configs(hook, meta, node, frame)
        elif role == _LOOSE:
            each = join([meta, PLAIN, *passed.values()])
            for one in hook:
                if isinstance(one, Instance):
                    self.call_special(one, self.own_names(one.node), node)
                else:
                    self.call_anyhow(one, each, node)
        else:
            made = self.call(hook, _arguments(role, passed, meta), node, frame)
            if role == "early_config_prune":  # it may make configurations of its own
                self._call_configs(made, meta, node, frame)

    def _call_configs(self, configs: Value, meta: Value, node: ast.AST, frame: Frame) -> None:
        """Call the hooks of every configuration that the autotuner may choose."""
        self._check_dicts(configs, node)
        for atom in self.within(configs):
            if isinstance(atom, Items) and atom.kind == "record":
                contents = self.contents(atom)
                hook = contents.keyed.get("pre_hook", EMPTY) | contents.elements
                self.call(_callable(hook), Arguments((meta,)), node, frame)

    def _check_options(self, named: Mapping[Any, Value], node: ast.AST) -> None:
        """Refuse options that compile something else than the kernel's source for this GPU."""
        for name in self.allowed.kernel.refused_options:
            if named.get(name, NOTHING) != NOTHING:
                self.refuse("policy.compiler", node, f"{name}=...")

    def _check_dicts(self, value: Value, node: ast.AST) -> None:
        for atom in self.within(value):
            if isinstance(atom, Items):
                self._check_options(self.contents(atom).keyed, node)

    def _passed(self, kernel: ast.FunctionDef, given: Arguments) -> dict[str, Value]:
        names = [a.arg for a in (*kernel.args.posonlyargs, *kernel.args.args)]
        passed = dict(zip(names, given.positional, strict=False))
        for place, value in enumerate(given.positional[len(names) :]):
            passed[f"*{place}"] = value
        passed.update(given.keywords)
        return passed

    def check_passed(self, kernel: ast.FunctionDef, given: Arguments, node: ast.AST) -> None:
        """Refuse arguments of a warm-up that a launch could not take."""
        passed = {**self.defaults.get(kernel, {}), **self._passed(kernel, given)}
        self.check_arguments(kernel, passed, node, given.rest)
        self._call_hooks(kernel, passed, given.rest, node, Frame(Scope(None, node), Phase.CALL))

    def check_arguments(
        self, kernel: ast.FunctionDef, passed: dict[str, Value], node: ast.AST, rest: Value = EMPTY
    ) -> None:
        """Refuse arguments that an interpreted kernel could use and a compiled one could not."""
        constants = constant_parameters(kernel)
        self._check_options(passed, node)
        for name, value in (*passed.items(), ("*", rest)):
            for atom in self.within(value):
                if isinstance(atom, Tensor):
                    fits = name not in constants
                elif isinstance(atom, Known):
                    fits = self.allowed.is_language(atom.path)
                else:
                    fits = isinstance(atom, _PASSED)
                if not fits:
                    self.refuse("policy.kernel-argument", node, f"{kernel.name}({name}=...)")


def _arguments(role: str, passed: dict[str, Value], meta: Value) -> Arguments:
    """How Triton calls that hook of a launch; `meta` is all that was passed, in a dict."""
    named = tuple(passed.items())
    return {
        "pre_hook": Arguments((meta,), (("reset_only", PLAIN),)),
        "post_hook": Arguments((meta,), (("exception", PLAIN | NOTHING),)),
        "do_bench": Arguments((PLAIN,), (("quantiles", PLAIN),)),
        "values": Arguments((meta,)),
        "repr": Arguments((PLAIN,)),
        "launch_metadata": Arguments((PLAIN, PLAIN, meta)),
        "perf_model": Arguments((), named, PLAIN),
        "early_config_prune": Arguments((PLAIN, meta), named, PLAIN),
    }[role]


def _callable(atoms: Iterable[Atom]) -> Value:
    """Values that may do anything when called: neither numbers, tensors nor containers."""
    return frozenset(a for a in atoms if not isinstance(a, (Plain, Nothing, Tensor, Tuple, Items)))


def constant_parameters(kernel: ast.FunctionDef) -> frozenset[str]:
    """Parameters that are annotated as `tl.constexpr`."""
    known: frozenset[str] | None = kernel.__dict__.get(_CONSTANTS)
    if known is None:
        every = (*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs)
        known = kernel.__dict__[_CONSTANTS] = frozenset(
            argument.arg
            for argument in every
            if argument.annotation is not None and "constexpr" in spelled(argument.annotation)
        )
    return known
