"""All recorded uses of a mechanism, good and bad, with the facts under which it was used."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from workbench.gate.records import GateReport, Verdict
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts import read_facts
from workbench.kernels.records import Fact
from workbench.kernels.source import read_source
from workbench.kernels.target import TARGETS
from workbench.lineage.leaping import leap
from workbench.measure.records import Speed
from workbench.problems.sidecar import family_of
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, SessionSettings, Transition
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
    """The gate's sentence."""
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


def instances(stores: Iterable[SessionReader]) -> Iterator[Instance]:
    """Every informative step, in the order of the sessions.

    Steps of runs by an edit; steps of lineages by an edit or a model, and failed removals.
    """
    for store in stores:
        # A step of several cards is evidence for none of them; what a model made of a card in a run
        # is a candidate of its own.
        made = [one for one in steps_of(store) if not one.first]
        yield from leaps([one for one in made if one.edit or one.position is not None])
        yield from _refused(store)


def leaps(steps: Iterable[Instance]) -> Iterator[Instance]:
    """Steps with the features of earlier ones that pay only together with them.

    Steps of runs stay unchanged: each was kept for its own gain.
    """
    every = list(steps)
    owed: dict[int, list[str]] = {}
    chain = [place for place, one in enumerate(every) if one.position is not None]
    for at, place in enumerate(chain):
        together = leap([every[other].speed for other in chain[at:]])
        if together > 1:
            owed.setdefault(chain[at + together - 1], []).append(every[place].feature)
    for place, one in enumerate(every):
        found = tuple(dict.fromkeys(owed.get(place, ())))
        yield structs.replace(one, requires=found)


def steps_of(store: SessionReader) -> Iterator[Instance]:
    """Every step of a session that added a mechanism, by an edit or by a model.

    Includes steps in which others were applied first, and leaves out what steps require.
    """
    place, read = _Place.of(store), _read(store)
    lineage = place.settings.kind == "lineage"
    steps = sum(t.decision.answer is Answer.ACCEPTED for t, _ in read.values()) - 1
    for number, (transition, source) in read.items():
        parent = read.get(-1 if transition.parent is None else transition.parent)
        plan = transition.plan
        if parent is None or plan is None or not _is_step(transition, plan, place.settings):
            continue
        before, after = parent[0].gate, transition.gate
        one = place.instance(
            transition,
            plan,
            before=place.facts(parent[1], plan.kernel, before),
            after=place.facts(source, _heir(source, plan.kernel), after),
        )
        at = number / steps if lineage and steps > 0 else None
        change = None if plan.edit else (parent[1], source)
        was = plan.was or _was(plan, parent[1])
        yield structs.replace(one, position=at, change=change, was=was)


def _was(plan: Plan, before: str) -> dict[str, Parameter]:
    """What an edit found in a kernel at the place that its parameters name."""
    edit = EDITS.get(plan.edit)
    for anchor in edit.anchors(before, plan.kernel) if edit is not None else ():
        if anchor.parameters.items() <= plan.parameters.items():
            return dict(anchor.current)
    return {}


def _refused(store: SessionReader) -> Iterator[Instance]:
    """Failed attempts of a walk: forward steps that failed, and removals that failed themselves."""
    place = _Place.of(store)
    if place.settings.kind != "lineage":
        return
    for transition, source in _read(store).values():
        plan, step = transition.plan, transition.backward
        if plan is None or step is None or transition.decision.answer is not Answer.REJECTED:
            continue
        # The launches are known of the kernel that the mechanism was to be restored to.
        before = place.facts(source, plan.kernel, None)
        one = place.instance(transition, plan, before=before, after=before)
        yield structs.replace(one, removal=not step.roundtrip)


def _read(store: SessionReader) -> dict[int, tuple[Transition, str]]:
    numbers = sorted(version.number for version in store.overview().versions)
    return {n: (store.transition(n), store.source(n)) for n in numbers}


def _is_step(transition: Transition, plan: Plan, settings: SessionSettings) -> bool:
    """Whether it is a forward step that added a mechanism."""
    answer = transition.decision.answer
    if settings.kind == "lineage":
        return answer is Answer.ACCEPTED
    return bool(plan.edit or plan.card) and answer is not Answer.PENDING


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
            says=gate.says,
            code=gate.code,
            ratio=ratio,
            speed=gate.speed,
            before=before,
            after=after,
            before_us=None if gate.against is None else gate.against.microseconds,
            after_us=None if gate.time is None else gate.time.microseconds,
            measured=gate.time is not None and gate.time.kind.value == "measured",
            session=settings.name,
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
