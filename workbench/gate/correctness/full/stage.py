"""The full shape without a GPU: a secret sample of programs, compared with the reference.

The interpreter cannot run the shape whose speed counts, but it can run some of its programs on the
judge's numbers, and the reference can be worked out where those programs stored. What cannot be
compared is said, and proves nothing.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.gate.background import StartsWorkers
from workbench.gate.correctness.asking import Ended, ask_reference
from workbench.gate.correctness.cases import derive
from workbench.gate.correctness.full.doubts import doubts, placed
from workbench.gate.correctness.full.looks import FullLook, Setting
from workbench.gate.correctness.full.protocol import (
    ComparedStored,
    CompareStored,
    Prepare,
    Prepared,
    TracedFull,
    TraceFull,
)
from workbench.gate.correctness.full.whole import (
    RUN_ALL,
    affordable,
    crowded_look,
    whole_look,
    whole_numbers,
)
from workbench.gate.correctness.numbers import check_numbers, margin
from workbench.gate.correctness.protocol import (
    Compared,
    Expected,
    Made,
    Returned,
    decode,
    encode,
)
from workbench.gate.correctness.structure import check_structure
from workbench.gate.problem.records import ProblemReport, ShapeReport
from workbench.gate.records import Blame, Evidence, Finding
from workbench.gate.specs import NoSpec, init_specs, input_specs
from workbench.isolation.outcome import JobFailed, WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.wire import Blob
from workbench.isolation.worker import Worker
from workbench.kernels.requests import TraceRequest
from workbench.problems.records import Problem

__all__ = ["JOB_MODULES", "FullLook", "Setting", "look"]

JOB_MODULES = (
    "workbench.gate.correctness.full.reference_job",
    "workbench.gate.correctness.full.candidate_job",
)
"""Modules to preload in a workshop's forkservers."""

_REFERENCE = "workbench.gate.correctness.full.reference_job"
_CANDIDATE = "workbench.gate.correctness.full.candidate_job"
_SECONDS = 90.0
_LIMITS = Limits(wall_seconds=_SECONDS, memory_bytes=16 << 30)  # reserved memory counts too
_REFERENCE_LIMITS = Limits(memory_bytes=16 << 30)
_FEW, _FEW_WORK = 3, 4_000_000
"""Programs of each launch in a further configuration, and their work (ours): about 1 s each."""
_MOST_STATE = 1 << 30
"""Bytes of weights that the reference's worker makes for real (ours); twice that in fp64."""


class HasSource(Protocol):
    """A candidate, as far as this stage looks at it."""

    @property
    def source(self) -> str:
        """Text of the candidate's file."""


def look(
    candidate: HasSource,
    problem: Problem,
    facts: ProblemReport,
    setting: Setting,
    workshop: StartsWorkers,
) -> FullLook:
    """Compare what a sample of programs stores at the full shape with the reference's values.

    Nothing to do where the full shape is the smallest. Never raises for what a candidate or a
    problem does; WorkbenchError when no worker starts.
    """
    full = facts.full
    if full.shape == facts.shapes[0].shape:
        return FullLook()
    seed = derive(setting.seed, full.shape, "full")
    try:
        prepare = _preparing(problem, full, seed)
        request = TraceRequest(
            source=candidate.source,
            target=setting.target,
            init=init_specs(full),
            inputs=input_specs(full),
            configs=setting.configs,
            builds=setting.builds,
            sample_seed=derive(setting.seed, full.shape, "programs"),
        )
    except NoSpec as reason:
        return _not_compared(full, str(reason))
    with workshop.worker(Flavor.REFERENCE, _REFERENCE_LIMITS) as reference:
        try:
            return _looked(reference, workshop, prepare, request, full, setting)
        except (Ended, WorkbenchError) as fault:
            return _not_compared(full, str(fault))


def _looked(
    reference: Worker,
    workshop: StartsWorkers,
    prepare: Prepare,
    request: TraceRequest,
    full: ShapeReport,
    setting: Setting,
) -> FullLook:
    """Ask the reference for contents, then about what the candidate stores in its configurations.

    The first is looked at in full, of the others few programs each: they are not what is traced.
    """
    comparing = _Comparing(reference, workshop, prepare, full, setting)
    if comparing.why_not:
        return _not_compared(full, comparing.why_not)
    first = comparing.of(request)
    few = structs.replace(request, sample=_FEW, work=_FEW_WORK)
    others = [structs.replace(few, configs=c) for c in setting.others()]
    all_of_it = structs.replace(request, **RUN_ALL)
    whole = whole_look(first, comparing.of, all_of_it)
    if whole is not None:
        first = whole
        count = affordable(first.traced)
        others = [structs.replace(c, **RUN_ALL) for c in others[:count]]
    if first.findings or not first.evidence.get("elements"):
        return first
    look = _likewise(first, others, comparing.of)
    if whole is None or look.findings or not whole_numbers(full):
        return look
    prepare = structs.replace(prepare, crowded=True)
    comparing = _Comparing(reference, workshop, prepare, full, setting)
    return look if comparing.why_not else crowded_look(look, comparing.of, all_of_it)


class _Comparing:
    """Contents of the full shape, and what a candidate makes of them."""

    def __init__(
        self,
        reference: Worker,
        workshop: StartsWorkers,
        prepare: Prepare,
        full: ShapeReport,
        setting: Setting,
    ) -> None:
        """Have the contents made. Raises Ended where the reference fails."""
        self._reference, self._workshop = reference, workshop
        self._full, self._seed = full, setting.seed
        reply = ask_reference(reference, f"{_REFERENCE}:prepare", prepare)
        self._prepared, self._chunks = decode(reply.body, Prepared), reply.blobs

    @property
    def why_not(self) -> str:
        """Why nothing can be compared; empty where something can."""
        return self._prepared.why_not

    def of(self, asked: TraceRequest) -> FullLook:
        """Run a candidate's programs and compare what they store."""
        told = _told(self._workshop, asked, self._prepared, self._chunks, self._full)
        if isinstance(told, FullLook):
            return told
        answer, blobs = told
        wrong = _wrong_structure(self._full, self._prepared, answer, self._seed)
        if wrong:
            return FullLook(findings=tuple(wrong[:1]), traced=answer.traced)
        stored = CompareStored(groups=answer.groups)
        said = ask_reference(self._reference, f"{_REFERENCE}:compare", stored, blobs)
        return _judged(self._full, answer, decode(said.body, ComparedStored), self._seed)


def _likewise(
    first: FullLook, others: Sequence[TraceRequest], of: Callable[[TraceRequest], FullLook]
) -> FullLook:
    """The first look, with what the other configurations are found guilty of."""
    count, until = 0, time.monotonic() + _SECONDS
    for asked in others:
        if time.monotonic() > until:
            break
        other = of(asked)
        if other.findings:
            found = tuple(_in(asked.configs, finding) for finding in other.findings)
            return structs.replace(first, findings=found)
        count += bool(other.evidence.get("elements"))
    if not others:
        return first
    says = f"{first.says}; the same in {count} of {len(others)} other configurations"
    evidence: Evidence = {**first.evidence, "configurations": count, "of": len(others)}
    return structs.replace(first, says=says, evidence=evidence)


def _in(configs: Mapping[str, int], finding: Finding) -> Finding:
    named = ", ".join(f"{index} of {kernel}" for kernel, index in configs.items())
    says = f"in configuration {named}: {finding.says}"
    return structs.replace(
        finding, says=says, evidence={**finding.evidence, "configuration": named}
    )


def _preparing(problem: Problem, full: ShapeReport, seed: int) -> Prepare:
    """What the reference's worker has to know. Raises NoSpec where it could not do its part."""
    if full.inputs is None or full.outputs is None:
        raise NoSpec(full.unseen or "the reference was not seen there")
    if sum(entry.bytes for entry in full.state) > _MOST_STATE:
        raise NoSpec("its weights are too large to be made here")
    return Prepare(
        source=problem.source,
        small=problem.tiny.values,
        full=problem.full.values,
        seed=seed,
        precision=problem.precision,
        tolerance=problem.tolerance,
        selections=problem.selections,
        inputs=full.inputs,
        input_entries=full.input_entries,
        state=full.state,
        output_entries=full.output_entries,
        flops=sum(one.matrix_flops for one in full.operators),
    )


def _told(
    workshop: StartsWorkers,
    request: TraceRequest,
    prepared: Prepared,
    chunks: Sequence[Blob],
    full: ShapeReport,
) -> tuple[TracedFull, list[Blob]] | FullLook:
    """What the candidate's worker traced and stored, or what there is to say without it."""
    message = TraceFull(
        request=request, inputs=len(chunks) - len(prepared.state), state=prepared.state
    )
    with workshop.worker(Flavor.INTERPRET, _LIMITS) as worker:
        try:
            reply = worker.call(f"{_CANDIDATE}:trace", encode(message), chunks)
            answer = decode(reply.body, TracedFull)
        except JobFailed as fault:
            # On other numbers, without books, it may well be traced: the profile tries.
            return _not_compared(full, fault.message)
        except (WorkerFault, msgspec.ValidationError, WorkbenchError) as fault:
            says = f"its launches at shape {full.shape} cannot be traced: {fault}"
            finding = Finding(code="profile.cannot-trace", says=says, blame=Blame.MACHINE)
            return structs.replace(_not_compared(full, str(fault)), traced=finding)
    answer = structs.replace(answer, traced=structs.replace(answer.traced, compared=False))
    if answer.traced.fault is not None:
        return structs.replace(_not_compared(full, answer.traced.fault.what), traced=answer.traced)
    return answer, list(reply.blobs)


def _wrong_structure(
    full: ShapeReport, prepared: Prepared, answer: TracedFull, seed: bytes
) -> list[Finding]:
    """Shapes, dtypes and overlaps of what came back, against the reference's on meta tensors."""
    if full.inputs is None or full.outputs is None:
        return []
    made = Made(
        inputs=full.inputs,
        entries=full.input_entries,
        outputs=full.outputs,
        expected=tuple(
            Expected(entry=entry, aliased=aliased)
            for entry, aliased in zip(full.output_entries, prepared.aliased, strict=True)
        ),
        changes_state=False,
        fp64=False,
    )
    entries = [facts.entry for facts in answer.facts]
    blobs = [Blob(dtype=e.dtype, shape=e.shape, strides=e.strides, data=b"") for e in entries]
    returned = Returned(outputs=answer.outputs, facts=answer.facts)
    return [placed(f, full, seed) for f in check_structure(made, returned, blobs, "cpu")]


def _judged(
    full: ShapeReport, answer: TracedFull, compared: ComparedStored, seed: bytes
) -> FullLook:
    found = Compared(measured=compared.measured)
    findings = [placed(finding, full, seed) for finding in check_numbers(found)]
    whole = sum(math.prod(entry.shape) for entry in full.output_entries)
    count = sum(compared.elements)
    worst = margin(found)
    evidence: Evidence = {
        "shape": full.shape,
        "programs": compared.programs,
        "elements": count,
        "share": count / max(whole, 1),
        "margin": worst,
        "stood_for": answer.stood_for,
        "blind": answer.blind,
    }
    if not count:
        says = f"nothing at {full.shape} could be compared: {_why_nothing(answer, compared)}"
    else:
        says = (
            f"{compared.programs} programs at {full.shape}, {count} of {whole} elements "
            f"({100 * count / whole:.2g} %), worst error {worst:.2g} of the bound; {_ran(answer)}"
        )
    findings += [] if findings else doubts(full, answer, compared, seed)
    everywhere = bool(compared.elements) and all(compared.elements)
    return FullLook(
        findings=tuple(findings[:1]),
        says=says,
        evidence=evidence,
        traced=structs.replace(answer.traced, compared=everywhere),
    )


def _ran(answer: TracedFull) -> str:
    if all(trace.sampled >= trace.programs for trace in answer.traced.traces):
        return "every program of every launch ran"
    return f"{100 * answer.stood_for:.3g} % of {_asked(answer)} go the way of one that ran"


def _asked(answer: TracedFull) -> str:
    asked = f"{answer.followed} programs drawn from all" if answer.followed else "its programs"
    return f"{asked}, as far as ids could be followed," if answer.blind else asked


def _why_nothing(answer: TracedFull, compared: ComparedStored) -> str:
    if compared.too_dear:
        return "the reference is too dear even for what one program wrote"
    if all(group.filled for group in answer.groups):
        return "what the programs of a sample leave depends on programs that did not run"
    if compared.tentative:
        return "what they stored rests on numbers that all programs update: right as these are here"
    return "what they stored is none of the outputs"


def _not_compared(full: ShapeReport, why: str) -> FullLook:
    says = f"nothing at {full.shape} could be compared: {why[:200]}"
    return FullLook(says=says, evidence={"shape": full.shape, "elements": 0, "share": 0.0})
