"""What all trials of one workload share: a look on the CPU path, and a judge beside its expert.

Opening a GPU's workers and inspecting a problem there take longer than most verdicts, so that it is
done once for all forms of the cards, in the background, while the first leap is made.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from msgspec import structs

from workbench.bench.lineage_ends import Ends
from workbench.engine.create import RunRequest, create_session
from workbench.engine.holding import Held, Yardstick
from workbench.engine.looking import Look, looking
from workbench.engine.trials import Tell
from workbench.engine.workplace import SessionWorkplace
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import target
from workbench.problems.load import load_problem
from workbench.session.store import SessionStore

_TRACE_SECONDS = 10.0
"""Of one value of a card, to model its time (ours): a convolution in small tiles takes minutes, and
the first value stands in where none is known."""


class Workload:
    """What judges kernels between the ends of a lineage; opened by the first trial that needs it.

    Safe to use from several threads. Verdicts are given one at a time.
    """

    def __init__(self, ends: Ends, request: RunRequest, tell: Tell, users: int) -> None:
        """`request` is for a session that is not kept; after `users` have left it is closed."""
        self.ends = ends
        self.problem = load_problem(ends.problem)
        self._request = request
        self._tell = tell
        self._users = users
        self._stack = ExitStack()
        self._side = ThreadPoolExecutor(max_workers=2)
        self._opened: tuple[Future[Look], Future[Yardstick]] | None = None
        self._lock = threading.Lock()
        self._judging = threading.Lock()
        self._asking = 0
        self._judged: dict[str, Held] = {}
        self._took: list[float] = []

    def open(self) -> "tuple[Future[Look], Future[Yardstick]]":
        """Start the workers and inspect the problem, on both paths, without waiting for it."""
        with self._lock:
            if self._opened is None:
                look, expert = self._side.submit(self._looking), self._side.submit(self._expert)
                self._opened = look, expert
            return self._opened

    def look(self) -> Look:
        """Policy and compile on the CPU path; each kernel is looked at once.

        Raises WorkbenchError where no worker starts.
        """
        look, _expert = self.open()
        return look.result()

    def hold(self, source: str) -> Held:
        """Gate a kernel beside the expert; one that was judged before has the same answer.

        Raises WorkbenchError where no worker starts.
        """
        sha = normalized_sha256(source)
        with self._lock:
            self._asking += 1
        try:
            with self._judging:
                if sha not in self._judged:
                    _look, expert = self.open()
                    yardstick = expert.result()
                    began = time.monotonic()
                    self._judged[sha] = yardstick.hold(source)
                    self._took.append(time.monotonic() - began)
                return self._judged[sha]
        finally:
            with self._lock:
                self._asking -= 1

    @property
    def price(self) -> float:
        """Seconds until a verdict that is asked for now is likely to be there.

        By the verdicts that were given here; before there are any by the recorded one on the
        expert, if that is of a GPU and there is one here.
        """
        with self._lock:
            took, before = list(self._took), self._asking
        recorded = sum(stage.seconds for stage in self.ends.report.stages)
        one = median(took) if took else recorded if self._measures else 0.0
        return one * (1 + before)

    def leave(self) -> None:
        """One user fewer; the last one closes everything."""
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
        self._side.shutdown(cancel_futures=True)
        self._stack.close()

    @property
    def _measures(self) -> bool:
        return self.ends.measured and self._request.device != "cpu"

    def _looking(self) -> Look:
        return self._stack.enter_context(
            looking(self.problem, target(self.ends.target), _TRACE_SECONDS)
        )

    def _expert(self) -> Yardstick:
        there = self._stack.enter_context(self._workplace())
        elsewhere = self.ends.measured and not self._measures
        found = Yardstick(there, self.ends.expert, self.ends.report, elsewhere=elsewhere)
        if took := found.get_ready():
            self._took.append(took)
        return found

    @contextmanager
    def _workplace(self) -> Iterator[SessionWorkplace]:
        """A workplace of a session that is not kept."""
        with tempfile.TemporaryDirectory(prefix="workbench-leap-") as scratch:
            path = create_session(structs.replace(self._request, sessions=Path(scratch)))
            store = SessionStore.open(path)
            place = SessionWorkplace(store, store.settings(), None, self._tell, may_resize=False)
            try:
                yield place
            finally:
                place.close()
