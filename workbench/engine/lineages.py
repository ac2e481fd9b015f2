"""A recorded session as a lineage that cards are retrieved from: its accepted line, lightly."""

from pathlib import Path

from workbench.measure.records import Kind
from workbench.problems.sidecar import family_of
from workbench.search.retrieval import Place, Recorded, Step, inputs_of
from workbench.session.bundle import recorded
from workbench.session.reader import SessionReader
from workbench.session.records import Transition
from workbench.skills.library import Library


def lineage_of(session: Path, library: Library) -> Recorded:
    """The accepted line of a session's folder or bundle; features are those of the cards at hand.

    Raises WorkbenchError for what is neither.
    """
    with recorded(session) as reader:
        return _recorded(reader, library)


def _recorded(reader: SessionReader, library: Library) -> Recorded:
    settings, problem = reader.settings(), reader.problem()
    line = [reader.transition(number) for number in reader.overview().line()]
    return Recorded(
        name=settings.name,
        place=Place(
            family=family_of(problem.sidecar),
            platform=settings.target,
            inputs=inputs_of(line[0].gate.launches) if line else (),
            statement=problem.source,
        ),
        steps=tuple(_step(transition, library) for transition in line[1:]),
    )


def _step(transition: Transition, library: Library) -> Step:
    gate, plan = transition.gate, transition.plan
    skill = library.skills.get(plan.card) if plan else None
    before, after = gate.against, gate.time
    alike = before is not None and after is not None and before.kind is after.kind
    return Step(
        card=plan.card if plan else "",
        requires=skill.card.requires if skill else (),
        provides=skill.card.provides if skill else (),
        conflicts=skill.card.conflicts if skill else (),
        before_us=before.microseconds if before and alike else None,
        after_us=after.microseconds if after and alike else None,
        versus_seed=gate.versus_seed.ratio if gate.versus_seed else None,
        modeled=after is not None and after.kind is Kind.MODELED,
    )
