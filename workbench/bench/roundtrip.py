"""From naive to expert with learned cards alone: how often, in how many steps, and why not.

KLineage's roundtrip over whole workloads, and its ablation: the same runs with
cards that say only what to do, and neither where nor when.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Literal

from msgspec import Struct, structs

from workbench.bench import lines
from workbench.errors import WorkbenchError
from workbench.lineage.instances import Instance
from workbench.lineage.removals import removable
from workbench.measure.records import Kind
from workbench.skills.card import Skill
from workbench.skills.library import Library, load_library
from workbench.skills.preferences import Preferences

KLINEAGE = "41 of 50"
"""KLineage's share of trials at expert latency."""

Cards = Literal["whole", "no conditions", "no anchors", "no risks", "bare"]
"""What is left of the cards; `bare` is without conditions, anchors and risks."""

WITHOUT: dict[str, Cards] = {
    "conditions": "no conditions",
    "anchors": "no anchors",
    "risks": "no risks",
    "all": "bare",
}
"""The form of cards by what an ablation takes from them."""

Key = tuple[str, Cards, str, int]
"""Which trial: workload, form of the cards, way and number."""


class Trial(Struct, frozen=True, kw_only=True):
    """One run from a naive kernel, and how its best kernel stands beside the expert."""

    workload: str
    number: int
    cards: Cards
    way: Literal["steps", "leap"] = "steps"
    """`steps`: the gate was asked for each; `leap`: for the last kernel alone."""
    state: Literal["ended", "limit", "cut"] = "ended"
    """`limit`: of steps or seconds, and it was judged as far as it came; `cut`: as it was after one
    of its steps, and nobody has judged it. A later line of the same trial stands in for it."""
    reached: bool
    """The best kernel passed the gate beside the expert, no slower than 0.99 of it."""
    ratio: float | None
    """Expert's time over the best kernel's; None where they were not timed beside each other."""
    kind: Kind | None
    steps: int
    """Transitions until the best kernel was there, rejected ones included."""
    gpu_seconds: float
    """GPU-seconds for these steps."""
    gpu_spent: float | None = None
    """GPU-seconds for all that it did: steps after the best one, last looks, thrown away work and
    its verdict beside the expert. None in files that are older than it."""
    seconds: float | None = None
    """Wall seconds from its beginning to its end, everything and all waiting counted. None in older
    files."""
    device: str = ""
    """Name of the GPU that judged it; empty for none, and in older files."""
    session: str
    """Empty for a leap, which is not a session."""
    identical: bool = False
    """It came to the expert's very machine code, launched alike: right once more, and as fast by
    identity, not by a timing."""
    wrong: int = 0
    """Verdicts against what it computes."""
    slower: int = 0
    """Verdicts against its speed."""
    refused: int = 0
    """Edits refused before a GPU was asked: by the policy, or by the compiler."""
    along: str = ""
    """The lineage whose way was gone; empty where cards were taken without one."""
    taken: tuple[str, ...] = ()
    """Cards of a leap in the order in which they were carried out."""
    kernel: str = ""
    """Source of the kernel that a leap reached."""
    why: str = ""
    """Why the trial did not reach the expert; empty if it did."""

    @property
    def key(self) -> Key:
        """Which trial it is."""
        return self.workload, self.cards, self.way, self.number


class Summary(Struct, frozen=True, kw_only=True):
    """Trials of one workload with one form of cards."""

    workload: str
    cards: Cards
    trials: int
    reached: int
    ratio: float | None
    """Median over the trials that have one."""
    kind: Kind | None = None
    """Of the ratio; None where all that have one did the expert's very work."""
    steps: float
    gpu_seconds: float
    identical: int = 0
    """Number of trials that reached it by identity."""
    wrong: int = 0
    slower: int = 0
    refused: int = 0
    """Number of refused steps in all trials."""
    cut: int = 0
    """Trials that were cut, which count for nothing else."""
    seconds: float | None = None
    """Median wall seconds; None where no trial has them."""
    device: str = ""
    until: tuple[int, int, float] | None = None
    """Trials, steps and GPU-seconds, one trial after another, until the first reached the expert's
    latency; None where none did."""
    until_seconds: float | None = None
    """Wall seconds of these trials; None where one of them has none."""


def learned_library(folder: Path, cards: Cards) -> Library:
    """The cards of a folder and no others, all of them asked for, whole or bare.

    Raises WorkbenchError for a folder without cards or with one that cannot be used.
    """
    found = load_library(
        folder, shipped_folder=folder / "no-shipped-ones", preferences=Preferences()
    )
    if not found.skills:
        raise WorkbenchError(
            "there are no cards to go by",
            where=str(folder),
            todo="workbench skills induce LINEAGE... --out DIR writes some",
        )
    skills = {i: stripped(one, cards) for i, one in found.skills.items()}
    return Library(skills, pinned=frozenset(skills))


def stripped(skill: Skill, cards: Cards) -> Skill:
    """A card without a part of what it says.

    Without conditions it holds in every family and after every card, and does not say where which
    of its values was seen; without anchors it does not say which block or kernel it is about;
    without risks nothing warns. A bare one is a line in a plain list of tricks, which stand there
    in any order: the edit and its values. That the edit finds a place to be made is not a condition
    of the card and stays.
    """
    if cards in {"no conditions", "bare"}:
        scope = structs.replace(skill.card.scope, families=("*",), after=(), not_after=())
        card = structs.replace(skill.card, precondition=(), requires=(), conflicts=(), scope=scope)
        # Where which value was seen is a condition too.
        card = structs.replace(card, evidence=())
        skill = structs.replace(skill, card=card, preconditions=())
    if cards in {"no anchors", "bare"}:
        grid = {name: v for name, v in skill.card.carrier.grid.items() if name != "block"}
        carrier = structs.replace(skill.card.carrier, grid=grid)
        rows = [structs.replace(r, kernel="", parameters={}) for r in skill.card.evidence]
        card = structs.replace(skill.card, anchor="", carrier=carrier, evidence=tuple(rows))
        skill = structs.replace(skill, card=card)
    if cards in {"no risks", "bare"}:
        skill = structs.replace(skill, card=structs.replace(skill.card, risk=()), risks=())
    return skill


def lacking(expert: str, kernel: str) -> list[str]:
    """Mechanisms that the walk finds in the expert and not in another kernel, by name."""
    have = {inverse.category for inverse, _, _ in removable(kernel)}
    return sorted({inverse.category for inverse, _, _ in removable(expert)} - have)


def uncarded(steps: Sequence[Instance], library: Library) -> dict[str, str]:
    """Mechanisms of a lineage that no card carries, by name, each with a sentence that says why.

    Every accepted step of a lineage makes a card (`lineage.induce`), so one that is missing was
    taken away, or was lifted from other lineages than these.
    """
    cards = [skill.card for skill in library.skills.values()]
    carried = {card.carrier.edit for card in cards if card.carrier.edit}
    provided = {feature for card in cards for feature in card.provides}
    return {
        one.category: f"no card here carries {one.category}"
        for one in steps
        if one.accepted and one.edit not in carried and one.feature not in provided
    }


def summaries(trials: Sequence[Trial]) -> list[Summary]:
    """One for each workload, form of cards and GPU, in the order of the trials.

    Numbers of two kinds of GPU, or of a GPU and the CPU path, are never put together.
    """
    groups: dict[tuple[str, Cards, str], list[Trial]] = {}
    for trial in trials:
        if trial.state != "cut":
            groups.setdefault((trial.workload, trial.cards, trial.device), []).append(trial)
    # Whoever was cut was asked on no GPU yet, and stands with those that were judged.
    for trial in trials:
        if trial.state == "cut":
            mine = [key for key in groups if key[:2] == (trial.workload, trial.cards)]
            here = (trial.workload, trial.cards, trial.device)
            groups.setdefault(here if here in mine or not mine else mine[0], []).append(trial)
    return [_summary(workload, cards, group) for (workload, cards, _), group in groups.items()]


def _summary(workload: str, cards: Cards, every: Sequence[Trial]) -> Summary:
    group = [one for one in every if one.state != "cut"]
    ratios = [one.ratio for one in group if one.ratio is not None]
    seconds = [one.seconds for one in group or every if one.seconds is not None]
    until = _until(group)
    return Summary(
        workload=workload,
        cards=cards,
        trials=len(group),
        reached=sum(one.reached for one in group),
        ratio=median(ratios) if ratios else None,
        kind=next((one.kind for one in group if one.kind is not None), None),
        steps=median(one.steps for one in group or every),
        gpu_seconds=median(one.gpu_seconds for one in group or every),
        identical=sum(one.identical for one in group),
        wrong=sum(one.wrong for one in group),
        slower=sum(one.slower for one in group),
        refused=sum(one.refused for one in group),
        cut=len(every) - len(group),
        seconds=median(seconds) if seconds else None,
        device=(group or every)[0].device,
        until=until,
        until_seconds=None if until is None else _seconds(group[: until[0]]),
    )


def _until(group: Sequence[Trial]) -> tuple[int, int, float] | None:
    """What the trials cost up to the first that reached it."""
    first = next((place for place, one in enumerate(group, start=1) if one.reached), None)
    if first is None:
        return None
    spent = group[:first]
    return first, sum(one.steps for one in spent), sum(one.gpu_seconds for one in spent)


def _seconds(group: Sequence[Trial]) -> float | None:
    known = [one.seconds for one in group if one.seconds is not None]
    return sum(known) if len(known) == len(group) else None


def newest(trials: Iterable[Trial]) -> list[Trial]:
    """Each trial as its last line has it, in the order in which trials began.

    What was judged is not undone by a later call of the same trial that was cut.
    """
    found: dict[Key, Trial] = {}
    for one in trials:
        before = found.get(one.key)
        if before is None or before.state == "cut" or one.state != "cut":
            found[one.key] = one
    return list(found.values())


def read_trials(path: Path) -> list[Trial]:
    """Trials that were kept, those of a run that was killed as far as they came.

    Raises WorkbenchError for what is no such file.
    """
    kept: list[Trial] = lines.read(
        path, Trial, what="no kept trial", command="workbench bench roundtrip --keep"
    )
    return newest(kept)
