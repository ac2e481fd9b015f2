"""The reference at one shape: its weights, its native answers, and its answers in fp64."""

from collections.abc import Iterable, Mapping
from functools import partial

import torch
from torch import nn

from workbench.gate.correctness.candidate_job import forward, invoke
from workbench.gate.correctness.doubt import RUNS, Doubt, Sense
from workbench.gate.correctness.gold import (
    Answer,
    in_fp64,
    run_reference,
    state_of,
    wide_inputs,
    widened,
)
from workbench.gate.correctness.layout import copied
from workbench.gate.correctness.nest import Nest, rebuild
from workbench.gate.correctness.protocol import Reading
from workbench.gate.correctness.values import perturb_state
from workbench.gate.problem.code import build, draw, load, telling
from workbench.gate.timing.clock import Clock
from workbench.problems.module import reference_flags
from workbench.problems.records import Constant, Precision


class Oracle:
    """Computes answers. Each starts from `weights`, whatever earlier calls did to them.

    Raises `problem_code.ProblemRaised` for whatever the problem file raises.
    """

    def __init__(
        self,
        source: str,
        values: Mapping[str, Constant],
        *,
        seed: int,
        precision: Precision,
        device: str,
    ) -> None:
        self.device = device
        self.precision = precision
        self.module = load(source, values)
        self.model = build(self.module, seed, device)
        self._initial = {name: t.clone() for name, t in state_of(self.model).items()}
        self.weights = {name: t.clone() for name, t in self._initial.items()}
        self._wide: nn.Module | None = None
        self.why_not_fp64 = ""
        """Why the native answer replaces the fp64 one; empty when it does not."""

    def draw(self, seed: int) -> tuple[Nest, list[torch.Tensor]]:
        """`get_inputs()` from `seed`."""
        return draw(self.module, seed, self.device)

    def perturb(self, seed: int | None) -> None:
        """Move the weights away from their initial values, or back to them where seed is None."""
        _put(self.model, self._initial)
        state = state_of(self.model)
        if seed is not None:
            perturb_state(state, seed)
        self.weights = {name: t.clone() for name, t in state.items()}

    def native(self, nest: Nest, inputs: list[torch.Tensor]) -> Answer:
        """The reference as it runs, under the flags of its precision; `inputs` stay untouched."""
        _put(self.model, self.weights)
        with telling("the reference"), reference_flags(self.precision):
            return run_reference(
                self.model,
                [copied(t) for t in inputs],
                lambda given: invoke(self.model, rebuild(nest, given)),
            )

    def memory(self, nest: Nest, inputs: list[torch.Tensor]) -> tuple[int, int]:
        """GPU memory of one native call: its peak including inputs and weights, and its outputs;
        bytes.
        """
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        answer = self.native(nest, inputs)
        peak = torch.cuda.max_memory_allocated() - before
        return peak + _bytes(self.weights.values()), _bytes(answer.outputs)

    def timed(self, nest: Nest, inputs: list[torch.Tensor], clock: Clock, *, bare: bool) -> Reading:
        """One native call, timed; `inputs` stay unchanged."""
        _put(self.model, self.weights)
        given = rebuild(nest, [copied(t) for t in inputs])
        with telling("the reference"), reference_flags(self.precision):
            return clock.read(partial(forward, self.model, given), bare=bare)[1]

    def doubtful(self, nest: Nest, inputs: list[torch.Tensor], spacings: float) -> list[Answer]:
        """Native answers with every result perturbed by up to that many spacings of its dtype."""
        answers = []
        for turn in range(RUNS):
            with Doubt(turn, spacings):
                answers.append(self.native(nest, inputs))
        return answers

    def makes_sense(self, nest: Nest, inputs: list[torch.Tensor]) -> bool:
        """Whether the native run meets no NaN and converts no non-finite value to an integer."""
        sense = Sense()
        with sense:
            self.native(nest, inputs)
        return bool(sense.made)

    def gold(self, nest: Nest, inputs: list[torch.Tensor], native: Answer) -> Answer:
        """The reference in fp64; `native`, with a reason, where it cannot run in fp64."""
        if self.why_not_fp64:
            return native
        try:
            wide = self._wide if self._wide is not None else widened(self.model)
            _put(wide, self.weights)
            with in_fp64():
                gold = run_reference(
                    wide, wide_inputs(inputs), lambda given: invoke(wide, rebuild(nest, given))
                )
        except Exception as fault:  # noqa: BLE001 -- any reason: the native answer stands in
            self.why_not_fp64 = f"{type(fault).__name__}: {fault}"[:300]
            return native
        self._wide = wide
        if [t.shape for t in gold.outputs] != [t.shape for t in native.outputs]:
            self.why_not_fp64 = "its outputs have other shapes in float64"
            return native
        return gold


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _put(model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    for name, tensor in state_of(model).items():
        tensor.data.copy_(weights[name])
