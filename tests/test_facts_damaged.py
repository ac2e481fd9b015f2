"""Facts of damaged and edited files: unknown where nothing can be said, never an error."""

import random

import pytest
from fact_kit import launch, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_texts import EVERY, STRANGE

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts import read_facts
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.kernels.source import read_source
from workbench.kernels.target import target
from workbench.lineage.removals import removable

SM90 = target("sm90")
WORDS = (
    *(
        "(",
        ")",
        "[:, None]",
        "tl.",
        ":",
        "=",
        "*",
        "**",
        "%",
        "//",
        "None",
        "0",
        "-",
        "lambda: ",
        "\n",
    ),
    *(
        "tl.arange(0, BLOCK)",
        "tl.load(",
        "for i in range(N):",
        "    ",
        "global x",
        "await ",
        "yield ",
    ),
)


def edited(text):
    """The text after each edit that fits it."""
    for kernel in read_source(text).launched:
        for edit in EDITS.values():
            for anchor in edit.anchors(text, kernel)[:1]:
                try:
                    yield edit.apply(text, kernel, anchor.parameters).source
                except EditRefused:
                    continue


def complete(text):
    """Facts of every kernel: all of the catalogue, each unknown or of its type."""
    for name in [*(k.name for k in read_source(text).kernels), "nobody"]:
        odd = launch(name, (1, 0, 7), {"x_ptr": tensor(0, 3)}, {"N": None, "K": -1}, {"BLOCK": 0})
        for launches in ([], [odd, odd]):
            found = read_facts(text, name, launches, [], None, SM90)
            assert list(found) == list(CATALOGUE)


def damage(text, dice):
    """The text with a few lines or words lost, doubled, moved or replaced."""
    for _ in range(dice.randint(1, 4)):
        lines = text.splitlines(keepends=True) or [""]
        at = dice.randrange(len(lines))
        match dice.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[dice.randrange(len(lines))])
            case 2:
                lines[at] = lines[at].replace(" ", "", 1)
            case 3:
                place = dice.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:place] + dice.choice(WORDS) + lines[at][place:]
            case 4:
                start = dice.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:start] + lines[at][start + dice.randint(1, 12) :]
            case _:
                names = sorted({w for w in text.replace("(", " ").split() if w.isidentifier()})
                old, new = dice.choice(names or ["x"]), dice.choice(names or ["y"])
                lines[at] = lines[at].replace(old, new)
        text = "".join(lines)
    return text


@pytest.mark.parametrize("name", EVERY)
def test_every_edited_source_has_all_facts(name):
    for text in edited(EVERY[name]):
        complete(text)


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(sorted(EVERY)), st.integers(0, 2**32))
def test_damaged_sources_have_facts_or_unknowns(name, seed):
    dice = random.Random(seed)
    complete(damage(EVERY[name], dice))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(EVERY)), st.integers(0, 2**32))
def test_damaged_edits_have_facts_anchors_and_removals_or_none(name, seed):
    dice = random.Random(seed)
    every = list(edited(EVERY[name])) or [EVERY[name]]
    text = damage(dice.choice(every), dice)
    complete(text)
    for kernel in read_source(text).launched:
        for edit in EDITS.values():
            for anchor in edit.anchors(text, kernel):
                try:
                    edit.apply(text, kernel, anchor.parameters)
                except EditRefused:
                    continue
    for _, _, found in removable(text):
        assert not read_source(found.source).fault


@pytest.mark.parametrize("name", STRANGE)
def test_strange_files_lose_nothing_to_an_edit_or_an_inverse(name):
    for _, _, found in removable(STRANGE[name]):
        assert not read_source(found.source).fault
    complete(STRANGE[name])
