"""Edits on strangely laid out texts: the same change as on the plain text, undone exactly."""

import ast
import io
import re
import tokenize

import pytest

from workbench.kernels.edits.base import EditRefused, undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts import read_facts
from workbench.kernels.source import read_source
from workbench.problems.load import load_problem


def tabs(text):
    def white(found):
        return "\t" * (len(found.group()) // 4) + " " * (len(found.group()) % 4)

    return re.sub(r"(?m)^ +", white, text)


def comments_everywhere(text):
    """A comment behind every line that does not lie in a string."""
    held = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.STRING, tokenize.COMMENT}:
            held.update(range(token.start[0], token.end[0] + 1))
    lines = text.split("\n")
    return "\n".join(
        f"{line}  # tl.load(x) : ) [" if line.strip() and number not in held else line
        for number, line in enumerate(lines, 1)
    )


def over_several_lines(text):
    """Assignments with what they assign in parentheses, and a comment before it."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and node.lineno == node.end_lineno:
            found = re.match(r"(\s*\w+ =) ([^#]*)$", lines[node.lineno - 1])
            if found:
                lines[node.lineno - 1] = f"{found[1]} (\n# why\n{found[2]}\n\n)"
    return "\n".join(lines)


COATS = {
    "lone carriage returns": lambda text: text.replace("\n", "\r"),
    "carriage returns with line feeds": lambda text: text.replace("\n", "\r\n"),
    "a mark of the encoding": lambda text: f"\ufeff{text}",
    "no end of the last line": lambda text: text.rstrip("\n"),
    "form feeds before functions": lambda text: re.sub(r"(?m)^(@|class )", "\f\\1", text),
    "form feeds in the indentation": lambda text: re.sub(r"(?m)^    (?=\w)", "\f    ", text),
    "tabs": tabs,
    "comments everywhere": comments_everywhere,
    "values in parentheses": over_several_lines,
    "a decorator in parentheses": lambda text: text.replace("@triton.jit", "@(\n  triton . jit\n)"),
    "a comment below the decorator": lambda text: text.replace("@triton.jit", "@triton.jit\n# x\n"),
    "white space at the ends": lambda text: re.sub(r"(?m)(?<=\S)$", " \t", text),
}


def meaning(text):
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return ast.dump(ast.parse(plain))


def first_point(edit, anchor):
    """The anchor's parameters with the first value of every other one that needs no facts."""
    point = dict(anchor.parameters)
    for one in edit.parameters:
        plain = [v for v in one.grid or (one.default,) if one.kind != "int" or isinstance(v, int)]
        if one.name not in point and (
            new := [v for v in plain if v != anchor.current.get(one.name)]
        ):
            point[one.name] = new[0]
    return point


@pytest.mark.parametrize("coat", COATS)
@pytest.mark.parametrize("problem", ["gemm", "layernorm", "group_conv"])
def test_a_strange_layout_changes_no_edit_and_is_kept(coat, problem):
    plain = load_problem(problem).seed.read_text()
    strange = COATS[coat](plain)
    (kernel,) = read_source(plain).launched
    assert list(read_source(strange).launched) == [kernel]
    known = {name: fact.value for name, fact in read_facts(plain, kernel).items()}
    assert {name: fact.value for name, fact in read_facts(strange, kernel).items()} == known
    made = 0
    for edit in EDITS.values():
        anchors = edit.anchors(plain, kernel)
        assert len(edit.anchors(strange, kernel)) == len(anchors), edit.id
        for anchor in anchors[:1]:
            point = first_point(edit, anchor)
            try:
                expected = edit.apply(plain, kernel, point).source
            except EditRefused:
                continue
            done = edit.apply(strange, kernel, point)
            assert meaning(done.source) == meaning(expected), edit.id
            assert undo(done.source, done.undo) == strange, edit.id
            made += 1
    assert made >= 5
