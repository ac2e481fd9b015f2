"""A made-up session that the screen can draw: its snapshots, and a client that plays them."""

import asyncio
from collections.abc import AsyncIterator

from fake_code import fake_code, fake_code_again
from fake_records import PARENT_SOURCE, PLAN, SOURCE, STEPS, speed, transition, version
from msgspec import structs

from workbench.engine.generated import VersionCode
from workbench.engine.view import LogLine, Snapshot, State, StripStage
from workbench.engine.wishes import Choose, Submit
from workbench.errors import WorkbenchError
from workbench.gate.records import Outcome, Stage
from workbench.measure.records import Kind
from workbench.session.records import Answer, Budget, Cost, Decision, Transition

STRIP = tuple(
    StripStage(stage=stage, outcome=Outcome.PASSED, seconds=seconds, says="passed")
    for stage, seconds in zip(Stage, (0.03, 0.6, 1.4, 0.8), strict=True)
)

LOG = tuple(
    LogLine(at=f"2025-06-01T21:04:{second:02d}.000+00:00", level=level, says=says)
    for second, level, says in (
        (1, "info", "run started on cpu for sm90, mode review"),
        (2, "info", f"v12 from v9: {PLAN.title} (BLOCK=8192, num_warps=8) on rms_kernel"),
        (3, "info", "v12 policy passed in 0.03 s: 1 kernel launched from forward"),
        (5, "info", "v12 profile passed in 0.80 s: 2.31x the seed, modeled"),
        (5, "warning", "v12 waits for your decision"),
    )
)  # fmt: skip


def waiting(**changes: object) -> Snapshot:
    """A session of thirteen versions whose newest waits for a person."""
    snapshot = Snapshot(
        revision=41, name="rms-quiet-otter", path="/tmp/sessions/rms-quiet-otter",
        problem="rmsnorm", device="cpu", target="sm90", mode="review", state=State.WAITING,
        engine_pid=4242, versions=tuple(version(step) for step in STEPS), current=12, strip=STRIP,
        plan=PLAN, pending=12, best=9, incumbent=9,
        budget=Budget(steps=60, usd=10.0, wall_seconds=3600.0), steps=12,
        spent=Cost(usd=8.12, wall_seconds=1284.0), elapsed_seconds=1702.0, log=LOG,
    )  # fmt: skip
    return structs.replace(snapshot, **changes)


def running(**changes: object) -> Snapshot:
    """The same session while version 12 is in the gate."""
    strip = (
        *STRIP[:2],
        StripStage(stage=Stage.CORRECTNESS, outcome=None, running=True, says="3 of 9 calls"),
        StripStage(stage=Stage.PROFILE, outcome=None),
    )
    base = waiting(
        state=State.RUNNING, pending=None, strip=strip, versions=waiting().versions[:-1], steps=11
    )
    return structs.replace(base, **changes)


def empty(**changes: object) -> Snapshot:
    """A session that has just begun."""
    base = waiting(
        state=State.STARTING, versions=(), current=None, strip=(), plan=None, pending=None,
        best=None, incumbent=None, steps=0, spent=Cost(), elapsed_seconds=0.0, log=(),
    )  # fmt: skip
    return structs.replace(base, **changes)


def measured(**changes: object) -> Snapshot:
    """The waiting session on a GPU."""
    return waiting(
        device="NVIDIA H200",
        versions=tuple(version(step, kind=Kind.MEASURED) for step in STEPS),
        budget=Budget(steps=60, usd=10.0, gpu_seconds=3600.0),
        spent=Cost(usd=8.12, gpu_seconds=1284.0, wall_seconds=1600.0),
        **changes,
    )


class FakeClient:
    """Plays snapshots, answers wishes as the engine would, and remembers them."""

    def __init__(
        self, snapshot: Snapshot, *, sources: tuple[str, str] = (PARENT_SOURCE, SOURCE)
    ) -> None:
        self.now = snapshot
        self.wishes: list[tuple] = []
        self.refuse = ""
        self.kept_code = True
        self._sources = sources
        self._queue: asyncio.Queue[Snapshot | None] = asyncio.Queue()

    @property
    def name(self) -> str:
        return self.now.name

    def snapshot(self) -> Snapshot:
        return self.now

    def push(self, snapshot: Snapshot) -> None:
        """What the engine tells next."""
        self.now = structs.replace(snapshot, revision=self.now.revision + 1)
        self._queue.put_nowait(self.now)

    async def changes(self) -> AsyncIterator[Snapshot]:
        while (snapshot := await self._queue.get()) is not None:
            yield snapshot

    def transition(self, number: int) -> Transition:
        kind = Kind.MODELED if self.now.device == "cpu" else Kind.MEASURED
        row = next(v for v in self.now.versions if v.number == number)
        record = structs.replace(
            transition(STEPS[number % 13], kind=kind), number=number, parent=row.parent
        )
        if record.decision.answer is row.answer:
            return record
        decision = Decision(answer=row.answer, by="person")
        return structs.replace(record, decision=decision)

    def sources(self, number: int) -> tuple[str, str]:
        before, after = self._sources
        return ("", before) if number == 0 else (before, after)

    def code(self, number: int) -> VersionCode:
        return fake_code(number, kept=self.kept_code)

    def code_again(self, number: int) -> VersionCode:
        return fake_code_again(number)

    async def decide(self, number: int, answer: Answer, reason: str) -> str:
        self.wishes.append(("decide", number, answer, reason))
        if self.refuse or self.now.pending != number:
            raise WorkbenchError(
                self.refuse or f"v{number} does not wait for a decision; nothing was changed",
                todo="look at the one that waits",
            )
        versions = tuple(
            structs.replace(v, answer=answer) if v.number == number else v
            for v in self.now.versions
        )
        self.push(structs.replace(self.now, versions=versions, pending=None, state=State.RUNNING))
        return f"v{number} {answer}"

    async def pause(self) -> str:
        self.wishes.append(("pause",))
        self.push(structs.replace(self.now, state=State.PAUSED))
        return "the run pauses after the running step"

    async def go(self) -> str:
        self.wishes.append(("go",))
        self.push(structs.replace(self.now, state=State.RUNNING))
        return "the run goes on"

    async def undo(self, number: int) -> str:
        return self._move("undo", number)

    async def branch(self, number: int) -> str:
        return self._move("branch", number)

    def _move(self, kind: str, number: int) -> str:
        self.wishes.append((kind, number))
        if self.refuse:
            raise WorkbenchError(self.refuse)
        return f"{kind} v{number}"

    async def stop(self) -> str:
        self.wishes.append(("stop",))
        return "the run ends after the running step"

    async def hint(self, text: str) -> str:
        self.wishes.append(("hint", text))
        return "kept for the prompts from v13 on"

    async def choose(self, wish: Choose) -> str:
        self.wishes.append(("choose", wish))
        return f"{wish.skill} is the next step" if wish.skill else "your choice is withdrawn"

    async def submit(self, wish: Submit) -> str:
        self.wishes.append(("submit", wish))
        return "v13 accepted: faster"


def many(count: int) -> Snapshot:
    """A long session: every fourth version is kept, the newest waits."""
    template = waiting().versions
    kept = 0
    versions = []
    for number in range(count):
        good = number % 4 == 0
        ratio = 1.0 + 1.5 * number / count
        row = template[4] if not good else template[3]
        versions.append(
            structs.replace(
                row, number=number, parent=kept if number else None, title=f"attempt {number}",
                answer=Answer.ACCEPTED if good else Answer.REJECTED, speed_vs_seed=speed(ratio),
                accepted_line=good, best=False,
            )
        )  # fmt: skip
        kept = number if good else kept
    newest = structs.replace(versions[-1], answer=Answer.PENDING, accepted_line=False)
    return waiting(
        versions=(*versions[:-1], newest),
        current=count - 1,
        pending=count - 1,
        best=kept,
        incumbent=kept,
    )
