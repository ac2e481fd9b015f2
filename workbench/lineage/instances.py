"""All recorded uses of a mechanism, good and bad, with the facts under which it was used.

Every transition of a session is either an instance or left out with a reason; none is passed over.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Verdict
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts import read_facts
from workbench.kernels.records import Fact
from workbench.kernels.source import read_source
from workbench.kernels.target import TARGETS
from workbench.lineage.leaping import leap
from workbench.measure.records import Speed
from workbench.problems.sidecar import family_of
from workbench.session.layout import numbered
from workbench.session.reader import SessionReader
from workbench.session.records import PUT_ASIDE, Answer, SessionSettings, Transition
from workbench.skills.records import Parameter, Plan

Facts = dict[str, Fact]

LEAST_GAIN = 1.01
"""A step with a smaller gain counts against its mechanism, not for it; the gate's threshold."""


class Instance(Struct, frozen=True, kw_only=True):
    """One step that added a mechanism to a kernel."""

    category: str
    """The mechanism; of a run's step the id of its edit."""
    locus: str
    edit: str
    """Empty where a model wrote both ways."""
    kernel: str
    parameters: dict[str, Parameter]
    was: dict[str, Parameter] = {}
    """Their values in the code before, where it stated them."""
    helped: bool
    """In a run: right, kept, and faster by more than `LEAST_GAIN`. In a lineage: a step of the
    accepted chain, which leads to the expert whatever its own gain."""
    says: str
    """The gate's sentence; for one that a person vetoed, their reason."""
    code: str = ""
    """The gate's reason; empty for one that passed."""
    ratio: float | None = None
    """Speedup over the kernel without it; None where nothing was timed."""
    speed: Speed | None = None
    """The speed with its interval."""
    before: Facts
    """Facts of the kernel without the mechanism."""
    after: Facts
    """Facts of the kernel with it."""
    before_us: float | None = None
    after_us: float | None = None
    measured: bool = False
    session: str
    number: int = 0
    """Of its transition."""
    commit: str
    device: str
    problem: str
    family: str
    target: str
    accepted: bool
    unproven: bool = False
    """The gate could not judge it, so that it speaks neither for nor against anything."""
    position: float | None = None
    """Place of a lineage's step: 0 just above naive, 1 at the expert; None in a run."""
    requires: tuple[str, ...] = ()
    """Features added by earlier steps that do not pay without this one; see `leaping`."""
    first: tuple[str, ...] = ()
    """Cards that were applied before it in the same step of a run."""
    removal: bool = False
    """A removal that failed. It is not a forward step: it shows what the mechanism means to a
    kernel, and nothing for or against adding it."""
    tried_back: bool = False
    """An attempt of a walk that failed in either direction."""
    intent: str = ""
    """Intent in the words of its plan."""
    change: tuple[str, str] | None = None
    """Sources before and after a step that no edit made."""

    @property
    def place(self) -> str:
        """Where the mechanism sits, in a word that other kernels share: `BLOCK_N`; or empty.

        Names of tile sizes are shared by convention, names of tensors belong to a kernel.
        """
        return str(self.parameters.get("block", ""))

    @property
    def feature(self) -> str:
        """The feature that it adds: its mechanism, and where that sits."""
        return "-".join(filter(None, (self.category, self.place.lower().replace("_", "-"))))


class LeftOut(Struct, frozen=True, kw_only=True):
    """A recorded transition that speaks for no card and against none."""

    session: str
    number: int
    says: str
    """Why."""


def instances(stores: Iterable[SessionReader]) -> Iterator[Instance]:
    """The informative steps of `accounted`."""
    return (one for one in accounted(stores) if isinstance(one, Instance))


def accounted(stores: Iterable[SessionReader]) -> Iterator[Instance | LeftOut]:
    """Every transition but the seeds, in the order of the sessions.

    Instances are the steps of runs by an edit; the steps of lineages by an edit or a model; and a
    walk's failed removals. All others are left out.
    """
    for store in stores:
        read = _read(store)
        every = [*read.left_out, *_steps(store, read), *_refused(store, read)]
        told = [_uninformative(one) or one for one in every]
        kept = [one for one in told if isinstance(one, Instance)]
        yield from leaps([one for one in kept if not one.tried_back])
        yield from (one for one in kept if one.tried_back)
        yield from (one for one in told if isinstance(one, LeftOut))


def _uninformative(one: Instance | LeftOut) -> LeftOut | None:
    """Why a step says nothing of its mechanism alone; None where it does."""
    if isinstance(one, LeftOut):
        return None
    why = ""
    if one.first:
        why = f"a step of several cards shows none of them alone ({', '.join(one.first)} first)"
    elif not one.edit and one.position is None and not one.tried_back:
        why = f"what a model made of {one.category} is a candidate of its own"
    elif one.code == PUT_ASIDE:
        why = f"put aside before its gate ended: {one.says}"
    elif one.unproven:
        why = f"the gate could not judge it: {one.says}"
    return LeftOut(session=one.session, number=one.number, says=why) if why else None


def leaps(steps: Iterable[Instance]) -> Iterator[Instance]:
    """Steps with the features of earlier ones that pay only together with them.

    Steps of runs stay unchanged: each was kept for its own gain. Where a step of a lineage is
    missing, nothing below it is known to pay with what is above.
    """
    every = list(steps)
    owed: dict[int, list[str]] = {}
    chain = [place for place, one in enumerate(every) if one.position is not None]
    for at, place in enumerate(chain):
        together = leap([every[other].speed for other in _unbroken(every, chain[at:])])
        if together > 1:
            owed.setdefault(chain[at + together - 1], []).append(every[place].feature)
    for place, one in enumerate(every):
        found = tuple(dict.fromkeys(owed.get(place, ())))
        yield structs.replace(one, requires=found)


def _unbroken(every: Sequence[Instance], chain: Sequence[int]) -> Iterator[int]:
    """The places of a chain up to the first step that is missing."""
    last = every[chain[0]].number
    for place in chain:
        if every[place].number > last + 1:
            return
        last = every[place].number
        yield place


def steps_of(store: SessionReader) -> Iterator[Instance]:
    """Every step of a session that added a mechanism, by an edit or by a model.

    Includes steps in which others were applied first and those that nobody could judge, and leaves
    out what steps require.
    """
    return (one for one in _steps(store, _read(store)) if isinstance(one, Instance))


def _steps(store: SessionReader, read: "_Read") -> Iterator[Instance | LeftOut]:
    place = _Place.of(store)
    lineage = place.settings.kind == "lineage"
    last = max((n for n, (t, _) in read.whole.items() if _accepted(t)), default=0)
    for number, (transition, source) in read.whole.items():
        plan = transition.plan
        if transition.parent is None or (lineage and not _accepted(transition)):
            # Of a walk's failed attempts tells `_refused`.
            continue
        parent = read.whole.get(transition.parent)
        why = _no_step(transition, lineage=lineage)
        if parent is None:
            why = f"v{transition.parent}, which it was made from, cannot be read"
        if why or plan is None or parent is None:
            yield LeftOut(session=place.settings.name, number=number, says=why)
            continue
        before, after = parent[0].gate, transition.gate
        one = place.instance(
            transition,
            plan,
            before=place.facts(parent[1], plan.kernel, before),
            after=place.facts(source, _heir(source, plan.kernel), after),
        )
        at = number / last if lineage else None
        change = None if plan.edit else (parent[1], source)
        was = plan.was or _was(plan, parent[1])
        yield structs.replace(one, position=at, change=change, was=was)


def _accepted(transition: Transition) -> bool:
    return transition.decision.answer is Answer.ACCEPTED


def _no_step(transition: Transition, *, lineage: bool) -> str:
    """Why a transition that has a parent added no mechanism that has a name; empty where it did."""
    plan = transition.plan
    if plan is None:
        return "it has no plan, so that nobody says what was done"
    if transition.decision.answer is Answer.PENDING:
        return "it waits for a decision"
    if not lineage and not plan.edit and not plan.card:
        return "a model made it of no card"
    return ""


def _was(plan: Plan, before: str) -> dict[str, Parameter]:
    """What an edit found in a kernel at the place that its parameters name."""
    edit = EDITS.get(plan.edit)
    for anchor in edit.anchors(before, plan.kernel) if edit is not None else ():
        if anchor.parameters.items() <= plan.parameters.items():
            return dict(anchor.current)
    return {}


def _refused(store: SessionReader, read: "_Read") -> Iterator[Instance | LeftOut]:
    """Failed attempts of a walk: forward steps that failed, and removals that failed themselves."""
    place = _Place.of(store)
    if place.settings.kind != "lineage":
        return
    for number, (transition, source) in read.whole.items():
        plan, step = transition.plan, transition.backward
        if transition.parent is None or _accepted(transition):
            continue
        if plan is None or step is None:
            says = "it does not say what was taken out"
            yield LeftOut(session=place.settings.name, number=number, says=says)
            continue
        # The launches are known of the kernel that the mechanism was to be restored to.
        before = place.facts(source, plan.kernel, None)
        one = place.instance(transition, plan, before=before, after=before)
        yield structs.replace(one, removal=not step.roundtrip, tried_back=True)


class _Read(Struct, frozen=True, kw_only=True):
    """A session's transitions by number, each with its source, and those that cannot be read."""

    whole: dict[int, tuple[Transition, str]]
    left_out: tuple[LeftOut, ...]


def _read(store: SessionReader) -> _Read:
    overview, session = store.overview(), store.settings().name
    faults = {
        row.number: one.says for one in overview.unread if (row := numbered(one.ref)) is not None
    }
    whole: dict[int, tuple[Transition, str]] = {}
    for number in sorted(version.number for version in overview.versions):
        try:
            whole[number] = store.transition(number), store.source(number)
        except WorkbenchError as fault:
            faults[number] = fault.what
    for gone in range(max([*whole, *faults], default=0)):
        if gone not in whole:
            faults.setdefault(gone, "it is not there: its reference is gone")
    rows = sorted((number, says) for number, says in faults.items() if number not in whole)
    left_out = tuple(
        LeftOut(session=session, number=number, says=f"it cannot be read: {says}")
        for number, says in rows
    )
    return _Read(whole=whole, left_out=left_out)


class _Place(Struct, frozen=True, kw_only=True):
    """What all steps of one session share."""

    settings: SessionSettings
    family: str
    commits: dict[int, str]

    @classmethod
    def of(cls, store: SessionReader) -> "_Place":
        return cls(
            settings=store.settings(),
            family=family_of(store.problem().sidecar),
            commits={version.number: version.commit for version in store.overview().versions},
        )

    def facts(self, source: str, kernel: str, gate: GateReport | None) -> Facts:
        """Facts of one kernel; without a report only those that follow from its text."""
        launches, traces = (gate.launches, gate.traces) if gate is not None else ((), ())
        known = {"problem.family": self.family or None}
        target = TARGETS.get(self.settings.target)
        return read_facts(source, kernel, launches, traces, known, target)

    def instance(
        self, transition: Transition, plan: Plan, *, before: Facts, after: Facts
    ) -> Instance:
        """One step, as its commit records it."""
        gate, backward, settings = transition.gate, transition.backward, self.settings
        ratio = gate.speed.ratio if gate.speed is not None else None
        least = gate.speed.low if gate.speed is not None and gate.speed.low is not None else ratio
        accepted = transition.decision.answer is Answer.ACCEPTED
        gained = least is not None and least > LEAST_GAIN
        return Instance(
            category=backward.category if backward is not None else plan.edit or plan.card,
            locus=backward.locus if backward is not None else "",
            edit=plan.edit,
            kernel=plan.kernel,
            parameters=plan.parameters,
            helped=accepted and (backward is not None or gained),
            says=_says(transition),
            code=gate.code,
            ratio=ratio,
            speed=gate.speed,
            before=before,
            after=after,
            before_us=None if gate.against is None else gate.against.microseconds,
            after_us=None if gate.time is None else gate.time.microseconds,
            measured=gate.time is not None and gate.time.kind.value == "measured",
            session=settings.name,
            number=transition.number,
            commit=self.commits[transition.number],
            device=gate.device if gate.device != "cpu" else settings.target,
            problem=settings.problem,
            family=self.family,
            target=settings.target,
            accepted=accepted,
            unproven=gate.verdict is Verdict.UNPROVEN,
            first=plan.first,
            intent=plan.intent,
        )


def _says(transition: Transition) -> str:
    """The gate's sentence, or a person's reason against what the gate let pass."""
    decision = transition.decision
    vetoed = decision.answer is Answer.VETOED
    return f"vetoed: {decision.reason}" if vetoed else transition.gate.says


def _heir(source: str, kernel: str) -> str:
    """The kernel of that name, or the only launched one where an edit renamed it."""
    view = read_source(source)
    if view.kernel(kernel) is not None or len(view.launched) != 1:
        return kernel
    return view.launched[0]


def by_mechanism(found: Sequence[Instance]) -> dict[str, list[Instance]]:
    """Instances grouped by edit, place and requirements: each group becomes a card.

    Steps without an edit are grouped by mechanism. The category and locus of a lineage's step and
    the edit of a run's step meet in the first two. A step that pays only after another one is
    another skill than one that pays by itself.
    """
    groups: dict[str, list[Instance]] = {}
    for one in found:
        carrier = one.edit or f"sketch {one.category}"
        key = " ".join(filter(None, (carrier, one.place, *one.requires)))
        groups.setdefault(key, []).append(one)
    return dict(sorted(groups.items()))
