"""Turns a problem's text into a module, a reference model and inputs. In workers."""

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workbench.problems.constants import check_values, constants, substitute
from workbench.problems.records import Constant, Precision

if TYPE_CHECKING:
    from torch import device, nn


def bind(source: str, values: Mapping[str, Constant], *, name: str = "problem") -> ModuleType:
    """Execute the file with `values` in place of its module-level constants.

    The values are put into the syntax tree before anything runs, so constants derived from them
    change too. The module is entered in `sys.modules` under `name`. Raises WorkbenchError for a
    value without a constant, and whatever the file itself raises.
    """
    tree = ast.parse(source)
    check_values(constants(tree), values, where=name)
    substitute(tree, values)
    filename = f"<{name}>"
    # So that tracebacks and `inspect` find the lines of a file that is not on this worker's disk.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module
    exec(compile(tree, filename, "exec"), module.__dict__)  # noqa: S102 -- a worker's whole task
    return module


@contextmanager
def reference_flags(precision: Precision) -> Iterator[None]:
    """Run the body under the fp32 flags that `precision` promises, for matmul and cuDNN alike."""
    import torch

    allow = precision is Precision.TF32
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = allow
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def build_model(module: ModuleType, *, seed: int, class_name: str = "Model") -> "nn.Module":
    """`Model(*get_init_inputs())`, or another class with this contract, on the CPU, from `seed`.

    Raises TypeError for initial inputs of another type, and whatever the file raises.
    """
    import torch

    torch.manual_seed(seed)
    init = module.get_init_inputs()
    if not isinstance(init, list | tuple | dict):
        raise TypeError(f"get_init_inputs() returns {type(init).__name__}, not a list")
    torch.manual_seed(seed)
    # KernelBench also allows a mapping of keyword arguments; newer files of it use one.
    cls = getattr(module, class_name)
    model: nn.Module = cls(**init) if isinstance(init, dict) else cls(*init)
    return model


def make_inputs(module: ModuleType, *, seed: int, device: "device | str" = "cpu") -> list[Any]:
    """The inputs of `get_inputs()`, drawn from `seed` on `device` and moved there if elsewhere.

    On the `meta` device only shapes and dtypes are made, in no time. Raises what the file raises.
    """
    import torch

    torch.manual_seed(seed)
    with torch.device(device):
        inputs = module.get_inputs()
    return [x.to(device) if isinstance(x, torch.Tensor) else x for x in inputs]
