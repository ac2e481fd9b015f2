"""Which outputs are decided by rounding or by non-finite values, shown by further runs.

Runs in reference workers only. Monte Carlo arithmetic (Parker, 1997): the reference is run again
with every result perturbed by a random part of a spacing. An output that jumps between such runs (a
threshold, a rounding to integers, a near tie) is decided by rounding, and any value between those
seen is as right as the reference's.
"""

from collections.abc import Callable

import torch

from workbench.kernels.operators import OperatorMode

RUNS = 8
"""Runs of the reference (ours): an output that flips in half of them is missed once in 128
times."""

_EXACT = frozenset(
    {
        "abs", "alias", "amax", "amin", "as_strided", "bitwise_not", "cat", "ceil", "clamp",
        "clamp_max", "clamp_min", "clone", "copy", "cummax", "cummin", "detach", "diag_embed",
        "diagonal", "embedding", "empty", "empty_like", "expand", "fill", "flip", "floor", "full",
        "full_like", "gather", "index", "index_select", "lift_fresh", "masked_fill", "max",
        "maximum", "min", "minimum", "neg", "ones", "ones_like", "relu", "repeat", "roll", "round",
        "scalar_tensor", "scatter", "select", "sign", "slice", "sort", "split", "squeeze", "stack",
        "topk", "transpose", "tril", "triu", "trunc", "unsqueeze", "view", "where", "zeros",
        "zeros_like", "_unsafe_view",
    }
)  # fmt: skip
"""Operators that only move, select or round their inputs: they add no error of their own."""


class Doubt(OperatorMode):
    """Perturbs every rounded result by up to `spacings` of its dtype, drawn from `seed`."""

    def __init__(self, seed: int, spacings: float) -> None:
        super().__init__()
        self._seed = seed
        self._spacings = spacings
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        out = func(*args, **(kwargs or {}))
        name = str(getattr(func, "overloadpacket", func)).removeprefix("aten.")
        in_place = name.endswith("_") and not name.endswith("__")
        if in_place or name in _EXACT or getattr(func, "is_view", False):
            return out
        if isinstance(out, tuple | list):
            return tuple(self._moved(item) for item in out)
        return self._moved(out)

    def _moved(self, result: object) -> object:
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return result
        generator = self._generators.get(result.device)
        if generator is None:
            generator = torch.Generator(result.device).manual_seed(self._seed)
            self._generators[result.device] = generator
        step = self._spacings * torch.finfo(result.dtype).eps
        noise = torch.rand(
            result.shape, generator=generator, dtype=torch.float64, device=result.device
        )
        return (result.double() * (1 + step * (2 * noise - 1))).to(result.dtype)


class Sense(OperatorMode):
    """Whether the body's results are meaningful: no NaN, no integer converted from a non-finite
    value.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made: bool = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # As above.
        return False

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        out = func(*args, **(kwargs or {}))
        name = str(getattr(func, "overloadpacket", func)).removeprefix("aten.")
        if self.made and "empty" not in name:
            results = out if isinstance(out, tuple | list) else (out,)
            self.made = not any(_is_nan(result) for result in results)
        if self.made and name == "_to_copy" and isinstance(out, torch.Tensor):
            source = args[0]
            floats = isinstance(source, torch.Tensor) and source.is_floating_point()
            if floats and not out.is_floating_point() and out.dtype is not torch.bool:
                self.made = bool(torch.isfinite(source).all())  # type: ignore[arg-type]  # a tensor
        return out


def _is_nan(result: object) -> bool:
    floats = isinstance(result, torch.Tensor) and result.is_floating_point()
    return floats and bool(torch.isnan(result).any())  # type: ignore[arg-type]  # a tensor
