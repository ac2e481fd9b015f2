"""A session that asks a model, with a written gate: to be killed at any moment and resumed.

`python agents_writer.py FOLDER` makes an engine for each line of input, one at a time, and says its
process and how it ended. They are forks of one that has everything imported.
"""

import os
import sys
from pathlib import Path

from agents_kit import situation
from engine_parts import ScriptedWorkplace
from msgspec import structs

from workbench.agents.memory import remember
from workbench.engine.history import History
from workbench.engine.serve import serve_session
from workbench.engine.talks import Talks
from workbench.kernels.source import normalized_sha256
from workbench.search.records import NoProposal


class TalkingWorkplace(ScriptedWorkplace):
    """Plans and candidates by the model; verdicts as they are written down."""

    def __init__(self, store, settings, own_seed, emit, **options) -> None:
        super().__init__(store, settings, own_seed, emit, **options)
        self.store = store
        self.talks = Talks(store.state, settings.budget, emit)

    def propose(self, history: History):
        if history.incumbent is None:
            return NoProposal(reason="there is no kernel")
        sources = {t.number: self.store.source(t.number) for t in history.transitions}
        hashes = {number: normalized_sha256(source) for number, source in sources.items()}
        now = situation(self.store.state, memory=remember(history.transitions, hashes))
        state = structs.replace(now.state, number=history.incumbent.number)
        return self.talks.next(structs.replace(now, state=state), self.store.source)

    def close(self) -> None:
        super().close()
        self.talks.close()


def serve(folder: Path):
    return serve_session(
        folder, open_workplace=lambda *given: TalkingWorkplace(*given, gate_seconds=0.02)
    )


def nursery(folder: Path) -> None:
    import openai  # noqa: F401 -- once, for all that are forked

    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(0 if serve(folder).how == "budget" else 3)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else f"ended {status}", flush=True)


if __name__ == "__main__":
    nursery(Path(sys.argv[1]))
