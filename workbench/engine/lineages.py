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
    """The accepted line of a session's folder or bundle; features are those of the installed cards.

    Raises WorkbenchError for what is neither.
    """
    with recorded(session) as reader:
        return line_of(reader, library)


def line_of(reader: SessionReader, library: Library) -> Recorded:
    """The accepted line of a session that is open.

    A lineage's steps name no card, since they are older than those lifted from them: a card is a
    step's where it has the step's commit for evidence.
    """
    settings, problem = reader.settings(), reader.problem()
    overview = reader.overview()
    line = [reader.transition(number) for number in overview.line()]
    lifted = {
        row.commit: skill.card.id
        for skill in library.skills.values()
        for row in skill.card.evidence
        if row.session == settings.name and row.verdict == "accepted"
    }
    made = {v.number: lifted.get(v.commit, "") for v in overview.versions}
    return Recorded(
        name=settings.name,
        place=Place(
            family=family_of(problem.sidecar),
            platform=settings.target,
            inputs=inputs_of(line[0].gate.launches) if line else (),
            statement=problem.source,
        ),
        steps=tuple(_step(one, library, made[one.number]) for one in line[1:]),
    )


def _step(transition: Transition, library: Library, lifted: str) -> Step:
    gate, plan = transition.gate, transition.plan
    card = (plan.card if plan else "") or lifted
    skill = library.skills.get(card)
    before, after = gate.against, gate.time
    alike = before is not None and after is not None and before.kind is after.kind
    return Step(
        card=card,
        requires=skill.card.requires if skill else (),
        provides=skill.card.provides if skill else (),
        conflicts=skill.card.conflicts if skill else (),
        before_us=before.microseconds if before and alike else None,
        after_us=after.microseconds if after and alike else None,
        versus_seed=gate.versus_seed.ratio if gate.versus_seed else None,
        modeled=after is not None and after.kind is Kind.MODELED,
    )
