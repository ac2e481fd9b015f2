"""One shape of the correctness stage: its calls, the ghost call, the repeats, the final check."""

import time
from collections.abc import Callable, Sequence

from msgspec import structs

from workbench.gate.correctness.asking import Ended, blame
from workbench.gate.correctness.beside import Beside
from workbench.gate.correctness.cases import (
    Call,
    Case,
    Poison,
    TrialSettings,
    derive,
    plan,
)
from workbench.gate.correctness.dialogue import Dialogue
from workbench.gate.correctness.numbers import check_numbers, elements, margin
from workbench.gate.correctness.protocol import (
    Compared,
    Made,
    Mode,
    OpenReference,
    Raised,
    Returned,
    RunCall,
)
from workbench.gate.correctness.raising import explain
from workbench.gate.correctness.structure import check_state, check_structure
from workbench.gate.correctness.verdicts import (
    NEEDS,
    NUMERIC,
    Wrong,
    cannot,
    check_operators,
    counts,
)
from workbench.gate.records import Blame, Evidence, Finding
from workbench.isolation.wire import Blob
from workbench.kernels.records import Way

INTERPRETER_BYTES = 64 << 20
"""Inputs, outputs and state of a shape that is interpreted at most (ours): minutes."""

_CERTAIN_BYTES = 1 << 20
"""Up to this size a call that does not end is the candidate's fault, not the interpreter's (ours).
"""

_EQUAL_CALLS = 3
"""After which a workspace that changes from call to call was the same twice (ours): it may be
used in turns."""

MOST_CONFIGS = 24
"""Configurations of an autotuned kernel that are run (ours)."""


class Trial:
    """Tries a candidate at one shape. `calls`, `worst` and `compared` say how far it got."""

    def __init__(
        self, dialogue: Dialogue, settings: TrialSettings, told: Callable[[int, int], None]
    ) -> None:
        self._dialogue = dialogue
        self.settings = settings
        self.shape = settings.shape
        self._told = told
        self._held: list[tuple[int, Made, Returned]] = []
        self.calls = 0
        self.worst = 0.0
        """The worst error divided by its bound."""
        self.compared = 0
        """Elements that were compared within a bound or for equality."""
        self._called = 0.0
        self._planned = 1
        self._bytes = 0
        self._configs = 1
        self._counting = ""
        self._undecided = False
        self._kept = ""
        self.float_inputs = True
        """Value cases apply."""
        self.whole_inputs = False
        """Some inputs are integers."""
        self.selected = False
        """The reference selects numbers of its inputs."""
        self.notes: list[Finding] = []
        """Findings that are not held against the candidate."""
        self.ways: tuple[Way, ...] = ()
        """Branches on loaded values that always had the same outcome."""
        self._device = "cpu" if settings.interpreted else "cuda:0"

    def run(self, problem: OpenReference, source: str) -> None:
        """Make every call. Raises Wrong at the first that is wrong, Ended when a worker is lost."""
        # How many calls a plan has does not depend on what is not yet known about the inputs.
        most = self._plan(floats=True)
        reference, opened = self._dialogue.open(
            problem, source, self.settings, held_calls=len(most)
        )
        if opened.raised is not None:
            raise Wrong([self._explain(opened.raised, "building ModelNew")])
        findings = check_state(reference.state, opened.state)
        if findings:
            raise Wrong(findings)
        self._dialogue.put_weights(self._number("weights"))
        calls = self._plan(floats=reference.float_inputs)
        self.float_inputs = reference.float_inputs
        repeats = self.settings.repeats
        total = self._planned = len(calls) + self.settings.ghost + repeats
        for call in calls:
            self._checked(call)
            self._told(self.calls, total)
        if self.settings.ghost:
            self._ghost(calls[-1].number + 1)
            self._told(self.calls, total)
        self._repeated(calls[-1].number + 2, repeats)
        self._other_configs(calls[-1].number + 3)
        beside = Beside(self, calls[-1].number + 4)
        beside.strained()
        beside.crowded()
        beside.far_out()
        self._called_on(calls[-1].number + 5)
        self._told(total, total)
        self._held_outputs()
        if self._counting:
            raise Wrong([self._with(counts(self._counting), {})])
        beside.specials()

    def _plan(self, *, floats: bool) -> tuple[Call, ...]:
        settings = self.settings
        return plan(
            settings.seed, settings.shape, settings.effort, floats=floats, layouts=settings.layouts
        )

    def _checked(self, call: Call) -> None:
        """One call of the plan, compared with its answer."""
        if call.perturb is not None or call.as_built:
            self._dialogue.put_weights(call.perturb)
        made, inputs = self._dialogue.draw(call)
        if not self._held:
            self._check_size(made)
            self.whole_inputs = any(e.dtype.lstrip("u").startswith("int") for e in made.entries)
        message = RunCall(
            inputs=made.inputs,
            same_storage=call.same_storage,
            poison=call.poison,
            watched=call.watched,
            reset_state=made.changes_state,
        )
        returned, compared = self._judged(call, message, made, inputs, keep=True)
        if not self._held and not elements(compared):
            says = "the reference gives nothing finite to compare with on its own inputs"
            raise Wrong([self.placed(cannot(says, Blame.PROBLEM), call)])
        self._held.append((call.number, made, returned))

    def _check_size(self, made: Made) -> None:
        """Refuse to interpret a shape that would take hours."""
        moved = [*made.entries, *(e.entry for e in made.expected)]
        self._bytes = sum(entry.bytes for entry in moved)
        if self.settings.interpreted and self._bytes > INTERPRETER_BYTES:
            says = f"{self._bytes >> 20} MiB are too much for the interpreter"
            raise Wrong([self._with(cannot(says, Blame.MACHINE, needs=NEEDS), {})])

    def _run(self, message: RunCall, inputs: Sequence[Blob]) -> tuple[Returned, Sequence[Blob]]:
        left = self._left()
        began = time.monotonic()
        try:
            return self._dialogue.run(message, inputs, seconds=left)
        except Ended as end:
            slow = self.settings.interpreted and self._bytes > _CERTAIN_BYTES
            if slow and end.finding.code == "correctness.timed-out":
                says = f"{end.finding.says} in the interpreter, which may just be slow here"
                raise Ended(cannot(says, Blame.MACHINE, needs=NEEDS)) from end
            raise
        finally:
            self.calls += 1
            self._called += time.monotonic() - began

    @property
    def pace(self) -> float:
        """Seconds of one call of the candidate, on average."""
        return self._called / max(self.calls, 1)

    def _left(self) -> float | None:
        """Seconds for the next call. Raises Ended where the remaining calls will take longer."""
        patience = self.settings.patience
        if patience is None:
            return None
        left = patience - self._called
        if self.pace * (self._planned - self.calls) > left:
            says = f"{self._planned} calls would take more than {patience:.0f} s"
            raise Ended(blame("timed-out", says, seconds=patience))
        return left

    def _note(self, returned: Returned) -> None:
        """Record what the candidate's worker reports of a call besides its outputs."""
        self._configs = max(self._configs, returned.configs)
        self._undecided = returned.undecided
        if self.settings.interpreted:
            self._counting = self._counting or returned.counting
            self._kept = returned.kept
            self.ways = returned.ways

    def _judged(
        self, call: Call, message: RunCall, made: Made, inputs: Sequence[Blob], *, keep: bool
    ) -> tuple[Returned, Compared]:
        returned, blobs = self._run(message, inputs)
        self._note(returned)
        if returned.raised is not None:
            raise Wrong([self.placed(self._explain(returned.raised, "forward"), call)])
        findings = check_structure(made, returned, blobs, self._device) + check_operators(
            returned.operators
        )
        if findings:
            raise Wrong([self.placed(finding, call) for finding in findings])
        compared = self._dialogue.compare(call.number, made, returned, blobs, keep=keep)
        self.worst = max(self.worst, margin(compared))
        self.compared += elements(compared)
        self.selected |= any(one.selected for one in compared.measured)
        findings = check_numbers(compared)
        if findings:
            raise Wrong([self.placed(finding, call) for finding in findings])
        return returned, compared

    def _ghost(self, number: int) -> None:
        """Make the launches no-ops: if the answer is still right, the kernels do not compute it."""
        call = self.further(number, "ghost", Poison.NAN)
        made, inputs = self._dialogue.draw(call)
        message = structs.replace(_unplanned(call, made), mode=Mode.GHOST)
        returned, blobs = self._run(message, inputs)
        if returned.raised is not None or check_structure(made, returned, blobs, self._device):
            return
        compared = self._dialogue.compare(number, made, returned, blobs, keep=False)
        if elements(compared) and not check_numbers(compared):
            says = "the answer is right although no kernel ran: the kernels do not compute it"
            finding = Finding(code="correctness.kernels-are-decoys", says=says)
            raise Wrong([self.placed(finding, call)])

    def _repeated(self, number: int, times: int) -> None:
        """Run on identical inputs; in the interpreter with the programs apart from each other."""
        if not times:
            return
        call = self.further(number, "repeats", Poison.PATTERN)
        made, inputs = self._dialogue.draw(call)
        for turn in range(times):
            message = structs.replace(
                _unplanned(call, made),
                same_storage=call.same_storage or turn > 0,
                mode=Mode.APART if self.settings.interpreted else Mode.PLAIN,
                order_seed=self._number("order", turn),
            )
            try:
                self._judged(call, message, made, inputs, keep=False)
            except Wrong as wrong:
                raise Wrong([self._as_race(finding, turn) for finding in wrong.findings]) from wrong

    def _other_configs(self, number: int) -> None:
        """Run autotuned kernels in every other configuration: a GPU may pick any of them."""
        if not self.settings.interpreted or self._configs == 1:
            return
        for config in range(1, min(self._configs, MOST_CONFIGS)):
            call = self.further(number, "configs", Poison.NAN)
            made, inputs = self._dialogue.draw(call)
            message = structs.replace(_unplanned(call, made), config=config)
            try:
                self._judged(call, message, made, inputs, keep=False)
            except Wrong as wrong:
                found = [self._with(f, {"configuration": config}) for f in wrong.findings]
                raise Wrong(found) from wrong

    def plainly(self, call: Call) -> None:
        """One call outside of the plan, compared with its answer, if the reference has one."""
        try:
            made, inputs = self._dialogue.draw(call)
        except Ended as end:
            if call.case is Case.FRESH or end.finding.blame is not Blame.PROBLEM:
                raise
            return
        worst = self.worst
        self._judged(call, _unplanned(call, made), made, inputs, keep=False)
        self.worst = worst if call.case is not Case.FRESH else self.worst

    def _called_on(self, number: int) -> None:
        """Call on with the same tensors, so that addresses are no news, till a counter shows."""
        if not (self._undecided or self._kept):
            return
        call = self.further(number, "equal calls", Poison.PATTERN)
        made, inputs = self._dialogue.draw(call)
        kept: list[str] = []
        counting = ""
        while len(kept) < _EQUAL_CALLS or (self._undecided and not counting):
            message = structs.replace(_unplanned(call, made), same_storage=bool(kept))
            returned, _ = self._judged(call, message, made, inputs, keep=False)
            kept.append(self._kept)
            counting = returned.counting
        if self._kept and len({*kept[:_EQUAL_CALLS]}) == _EQUAL_CALLS:
            counting = counting or "a tensor that it keeps"
        self._counting = self._counting or counting

    @property
    def skipped_configs(self) -> int:
        """Configurations of an autotuner that were never run."""
        return max(self._configs - MOST_CONFIGS, 0) if self.settings.interpreted else 0

    def _as_race(self, finding: Finding, turn: int) -> Finding:
        if finding.code not in NUMERIC:
            return finding
        how = "with programs that run at the same time" if self.settings.interpreted else "repeated"
        return structs.replace(
            finding,
            code="correctness.race",
            says=f"right before, but wrong {how}: {finding.says}",
            evidence={**finding.evidence, "repeat": turn},
        )

    def _held_outputs(self) -> None:
        """Check that outputs of earlier calls are bitwise unchanged since they were returned."""
        for held, (number, made, returned) in enumerate(self._held):
            changed = self._dialogue.recheck(number, held, made, returned).changed
            if changed:
                says = f"{changed[0]} of an earlier call changed when later calls were made"
                finding = Finding(code="correctness.output-overwritten", says=says)
                raise Wrong([self._with(finding, {"call": number})])

    def further(self, number: int, what: str, poison: Poison) -> Call:
        """A fresh call that is not in the plan."""
        return Call(
            number=number,
            case=Case.FRESH,
            seed=self._number(what),
            same_storage=bool(self._number(what, "storage") % 2),
            poison=poison,
            watched=False,
        )

    def _number(self, *labels: str | int) -> int:
        return derive(self.settings.seed, self.settings.shape, *labels)

    def _explain(self, raised: Raised, doing: str) -> Finding:
        return explain(raised, doing, self._dialogue.device_use)

    def placed(self, finding: Finding, call: Call) -> Finding:
        """The finding with its case, shape and seed."""
        case = f"{call.case}, {call.layout}" if call.layout else str(call.case)
        evidence: Evidence = {"case": case, "call": call.number}
        return self._with(finding, evidence)

    def _with(self, finding: Finding, evidence: Evidence) -> Finding:
        place: Evidence = {"shape": self.settings.shape, "seed": self.settings.seed.hex()}
        return structs.replace(finding, evidence={**finding.evidence, **evidence, **place})


def _unplanned(call: Call, made: Made) -> RunCall:
    """A call that is compared immediately: neither watched nor held for the final check."""
    return RunCall(
        inputs=made.inputs,
        same_storage=call.same_storage,
        poison=call.poison,
        watched=False,
        reset_state=made.changes_state,
        hold=False,
    )
