"""The lineage's graph as text: one row a version, every version joined to its parent."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.lineage.lanes import Lanes, Role, draw, to_ascii
from workbench.session.records import Answer

ANSWERS = {"k": Answer.ACCEPTED, "x": Answer.REJECTED, "v": Answer.VETOED, "p": Answer.PENDING}


class Made(NamedTuple):
    """A version as the drawing needs it."""

    number: int
    parent: int | None
    answer: Answer = Answer.ACCEPTED
    best: bool = False
    accepted_line: bool = False


def lineage(text: str) -> list[Made]:
    """`7<5 k`: v7 made from v5, kept; x rejected, v vetoed, p pending, m on main, b best."""
    versions = []
    for word in text.replace("\n", ",").split(","):
        if not (words := word.split()):
            continue
        number, _, parent = words[0].partition("<")
        mark = words[1]
        versions.append(
            Made(
                number=int(number),
                parent=int(parent) if parent else None,
                answer=ANSWERS.get(mark, Answer.ACCEPTED),
                best=mark == "b",
                accepted_line=mark in "mb",
            )
        )
    return versions


def drawing(versions: list[Made], *, ascii_only: bool = False) -> str:
    return "\n".join(
        f"{text:<10} v{number}" for number, text in draw(versions, ascii_only=ascii_only)
    )


def block(text: str) -> str:
    """A golden drawing, without the indent of the test."""
    lines = [line[8:] for line in text.splitlines()]
    return "\n".join(lines).strip("\n")


SEARCH = """
    0 m, 1<0 m, 2<0 x, 3<1 m, 4<1 x, 5<3 m, 6<3 v, 7<5 m, 8<7 x, 9<7 k, 10<7 m, 11<10 m
    12<11 m, 13<12 x, 14<12 x, 15<12 b, 16<15 x, 17<15 p
"""


def test_a_search_is_one_straight_line_with_its_rejected_tips_outside() -> None:
    assert drawing(lineage(SEARCH)) == block("""
        ◉          v17
        │ ✗        v16
        ★─╯        v15
        │ ✗        v14
        │ │ ✗      v13
        ●─┴─╯      v12
        ●          v11
        ●          v10
        │ ●        v9
        │ │ ✗      v8
        ●─┴─╯      v7
        │ ✗        v6
        ● │        v5
        │ │ ✗      v4
        ●─╯ │      v3
        │ ✗ │      v2
        ●─┼─╯      v1
        ●─╯        v0
    """)


def test_the_same_drawing_in_ascii() -> None:
    assert drawing(lineage("0 m, 1<0 x, 2<0 k, 3<0 p, 4<2 x, 5<0 b"), ascii_only=True) == block("""
        *          v5
        |     x    v4
        | @   |    v3
        | | o-'    v2
        | | | x    v1
        o-+-+-'    v0
    """)


def test_a_rejected_newest_version_does_not_take_the_accepted_lane() -> None:
    assert drawing(lineage("0 m, 1<0 b, 2<1 x, 3<1 x")) == block("""
          ✗        v3
          │ ✗      v2
        ★─┴─╯      v1
        ●          v0
    """)


def test_many_rejected_children_of_one_parent_share_a_line_and_stay_narrow() -> None:
    stuck = lineage("0 m, 1<0 x, 2<0 x, 3<0 x, 4<0 m, 5<0 x, 6<4 x, 7<0 x, 8<4 b")
    assert drawing(stuck) == block("""
        ★          v8
        │ ╭─✗      v7
        │ │   ✗    v6
        │ ├─✗ │    v5
        ●─┼───╯    v4
        │ ├─✗      v3
        │ ├─✗      v2
        │ ├─✗      v1
        ●─╯        v0
    """)
    crowd = lineage("0 m, " + ", ".join(f"{n}<0 x" for n in range(1, 400)) + ", 400<0 b")
    assert Lanes(crowd).width == 3


def test_a_kept_branch_lies_inside_the_rejected_one_beside_it() -> None:
    assert drawing(lineage("0 m, 1<0 x, 2<0 k, 3<2 k, 4<1 x, 5<0 b, 6<1 x")) == block("""
            ✗      v6
        ★   │      v5
        │   │ ✗    v4
        │ ● │ │    v3
        │ ● │ │    v2
        │ │ ✗─╯    v1
        ●─┴─╯      v0
    """)


def test_a_deep_branch_that_lost_joins_far_below() -> None:
    assert drawing(lineage("0 m, 1<0 k, 2<1 k, 3<2 k, 4<0 m, 5<4 m, 6<5 b")) == block("""
        ★          v6
        ●          v5
        ●          v4
        │ ●        v3
        │ ●        v2
        │ ●        v1
        ●─╯        v0
    """)


def test_each_of_several_seeds_ends_its_own_line() -> None:
    assert drawing(lineage("0 m, 1 k, 2<1 x, 3<0 m, 4 x, 5<3 b, 6<1 k")) == block("""
          ●        v6
        ★ │        v5
        │ │ ✗      v4
        ● │        v3
        │ │ ✗      v2
        │ ●─╯      v1
        ●          v0
    """)


def test_a_parent_that_is_not_shown_leaves_the_line_open() -> None:
    assert drawing(lineage("7<3 m, 8<2 x, 9<7 m")) == block("""
        ●          v9
        │ ✗        v8
        ● │        v7
    """)


def test_nothing_draws_nothing_and_one_version_draws_its_mark() -> None:
    assert draw([]) == []
    assert draw(lineage("0 x")) == [(0, "✗")]


def test_a_parent_with_a_larger_number_is_refused() -> None:
    with pytest.raises(ValueError, match="v1 is older than its parent v2"):
        Lanes(lineage("1<2 k, 2 k"))


def test_rows_are_found_by_position_like_in_any_sequence() -> None:
    lanes = Lanes(lineage(SEARCH))
    assert len(lanes) == 18
    assert [row.number for row in lanes[:3]] == [17, 16, 15]
    assert lanes[-1].number == 0
    with pytest.raises(IndexError):
        lanes[18]


@st.composite
def lineages(draw_from: st.DrawFn) -> list[Made]:
    """Any forest whose parents have smaller numbers; some parents may be cut off."""
    size = draw_from(st.integers(1, 40))
    first = draw_from(st.integers(0, 3))
    spread = draw_from(st.sampled_from([1, 3, size]))
    marks = draw_from(st.lists(st.sampled_from("kkxxxvpmb"), min_size=size, max_size=size))
    versions = []
    for number, mark in enumerate(marks):
        back = draw_from(st.integers(0, min(spread, number)))
        parent = None if back == 0 or number == 0 else number - back
        best, line = mark == "b", mark in "mb"
        versions.append(Made(number, parent, ANSWERS.get(mark, Answer.ACCEPTED), best, line))
    return versions[min(first, size - 1) :]


DOWN, UP = "│┼├╭", "│┼├╯╰┴"


def parent_reached(rows: list[str], nodes: dict[int, tuple[int, int]], number: int) -> int | None:
    """The version at the other end of the line, glyph by glyph; None where it runs off below."""
    at = {place: n for n, place in nodes.items()}
    row, column = nodes[number]
    if column >= 2 and rows[row][column - 1] == "─" and rows[row][column - 2] in "├╭":
        column -= 2  # hangs on a shared line
    while True:
        row += 1
        if row == len(rows):
            return None
        if (row, column) in at:
            return at[row, column]
        glyph = rows[row][column : column + 1]
        assert glyph, f"the line of v{number} stops in row {row}"
        assert glyph in UP, f"the line of v{number} meets {glyph!r} in row {row}"
        if glyph in "╯╰┴":
            break
    mark = next(c for r, c in at if r == row)
    step = -1 if mark < column else 1
    assert glyph != ("╰" if step < 0 else "╯")
    while (row, column + step) not in at:
        column += step
        assert rows[row][column] in "─┼┴"
    return at[row, column + step]


@given(lineages())
def test_following_the_line_from_any_version_leads_to_its_parent(versions: list[Made]) -> None:
    lanes = Lanes(versions)
    rows = [row.text for row in lanes]
    nodes = {row.number: (i, 2 * row.lane) for i, row in enumerate(lanes)}
    for version in versions:
        if version.parent is not None:
            shown = version.parent if version.parent in nodes else None
            assert parent_reached(rows, nodes, version.number) == shown


@given(lineages())
def test_a_tip_has_no_line_above_it(versions: list[Made]) -> None:
    lanes = Lanes(versions)
    parents = {version.parent for version in versions}
    for above, row in zip([None, *lanes], lanes, strict=False):
        if above is not None and row.number not in parents:
            assert above.text[2 * row.lane : 2 * row.lane + 1] not in tuple(DOWN)


@given(lineages())
def test_every_row_has_one_mark_where_it_says(versions: list[Made]) -> None:
    lanes = Lanes(versions)
    assert [row.number for row in lanes] == sorted((v.number for v in versions), reverse=True)
    for row in lanes:
        marks = [i for i, cell in enumerate(row.cells) if cell.role is Role.NODE]
        assert marks == [2 * row.lane]
        assert len(row.cells) < 2 * lanes.width
        assert row.cells[-1].role is not Role.BLANK
        assert to_ascii(row.text).isascii()


def test_a_rejected_tip_is_faint_and_outside_its_kept_sibling() -> None:
    rows = Lanes(lineage("0 m, 1<0 x, 2<0 k, 3<0 m"))
    assert [row.text for row in rows] == ["●", "│ ●", "│ │ ✗", "●─┴─╯"]
    assert [row.cells[2 * row.lane].faint for row in rows] == [False, False, True, False]
    assert [cell.faint for cell in rows[3].cells] == [False, False, False, True, True]


@given(lineages())
def test_what_is_faint_is_what_led_to_nothing_kept(versions: list[Made]) -> None:
    kept = {v.number for v in versions if v.answer in {Answer.ACCEPTED, Answer.PENDING}}
    for version in sorted(versions, reverse=True):
        if version.number in kept and version.parent is not None:
            kept.add(version.parent)
    for row in Lanes(versions):
        assert row.cells[2 * row.lane].faint == (row.number not in kept)


@given(lineages())
def test_lines_in_which_nothing_was_kept_stand_outside_the_others(versions: list[Made]) -> None:
    for row in Lanes(versions):
        standing = [cell for cell in row.cells[::2] if cell.glyph in DOWN + "╯╰┴"]
        kept = [cell.lane for cell in standing if not cell.faint]
        lost = [cell.lane for cell in standing if cell.faint]
        assert max(kept, default=-1) < min(lost, default=len(row.cells))


def test_five_thousand_versions_are_laid_out_and_read_anywhere() -> None:
    versions = [Made(0, None, accepted_line=True)]
    for number in range(1, 5000):
        kept = number % 7 == 0
        parent = (number - 1) // 7 * 7
        versions.append(Made(number, parent, ANSWERS["k" if kept else "x"], accepted_line=kept))
    lanes = Lanes(versions)
    assert lanes.width == 3
    assert lanes[0].number == 4999
    assert lanes[2500].text in {"│ ├─✗", "│ ╭─✗", "●─╯"}
