"""Prepares the generated code of two versions for display: a diff for each level, or why not."""

import asyncio

from msgspec import Struct
from textual.content import Content

from workbench.engine.generated import VersionCode
from workbench.kernels.code_text import LEVELS, both_sides
from workbench.tui.diff.assembly import coloured
from workbench.tui.diff.paint import Compared, compared
from workbench.tui.draw import line, wrapped
from workbench.tui.feed import Reading
from workbench.tui.look import Look


class CodePair(Struct, frozen=True):
    """The generated code of two versions."""

    one: VersionCode
    other: VersionCode

    @property
    def whole(self) -> bool:
        """Whether the code of both versions is available."""
        return not (self.one.lacks or self.other.lacks)

    @property
    def offers(self) -> bool:
        """Whether compiling on this machine would supply missing code."""
        return self.one.again or self.other.again

    def notes(self, level: str, at: Compared) -> str:
        """A line under a diff: its summary, and which side was compiled now instead of kept."""
        gone, came = at.difference.removed, at.difference.added
        binaries = [{c.code_sha256 for c in side.kernels} for side in (self.one, self.other)]
        if binaries[0] == binaries[1]:
            says = "the same machine code"
        elif gone or came:
            counted = f"{level.upper()}: {gone} line{'s' if gone != 1 else ''} went, {came} came"
            says = f"{counted}; names as in v{self.one.number}"
        else:
            says = f"the same {level.upper()}, other machine code"
        return "; ".join([says, *(side.made for side in (self.one, self.other) if side.made)])


async def read_code(reading: Reading, a: int, b: int) -> CodePair:
    """The kept code of both versions. Raises WorkbenchError or OSError."""
    return CodePair(await reading.code(a), await reading.code(b))


async def compile_again(reading: Reading, pair: CodePair) -> CodePair:
    """The pair with missing code compiled on this machine. Raises WorkbenchError or OSError."""
    one, other = [
        await reading.code_again(side.number) if side.again else side
        for side in (pair.one, pair.other)
    ]
    return CodePair(one, other)


async def diffs_of(pair: CodePair, look: Look) -> dict[str, Compared]:
    """A comparison for each level, made outside the screen's thread."""

    def prepare(level: str) -> Compared:
        before, after = both_sides(pair.one.kernels, pair.other.kernels, level)
        return compared(before, after, lambda lines: coloured(lines, look, level))

    return {level: await asyncio.to_thread(prepare, level) for level in LEVELS}


def why_not(pair: CodePair, look: Look, width: int, key: str) -> list[Content]:
    """Lines that say which code is missing, and which `key` compiles it."""
    says = [side.lacks for side in (pair.one, pair.other) if side.lacks]
    lines = [line((f" {text}", look.text)) for one in says for text in wrapped(one, width - 2)]
    if pair.offers:
        from importlib import metadata

        tool = f"triton {metadata.version('triton')}"
        offer = f"{key} compiles it now with {tool}, on this machine's CPU; takes some seconds"
        lines += [line(""), *(line((f" {t}", look.accent)) for t in wrapped(offer, width - 2))]
    return lines
