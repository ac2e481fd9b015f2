"""Runs the trials of `bench roundtrip`, groups of them side by side, until a limit or a signal."""

import queue
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import structs

from workbench.bench.lineage_ends import ends_of
from workbench.bench.roundtrip import Cards, Trial, learned_library
from workbench.bench.roundtrip_group import Ask, Ending, Group, Shares, Tell
from workbench.bench.roundtrip_tries import leaps, request_of, runs
from workbench.bench.roundtrip_workload import Workload
from workbench.engine import events as ev
from workbench.engine.interrupting import Interruption, Stopped
from workbench.engine.lineages import line_of
from workbench.search.retrieval import Recorded, retrieve
from workbench.session.bundle import recorded
from workbench.session.records import Budget
from workbench.skills.library import Library
from workbench.skills.records import Card


def run_trials(ask: Ask, tell: Tell) -> Iterator[Trial]:
    """Every trial as it ends; one that asks the gate for each step leaves a session.

    Before its end each comes after every step as far as it is: its `state` is `cut`. The first
    signal ends all trials after their running step, and they stay so. Raises WorkbenchError for
    what is not a lineage, a problem that is not shipped, cards or a device that cannot be used.
    """
    end = None if ask.seconds is None else time.monotonic() + ask.seconds
    found: queue.Queue[Trial | None] = queue.Queue()
    ending = Ending()
    with (
        tempfile.TemporaryDirectory(prefix="workbench-roundtrip-") as scratch,
        ThreadPoolExecutor(max_workers=ask.jobs) as side,
        Interruption() as signals,
    ):
        groups = list(_groups(ask, tell, Path(scratch), found, ending, end))
        running = [side.submit(_run, group) for group in groups]
        try:
            for _ in running:
                while (trial := _next(found, signals, ending, tell)) is not None:
                    yield trial
        finally:
            ending.ask()
        for one in running:
            one.result()


def _groups(
    ask: Ask,
    tell: Tell,
    scratch: Path,
    found: "queue.Queue[Trial | None]",
    ending: Ending,
    end: float | None,
) -> Iterator[Group]:
    libraries = _differing(ask, tell)
    lines = [_line(lineage, learned_library(ask.cards, "whole")) for lineage in ask.lineages]
    shares = Shares(end, len(ask.lineages) * len(libraries), ask.jobs)
    for place, lineage in enumerate(ask.lineages):
        with recorded(lineage) as store:
            ends = ends_of(lineage, store)
        naive = scratch / f"{place}.py"
        naive.write_text(ends.naive, encoding="utf-8")
        ways = retrieve(lines, lines[place].place)
        # Modeled and measured times cannot be compared: a modeled expert is judged on the CPU path.
        where = ask if ends.measured else structs.replace(ask, device="cpu")
        request = request_of(where, ends, naive, "leap", Budget(steps=ask.steps))
        workload = Workload(ends, request, tell, users=len(libraries))
        for form, library in libraries.items():
            yield Group(
                ask=ask,
                ends=ends,
                workload=workload,
                naive=naive,
                form=form,
                library=library,
                way=ways[0] if ways else None,
                shares=shares,
                tell=tell,
                note=found.put,
                ending=ending,
            )


def _next(
    found: "queue.Queue[Trial | None]", signals: Interruption, ending: Ending, tell: Tell
) -> Trial | None:
    """What a group says next, None for its end; a signal is passed on to all groups."""
    if ending.asked:
        return found.get()
    try:
        with signals.interruptible():
            return found.get()
    except Stopped as stopped:
        says = f"{stopped}: every trial ends after its running step, and is kept as far as it came"
        tell(ev.Note(level="warning", says=says))
        ending.ask()
        return found.get()


def _run(group: Group) -> None:
    """Tell every trial of a group, and None behind the last."""
    try:
        for trial in leaps(group) if group.ask.leap else runs(group):
            group.note(trial)
    finally:
        try:
            group.workload.leave()
        finally:
            group.note(None)


def _differing(ask: Ask, tell: Tell) -> dict[Cards, Library]:
    """The cards in every form that was asked for; a form that takes nothing away is told, and not
    tried again."""
    whole = learned_library(ask.cards, "whole")
    found: dict[Cards, Library] = {}
    for form in ask.forms:
        library = learned_library(ask.cards, form)
        if form == "whole" or _said(library) != _said(whole):
            found[form] = library
        else:
            says = f"{form}: no card has any to take away, so that whole ones show it too"
            tell(ev.Note(level="info", says=says))
    return found


def _said(library: Library) -> dict[str, Card]:
    return {name: skill.card for name, skill in library.skills.items()}


def _line(lineage: Path, library: Library) -> Recorded:
    with recorded(lineage) as store:
        return line_of(store, library)
