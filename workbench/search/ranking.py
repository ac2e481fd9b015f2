"""Which of the applicable cards goes first, and why, in words."""

from collections.abc import Sequence
from math import exp, log

from msgspec import Struct, structs

from workbench.kernels.edits.base import Edit
from workbench.search.expectation import Expected, expected_gain, size_word
from workbench.search.line import Line
from workbench.search.phase import rested
from workbench.search.records import ProposerState, Tried, search_of
from workbench.search.together import Prepared
from workbench.skills.card import Skill
from workbench.skills.policy import Ruling
from workbench.skills.policy_table import PolicyTable, Ranking
from workbench.skills.records import Check, Truth


class Choice(Struct, frozen=True):
    """A card that could be taken on one kernel, with what was checked."""

    skill: Skill
    edit: Edit
    kernel: str
    checks: tuple[Check, ...]
    risks: tuple[Check, ...]
    prepared: Prepared | None = None
    """The source with what the card requires; None where nothing is missing."""


class Ranked(Struct, frozen=True, kw_only=True):
    """A choice with its place."""

    choice: Choice
    ruling: Ruling
    expected: Expected
    pinned: bool
    unknown: bool
    setback: bool
    """Tried here, and not worth another try before every other card had its first."""
    case: int
    """Place of the case that allows it."""
    level: int
    coarse: bool
    """Whether it chooses what others tune."""
    later: bool
    """Whether it tunes while the search still chooses algorithms: after all coarse cards."""
    again: bool
    """Whether it helped here already: its best values were used first, so the others count first.
    """
    warned: bool
    """Whether a risk that was seen elsewhere applies here."""
    draft: bool
    risky: bool
    kernel: int
    """Rank of the kernel among those launched; the one that moves most bytes comes first."""
    worth: float
    """Logarithm of the expected gain, weighted by its case (`policy.toml`, ranking)."""
    says: str

    @property
    def key(self) -> tuple[bool | int | float | str, ...]:
        """Sort key: pinned; known conditions; no setback; phase; not helped here yet; gain; case;
        level.

        A risk that nobody has seen only breaks ties. On an H200, putting risks before the gain kept
        three-product TF32, worth 1.5x and more for fp32 attention, behind every small step: whether
        a risk is met is for the gate to find out.
        """
        card = self.choice.skill.card
        return (
            not self.pinned,
            self.unknown,
            self.setback,
            self.later,
            self.again,
            -round(self.worth, 3),
            self.case,
            self.level,
            card.order,
            self.risky,
            self.kernel,
            card.id,
        )


def rank(
    choice: Choice,
    ruling: Ruling,
    state: ProposerState,
    line: Line,
    table: PolicyTable,
    *,
    place: int,
) -> Ranked:
    """A choice with all sort criteria; `place` is its kernel's."""
    card = choice.skill.card
    trials = line.trials(card.id, choice.kernel, state.library)
    expected = expected_gain(card, table, state.family, state.target.name, trials)
    case = ruling.place(methods_of(choice.skill, table))
    level = table.level_of(card.order)
    coarse = table.coarse(level)
    draft, warned = choice.skill.standing == "draft", _warned(choice)
    parts = table.file.ranking
    counts = _case_part(case, ruling, parts)
    counts *= (parts.draft if draft else 1.0) * (parts.warned if warned else 1.0)
    ranked = Ranked(
        choice=choice,
        ruling=ruling,
        expected=expected,
        pinned=card.id in state.library.pinned,
        unknown=any(c.truth is Truth.UNKNOWN for c in choice.checks),
        setback=had_setback(trials),
        case=case,
        level=level,
        coarse=coarse,
        later=not (coarse or rested(line, search_of(state))),
        again=any(trial.accepted for trial in trials),
        warned=warned,
        draft=draft,
        risky=any(r.truth is Truth.YES for r in choice.risks),
        kernel=place,
        worth=log(expected.ratio) * (counts if expected.ratio > 1 else 1.0),
        says="",
    )
    return _worded(ranked, table)


def _case_part(case: int, ruling: Ruling, parts: Ranking) -> float:
    """The part of a gain that counts for a card allowed at that place of a ruling."""
    if case == 0:
        return 1.0
    if case < len(ruling.cases):
        return parts.other_case
    return parts.beyond_cases if case == len(ruling.cases) else parts.forbidden


def had_setback(trials: Sequence[Tried]) -> bool:
    """Whether earlier trials speak for trying other cards first (ours).

    One timed refusal does, unless the card helped here before; otherwise two of any kind do:
    another value may pass the gate where the first did not.
    """
    refused: list[Tried] = []
    for trial in trials:
        refused = [] if trial.accepted else [*refused, trial]
    helped = any(trial.accepted for trial in trials)
    return len(refused) >= 2 or (not helped and any(t.speed is not None for t in refused))


def _warned(choice: Choice) -> bool:
    seen = {risk.says for risk in choice.skill.card.risk if risk.seen}
    return any(check.truth is Truth.YES and check.says in seen for check in choice.risks)


def methods_of(skill: Skill, table: PolicyTable) -> frozenset[str]:
    """Methods that a card belongs to, by itself or by the policy's table."""
    card = skill.card
    return table.methods_of(card.id, card.carrier.edit, card.provides) | set(card.methods)


def _worded(ranked: Ranked, table: PolicyTable) -> Ranked:
    card = ranked.choice.skill.card
    levels = table.file.level
    level = levels[ranked.level].id if ranked.level < len(levels) else "hints"
    place = ranked.ruling.case_at(ranked.case).partition(":")[0]
    size = size_word(ranked.expected.ratio, table)
    notes = [
        *(["pinned by you"] if ranked.pinned else []),
        place,
        level,
        f"{ranked.expected.ratio:.2f}x expected, {size} ({ranked.expected.says})",
        *([f"counts as {exp(ranked.worth):.2f}x"] if _counts_less(ranked) else []),
        *(["a condition is unknown"] if ranked.unknown else []),
        *(["set back here"] if ranked.setback else []),
        *(["helped here already"] if ranked.again else []),
        *(["draft"] if ranked.draft else []),
        *(["at a risk that was seen"] if ranked.warned else []),
        *(["at a known risk"] if ranked.risky and not ranked.warned else []),
    ]
    says = f"{card.id} on {ranked.choice.kernel}: {'; '.join(notes)}"
    return structs.replace(ranked, says=says)


def _counts_less(ranked: Ranked) -> bool:
    return f"{exp(ranked.worth):.2f}" != f"{ranked.expected.ratio:.2f}"


def in_order(choices: Sequence[Ranked]) -> list[Ranked]:
    """Best first; independent of the order of the choices."""
    return sorted(choices, key=lambda ranked: ranked.key)
