"""Accounts of a run: what was committed, what it cost, and which limit is reached."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.budget import exhausted, no_look, price, reserve, room, too_little
from workbench.engine.goal import reached_words
from workbench.engine.held import waiting
from workbench.engine.hints import hint_lines
from workbench.engine.history import History
from workbench.engine.holds import Holds, records
from workbench.engine.parts import Purse, Store
from workbench.engine.spending import Spending
from workbench.gate.records import Verdict
from workbench.session.queue import Queued
from workbench.session.records import Answer, Budget, Cost, Decision, Transition
from workbench.session.spends import Spend


class Books:
    """Keeps git and the history in memory in step. Belongs to one asyncio loop."""

    def __init__(
        self,
        store: Store,
        talks: Purse | None,
        history: History,
        budget: Budget,
        emit: Callable[[ev.AnyEvent], None],
        look: Cost | None = None,
        holds: Holds | None = None,
    ) -> None:
        """`look` is what a last look is likely to take; None where there is none. `holds` keeps
        what is spent and not in git yet, for whoever resumes a run that was killed."""
        self._holds = holds
        self._store = store
        self._talks = talks
        self._budget = budget
        self._emit = emit
        self._look = look
        self._folder_says = ""
        self.history = history
        """What has been committed so far."""
        # Dollars are counted reply by reply, as the replies arrive.
        told = budget if talks is None else structs.replace(budget, usd=None)
        self._spending = Spending(told, history.steps + self.rounds, self.cost)

    # -- writing ----------------------------------------------------------------------------

    def commit(self, transition: Transition, source: str) -> None:
        """Commit a decided transition."""
        exchange, best = self._exchange(transition.number), self._is_best(transition)
        commit = self._store.record(transition, source, exchange=exchange, best=best)
        self._remember(transition, commit, decided=True)

    def commit_pending(self, transition: Transition, source: str) -> None:
        """Commit a transition that waits for a person."""
        exchange = self._exchange(transition.number)
        commit = self._store.record_pending(transition, source, exchange=exchange)
        self._remember(transition, commit, decided=False)

    def decide(self, transition: Transition, decision: Decision) -> str:
        """Finish a waiting transition, whose record includes the decision; returns its commit."""
        best = self._is_best(transition)
        commit = self._store.decide(transition.number, decision, best=best)
        self._remember(transition, commit, decided=True)
        return commit

    def spend(self, spend: Spend) -> None:
        """Keep what was spent beside the versions. Raises WorkbenchError where it cannot be."""
        self._store.record_spend(spend)
        self.history = self.history.spent(spend)
        self._settled()
        self.tell_budget()

    def pay_cut_off(self, at: str) -> None:
        """Record in git the least that a killed engine spent, once there is a version to name."""
        versions, holds = self.history.transitions, self._holds
        if holds is None or not holds.carried or not versions:
            return
        cost, beside = Cost(gpu_seconds=holds.carried), self.history.incumbent or versions[-1]
        holds.paid()
        says = "at least: its engine was killed, or failed, while it had a GPU"
        self.spend(Spend(purpose="cut off", version=beside.number, says=says, cost=cost, at=at))

    def queued(self, queue: Sequence[Queued]) -> None:
        """Take note of the open candidates in git, with what was found of them."""
        if self._holds is not None:
            self._holds.queued(queue)

    def _settled(self) -> None:
        if self._holds is not None:
            self._holds.recorded(records(self.history))

    def source(self, number: int) -> str:
        """`kernel.py` of a transition."""
        return self._store.source(number)

    def _is_best(self, transition: Transition) -> bool:
        best = self.history.plus(transition).best
        return best is not None and best.number == transition.number

    def _remember(self, transition: Transition, commit: str, *, decided: bool) -> None:
        self.history = self.history.plus(transition)
        self._settled()
        decision = transition.decision
        if decided:
            self._emit(
                ev.DecisionTaken(
                    number=transition.number,
                    answer=decision.answer,
                    by=decision.by,
                    reason=decision.reason,
                    unproven=transition.gate.verdict is Verdict.UNPROVEN
                    and decision.answer is Answer.REJECTED,
                )
            )
        self._emit(ev.TransitionCommitted(number=transition.number, commit=commit))
        self._tell_folder()
        if self._talks is not None:
            self._talks.begin(self.history)
        self.tell_budget()

    def _tell_folder(self) -> None:
        """Warn once while the folder does not show `main`, for example after a person's edit."""
        says = self._store.worktree.says
        if says and says != self._folder_says:
            self._emit(ev.Note(level="warning", says=f"the session's folder: {says}"))
        self._folder_says = says

    def _exchange(self, number: int) -> list[dict[str, Any]]:
        if self._talks is None:
            return hint_lines(self._store.state, number)
        return self._talks.exchange(number)

    # -- counting ---------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """Rounds with a model that gave no candidate; they count as steps."""
        return 0 if self._talks is None else self._talks.rounds()

    @property
    def cost(self) -> Cost:
        """Everything spent, including replies that have led to no transition yet."""
        spent = self.history.cost
        return spent if self._talks is None else spent.plus(self._talks.open_cost())

    def limit(self) -> str:
        """A sentence on the limit that is reached or leaves too little for a step; empty otherwise.

        A round without a candidate counts as a step.
        """
        rounds = self.rounds
        limit = exhausted(self._budget, self.history.steps + rounds, self.cost)
        if limit:
            return f"{limit}, {rounds} of the steps without a candidate" if rounds else limit
        return too_little(self._budget, self.cost, self._step_price, self._kept_back)

    def room(self) -> int:
        """Steps that fit in the limits once the running one has cost what steps usually cost."""
        steps = self.history.steps + self.rounds
        return room(self._budget, steps, self.cost, self._step_price, self._kept_back) - 1

    def last_turns(self, waiting: int) -> bool:
        """Whether the limit of GPU-seconds has no more room than for those that wait."""
        budget = Budget(gpu_seconds=self._budget.gpu_seconds)
        return room(budget, 0, self.cost, self._step_price, self._kept_back) <= waiting

    def no_look(self) -> str:
        """Which limit has no room for a last look, as a clause; empty where it may be."""
        look = self._look_price
        return "" if look is None else no_look(self._budget, self.cost, look)

    @property
    def _kept_back(self) -> Cost:
        return reserve(self._budget, self._look_price)

    @property
    def _look_price(self) -> Cost | None:
        """What the newest look of the session took, else what the ladder says."""
        looks = self.history.looks
        return looks[-1].cost if looks and self._look is not None else self._look

    @property
    def _step_price(self) -> Cost:
        return price([t for t in self.history.transitions if t.parent is not None])

    def tell_budget(self) -> None:
        """Announce what is spent, and which fraction of a limit has been passed."""
        cost = self.cost
        steps = self.history.steps + self.rounds
        self._emit(ev.BudgetSpent(steps=steps, cost=cost))
        for says in self._spending.news(steps, cost):
            self._emit(ev.Note(level="warning", says=says))

    def goal(self) -> str:
        """A sentence that the goal is reached; empty if it is not, or if there is none."""
        best = self.history.best
        if best is None:
            return ""
        return reached_words(self._budget, best.number, best.gate.time, best.gate.versus_seed)

    def kept(self) -> str:
        """A clause on what the run has achieved."""
        best, talks = self.history.best, self._talks
        says = "nothing is accepted yet" if best is None else f"the best is v{best.number}"
        if aside := [f"v{one.number}" for one in waiting(self.history)]:
            says += f"; put aside: {', '.join(aside)}"
        return says if talks is None else f"{says}; models: {talks.says()}"
