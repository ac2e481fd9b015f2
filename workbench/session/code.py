"""Generated code beside the versions: `refs/code/NAME` holds one kernel's texts, named by content.

No version's commit carries them, so that a diff of versions stays one of sources; two versions with
the same machine code share one entry. `git show refs/code/NAME:ptx` prints a text.
"""

import re
from collections.abc import Iterable

import msgspec
from msgspec import structs

from workbench.kernels.code_text import LEVELS
from workbench.kernels.records import KernelCode
from workbench.session.complaints import DamagedError
from workbench.session.objects import blob, tree
from workbench.session.plumbing import NO_REF, Plumbing, Update

CODE = "refs/code"
_ABOUT = "about.json"
_NAMED = re.compile(rf"{CODE}/([0-9a-f]{{64}})")


def code_ref(sha256: str) -> str:
    """Where the code of that machine code is kept."""
    return f"{CODE}/{sha256}"


def coded(ref: str) -> bool:
    """Whether a reference is one of generated code."""
    return _NAMED.fullmatch(ref) is not None


def keep(git: Plumbing, codes: Iterable[KernelCode]) -> None:
    """Write what is not kept yet; what is there stays as it was first written.

    Raises WorkbenchError when the disk refuses; then nothing has changed.
    """
    wanted = {code_ref(code.code_sha256): code for code in codes if code.code_sha256}
    wanted = {ref: code for ref, code in wanted.items() if coded(ref)}
    there = git.ids(*wanted) if wanted else {}
    objects, moves = [], []
    for ref, code in wanted.items():
        if ref in there:
            continue
        about = structs.replace(code, ttgir="", ptx="", sass="")
        texts = {level: getattr(code, level) for level in LEVELS}
        files = {_ABOUT: msgspec.json.format(msgspec.json.encode(about), indent=1)}
        files |= {level: text.encode("utf-8", "replace") for level, text in texts.items()}
        blobs = {name: blob(data) for name, data in files.items()}
        root = tree({name: item.id for name, item in blobs.items()})
        objects += [*blobs.values(), root]
        moves.append(Update(ref, root.id, NO_REF))
    if moves:
        git.store(objects)
        git.move(moves, "code kept")


def read(git: Plumbing, names: Iterable[str]) -> dict[str, KernelCode]:
    """What is kept of these, by `code_sha256`; leaves out what is not.

    Raises DamagedError for an entry that this program would not have written.
    """
    refs = {code_ref(name): name for name in names if coded(code_ref(name))}
    found = git.ids(*refs) if refs else {}
    return {refs[ref]: _entry(git, ref, id_) for ref, id_ in found.items()}


def _entry(git: Plumbing, ref: str, id_: str) -> KernelCode:
    ids = git.files(id_)
    if sorted(ids) != sorted((_ABOUT, *LEVELS)):
        raise DamagedError(git.folder, f"the files of {ref} are {', '.join(sorted(ids))}")
    about, *texts = git.blobs([ids[name] for name in (_ABOUT, *LEVELS)])
    try:
        code = msgspec.json.decode(about, type=KernelCode)
        named = {level: text.decode() for level, text in zip(LEVELS, texts, strict=True)}
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise DamagedError(git.folder, f"{ref} cannot be read: {fault}") from fault
    if code_ref(code.code_sha256) != ref:
        raise DamagedError(git.folder, f"{ref} holds the code of another kernel")
    return structs.replace(code, **named)
