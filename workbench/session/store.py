"""The session repository: every transition a commit, every claim readable with plain git.

Objects are written first, then all references of one step move in a single transaction, then the
files of `main` are put in the folder. A kill at any moment leaves a whole history, and `recover`
finishes what was begun. There is no other database.
"""

import secrets
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Self

import msgspec

from workbench.errors import WorkbenchError
from workbench.session import moves, spends, toml
from workbench.session.composing import Standing, compose
from workbench.session.creation import lay_out, settle, taken
from workbench.session.layout import (
    BEST,
    FILES,
    MAIN,
    START,
    START_FILES,
    attempt_ref,
    not_a_session,
    pending_ref,
)
from workbench.session.mending import mended
from workbench.session.moves import MOVES, Move, move_ref, next_move
from workbench.session.names import check_name
from workbench.session.objects import Person, blob, commit, tree
from workbench.session.plumbing import NO_REF, Update, check_git, person
from workbench.session.reader import Overview, ProblemFiles, Record, SessionReader
from workbench.session.records import Answer, Decision, SessionSettings, Transition
from workbench.session.recovery import drop_stale_locks, unfinished_move, unfinished_steps
from workbench.session.worktree import WorktreeState, update_worktree

__all__ = ["Overview", "ProblemFiles", "Record", "SessionStore"]

_TIDY_EVERY = 64
"""Transitions between two packings; keeps a lineage of thousands quick to list. Ours."""

_MANY_LOOSE = 2000
"""Loose objects above which `tidy` packs them; ours: about 300 transitions."""


class SessionStore(SessionReader):
    """The writing side of a session. Whoever writes holds the session's `EngineLock`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.worktree = WorktreeState()
        """How the files in the folder stood after the last write."""
        self._writing = threading.RLock()

    @classmethod
    def create(
        cls, folder: Path, settings: SessionSettings, problem: str, sidecar: str = ""
    ) -> Self:
        """A new session in a folder that does not exist yet; whole at once or not there at all.

        `problem` and `sidecar` are the texts of the problem file and of the TOML beside it.
        """
        check_name(folder.name)
        check_git()
        if settings.name != folder.name:
            raise ValueError(f"settings of {settings.name!r} for a folder named {folder.name!r}")
        if folder.exists() or folder.is_symlink():
            raise taken(folder)
        draft = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            lay_out(draft, settings, problem, sidecar)
            settle(draft, folder)
        except OSError as fault:
            raise WorkbenchError(
                f"the session cannot be created: {fault.strerror}",
                where=str(folder),
                todo="choose a folder you can write to with `--sessions`",
            ) from fault
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return cls(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """An existing session; WorkbenchError when there is none that can be read."""
        return cls(folder)

    def save_settings(self, settings: SessionSettings) -> None:
        """New settings (a larger budget, another mode) for the transitions to come."""
        if settings.name != self.settings().name:
            raise ValueError("a session's name is its folder's")
        self._save_start("session.toml", toml.encode_settings(settings), "settings changed")

    def save_sidecar(self, sidecar: str) -> None:
        """A sidecar for the problem, for the transitions to come."""
        self._save_start("problem.toml", sidecar.encode(), "sidecar made")

    def _save_start(self, name: str, content: bytes, why: str) -> None:
        with self._writing:
            old = self.git.ids(START).get(START, NO_REF)
            texts = {**self._begun(*START_FILES), name: content}
            blobs = {part: blob(text) for part, text in texts.items()}
            root = tree({part: data.id for part, data in blobs.items()})
            if root.id != old:
                self.git.store([*blobs.values(), root])
                self.git.move([Update(START, root.id, old)], why)

    def record(
        self,
        transition: Transition,
        source: str,
        *,
        extra: toml.Json | None = None,
        exchange: Sequence[toml.Json] = (),
        best: bool = False,
    ) -> str:
        """Commit a decided transition and return its commit id.

        An accepted one becomes `main`; with `best` it becomes that too, as the first accepted one
        does in any case. Raises WorkbenchError when the number is taken, the parent is missing or
        the disk refuses; then nothing has changed. One case is told after the commit is safe:
        `main` was moved by hand, and stays where the person put it.
        """
        if transition.decision.answer is Answer.PENDING:
            raise ValueError("a transition that waits goes to `record_pending`")
        with self._writing:
            record = Record(transition, source, dict(extra or {}), list(map(dict, exchange)))
            return self._publish(record, best=best)

    def record_pending(
        self,
        transition: Transition,
        source: str,
        *,
        extra: toml.Json | None = None,
        exchange: Sequence[toml.Json] = (),
    ) -> str:
        """Commit a gated transition that waits for a person; it survives any restart."""
        if transition.decision.answer is not Answer.PENDING:
            raise ValueError("a decided transition goes to `record`")
        with self._writing:
            record = Record(transition, source, dict(extra or {}), list(map(dict, exchange)))
            objects, commit_id = compose(
                record, self._look(transition.parent), self._person, str(self.folder)
            )
            self.git.store(objects)
            ref = pending_ref(transition.number)
            untaken = Update(attempt_ref(transition.number), NO_REF, NO_REF)
            self.git.move([Update(ref, commit_id, NO_REF), untaken], _reflog(transition))
            return commit_id

    def decide(self, number: int, decision: Decision, *, best: bool = False) -> str:
        """Finish a waiting transition: a new commit under attempts, the waiting one gone.

        WorkbenchError when that number does not wait: a late answer changes nothing.
        """
        if decision.answer is Answer.PENDING:
            raise ValueError("a decision is accepted, rejected or vetoed")
        with self._writing:
            waiting = self.git.ids(pending_ref(number)).get(pending_ref(number))
            if waiting is None:
                raise WorkbenchError(
                    f"v{number} does not wait for a decision",
                    where=str(self.folder),
                    todo="`workbench status` says what waits",
                )
            files = self._files(waiting)
            where = f"v{number} of {self.folder}"
            toml.refuse_newer(files["transition.toml"], files["profile.json"], where)
            was = self.record_of(number)
            transition = msgspec.structs.replace(was.transition, decision=decision)
            return self._publish(was._replace(transition=transition), best=best, waiting=waiting)

    def move_main(self, move: Move) -> str:
        """Make another version the incumbent, as `move` describes; returns that commit's id.

        `main` must be at `move.before`, and the versions that it and `best` go to must be decided.
        Raises WorkbenchError where they are not, and where `main` was moved by hand; then nothing
        has changed.
        """
        with self._writing:
            before, to, best = (attempt_ref(n) for n in (move.before, move.to, move.best))
            refs = {ref.name: ref for ref in self.git.refs(MAIN, BEST, MOVES, before, to, best)}
            for name in (to, best):
                summary = self._summary(refs[name]) if name in refs else None
                if summary is None or summary.answer is not Answer.ACCEPTED:
                    why = f"{name} is not an accepted version"
                    raise moves.unmoved(move, why, str(self.folder))
            if MAIN not in refs or before not in refs or refs[MAIN].id != refs[before].id:
                raise moves.unmoved(move, f"main is not at v{move.before}", str(self.folder))
            stamp = self._person.stamp(int(time.time()))
            text = moves.message(move)
            node = commit(refs[to].tree, [refs[before].id], stamp, stamp, text)
            self.git.store([node])
            updates = [Update(move_ref(next_move(refs)), node.id, NO_REF)]
            updates.append(Update(MAIN, refs[to].id, refs[before].id))
            if BEST not in refs or refs[BEST].id != refs[best].id:
                was = refs[BEST].id if BEST in refs else NO_REF
                updates.append(Update(BEST, refs[best].id, was))
            self.git.move(updates, move.says())
            self._show(refs[to].id, earlier=refs[before].id)
            return node.id

    def record_spend(self, spend: spends.Spend) -> None:
        """Keep what was spent beside the versions. Raises WorkbenchError; then nothing changed."""
        with self._writing:
            spends.keep(self.git, spend, attempt_ref(spend.version), self._person)

    def restore_worktree(self) -> WorktreeState:
        """Put `main`'s files in the folder where they are missing or from an older `main`."""
        with self._writing:
            self._refresh()
            return self.worktree

    def recover(self) -> tuple[str, ...]:
        """Finish what a killed engine had begun, and put back what damage took; says what was
        done. Needs the engine lock."""
        scratch = self.state / "scratch"
        with self._writing:
            try:
                done = [*drop_stale_locks(self.git.git_dir), *mended(self)]
                done += self._finish_moves()
                shutil.rmtree(scratch, ignore_errors=True)
                if scratch.is_file():
                    scratch.unlink()
                scratch.mkdir(exist_ok=True)
            except OSError as fault:
                raise WorkbenchError(
                    f"the session cannot be taken over: {fault.strerror}",
                    where=str(fault.filename or self.folder),
                    todo="check that the folder is yours and writable",
                ) from fault
            self._refresh()
            return tuple(done)

    def tidy(self) -> None:
        """Pack references and, when there are many, objects; safe to be killed in its middle."""
        with self._writing:
            self.git.run("pack-refs", "--all", "--prune")
            loose = int(self.git.run("count-objects").split()[0])
            if loose > _MANY_LOOSE:
                self.git.run("repack", "-d", "-l", "-q")

    # How a step is written

    def _look(self, parent: int | None) -> Standing:
        """What a step is written on top of; one git call."""
        names = [
            f"{START}^{{tree}}",
            MAIN,
            BEST,
            *([] if parent is None else [attempt_ref(parent)]),
        ]
        start, main, best, *parents = self.git.objects(*names)
        if start is None:
            raise not_a_session(self.folder, f"it has no {START}")
        return Standing(
            files=self.git.plain_files(start),
            heads={ref: found.id for ref, found in ((MAIN, main), (BEST, best)) if found},
            parents=[found.id for found in parents if found is not None],
        )

    def _publish(self, record: Record, *, best: bool, waiting: str = NO_REF) -> str:
        """Write a decided step and move every reference of it at once, then show `main`'s files.

        The branches come first and the removal last: whatever part of the moves a power cut lets
        through, `recover` sees from it what is missing.
        """
        number, parent = record.transition.number, record.transition.parent
        accepted = record.transition.decision.answer is Answer.ACCEPTED
        standing = self._look(parent)
        objects, commit_id = compose(record, standing, self._person, str(self.folder))
        self.git.store(objects)
        heads = standing.heads
        # The usual step is made from `main` itself, which is then ours without a further look.
        foreign = accepted and heads.get(MAIN) not in standing.parents and self._moved_by_hand()
        updates = []
        if accepted and not foreign:
            updates.append(Update(MAIN, commit_id, heads.get(MAIN, NO_REF)))
        if accepted and (best or BEST not in heads):
            updates.append(Update(BEST, commit_id, heads.get(BEST, NO_REF)))
        updates.append(Update(attempt_ref(number), commit_id, NO_REF))
        updates.append(Update(pending_ref(number), NO_REF, waiting))
        self.git.move(updates, _reflog(record.transition))
        if foreign:
            raise moves.foreign_main(number, heads[MAIN], commit_id, str(self.folder))
        if accepted:
            self._show(commit_id, earlier=heads.get(MAIN))
        self._keep_tidy(number)
        return commit_id

    def _keep_tidy(self, number: int) -> None:
        if number % _TIDY_EVERY == _TIDY_EVERY - 1:
            # Housekeeping that fails takes nothing from a step that is safe; the next one tries.
            with suppress(WorkbenchError):
                self.tidy()

    def _moved_by_hand(self) -> bool:
        """Whether `main` names a commit that is not a transition of ours."""
        for main in self.git.refs(MAIN):
            summary = self._summary(main)
            attempt = "" if summary is None else attempt_ref(summary.number)
            return summary is None or self.git.ids(attempt).get(attempt) != main.id
        return False

    def _refresh(self) -> None:
        main = self.git.ids(MAIN).get(MAIN)
        if main is None:
            self.worktree = WorktreeState()
        elif self._moved_by_hand():
            self.worktree = WorktreeState(says="`main` was moved by hand; the files were left")
        else:
            self._show(main)

    def _show(self, main: str, earlier: str | None = None) -> None:
        """Put `main`'s files in the folder; one that cannot be written is told, not raised."""
        try:
            wanted = {name: id_ for name, id_ in self.git.files(main).items() if name in FILES}
            self.worktree = update_worktree(self.git, wanted, self.state)
            if self.worktree.edited and earlier is not None:
                # Perhaps no edit: the person left `main` and came back to it by git's own checkout.
                shown = self.git.files(earlier)
                self.worktree = update_worktree(self.git, wanted, self.state, shown)
        except (OSError, ValueError, WorkbenchError) as fault:
            # The commit is safe by now; files that lag behind it are put right by the next call.
            says = f"the files in the folder could not be updated: {fault}"
            self.worktree = WorktreeState(says=says)

    # How a step that was cut short is finished

    def _finish_moves(self) -> list[str]:
        heads = {ref.name: self._summary(ref) for ref in self.git.refs(MAIN, BEST)}
        known = {name: summary for name, summary in heads.items() if summary is not None}
        unique = {update.name: update for update in unfinished_steps(self.git, known)}
        if unique:
            self.git.move(list(unique.values()), "recover")
        late = unfinished_move(self.git)
        if late:
            self.git.move(late, "recover")
        return [f"finished {name}" for name in (*unique, *(update.name for update in late))]

    @cached_property
    def _person(self) -> Person:
        return person()


def _reflog(transition: Transition) -> str:
    return f"v{transition.number} {transition.decision.answer.value}"
