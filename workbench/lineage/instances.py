"""Every recorded use of one mechanism, for it and against it, with the facts it was used under."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from workbench.kernels.facts import read_facts
from workbench.kernels.records import Fact
from workbench.kernels.source import read_source
from workbench.kernels.target import TARGETS
from workbench.lineage.leaping import leap
from workbench.measure.records import Speed
from workbench.problems.sidecar import family_of
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, SessionSettings, Transition
from workbench.skills.records import Parameter

Facts = dict[str, Fact]

LEAST_GAIN = 1.01
"""A step that gains less speaks against its mechanism, not for it; the gate's threshold."""


class Instance(Struct, frozen=True, kw_only=True):
    """One step that put a mechanism into a kernel."""

    category: str
    """The mechanism; of a run's step the id of its edit."""
    locus: str
    edit: str
    kernel: str
    parameters: dict[str, Parameter]
    helped: bool
    """Of a run: right, kept, and faster by more than `LEAST_GAIN`. Of a lineage: a step of the
    accepted chain, which leads to the expert whatever it gains by itself."""
    says: str
    """What the gate said."""
    code: str = ""
    """The gate's reason; empty for one that passed."""
    ratio: float | None = None
    """Times faster than without it; None where nothing was timed."""
    speed: Speed | None = None
    """The same, with its interval."""
    before: Facts
    """Of the kernel without the mechanism."""
    after: Facts
    """Of the kernel with it."""
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
    position: float | None = None
    """Of a lineage's step: 0 just above naive, 1 at the expert; None in a run."""
    requires: tuple[str, ...] = ()
    """Features that steps before it put there which do not pay without it; see `leaping`."""
    first: tuple[str, ...] = ()
    """Of a run: cards that were carried out before it in the same step."""
    losing: bool = False
    """Whether it is such a step itself."""

    @property
    def place(self) -> str:
        """Where the mechanism sits, in a word that other kernels use too: `BLOCK_N`; or empty.

        Names of tile sizes are shared by convention, names of tensors are a kernel's own.
        """
        return str(self.parameters.get("block", ""))

    @property
    def feature(self) -> str:
        """What it puts into a kernel, by name: its mechanism, and where that sits."""
        return "-".join(filter(None, (self.category, self.place.lower().replace("_", "-"))))


def instances(stores: Iterable[SessionReader]) -> Iterator[Instance]:
    """Every step of lineages and runs that was made by an edit, in the order of the sessions."""
    for store in stores:
        # A step of several cards says nothing of any one.
        yield from leaps(one for one in steps_of(store) if not one.first)


def leaps(steps: Iterable[Instance]) -> Iterator[Instance]:
    """Steps with what those of a lineage require, and which of them lose by themselves.

    Nothing changes in steps of a run: there each was kept for what it gained.
    """
    every = list(steps)
    owed: dict[int, list[str]] = {}
    losing: set[int] = set()
    chain = [place for place, one in enumerate(every) if one.position is not None]
    for at, place in enumerate(chain):
        together = leap([every[other].speed for other in chain[at:]])
        if together > 1:
            losing.add(place)
            owed.setdefault(chain[at + together - 1], []).append(every[place].feature)
    for place, one in enumerate(every):
        found = tuple(dict.fromkeys(owed.get(place, ())))
        yield structs.replace(one, requires=found, losing=place in losing)


def steps_of(store: SessionReader) -> Iterator[Instance]:
    """Every step of a session that an edit made, also where others were made before it in the same
    step; without what steps of a lineage owe each other."""
    settings, family = store.settings(), family_of(store.problem().sidecar)
    commits = {version.number: version.commit for version in store.overview().versions}
    read = {n: (store.transition(n), store.source(n)) for n in sorted(commits)}
    lineage = settings.kind == "lineage"
    steps = sum(t.decision.answer is Answer.ACCEPTED for t, _ in read.values()) - 1
    for number, (transition, source) in read.items():
        parent = read.get(-1 if transition.parent is None else transition.parent)
        if parent is not None and _is_step(transition, settings):
            one = _instance(transition, source, parent, settings, family, commits[number])
            at = number / steps if lineage and steps > 0 else None
            yield structs.replace(one, position=at)


def _is_step(transition: Transition, settings: SessionSettings) -> bool:
    """Whether it went forward by an edit; a removal that failed is no step forward."""
    plan = transition.plan
    if plan is None or not plan.edit or transition.decision.answer is Answer.PENDING:
        return False
    return settings.kind == "run" or transition.decision.answer is Answer.ACCEPTED


def _instance(
    transition: Transition,
    source: str,
    parent: tuple[Transition, str],
    settings: SessionSettings,
    family: str,
    commit: str,
) -> Instance:
    plan, gate, backward = transition.plan, transition.gate, transition.backward
    if plan is None:
        raise ValueError("a step has a plan")
    before = parent[0].gate
    ratio = gate.speed.ratio if gate.speed is not None else None
    least = gate.speed.low if gate.speed is not None and gate.speed.low is not None else ratio
    accepted = transition.decision.answer is Answer.ACCEPTED
    target = TARGETS.get(settings.target)
    known = {"problem.family": family or None}
    return Instance(
        category=backward.category if backward is not None else plan.edit,
        locus=backward.locus if backward is not None else "",
        edit=plan.edit,
        kernel=plan.kernel,
        parameters=plan.parameters,
        helped=accepted and (backward is not None or (least is not None and least > LEAST_GAIN)),
        says=gate.says,
        code=gate.code,
        ratio=ratio,
        speed=gate.speed,
        before=read_facts(parent[1], plan.kernel, before.launches, before.traces, known, target),
        after=read_facts(
            source, _heir(source, plan.kernel), gate.launches, gate.traces, known, target
        ),
        before_us=None if gate.against is None else gate.against.microseconds,
        after_us=None if gate.time is None else gate.time.microseconds,
        measured=gate.time is not None and gate.time.kind.value == "measured",
        session=settings.name,
        commit=commit,
        device=gate.device if gate.device != "cpu" else settings.target,
        problem=settings.problem,
        family=family,
        target=settings.target,
        accepted=accepted,
        first=plan.first,
    )


def _heir(source: str, kernel: str) -> str:
    """The kernel of that name, or the only one that is launched where an edit renamed it."""
    view = read_source(source)
    if view.kernel(kernel) is not None or len(view.launched) != 1:
        return kernel
    return view.launched[0]


def by_mechanism(found: Sequence[Instance]) -> dict[str, list[Instance]]:
    """Instances by the edit that carries them, its place and what it requires: a group becomes a
    card.

    The category and locus of a lineage's step and the edit of a run's step meet in the first two.
    What pays only after another step is another skill than what pays by itself.
    """
    groups: dict[str, list[Instance]] = {}
    for one in found:
        key = " ".join(filter(None, (one.edit, one.place, *one.requires)))
        groups.setdefault(key, []).append(one)
    return dict(sorted(groups.items()))
