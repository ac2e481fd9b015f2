"""How long the sums of products are that a reference makes, and what tensor cores lose of them.

A tensor core adds the products of one step to a sum and cuts the result to fp32 instead of rounding
it (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, 2021), so that the
error grows with the number of steps, not with its root.
"""

import math
from collections.abc import Callable

import torch
from msgspec import structs

from workbench.gate.correctness.compare import BOUNDS, Rule
from workbench.kernels.operators import OperatorMode

STEP = 16
"""Products of 16-bit factors that Hopper's tensor cores add in one step (PTX, wgmma's K). On an
H200 the worst of 4,096 fp32 sums of exact bf16 products was cut by 0.24 of the bound with 1,024
terms, 0.95 with 4,096, 1.80 with 7,168, 3.66 with 14,336; rounded sums stayed below 0.08."""


class Products(OperatorMode):
    """Notes the longest sum of products that any operator makes."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        """Terms."""

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        name = str(getattr(func, "overloadpacket", func)).removeprefix("aten.")
        self.longest = max(self.longest, _terms(name, args))
        return func(*args, **(kwargs or {}))


def cut(rule: Rule, dtype: torch.dtype, terms: int) -> Rule:
    """The rule for an fp32 output where sums are cut once a step: C grows with the steps once they
    are more than C, the table's. Other types' spacings are far coarser than what is cut.
    """
    factor, eps = BOUNDS["float32"]
    if dtype != torch.float32 or rule != Rule(factor, eps):
        return rule
    return structs.replace(rule, factor=max(factor, terms / STEP))


_FIRST_FACTOR = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "linear"), 0),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), 1),
}
"""Where an operator's first factor stands among its arguments."""
_TRANSPOSED, _GROUPS = 6, 8
"""Arguments of aten.convolution."""


def _terms(name: str, args: tuple[object, ...]) -> int:
    """How many products one element of an operator's result adds up; 0 for other operators."""
    tensors = {place: a for place, a in enumerate(args) if isinstance(a, torch.Tensor)}
    first = tensors.get(_FIRST_FACTOR.get(name, -1))
    if first is not None:
        return first.shape[-1]
    if name == "convolution" and 1 in tensors:
        weight = tensors[1].shape
        if len(args) > _GROUPS and args[_TRANSPOSED]:
            return weight[0] * math.prod(weight[2:]) // int(str(args[_GROUPS]))
        return math.prod(weight[1:])
    if name.startswith("_scaled_dot_product") and {0, 1} <= tensors.keys():
        return max(tensors[0].shape[-1], tensors[1].shape[-2])
    return 0
