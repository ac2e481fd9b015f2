"""How the outputs of one call are compared: directly, and once more where that finds a fault.

Runs in reference workers only. The second comparison costs runs of the reference, so it is made
only when the first one finds a fault: indices are judged by the values they select, and outputs
that rounding decides may have any value that other roundings of the reference give.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import cached_property

import torch
from msgspec import Struct, structs

from workbench.gate.correctness.choices import Choice, as_right, choice_behind, in_falling_order
from workbench.gate.correctness.choices import Operator as ChoiceOperator
from workbench.gate.correctness.compare import (
    Rule,
    Slack,
    exact,
    given_in,
    in_parts,
    measure,
    measure_equality,
    measure_special,
    moved,
    root_mean_square,
    scaled,
    share_given,
)
from workbench.gate.correctness.gold import Answer, nudged
from workbench.gate.correctness.layout import same_bits
from workbench.gate.correctness.lowbits import lowest_bit_is_lost
from workbench.gate.correctness.nest import Nest
from workbench.gate.correctness.oracle import Oracle
from workbench.gate.correctness.protocol import Measured
from workbench.problems.records import Selection

_RUNS_AGAIN = 4
"""Further runs of a reference that is not bitwise reproducible (ours)."""
_FLOAT_SHARE = 1 / 16
_EXACT_SHARE = 1 / 4
"""Share of C, in spacings, by which each result is perturbed in the second comparison (ours). An
integer is right or wrong by the last bit, so more is allowed for a kernel's order of summation."""


_NEAR_ONE = 16 * 2.0**-23
"""Four times what an exp2 and a division near one may round on a GPU, in fp32 (ours): a logarithm
of a sum that two terms share is rounded alike in all of them."""

_NUDGES = 4
"""Runs in fp64 on perturbed inputs, of two draws with either sign (ours): of two numbers that are
nearly equal, one sign makes the other the larger."""

_SMALLER = 4
"""How many times smaller the nudges are that tell whether an answer jumps (ours)."""


class Kind(Enum):
    """What the inputs of a call are to a comparison."""

    DRAWN = auto()
    """The problem's own `get_inputs` makes such."""
    CHANGED = auto()
    """A value case changed them."""
    ONES = auto()
    """Floating-point inputs are zeros and ones: some answers are then exact."""
    SPECIAL = auto()
    """They hold NaN or infinities: only where such come out is compared."""
    STRAINED = auto()
    """They may be more than the reference can answer for: that is looked at before any verdict."""


class Plain(Struct, frozen=True):
    """Inputs before they were multiplied by a factor."""

    inputs: list[torch.Tensor]
    factor: float


class Answered(Struct, frozen=True):
    """Inputs and answers of one call, as they were before anybody else saw them."""

    nest: Nest
    inputs: list[torch.Tensor]
    native: Answer
    gold: Answer
    kind: Kind = Kind.DRAWN
    plain: Plain | None = None
    """Of a call on shrunk inputs: those before."""
    whole: bool = True
    """Nothing in the outputs that are compared is the reference's own."""


class Comparison:
    """Compares one call's outputs with its answers."""

    def __init__(
        self,
        case: Answered,
        *,
        rule: Callable[[torch.dtype], Rule],
        selections: Sequence[Selection],
        oracle: Oracle,
    ) -> None:
        self._case = case
        self._rule = rule
        self._selections = {s.output: s for s in selections}
        self._oracle = oracle
        self._doubtful: dict[float, list[Answer]] = {}
        """Runs of the reference whose results are so many spacings off."""

    def measured(self, outputs: Sequence[torch.Tensor]) -> list[Measured]:
        """A measurement of each output, in order."""
        runs = (outputs, self._case.native.outputs, self._case.gold.outputs)
        got, own, wide = map(self._arranged, runs)
        return [self._one(i, got[i], wide[i], own[i]) for i in range(len(got))]

    def _one(
        self, place: int, got: torch.Tensor, gold: torch.Tensor, native: torch.Tensor
    ) -> Measured:
        selected = self._selected(place)
        found = self._exactly(place, got, gold, native, selected=selected)
        if found is None:
            found = self._within(place, got, gold, native, selected=selected)
        if self._case.kind is Kind.DRAWN:
            lost = found.right and lowest_bit_is_lost(got, gold, native)
            return structs.replace(found, fewer_bits=lost, selected=selected)
        return found

    def _exactly(
        self,
        place: int,
        got: torch.Tensor,
        gold: torch.Tensor,
        native: torch.Tensor,
        *,
        selected: bool,
    ) -> Measured | None:
        """A comparison without a bound, where the answer has no rounding in it."""
        what, kind = f"output {place}", self._case.kind
        if kind is Kind.SPECIAL:
            return measure_special(what, got, gold, native)
        if kind is Kind.ONES and native.is_floating_point() and exact(gold, native):
            return measure_equality(what, got, native)
        if native.is_floating_point() and selected:
            return measure_equality(
                what, got, native, native.abs() < torch.finfo(native.dtype).tiny
            )
        if kind is Kind.DRAWN and moved(gold, native, self._case.inputs):
            return self._unchanged(place, got, gold, native)
        return None

    def _within(
        self,
        place: int,
        got: torch.Tensor,
        gold: torch.Tensor,
        native: torch.Tensor,
        *,
        selected: bool,
    ) -> Measured:
        """A comparison within the bound, and within what the reference's own doubt allows."""
        what, rule, kind = f"output {place}", self._rule(native.dtype), self._case.kind
        measured = measure(what, got, gold, native, rule)
        slack = Slack()
        if measured.wrong_exact:
            slack = Slack(excused=self._as_right(place, got, native))
            measured = measure(what, got, gold, native, rule, slack)
        if kind is Kind.STRAINED and not measured.right and not selected:
            slack = self._response(place, gold, native, slack)
            measured = measure(what, got, gold, native, rule, slack)
        if slack.nothing or (measured.wrong_exact and self._senseless()):
            return Measured(what=what, dtype=measured.dtype)
        if self._case.plain is not None and not measured.right:
            slack = structs.replace(slack, spread=self._near_one(place, gold, self._case.plain))
            measured = measure(what, got, gold, native, rule, slack)
        if measured.right or measured.wrong_finite:
            return measured
        slack = self._slack(place, got, gold, native, slack)
        return measure(what, got, gold, native, rule, slack)

    def _selected(self, place: int) -> bool:
        """Whether an output is what an operator selects from numbers that stand in the inputs, or
        where: no rounding is on the way to it, whatever the inputs are.
        """
        made = self._case.native.choices
        number = self._behind(place)
        if number is None or not made[number].source.is_floating_point():
            return False
        return share_given(self._case.inputs, made[number].source) == 1.0

    def _behind(self, place: int) -> int | None:
        """The selection whose values or indices an output holds, in the order that they came in."""
        own = self._case.native
        output = own.outputs[place]
        return choice_behind(own.choices, output, values=output.is_floating_point())

    def _unchanged(
        self, place: int, got: torch.Tensor, gold: torch.Tensor, native: torch.Tensor
    ) -> Measured:
        """Compare numbers that the reference only moves: bit by bit, but for near ties."""
        measured = measure_equality(f"output {place}", got, native)
        if measured.right:
            return measured
        # What is computed on the way, as a function does that leaves positive numbers alone.
        computed = ~given_in(self._case.inputs, gold)
        rule, bounded = self._rule(native.dtype), torch.where(computed, got, native)
        found = measure(f"output {place}", bounded, gold, native, rule)
        if not found.right:
            return found
        slack = self._slack(place, got, gold, native, Slack(excused=computed))
        return measure_equality(f"output {place}", got, native, slack.excused)

    def _near_one(self, place: int, gold: torch.Tensor, plain: Plain) -> float:
        """What rounding of numbers near one may make of an answer to small inputs: of exp(x) - 1,
        say, or 2 sigmoid(2x) - 1. Nothing where the reference only scales.
        """
        native = self._oracle.native(self._case.nest, plain.inputs)
        answer = self._oracle.gold(self._case.nest, plain.inputs, native)
        usual = self._arranged(answer.outputs)[place]
        if not (gold.is_floating_point() and usual.shape == gold.shape):
            return 0.0
        finite = torch.isfinite(usual) & torch.isfinite(gold)
        gold, usual = gold[finite], usual[finite]
        if not usual.numel() or scaled(gold, usual, plain.factor):
            return 0.0
        return _NEAR_ONE / 4 * root_mean_square(usual)  # of which 4 are allowed

    def _response(
        self, place: int, gold: torch.Tensor, native: torch.Tensor, known: Slack
    ) -> Slack:
        """What inputs that are C spacings off make of the answer; four times that where spacings
        are coarser than fp32's, whose C is 16 times as large. Nothing is compared where the
        reference is not a measure: it is not finite, or its own error, also with its results
        rounded otherwise, is larger.

        A kernel whose error is that of inputs so near is backward stable (Higham, Accuracy and
        Stability of Numerical Algorithms, 1.5); no more can be asked of one. A reference whose
        results cancel is less stable than that.
        """
        runs = (self._case.native.outputs, self._case.gold.outputs)
        if not all(bool(torch.isfinite(one).all()) for outputs in runs for one in outputs):
            return Slack(nothing=True)
        rule, excused, apart = self._rule(native.dtype), known.excused, 0.0
        size = rule.factor * rule.eps
        others = [self._nudged(place, (-1) ** n * size, n // 2) for n in range(_NUDGES)]
        if native.is_floating_point():
            apart = self._apart(place, gold, others, size)
        else:
            flips = torch.stack([other.to(native.dtype) != native for other in others]).any(dim=0)
            excused = flips if excused is None else excused | flips
        share = 1.0 if rule.eps > torch.finfo(torch.float32).eps else 1 / 4
        slack = Slack(excused=excused, spread=share * apart)  # of which 4 are allowed
        ideal = gold.to(native.dtype)
        rounded = self._rounded_otherwise(place, native)
        own = (native, *(one for one in rounded if one.shape == native.shape))
        if not native.is_floating_point() or all(
            measure("", one, gold, ideal, rule, slack).right for one in own
        ):
            return slack
        return Slack(nothing=True)

    def _apart(
        self, place: int, gold: torch.Tensor, others: Sequence[torch.Tensor], size: float
    ) -> float:
        """How far nudged inputs move the answer; twice what was seen where it does not move in
        proportion to them: there it jumps, and few draws need not have met the largest jump.
        """

        def most(outputs: Sequence[torch.Tensor]) -> float:
            return max(float((one.double() - gold.double()).abs().max()) for one in outputs)

        whole = most(others)
        part = most([self._nudged(place, sign * size / _SMALLER, 0) for sign in (1, -1)])
        in_proportion = _SMALLER / 2 * part <= whole <= 2 * _SMALLER * part
        return whole if in_proportion else 2 * whole

    def _nudged(self, place: int, size: float, draw: int) -> torch.Tensor:
        """The fp64 answer to inputs that are off by a share of themselves."""
        inputs = nudged(self._case.inputs, size, draw)
        again = self._oracle.gold(self._case.nest, inputs, self._case.native)
        return self._arranged(again.outputs)[place]

    def _rounded_otherwise(self, place: int, native: torch.Tensor) -> list[torch.Tensor]:
        """The reference's output where each of its results is some spacings off."""
        share = _FLOAT_SHARE if native.is_floating_point() else _EXACT_SHARE
        spacings = max(1.0, share * self._rule(native.dtype).factor)
        if spacings not in self._doubtful:
            runs = self._oracle.doubtful(self._case.nest, self._case.inputs, spacings)
            self._doubtful[spacings] = runs
        return [self._arranged(run.outputs)[place] for run in self._doubtful[spacings]]

    def _senseless(self) -> bool:
        """Integers converted from NaN or infinity, whose value is undefined."""
        if self._case.kind is Kind.DRAWN:
            return False
        return not self._oracle.makes_sense(self._case.nest, self._case.inputs)

    def _slack(
        self,
        place: int,
        got: torch.Tensor,
        gold: torch.Tensor,
        native: torch.Tensor,
        known: Slack,
    ) -> Slack:
        """What further runs of the reference allow, with other roundings or simply repeated."""
        spread = max(known.spread, self._spread(place, gold, native))
        answers = [gold.double()]
        answers += [one.double() for one in self._rounded_otherwise(place, native)]
        if any(a.shape != native.shape for a in answers):
            return Slack(excused=known.excused, spread=spread)
        stacked = torch.stack([native.double(), *answers])
        among = (stacked == got.double()).any(dim=0)
        excused = among if known.excused is None else known.excused | among
        return Slack(
            excused=excused, seen=(stacked.amin(dim=0), stacked.amax(dim=0)), spread=spread
        )

    def _spread(self, place: int, gold: torch.Tensor, native: torch.Tensor) -> float:
        """The largest error over further runs of the reference; 0 where they are bitwise equal.

        Atomic updates come in any order: a kernel may be as far off as any run of the reference.
        """
        worst = 0.0
        for _ in range(_RUNS_AGAIN if native.is_floating_point() else 0):
            again = self._oracle.native(self._case.nest, self._case.inputs)
            other = self._arranged(again.outputs)[place]
            if same_bits(other, native):
                break
            error = (other.double() - gold.double()).abs()
            worst = max(worst, float(torch.where(torch.isfinite(error), error, 0.0).max()))
        return worst

    def _as_right(self, place: int, got: torch.Tensor, native: torch.Tensor) -> torch.Tensor | None:
        """Which indices that differ from the reference's are equally right; None: there are no
        indices.
        """
        if place in self._selections:
            selection = self._selections[place]
            source = self._case.inputs[selection.input].movedim(selection.dim, -1)
            many = ChoiceOperator(many=True, first=False, values=0, places=1)
            dim = selection.dim % native.dim()
            choice = Choice(many, source, native, None, dim, sorted=True)
            return as_right(choice, source.double(), got, native, 0.0, whole=self._case.whole)
        number = None if native.is_floating_point() else self._behind(place)
        if number is None:
            return None
        choice = self._case.native.choices[number]
        exact, tolerance = self._exact_source(number)
        return as_right(choice, exact, got, native, tolerance, whole=self._case.whole)

    def _exact_source(self, number: int) -> tuple[torch.Tensor, float]:
        """What a selection selected from in fp64, and how far rounding may move its elements."""
        own, gold = self._case.native.choices, self._case.gold.choices
        source = own[number].source
        exact = source.double()
        if len(gold) == len(own) and gold[number].source.shape == source.shape:
            exact = gold[number].source.double()
        apart = float((source.double() - exact).abs().max()) if source.numel() else 0.0
        if apart == 0.0 or not source.is_floating_point():
            return exact, 0.0
        rule = self._rule(source.dtype)
        rms = float(exact.square().mean().sqrt())
        return exact, max(rule.factor * rule.eps * 2 * rms, 4 * apart)

    def _arranged(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """A run's outputs: of complex numbers both parts, what has no defined order in descending
        order.
        """
        arranged = [in_parts(one) for one in outputs]
        for choice, at, named in self._unordered:
            if arranged[at].numel() != choice.places.numel():
                continue
            places = None if named is None else arranged[named]
            arranged[at], moved = in_falling_order(choice, arranged[at], places)
            if named is not None and moved is not None:
                arranged[named] = moved
        return arranged

    @cached_property
    def _unordered(self) -> list[tuple[Choice, int, int | None]]:
        """Selections without a defined order: the output of their values, and of their indices."""
        native, found = self._case.native, []
        for number, choice in enumerate(native.choices):
            if choice.sorted:
                continue
            at = {
                values: place
                for place, output in enumerate(native.outputs)
                for values in (True, False)
                if choice_behind(native.choices, output, values=values) == number
            }
            if True in at:
                found.append((choice, at[True], at.get(False)))
        return found
