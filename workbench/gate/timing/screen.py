"""A cheap check of outputs against eager's: only what fails it is compared with the fp64 answer.

Runs in reference workers only. It can pass outputs but not fail them: the others are compared in
full, by the correctness stage's rules, and only that can call an output wrong.
"""

from collections.abc import Callable, Sequence

import torch

from workbench.gate.correctness.compare import Rule
from workbench.gate.correctness.comparing import Answered
from workbench.gate.correctness.layout import same_bits

_NEAR = 2.0
"""Twice the rounding that is allowed around the fp64 answer: eager's output may lie on its other
side (ours)."""
_OWN = 4.0
"""Factor of eager's own error in the bound around the fp64 answer (gate protocol, 8)."""


class Screen:
    """Built from one call whose answers are known; other contents have the same distribution."""

    def __init__(
        self, known: Answered, rule: Callable[[torch.dtype], Rule], *, returns_only: bool
    ) -> None:
        self._rule = rule
        self._own = [
            _own_error(native, gold)
            for native, gold in zip(known.native.outputs, known.gold.outputs, strict=True)
        ]
        kept = zip(known.inputs, known.native.inputs, strict=True)
        self._returns_only = returns_only and all(same_bits(was, now) for was, now in kept)

    def passes(self, outputs: Sequence[torch.Tensor], eager: Sequence[torch.Tensor]) -> bool:
        """Whether all `outputs` are near `eager`, outputs of the same call. Integers must be equal.

        False where the reference changes its inputs or its state (not `returns_only`): then more
        than the outputs has to be compared.
        """
        if not self._returns_only or len(outputs) != len(eager) or len(eager) != len(self._own):
            return False
        pairs = zip(outputs, eager, self._own, strict=True)
        return all(self._near(got, native, own) for got, native, own in pairs)

    def _near(self, got: torch.Tensor, native: torch.Tensor, own: float) -> bool:
        if got.shape != native.shape or got.dtype != native.dtype:
            return False
        if not native.is_floating_point():
            return bool(torch.equal(got, native))
        if not native.numel():
            return True
        wide = torch.float64 if native.dtype is torch.float64 else torch.float32
        value, answer = got.to(wide), native.to(wide)
        rule = self._rule(native.dtype)
        scale = _NEAR * rule.factor * rule.eps
        rms = float(torch.linalg.vector_norm(answer, dtype=torch.float64)) / answer.numel() ** 0.5
        floor = scale * rms + (_OWN + 1) * own
        # NaN and infinity never count as near.
        return bool(((value - answer).abs() <= scale * answer.abs() + floor).all())


def _own_error(native: torch.Tensor, gold: torch.Tensor) -> float:
    """Eager's largest error of one output; 0 where it is exact or unknown."""
    if not native.is_floating_point() or not native.numel() or native.shape != gold.shape:
        return 0.0
    error = (native.double() - gold.double()).abs()
    return float(torch.where(torch.isfinite(error), error, 0.0).max())
