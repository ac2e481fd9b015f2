"""What a table of roundtrips must say beside its numbers, so that nobody reads more into them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from workbench.bench.roundtrip import Cards, Trial

_FORMS: dict[Cards, str] = {
    "whole": "whole: every card with all that it says",
    "no conditions": "no conditions: without preconditions, scope, what a card requires or rules "
    "out, and which of its values was seen where",
    "no anchors": "no anchors: without the block and the kernel that a card is about",
    "no risks": "no risks: without what was seen to fail",
    "bare": "bare: edits and their values alone, in any order, as in a plain list of tricks",
}
_INTERVAL = re.compile(r"\d+\.\d+x \[(\d+\.\d+), (\d+\.\d+)\]")
"""An interval as `Speed.says` writes it: a trial's reason is the only place that holds it."""


def undecided(trial: Trial) -> bool:
    """Whether pairs showed a kernel neither to reach the expert nor to be slower than it."""
    found = _INTERVAL.search(trial.why)
    return not trial.reached and found is not None and float(found[2]) >= 1.0


def outcome(trial: Trial) -> str:
    """A trial's end in a word."""
    if trial.reached or trial.state == "cut":
        return "reached" if trial.reached else "cut"
    if trial.wrong:
        return "wrong"
    if trial.state == "limit":
        return "no time"
    return "not shown" if undecided(trial) else "slower"


def notes(found: Sequence[Trial]) -> Iterator[str]:
    """The lines below the table, each only where a trial is concerned."""
    judged = [one for one in found if one.state != "cut"]
    if not judged:
        return
    yield from _tries(judged)
    forms = dict.fromkeys(one.cards for one in found)
    yield from (_FORMS[form] for form in forms if form != "whole")
    if len(forms) > 1:
        yield (
            "in every form an edit still finds its own place or refuses, the compiler and the "
            "interpreter still refuse what is wrong, and modeled times choose among values"
        )
    if along := sorted({one.workload for one in judged if one.along}):
        yield (
            f"whole cards went the way of the lineage that they were lifted from "
            f"({', '.join(along)}): this shows that they hold what it knew, not that they help "
            "elsewhere; `skills admit` tries that"
        )
    yield "edits: all that were tried, values among them that were refused or not the best"
    if limited := _named(one for one in judged if one.state == "limit" and not one.reached):
        yield f"no time: {limited} met a limit and were judged as far as they had come"
    if open_ := _named(one for one in judged if undecided(one)):
        yield (
            f"not shown: pairs of {open_} show neither that it reaches 0.99x of the expert nor "
            "that it is slower; `slower` counts them, as verdicts against a kernel's speed"
        )
    if alike := list(_alike(judged)):
        yield f"the same kernel, judged once, its costs in each row: {'; '.join(alike)}"
    if len(forms) > 1:
        yield "s: seconds on the wall; forms of one workload may have run side by side"


def _tries(judged: Sequence[Trial]) -> Iterator[str]:
    counts = Counter((one.workload, one.cards) for one in judged)
    if max(counts.values()) == 1:
        yield "one try of each row: what another try would give is not known"
    elif min(counts.values()) == 1:
        yield "rows of one try say nothing of what another would give; of more, medians are shown"


def _named(trials: Iterator[Trial]) -> str:
    return ", ".join(f"{one.workload} {one.cards}" for one in trials)


def _alike(judged: Sequence[Trial]) -> Iterator[str]:
    """Forms of one workload that came to one kernel."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in judged:
        if one.kernel:
            groups.setdefault((one.workload, one.device, one.kernel), []).append(one.cards)
    for (workload, _, _), forms in groups.items():
        names = list(dict.fromkeys(forms))
        if len(names) > 1:
            yield f"{workload} {' and '.join(names)}"
