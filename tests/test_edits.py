"""Edits as text: undo gives every byte back, and what makes no sense is refused with a reason."""

import ast
import json
import re

import msgspec
import pytest
from edit_kit import edited, says
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_texts import EVERY, SEEDS, STRANGE, TABBED

from workbench.errors import WorkbenchError
from workbench.kernels.edits.base import EditRefused, Undo, undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts import read_facts
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.kernels.source import normalized_sha256, read_source


def choices(text, kernel):
    """Every edit at every anchor with every value of its grid."""
    for edit in EDITS.values():
        for anchor in edit.anchors(text, kernel):
            open_ones = [p for p in edit.parameters if p.name not in anchor.parameters]
            yield edit, anchor.parameters
            for parameter in open_ones:
                for value in parameter.grid:
                    yield edit, {**anchor.parameters, parameter.name: value}


# Undo.


@pytest.mark.parametrize("name", EVERY)
def test_every_edit_parses_changes_something_and_undoes_to_the_byte(name):
    text = EVERY[name]
    done = 0
    for kernel in read_source(text).launched:
        for edit, parameters in choices(text, kernel):
            try:
                applied = edit.apply(text, kernel, parameters)
            except EditRefused:
                continue
            done += 1
            ast.parse(applied.source)
            assert normalized_sha256(applied.source) != normalized_sha256(text)
            assert undo(applied.source, applied.undo) == text
    assert done >= (0 if name == "literals" else 3)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_composition_undone_in_reverse_gives_the_original_bytes(data):
    original = data.draw(st.sampled_from(sorted(EVERY.items())), label="candidate")[1]
    text, ways_back = original, []
    for _ in range(data.draw(st.integers(1, 5), label="edits")):
        kernel = data.draw(st.sampled_from(read_source(text).launched))
        edit = EDITS[data.draw(st.sampled_from(sorted(EDITS)), label="edit")]
        anchors = edit.anchors(text, kernel)
        if not anchors:
            continue
        parameters = dict(data.draw(st.sampled_from(anchors)).parameters)
        for parameter in edit.parameters:
            if parameter.grid and parameter.name not in parameters:
                parameters[parameter.name] = data.draw(st.sampled_from(parameter.grid))
        try:
            applied = edit.apply(text, kernel, parameters)
        except EditRefused:
            continue
        ast.parse(applied.source)
        text = applied.source
        ways_back.append(applied.undo)
    for way_back in reversed(ways_back):
        text = undo(text, way_back)
    assert text == original


def test_an_undo_can_be_stored_as_json():
    applied = EDITS["row-on-chip"].apply(SEEDS["softmax"], "softmax_kernel", {})
    stored = json.dumps(msgspec.to_builtins(applied.undo))
    way_back = msgspec.convert(json.loads(stored), Undo)
    assert undo(applied.source, way_back) == SEEDS["softmax"]


def test_an_undo_fits_no_other_text():
    applied = EDITS["num-warps"].apply(SEEDS["softmax"], "softmax_kernel", {"value": 8})
    with pytest.raises(EditRefused, match="has changed since"):
        undo(applied.source + "\n", applied.undo)


def test_tabs_and_line_ends_of_the_file_are_kept():
    after = edited(TABBED, "online-softmax")
    assert "größtes" in after
    assert after.count("\n") == after.count("\r\n")
    assert "\r\n\t\tshift = " in after


# Requests that make no sense.


def test_unknown_parameters_and_wrong_kinds_are_told():
    with pytest.raises(WorkbenchError, match="has no parameter `warps`"):
        edited(SEEDS["gelu"], "num-warps", warps=8)
    with pytest.raises(WorkbenchError, match="wants a whole number"):
        edited(SEEDS["gelu"], "num-warps", value="8")
    with pytest.raises(WorkbenchError, match="wants a whole number"):
        edited(SEEDS["gelu"], "num-warps", value=True)


def test_a_kernel_that_is_not_there_is_refused():
    assert "no kernel `nobody`" in says(SEEDS["gelu"], "num-warps", "nobody", value=8)
    assert EDITS["num-warps"].anchors(SEEDS["gelu"], "nobody") == ()


def test_an_edit_that_changes_nothing_is_refused():
    assert "changes nothing" in says(SEEDS["gelu"], "num-warps", value=4)


@pytest.mark.parametrize("name", STRANGE)
def test_strange_files_are_refused_without_an_error(name):
    text = STRANGE[name]
    for kernel in [*(k.name for k in read_source(text).kernels), "k"]:
        for edit in EDITS.values():
            anchors = edit.anchors(text, kernel)
            assert anchors or edit.refusal(text, kernel)
            for anchor in anchors:
                try:
                    applied = edit.apply(text, kernel, anchor.parameters)
                except EditRefused:
                    continue
                assert undo(applied.source, applied.undo) == text


TOKENS = ["tl.load", "N", "BLOCK", "0", "range", "None", "[:, None]", "*a", "**k", "(1,)", "self.x"]


@st.composite
def damaged(draw):
    """A candidate with lines lost, doubled or swapped and words replaced, that is still Python."""
    lines = draw(st.sampled_from(sorted(EVERY.values()))).split("\n")
    for _ in range(draw(st.integers(1, 3))):
        i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match draw(st.integers(0, 3)):
            case 0:
                lines[i] = ""
            case 1:
                lines.insert(i, lines[j])
            case 2:
                lines[i], lines[j] = lines[j], lines[i]
            case _:
                words = re.findall(r"\w+|\s+|[^\w\s]", lines[i]) or [""]
                place = draw(st.integers(0, len(words) - 1))
                words[place] = draw(st.sampled_from(TOKENS))
                lines[i] = "".join(words)
    return "\n".join(lines)


@settings(deadline=None, max_examples=60)
@given(damaged())
def test_a_damaged_file_is_read_edited_or_refused_without_an_error(text):
    source = read_source(text)
    for kernel in source.kernels:
        assert list(read_facts(text, kernel.name)) == list(CATALOGUE)
        for edit in EDITS.values():
            for anchor in edit.anchors(text, kernel.name)[:1]:
                try:
                    applied = edit.apply(text, kernel.name, anchor.parameters)
                except EditRefused:
                    continue
                assert undo(applied.source, applied.undo) == text


def test_a_mark_of_the_encoding_stays_before_an_edited_file_and_is_no_code():
    text = "\ufeffimport torch\n" + SEEDS["softmax"]
    applied = EDITS["num-warps"].apply(text, "softmax_kernel", {"value": 8})
    assert applied.source == text.replace("num_warps=4", "num_warps=8")
    assert undo(applied.source, applied.undo) == text
