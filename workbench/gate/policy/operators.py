"""Operators of torch's that the file registers: by which names they are reached, what else runs."""

import re

from workbench.gate.policy.classes import Classes
from workbench.gate.policy.names import Allowed
from workbench.gate.policy.values import (
    EMPTY,
    Function,
    FunctionNode,
    Known,
    Partial,
    Value,
    join,
)

OPERATORS = ("torch.library.custom_op", "torch.library.triton_op")
"""Decorators that make an operator of a function, which the dispatcher calls."""
_NAME = re.compile(r"[A-Za-z]\w*::[A-Za-z]\w*")
_OF_TORCH = frozenset(
    {"aten", "c10d", "debug_mode_ops", "debugprims", "export", "higher_order", "inductor"}
    | {"inductor_prims", "loaded_libraries", "mkl", "mkldnn", "mkldnn_prepacked", "onednn", "prim"}
    | {"prims", "profiler", "quantization", "quantized", "rngprims", "sparse", "static_runtime"}
    | {"symm_mem"}
)
"""Namespaces with operators of torch's own (2.11 to 2.13), and members of `torch.ops` itself."""


class Operators(Classes):
    """The layer that knows the file's operators."""

    def __init__(self, allowed: Allowed) -> None:
        super().__init__(allowed)
        self.operators: dict[str, Value] = {}
        """What the file registers, by `namespace::name`."""
        self.fakes: dict[FunctionNode, Value] = {}
        """What torch calls instead of an operator's function on tensors without data."""

    def name_operator(self, name: str, made: Value) -> None:
        """Remember what `torch.ops.<namespace>.<operator>` is, where nobody else may mean it."""
        space = name.partition("::")[0]
        if not _NAME.fullmatch(name) or space in _OF_TORCH:
            return
        old = self.operators.get(name, EMPTY)
        if not made <= old:
            self.operators[name] = old | made
            self.grew(self, "operators")

    def own_operator(self, path: str) -> Value:
        """What a name below `torch.ops` is; empty where the file registers no such operator."""
        self.asked.add((self, "operators"))
        match path.split(".")[2:]:
            case []:
                return frozenset({Known(path)}) if self.operators else EMPTY
            case [space]:
                own = any(name.startswith(f"{space}::") for name in self.operators)
                return frozenset({Known(path)}) if own else EMPTY
            case [space, name]:
                return self.operators.get(f"{space}::{name}", EMPTY)
        return EMPTY

    def add_fake(self, operator: Partial, fake: Value) -> None:
        """Remember what torch calls instead of an operator on tensors of the device `meta`."""
        for function in operator.target:
            if isinstance(function, Function):
                old = self.fakes.get(function.node, EMPTY)
                if not fake <= old:
                    self.fakes[function.node] = old | fake
                    self.grew(function.node, "fakes")

    def fakes_of(self, operator: Partial) -> Value:
        """Functions that a call of an operator may run instead of it."""
        nodes = [f.node for f in operator.target if isinstance(f, Function)]
        self.asked |= {(node, "fakes") for node in nodes}
        return join(self.fakes.get(node, EMPTY) for node in nodes)
