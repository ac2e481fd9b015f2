"""Generated code beside the versions: kept once, carried by a bundle, compared under one naming."""

import subprocess
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from session_kit import kernel, new_store, transition

from workbench.errors import WorkbenchError
from workbench.kernels.code_text import alike, both_sides
from workbench.kernels.records import KernelCode
from workbench.session.bundle import export_bundle, import_bundle
from workbench.session.check import check_session
from workbench.session.code import code_ref, keep, read
from workbench.session.objects import blob, tree
from workbench.session.plumbing import NO_REF, Update
from workbench.session.store import SessionStore

NAME = "ab" * 32


def code(name: str = NAME, **texts: str) -> KernelCode:
    tools = {"triton": "3.9.0", "ptxas": "13.4.59"}
    return KernelCode(kernel="k", code_sha256=name, target="sm90", toolchain=tools, **texts)


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    made = new_store(tmp_path / "here")
    made.record(transition(0, None), kernel(0))
    return made


def test_code_is_kept_once_and_read_back_as_it_was(store: SessionStore) -> None:
    first = code(ttgir="tt.load\n", ptx="ld.global\n", sass="LDG.E\n")
    keep(store.git, [first])
    keep(store.git, [code(ptx="another text for the same machine code\n"), code("cd" * 32)])
    assert read(store.git, [NAME, "ef" * 32]) == {NAME: first}
    assert check_session(store) == ()


def test_plain_git_prints_a_text(store: SessionStore) -> None:
    keep(store.git, [code(ptx="ld.global\n")])
    shown = ["git", "-C", str(store.folder), "show", f"refs/code/{NAME}:ptx"]
    assert subprocess.run(shown, capture_output=True, check=True).stdout == b"ld.global\n"


def test_a_name_that_is_no_hash_is_not_written(store: SessionStore) -> None:
    keep(store.git, [code("../../heads/main"), code("")])
    assert store.git.ref_ids("refs/code") == {}


def test_a_bundle_carries_the_code(store: SessionStore, tmp_path: Path) -> None:
    keep(store.git, [code(sass="LDG.E\n")])
    export_bundle(store, tmp_path / "s.bundle")
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    assert read(again.git, [NAME]) == {NAME: code(sass="LDG.E\n")}


def put(store: SessionStore, files: dict[str, bytes]) -> None:
    blobs = {name: blob(data) for name, data in files.items()}
    root = tree({name: item.id for name, item in blobs.items()})
    store.git.store([*blobs.values(), root])
    store.git.move([Update(code_ref(NAME), root.id, NO_REF)], "by a stranger")


LAWFUL = {
    "about.json": msgspec.json.encode(code()),
    "ttgir": b"",
    "ptx": b"",
    "sass": b"",
}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({**LAWFUL, "more": b""}, "files of"),
        ({**LAWFUL, "about.json": b"{}"}, "cannot be read"),
        ({**LAWFUL, "about.json": msgspec.json.encode(code("cd" * 32))}, "another kernel"),
        ({**LAWFUL, "sass": b"\xff"}, "cannot be read"),
    ],
    ids=["a file too many", "no record", "a wrong name", "no text"],
)
def test_code_from_a_stranger_is_checked(
    files: dict[str, bytes], says: str, store: SessionStore, tmp_path: Path
) -> None:
    put(store, files)
    (fault,) = check_session(store)
    assert says in fault.says
    export_bundle(store, tmp_path / "s.bundle")
    with pytest.raises(WorkbenchError, match="not a session's bundle"):
        import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []


# -- comparing ------------------------------------------------------------------------------------

PTX = """\
.visible .entry k(
{
\t.loc\t1 10 0                          // k.py:10:0
$L__func_begin0:
\tmov.u32 \t%r1, %ctaid.x;
\tshl.b32 \t%r2, %r1, 8;
$L__tmp0:
\tld.global.b32 \t%r3, [%rd1];
\t@%p1 bra \t$L__BB0_2;
$L__BB0_2:
\tret;
}
\t.file\t1 "k.py"
"""


def test_numbering_and_source_lines_are_no_difference() -> None:
    again = PTX.replace("%r3", "%r9").replace("%r2", "%r3").replace("1 10 0", "1 99 0")
    again = again.replace("BB0_2", "BB0_7").replace("%rd1", "%rd40")
    before, after = alike(PTX, again, "ptx")
    assert before == after
    assert "%r3, [%rd1]" in after
    assert ".loc" not in after


def test_an_operand_that_really_changed_stays_a_difference() -> None:
    before, after = alike(PTX, PTX.replace("%r2, %r1, 8", "%r2, %r2, 8"), "ptx")
    changed = set(after.splitlines()) - set(before.splitlines())
    assert changed == {"\tshl.b32 \t%r2, %r2, 8;"}


def test_a_new_register_never_looks_like_one_of_the_other_side() -> None:
    more = PTX.replace("\tld.global", "\tadd.s32 \t%r2, %r9, 1;\n\tld.global").replace(
        "shl.b32 \t%r2", "shl.b32 \t%r9"
    )
    _, after = alike(PTX, more, "ptx")
    assert "\tshl.b32 \t%r2, %r1, 8;\n\tadd.s32 \t%r2', %r2, 1;" in after


def test_a_wider_register_is_another_one() -> None:
    before, after = alike("mov %r1, 0;\n", "mov %rd1, 0;\n", "ptx")
    assert before != after


def test_ttgir_loses_locations_and_keeps_layouts() -> None:
    one = '#blocked = #ttg.blocked<{order = [0]}>\n#loc = loc("k.py":1:1)\n%a_1 = op %x loc(#loc)\n'
    two = one.replace("%a_1", "%b").replace("order = [0]", "order = [1, 0]")
    before, after = alike(one, two, "ttgir")
    assert "loc" not in before.replace("#blocked", "").replace("ttg.blocked", "")
    assert before.splitlines()[1] == after.splitlines()[1]
    assert before.splitlines()[0] != after.splitlines()[0]


def test_kernels_of_one_name_stand_beside_each_other() -> None:
    one, other = structs.replace(code(ptx="a;\n"), kernel="one"), code(ptx="b;\n")
    left, right = both_sides([one, other], [other], "ptx")
    assert left.startswith("// one, sm90, triton 3.9.0, ptxas 13.4.59\na;\n")
    assert right.startswith("// k,")
