"""Run in its own process by test_plan_bytes: prints the first plans of every shipped seed as JSON.

`plans_worker.py CARDS` with the folder of the cards.
"""

import hashlib
import sys
from pathlib import Path

import msgspec
from fact_kit import launch, tensor
from msgspec import structs

from workbench.kernels.source import normalized_sha256, read_source
from workbench.kernels.target import target
from workbench.problems.load import load_problem, shipped_problems
from workbench.search.proposer import propose
from workbench.search.records import Proposal, ProposerState, Tried
from workbench.skills.library import Library, load_library

STEPS = 3
"""Steps of each seed, all refused: a later one depends on what was tried before."""


def state_of(name: str, library: Library) -> ProposerState:
    """A session at a seed, with a launch of each kernel that nobody has compiled."""
    problem = load_problem(name)
    source = problem.seed.read_text(encoding="utf-8")
    x = {"x_ptr": tensor(4096, 8192), "out_ptr": tensor(4096, 8192)}
    return ProposerState(
        source=source,
        number=0,
        library=library,
        target=target("sm90"),
        launches=tuple(
            launch(kernel, (4096, 1, 1), x, {"N": 8192, "M": 4096, "K": 8192}, {"BLOCK": 256})
            for kernel in read_source(source).launched
        ),
        family=problem.family,
        precision=problem.precision.value,
        flops=1e12,
        bytes=1e9,
        history=(Tried(number=0, parent=None, sha256="", accepted=True),),
    )


def main(cards: Path) -> None:
    """Print a line for every step of every seed."""
    library = load_library(Path("/nonexistent"), shipped_folder=cards)
    for name in shipped_problems():
        state = state_of(name, library)
        for number in range(1, STEPS + 1):
            found = propose(state)
            line = {"problem": name, "found": found}
            if isinstance(found, Proposal):
                made = hashlib.sha256(found.source.encode()).hexdigest()
                line = {"problem": name, "plan": found.plan, "made": made}
            sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
            if not isinstance(found, Proposal):
                break
            tried = Tried(
                number=number,
                parent=0,
                sha256=normalized_sha256(found.source),
                accepted=False,
                card=found.plan.card,
                kernel=found.plan.kernel,
                parameters=found.plan.parameters,
                speed=0.9,
            )
            state = structs.replace(state, history=(*state.history, tried))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
