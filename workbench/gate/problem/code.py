"""Runs the problem's own code in workers; whatever it raises is reported with the person's line."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

import torch
from torch import nn

from workbench.gate.correctness.gold import foreign
from workbench.gate.correctness.nest import ForeignLeaf, Nest, flatten, leaves
from workbench.problems.module import bind, build_model
from workbench.problems.records import Constant

_FILE = "<problem>"
"""What `problems.module.bind` calls the file in tracebacks."""


class ProblemRaised(Exception):
    """The problem file raised, or is not in KernelBench form. The text names the line."""

    def __init__(self, what: str, line: int | None) -> None:
        super().__init__(f"{what} (line {line} of the problem file)" if line else what)
        self.what = what
        self.line = line


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Turn whatever the problem file raises in the body into ProblemRaised with its own line."""
    try:
        yield
    except ProblemRaised:
        raise
    except Exception as fault:
        frames = traceback.extract_tb(fault.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == _FILE]
        says = f"{what} raises {type(fault).__name__}: {fault}".rstrip(": ")
        raise ProblemRaised(says[:500], lines[-1] if lines else None) from fault


def load(source: str, values: Mapping[str, Constant]) -> ModuleType:
    """The problem as a module, with a shape's values in place."""
    with telling("importing the problem"):
        return bind(source, values)


def build(module: ModuleType, seed: int, device: str) -> nn.Module:
    """`Model(*get_init_inputs())` from `seed`, on `device`. On `meta` nothing is allocated."""
    with telling("building Model"):
        if device != "meta":
            model = build_model(module, seed=seed)
        else:
            with torch.device("meta"):
                model = build_model(module, seed=seed)
    if not isinstance(model, nn.Module):
        raise ProblemRaised(f"`Model` makes a {type(model).__name__}, not an nn.Module", None)
    return model.to(device)


def init_arguments(module: ModuleType, seed: int) -> tuple[Nest, list[torch.Tensor]]:
    """`get_init_inputs()` as the model of that seed was built from it."""
    torch.manual_seed(seed)
    with telling("get_init_inputs()"):
        nest, tensors = flatten(module.get_init_inputs(), foreign)
    _check_plain("get_init_inputs()", nest)
    return nest, tensors


def draw(module: ModuleType, seed: int, device: str) -> tuple[Nest, list[torch.Tensor]]:
    """`get_inputs()` from `seed`, made on `device` where the file names none."""
    torch.manual_seed(seed)
    with telling("get_inputs()"), torch.device(device), torch.no_grad():
        inputs = module.get_inputs()
        if not isinstance(inputs, list | tuple):
            says = f"get_inputs() returns {type(inputs).__name__}, not a list of the arguments"
            raise ProblemRaised(says, None)
        nest, tensors = flatten(inputs, foreign)
    _check_plain("get_inputs()", nest)
    return nest, [t.detach().to(device) for t in tensors]


def _check_plain(what: str, nest: Nest) -> None:
    """Raise ProblemRaised for a value that cannot be sent to another process."""
    for path, leaf in leaves(nest):
        if isinstance(leaf, ForeignLeaf):
            at = f" at `{path}`" if path else ""
            says = f"{what} returns {leaf.says}{at}; a candidate gets tensors and plain values"
            raise ProblemRaised(says, None)
