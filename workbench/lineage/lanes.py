"""Where each version of a lineage stands in the drawing of its graph, one row a version.

Newest first. Lane 0 belongs to the accepted line. A version continues the lane of its parent when
it leads on (`_Graph.heir`); every other chain of versions gets a lane of its own, from its tip down
to the row of the parent it was made from, where it joins:

    ◉        v17   in review
    │ ✗      v16   rejected, made from v15
    ★─╯      v15   best
    │ ✗      v14
    │ │ ✗    v13
    ●─┴─╯    v12   two joins in one row
    ●        v11

Chains that lead nowhere stand outside those that do. A tip has no line above it. More than three
tips of one parent share a line and hang beside it, so that a long search stays narrow:

    │ ╭─✗    v20
    │ ├─✗    v19
    │ ├─✗    v18
    │ ├─✗    v17
    ●─╯      v16

Pure: no screen, no git. The rows are made when asked for, so a screen pays for what it shows.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from heapq import heappop, heappush
from typing import NamedTuple, Protocol, overload

from workbench.session.records import Answer

_FAN = 3
"""Tips of one parent that still get a lane each; ours, as many as can be told apart at a glance."""


class Drawable(Protocol):
    """What must be known of a version to draw it; `engine.view.Version` is one."""

    @property
    def number(self) -> int:
        """Larger than its parent's."""

    @property
    def parent(self) -> int | None:
        """None for a seed. A parent that is not drawn leaves the line open at the bottom."""

    @property
    def answer(self) -> Answer:
        """What became of it."""

    @property
    def best(self) -> bool:
        """The fastest accepted so far."""

    @property
    def accepted_line(self) -> bool:
        """Whether the version is on `main`."""


class Role(StrEnum):
    """What a cell is."""

    NODE = "node"
    JOIN = "join"
    """Where a lane turns into a version's row, or a tip branches off a shared line."""
    LINE = "line"
    BLANK = "blank"


class Cell(NamedTuple):
    """One character of a row."""

    glyph: str
    role: Role
    lane: int
    """The lane whose colour it has; for a blank, the lane in which it lies."""
    faint: bool
    """Belongs to a chain in which nothing was kept."""


class Row(NamedTuple):
    """One version in the graph."""

    number: int
    lane: int
    """The version's lane; its mark is `cells[2 * lane]`."""
    cells: tuple[Cell, ...]
    """Lanes are two characters apart; ends with the last cell that is not blank."""

    @property
    def text(self) -> str:
        """The row as characters."""
        return "".join(cell.glyph for cell in self.cells)


REVIEW, BEST, KEPT, REJECTED = "◉★●✗"

_LINES = {
    "": " ",
    "ud": "│",
    "lr": "─",
    "ul": "╯",
    "ur": "╰",
    "ulr": "┴",
    "dr": "╭",
    "udr": "├",
    "udlr": "┼",
}
"""Glyph by the arms of a cell: up, down, left, right. No other set of arms is ever drawn."""

_ASCII = str.maketrans("◉★●✗│─╯╰┴╭├┼", "@*ox|-'`+,++")


def to_ascii(text: str) -> str:
    """The same drawing for a terminal without line characters, one character for each."""
    return text.translate(_ASCII)


class Lanes(Sequence[Row]):
    """The graph of a lineage: rows by position, newest first, each computed when asked for."""

    def __init__(self, versions: Iterable[Drawable]) -> None:
        self._versions = sorted(versions, key=lambda version: version.number, reverse=True)
        chains = _chains(_Graph(self._versions))
        _assign(chains, len(self._versions))
        self.width = max((chain.lane + chain.breadth for chain in chains), default=0)
        """Lanes that the whole drawing needs; a row has fewer than twice as many cells."""
        self._chain_of = {row: chain for chain in chains for row in chain.rows}
        self._joining: dict[int, list[_Chain]] = {}
        self._by_lane: list[list[_Chain]] = [[] for _ in range(self.width)]
        for chain in sorted(chains, key=lambda chain: chain.top):
            self._by_lane[chain.lane].append(chain)
            if chain.joins:
                self._joining.setdefault(chain.bottom, []).append(chain)

    def __len__(self) -> int:
        return len(self._versions)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return [self._row(row) for row in range(*index.indices(len(self)))]
        return self._row(range(len(self))[index])

    def _row(self, row: int) -> Row:
        version, own = self._versions[row], self._chain_of[row]
        lane = own.lane + own.breadth - 1
        joins = _Joins(lane, [*self._joining.get(row, ()), *([own] if own.shared else ())])
        cells: list[Cell] = []
        for at in range(self.width):
            if at == lane:
                cells.append(Cell(_mark(version), Role.NODE, at, own.dead))
            else:
                cells.append(self._beside(row, at, joins))
            reaching = joins.across(at, 1)
            cells.append(_blank(at) if reaching is None else _arm(reaching))
        while cells[-1].role is Role.BLANK:
            cells.pop()
        return Row(version.number, lane, tuple(cells))

    def _beside(self, row: int, at: int, joins: "_Joins") -> Cell:
        """A cell in a lane that is not the version's own."""
        passing, reaching = self._alive(row, at), joins.across(at, 0)
        vertical = passing.arms(row) if passing is not None else ""
        arms = "l" * (joins.left < at <= joins.right) + "r" * (joins.left <= at < joins.right)
        if passing is not None and vertical:
            role = Role.JOIN if joins.at(at) is not None else Role.LINE
            return Cell(_LINES[vertical + arms], role, at, passing.dead)
        return _blank(at) if reaching is None else _arm(reaching)

    def _alive(self, row: int, lane: int) -> "_Chain | None":
        """The chain that has the lane in this row."""
        chains = self._by_lane[lane]
        at = bisect_right(chains, row, key=lambda chain: chain.top) - 1
        return chains[at] if at >= 0 and row <= chains[at].bottom else None


def draw(versions: Iterable[Drawable], *, ascii_only: bool = False) -> list[tuple[int, str]]:
    """Number and drawing of every version, newest first, as plain text."""
    rows = [(row.number, row.text) for row in Lanes(versions)]
    return [(number, to_ascii(text)) for number, text in rows] if ascii_only else rows


def _mark(version: Drawable) -> str:
    if version.answer is Answer.PENDING:
        return REVIEW
    if version.best:
        return BEST
    return KEPT if version.answer is Answer.ACCEPTED else REJECTED


def _blank(lane: int) -> Cell:
    return Cell(" ", Role.BLANK, lane, faint=False)


def _arm(chain: "_Chain") -> Cell:
    return Cell(_LINES["lr"], Role.LINE, chain.lane, chain.dead)


class _Joins:
    """The chains that reach a version's row, and whose arm lies in which lane on the way."""

    def __init__(self, lane: int, chains: Iterable["_Chain"]) -> None:
        self._chains = {chain.lane: chain for chain in chains}
        self._lane = lane
        self._lanes = sorted(self._chains)
        self.left = min([lane, *self._lanes[:1]])
        self.right = max([lane, *self._lanes[-1:]])

    def at(self, lane: int) -> "_Chain | None":
        """The chain that turns into the row in this lane."""
        return self._chains.get(lane)

    def across(self, lane: int, after: int) -> "_Chain | None":
        """Whose arm crosses the lane, or with `after` 1 the gap behind it; the nearest further out
        when several do."""
        if not self.left <= lane < self.right + 1 - after:
            return None
        if lane >= self._lane:
            return self._chains[self._lanes[bisect_left(self._lanes, lane + after)]]
        return self._chains[self._lanes[bisect_right(self._lanes, lane) - 1]]


class _Chain:
    """Versions that share a lane: one leading to the next, or tips that branch off a shared
    line."""

    def __init__(
        self, rows: list[int], *, bottom: int | None, dead: bool, shared: bool = False
    ) -> None:
        self.rows = rows
        self.top = min(rows)
        self.joins = bottom is not None
        """Ends in the row of its parent; a seed's chain ends in its own last row."""
        self.bottom = max(rows) if bottom is None else bottom
        self.dead = dead
        self.shared = shared
        self.breadth = 2 if shared else 1
        """Lanes taken: a shared line and the tips beside it need two."""
        self.lane = -1

    def arms(self, row: int) -> str:
        """Where its line goes from this row: up, down."""
        return "u" * (row > self.top) + "d" * (row < self.bottom)


class _Graph:
    """Who comes from whom, by row, and which child leads on."""

    def __init__(self, versions: Sequence[Drawable]) -> None:
        row_of = {version.number: row for row, version in enumerate(versions)}
        self.size = len(versions)
        self.parents: list[int | None] = []
        """Row of the parent; `size`, below the drawing, when that is not drawn."""
        self.children: list[list[int]] = [[] for _ in versions]
        for row, version in enumerate(versions):
            parent = None if version.parent is None else row_of.get(version.parent, self.size)
            if parent is not None and parent <= row:
                raise ValueError(f"v{version.number} is older than its parent v{version.parent}")
            self.parents.append(parent)
            if parent is not None and parent < self.size:
                self.children[parent].append(row)
        self.ranks = [_rank(version) for version in versions]
        for row in range(self.size):  # children stand above, so theirs are final
            self.ranks[row] = max([self.ranks[row], *(self.ranks[c] for c in self.children[row])])

    def dead(self, row: int) -> bool:
        """Neither it nor anything made from it was kept."""
        return self.ranks[row] == _LOST

    def heir(self, row: int) -> int | None:
        """The child that continues the lane; None at a tip, and where a kept one's children all
        lead nowhere."""
        children = [c for c in self.children[row] if self.dead(row) or not self.dead(c)]
        return max(children, key=lambda c: (self.ranks[c], -c), default=None)


_LOST = 0


def _rank(version: Drawable) -> int:
    """How much a version's line deserves the inner lane."""
    if version.accepted_line:
        return 4
    if version.best:
        return 3
    if version.answer is Answer.PENDING:
        return 2
    return 1 if version.answer is Answer.ACCEPTED else _LOST


def _chains(graph: _Graph) -> list[_Chain]:
    """Every version in exactly one chain; the accepted line's comes first."""
    chains: list[_Chain] = []
    tips: dict[tuple[int, bool], list[int]] = {}
    heirs = [graph.heir(row) for row in range(graph.size)]
    for row in range(graph.size):
        parent = graph.parents[row]
        if parent is not None and parent < graph.size and heirs[parent] == row:
            continue  # in its parent's chain
        if heirs[row] is None and parent is not None:
            tips.setdefault((parent, graph.dead(row)), []).append(row)
            continue
        chains.append(_Chain(_line_up(row, heirs), bottom=parent, dead=graph.dead(row)))
    for (parent, dead), rows in tips.items():
        groups = [rows] if len(rows) > _FAN else [[row] for row in rows]
        for group in groups:
            shared = len(group) > 1
            chains.append(_Chain(group, bottom=parent, dead=dead, shared=shared))
    return sorted(chains, key=lambda chain: -max(graph.ranks[row] for row in chain.rows))


def _line_up(row: int, heirs: list[int | None]) -> list[int]:
    """A version and those that continue its lane, oldest first."""
    rows = [row]
    while (heir := heirs[rows[-1]]) is not None:
        rows.append(heir)
    return rows


def _assign(chains: list[_Chain], size: int) -> None:
    """Give each chain the innermost lane that is free from its tip to its end.

    The first chain has lane 0 to itself. Those in which something was kept come next, and the dead
    ones stand outside every lane that lives beside them.
    """
    busy: list[int] = []
    if chains:
        chains[0].lane = 0
        busy += [size] * chains[0].breadth
    living = sorted((c for c in chains[1:] if not c.dead), key=lambda c: c.top)
    for chain in living:
        _shelve(chain, busy, 0)
    outermost = _outermost([c for c in chains if c.lane >= 0], size)
    busy = []
    for chain in sorted((c for c in chains if c.lane < 0), key=lambda c: c.top):
        _shelve(chain, busy, 1 + outermost(chain.top, chain.bottom))


def _shelve(chain: _Chain, busy: list[int], least: int) -> None:
    """Take the first free lanes from `least` on; `busy` has the last row in which each is used."""
    lane = least
    while any(last >= chain.top for last in busy[lane : lane + chain.breadth]):
        lane += 1
    busy.extend([-1] * (lane + chain.breadth - len(busy)))
    busy[lane : lane + chain.breadth] = [chain.bottom] * chain.breadth
    chain.lane = lane


def _outermost(chains: list[_Chain], size: int) -> Callable[[int, int], int]:
    """A function from a stretch of rows to the outermost lane that these chains have in it.

    A table of maxima over stretches of 1, 2, 4, ... rows answers each question in two look-ups.
    """
    lanes = [-1] * (size + 1)
    open_now: list[tuple[int, int]] = []
    by_top = sorted(chains, key=lambda chain: chain.top, reverse=True)
    for row in range(size + 1):
        while by_top and by_top[-1].top <= row:
            chain = by_top.pop()
            heappush(open_now, (1 - chain.lane - chain.breadth, chain.bottom))
        while open_now and open_now[0][1] < row:
            heappop(open_now)
        if open_now:
            lanes[row] = -open_now[0][0]
    table = [lanes]
    while len(table[-1]) > (step := 1 << (len(table) - 1)):
        last = table[-1]
        table.append([max(last[i], last[i + step]) for i in range(len(last) - step)])

    def ask(top: int, bottom: int) -> int:
        level = (bottom - top + 1).bit_length() - 1
        return max(table[level][top], table[level][bottom - (1 << level) + 1])

    return ask
