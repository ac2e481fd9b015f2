"""Repeats steps of a lineage from the preceding kernel and a card alone.

A step is made by the card's edit if it has one, else by a model that gets the preceding kernel, the
problem and the card (KLineage's `verify_decompose`). The lineage itself is not changed.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, structs

from workbench.engine import events as ev
from workbench.engine.chances import alone, nearest
from workbench.engine.devices import choose_place
from workbench.engine.history import History
from workbench.engine.holding import Yardstick
from workbench.engine.laying import problem_of
from workbench.engine.sketching import by_model
from workbench.engine.trials import Tell, Trial, nothing
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.kernels.inverses.registry import INVERSES
from workbench.kernels.source import normalized_sha256, read_source
from workbench.kernels.target import target
from workbench.lineage.ideas import NoWayBackError
from workbench.lineage.sketch import carried_out
from workbench.problems.sidecar import family_of
from workbench.search.proposer import Proposal
from workbench.session.records import Answer, SessionSettings, Transition
from workbench.session.store import SessionStore
from workbench.skills.card import Skill
from workbench.skills.records import Admission


def roundtrips(
    skill: Skill, lineage: Path, tell: Tell, usd: float | None = None
) -> Iterator[Trial]:
    """Repeat every step of a lineage that the card can make, from the kernel before it.

    A card that is a sketch is carried out by a model, for at most `usd` dollars a step. A step
    that was timed on a GPU that is not here is compared by modeled times. Raises WorkbenchError for
    a session that cannot be read, and when a model is needed but none is configured.
    """
    store = SessionStore.open(lineage)
    again = _Again(skill=skill, store=store, tell=tell, usd=usd)
    steps = again.steps()
    if not steps:
        name = store.settings().name
        why = f"no step that can be read there is one that {skill.card.id} makes"
        yield nothing(skill, name, name, held_out=False, why=why)
        return
    settings = here(store.settings())
    near = nearest(skill, settings.problem, family_of(store.problem().sidecar))
    workplace = SessionWorkplace(store, settings, None, tell, library=alone(near), may_resize=False)
    try:
        for step in steps:
            yield again.trial(workplace, settings, step)
    finally:
        workplace.close()


def here(settings: SessionSettings) -> SessionSettings:
    """A session's settings for this machine: on a GPU of the same model, else on the CPU."""
    if settings.device_index is not None:
        try:
            place = choose_place("auto", "")
        except WorkbenchError:
            place = choose_place("cpu", settings.target)
        if place.device != settings.device:
            place = choose_place("cpu", settings.target)
        return structs.replace(settings, device=place.device, device_index=place.index)
    return settings


class _Again(Struct, frozen=True, kw_only=True):
    """Repeats the steps of one card in one lineage."""

    skill: Skill
    store: SessionStore
    tell: Tell
    usd: float | None

    def steps(self) -> list[Transition]:
        """The steps that the card can make."""
        card, name = self.skill.card, self.store.settings().name
        lifted = {row.commit for row in card.evidence if row.session == name}
        overview = self.store.overview()
        commits = {v.number: v.commit for v in overview.versions}
        found, _ = self.store.transitions(overview)
        return [
            step for step in found if self._made_by(step, lifted=commits[step.number] in lifted)
        ]

    def _made_by(self, transition: Transition, *, lifted: bool) -> bool:
        """Whether the card can make a step; `lifted` says that the card was lifted from it."""
        plan, carrier = transition.plan, self.skill.card.carrier
        accepted = transition.decision.answer is Answer.ACCEPTED
        if plan is None or not accepted or plan.edit != carrier.edit:
            return False
        if not plan.edit:
            return lifted
        places = carrier.grid.get("block", ())
        return not places or plan.parameters.get("block") in places

    def trial(
        self, workplace: SessionWorkplace, settings: SessionSettings, step: Transition
    ) -> Trial:
        """Repeat one step, given only the kernel before it and the card."""
        store, kept = self.store, self.store.settings()
        commit = next(v.commit for v in store.overview().versions if v.number == step.number)
        place = f"v{step.number} of {settings.name} on {settings.device}"
        try:
            original, before = store.source(step.number), store.source(step.parent or 0)
        except WorkbenchError as fault:
            why = f"the kernel before it cannot be read: {fault.what}"
            return nothing(self.skill, place, settings.name, held_out=False, why=why)
        try:
            made = self._made(workplace, before, step)
        except NoWayBackError as none:
            why = f"by a model: {none}"
            return nothing(self.skill, place, settings.name, held_out=False, why=why)
        if not made:
            return nothing(self.skill, place, settings.name, held_out=False)
        elsewhere = settings.device_index is None and kept.device_index is not None
        if normalized_sha256(made) == normalized_sha256(original):
            # The original passed its gate when it was committed; timing it against itself would
            # say nothing.
            accepted, told = True, "the very kernel again"
        else:
            yardstick = Yardstick(workplace, original, step.gate, elsewhere=elsewhere)
            found = yardstick.hold(made)
            accepted, told = found.reached, found.report.says
        has = self._has_mechanism(before, made)
        return Trial(
            admission=Admission(
                target=place,
                held_out=False,
                kind="modeled" if settings.device_index is None else "measured",
                accepted=accepted,
                effect_observed=accepted and has,
                session=settings.name,
                commit=commit,
            ),
            applied=True,
            says=told if has else f"{told}; the mechanism is not in what it made",
        )

    def _made(self, workplace: SessionWorkplace, before: str, step: Transition) -> str:
        """The kernel that the card makes of the preceding one; empty if it finds no place."""
        if self.skill.edit is None:
            return self._by_model(before, step)
        every, _ = self.store.transitions(self.store.overview())
        chain = tuple(
            t for t in every if t.number < step.number and t.decision.answer is step.decision.answer
        )
        problem, card = self.store.settings().problem, self.skill.card
        # The card's evidence says in which of several kernels it was.
        known = dict.fromkeys(row.kernel for row in card.evidence if row.problem == problem)
        for only in (*((card.id, kernel) for kernel in known if kernel), None):
            found = workplace.foresee(History(transitions=chain), {}, only)
            if isinstance(found, Proposal):
                return found.source
        return ""

    def _by_model(self, before: str, step: Transition) -> str:
        settings, time = self.store.settings(), step.gate.time
        with tempfile.TemporaryDirectory(prefix="workbench-about-") as folder:
            problem = problem_of(self.store, settings.problem, Path(folder))
        return by_model(
            self.skill,
            before,
            problem,
            target(settings.target),
            wanted="of unknown speed" if time is None else f"{time.microseconds} us",
            usd=self.usd,
            warn=lambda says: self.tell(ev.Note(level="warning", says=says)),
        )

    def _has_mechanism(self, before: str, made: str) -> bool:
        """Whether the new kernel has the card's mechanism.

        For an edit, one of its inverses must find something to remove; for a sketch, what it adds
        must be there.
        """
        carrier = self.skill.card.carrier
        if not carrier.edit:
            return carried_out(carrier.sketch, before, made)
        ours = [inverse for inverse in INVERSES if inverse.edit == carrier.edit]
        launched = read_source(made).launched
        return not ours or any(one.removables(made, kernel) for one in ours for kernel in launched)
