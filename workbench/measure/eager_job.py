"""The worker's part of the eager model: run the reference on meta tensors and count operators.

Imported in workers only: torch is loaded with it.
"""

from typing import Any

import msgspec
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from workbench.isolation.context import JobContext
from workbench.isolation.wire import Blob
from workbench.measure.eager import OperatorWork
from workbench.problems.module import bind, build_model, make_inputs

_NO_KERNEL = {
    "_unsafe_view",
    "detach",
    "empty",
    "empty_like",
    "empty_strided",
    "lift_fresh",
    "new_empty",
    "new_empty_strided",
}
"""Operators that launch nothing although their schema does not call them views."""


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call] -- torch's own hook
    """Counts bytes and operations of every operator that launches a kernel."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.work: list[OperatorWork] = []

    def __torch_dispatch__(  # the signature is torch's: anything goes in and out
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: Any = (),  # noqa: ANN401
        kwargs: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        del types
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        outputs = _tensors(out)
        name = func.overloadpacket.__name__
        if not outputs or func.is_view or name in _NO_KERNEL:
            return out
        flops = 0.0
        if func.overloadpacket in flop_registry:
            flops = float(flop_registry[func.overloadpacket](*args, **kwargs, out_val=out))
        touched = (*_tensors((args, kwargs)), *outputs)
        self.work.append(
            OperatorWork(
                name=f"aten.{name}",
                bytes=float(sum(x.numel() * x.element_size() for x in touched)),
                matrix_flops=flops,
                elements=0.0 if flops else float(sum(x.numel() for x in outputs)),
                dtype=str(outputs[0].dtype).removeprefix("torch."),
            )
        )
        return out


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def count(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """`{source, values}` -> `{work: [OperatorWork, ...]}` of one call of the reference.

    Nothing is allocated: weights and inputs are meta tensors. Raises what the reference raises
    there, for instance where it reads a value.
    """
    del bench, blobs
    module = bind(request["source"], request["values"])
    with torch.device("meta"):
        model = build_model(module, seed=0).to("meta")
    inputs = make_inputs(module, seed=0, device="meta")
    with torch.no_grad(), _Counter() as counter:
        model(*inputs)
    return {"work": msgspec.to_builtins(counter.work)}, []
