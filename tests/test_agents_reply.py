"""Candidates out of replies: written cases as files, and properties on mutilated ones."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from workbench.agents.reply import read_reply
from workbench.agents.reply_records import Form, HandedBack, Parsed, Signature

FOLDER = Path(__file__).parent / "replies"
CASES = sorted(FOLDER.glob("*.txt"))
BASE = (FOLDER / "base.py").read_text()
WANTED = (FOLDER / "wanted.py").read_text()
SIGNATURE = Signature(init=("size", "bias"), forward=("x", "y"))


def load(path: Path) -> tuple[dict, str]:
    head, _, text = path.read_bytes().decode().partition("\n---\n")
    return tomllib.loads(head), text


def read(text: str, *, truncated: bool = False):
    return read_reply(text, base=BASE, signature=SIGNATURE, truncated=truncated)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_reply_gives_the_candidate_or_the_reason_that_is_written_with_it(path):
    want, text = load(path)
    got = read(text, truncated=want.get("truncated", False))
    if want["expect"] == "handed-back":
        assert isinstance(got, HandedBack), got
        assert got.code == want["code"], got
        assert want["reason"] in got.reason
        return
    assert isinstance(got, Parsed), got
    assert got.form == want["form"]
    assert [repair.code for repair in got.repairs] == want["repairs"]
    assert all(repair.says for repair in got.repairs)
    ast.parse(got.source)
    if want["same"]:
        assert got.source == WANTED
    assert want.get("holds", "") in got.source


def test_there_are_sixty_cases_of_every_form():
    wants = [load(path)[0] for path in CASES]
    assert len(wants) >= 60
    assert {want.get("form") for want in wants} >= {form.value for form in Form}
    assert sum(want["expect"] == "handed-back" for want in wants) >= 20


REPLIES = [load(path)[1] for path in CASES]
CUTS = st.tuples(st.integers(0, 2000), st.integers(0, 300))
MARKS = ["```", "```python\n", "\n@@ -1 +1 @@\n", "<<<<<<< SEARCH\n", "=======\n"]
BITS = ["<|channel|>analysis<|message|>", "\x1b[32m", "&lt;" * 7, "\\_", "{'code': '"]
BITS += [">>>>>>> REPLACE\n", "{", '"', "\t", "\u201c", "\x00", "\ud800", "    ", "# ...\n"]
JUNK = st.sampled_from([*MARKS, *BITS, "class ModelNew(nn.Module):\n"])


@st.composite
def mutilated(draw) -> str:
    """A written reply with parts cut out, doubled and strewn with junk."""
    text = draw(st.sampled_from(REPLIES))
    for _ in range(draw(st.integers(0, 4))):
        at, length = draw(CUTS)
        at = min(at, len(text))
        kind = draw(st.sampled_from(["cut", "double", "junk", "end"]))
        if kind == "cut":
            text = text[:at] + text[at + length :]
        elif kind == "double":
            text = text[:at] + text[at : at + length] * 2 + text[at + length :]
        elif kind == "junk":
            text = text[:at] + draw(JUNK) + text[at:]
        else:
            text = text[:at]
    return text


CHARACTERS = {"smart-quotes", "blanks", "signs", "html", "quoting", "line-numbers", "tabs"}
CHARACTERS |= {"invisible", "escaped", "markdown"}


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutilated(), st.booleans())
@example("```python\n" * 50, False)
@example("(" * 5000, False)
@example('{"code": "' + "a\n" * 100, True)
@example("word " * 100_000, False)
@example("<think>" * 5_000, False)
@example("\u201c" * 5_000, False)
@example("> " * 20_000, True)
@example('"code": """' * 3_000, False)
@example("<|channel|>analysis<|message|>" * 3_000, False)
@example("{'a':" * 3_000, True)
def test_no_reply_makes_it_raise_or_invent(text, truncated):
    got = read(text, truncated=truncated)
    if isinstance(got, HandedBack):
        assert got.reason
        return
    tree = ast.parse(got.source)
    assert any(isinstance(n, ast.ClassDef) and n.name == "ModelNew" for n in ast.walk(tree))
    codes = {repair.code for repair in got.repairs}
    if codes & (CHARACTERS | {"class-name", "argument-order"}):
        return
    once = decoded(text)
    # A code that was encoded twice is decoded twice.
    known = squeezed(text) + squeezed(BASE) + squeezed(once) + squeezed(decoded(once))
    known += [squeezed(repair.added)[0] for repair in got.repairs if repair.added]
    whole = " ".join(known)
    for line in got.source.split("\n"):
        for word in squeezed(line):
            assert word in whole


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=400))
def test_any_text_at_all_is_read_or_handed_back(text):
    assert isinstance(read(text), Parsed | HandedBack)
    assert isinstance(read_reply(text), Parsed | HandedBack)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, len(WANTED) - 2))
def test_a_file_that_was_cut_anywhere_never_passes_for_a_whole_one(end):
    got = read(f"```python\n{WANTED[:end]}", truncated=True)
    assert isinstance(got, HandedBack)
    got = read(f"{WANTED[:end]}", truncated=True)
    assert isinstance(got, HandedBack)


def squeezed(text: str) -> list[str]:
    text = re.sub(r"\x1b\[[0-9;]*m", "", text.replace("\r", "\n"))
    text = re.sub("[\ufeff\u200b\u200c\u200d\u2060\u00ad]", "", text)
    return [part.strip() for part in text.split("\n")] or [""]


def decoded(text: str) -> str:
    """What JSON strings in a text say."""
    said = re.findall(r'"(?:[^"\\]|\\.)*"', text, re.DOTALL)
    out = []
    for part in said:
        try:
            out.append(json.loads(part, strict=False))
        except ValueError:
            continue
    return "\n".join(map(str, out))


LINES = [line for line in BASE.split("\n") if line.strip() and BASE.split("\n").count(line) == 1]
BROKEN = st.sampled_from(["", ",", "}", '"search": 3', '"search": "x"', "null"])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(LINES), min_size=2, max_size=4, unique=True), st.data())
def test_of_several_changes_in_json_all_are_made_or_none(lines, data):
    rows = [{"search": line, "replace": f"{line}  # {n}"} for n, line in enumerate(lines)]
    whole = read(json.dumps(rows))
    assert isinstance(whole, Parsed)
    assert all(row["replace"] in whole.source for row in rows)
    at = data.draw(st.integers(0, len(rows)))
    parts = [json.dumps(row) for row in rows]
    parts.insert(at, "{" + data.draw(BROKEN) + "}")
    got = read("[" + ", ".join(parts) + data.draw(st.sampled_from(["]", ",]", "", "}"])))
    if isinstance(got, Parsed):
        assert got.source == whole.source
