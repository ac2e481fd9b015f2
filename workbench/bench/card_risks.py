"""Derives from failed trials when a card goes wrong: known risks that were met, and new ones."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from workbench.bench.card_trials import Trial, evidence_of
from workbench.gate.records import Verdict
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.skills.records import Risk

_TELLING = (
    "launch.elements_per_thread",
    "launch.waves",
    "launch.block_elements",
    "loop.trip_count",
    "static.occupancy",
    "static.registers",
    "static.programs_per_sm",
    "trace.load_redundancy",
    "arg.bytes",
)
"""Facts that may separate failures from successes, the plainest first."""


class Found(Struct, frozen=True, kw_only=True):
    """Risks derived from the trials of one card."""

    met: dict[str, str]
    """Known risks that applied in a failed trial, by their words, with where that was seen."""
    new: tuple[Risk, ...]
    """New risks, at most one: the clearest failure that no known risk foresaw."""


def risks_of(trials: Sequence[Trial]) -> Found:
    """The risks that the trials of one card show.

    Where no known risk applied, the new one is about the first fact whose value lay beyond all
    successes; where nothing helped or no fact separates them, about the problem's family. A failure
    in a family where the card also helped, without such a fact, gives none: nobody could act on it.
    """
    bad = [t for t in trials if t.verdict is Verdict.REJECTED and evidence_of(t) is not None]
    good = [t for t in trials if t.helped and evidence_of(t) is not None]
    met: dict[str, str] = {}
    for trial in bad:
        for says in trial.risks:
            met.setdefault(says, _place(trial))
    unforeseen = [trial for trial in bad if not trial.risks]
    new = (_risk(trial, good) for trial in sorted(unforeseen, key=_loss))
    return Found(met=met, new=tuple(risk for risk in new if risk is not None)[:1])


def _loss(trial: Trial) -> float:
    """Sort key: wrong results before slower ones, the slowest first."""
    return 0.0 if trial.ratio is None else trial.ratio


def _risk(trial: Trial, good: Sequence[Trial]) -> Risk | None:
    what = f"{trial.ratio:.2f}x" if trial.ratio is not None else trial.code
    for name in _TELLING if good else ():
        bound = _beyond(name, trial, good)
        if bound:
            says = f"{CATALOGUE[name].says}: {what} on {trial.problem}, beyond all that helped"
            return Risk(says=says, when=f"{name} {bound}", seen=_place(trial))
    if any(one.family == trial.family for one in good):
        return None
    when = f'problem.family == "{trial.family}"'
    return Risk(
        says=f"it did not help there: {what} on {trial.problem}", when=when, seen=_place(trial)
    )


def _beyond(name: str, trial: Trial, good: Iterable[Trial]) -> str:
    """`>= 8` where the trial's value lies beyond that of every success; empty where it does not."""
    value = trial.facts.get(name)
    others = [one.facts.get(name) for one in good]
    known = [v for v in others if isinstance(v, int | float)]
    if not isinstance(value, int | float) or len(known) < len(others):
        return ""
    if value > max(known):
        return f">= {value:g}"
    return f"<= {value:g}" if value < min(known) else ""


def _place(trial: Trial) -> str:
    where = trial.device if trial.kind == "measured" else f"modeled for {trial.target}"
    ratio = f"{trial.ratio:.3f}x" if trial.ratio is not None else trial.code
    return f"bench cards {trial.problem}, {trial.state}: {ratio}, {where}, {trial.sha256[:12]}"
