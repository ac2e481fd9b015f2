"""Writes card files: a skeleton for a new one; evidence and risks without touching the rest.

TOML lets further tables of a list stand at the end of the file, so evidence is appended: every byte
that was there stays.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import tomli_w
from msgspec import Struct, structs

from workbench.errors import WorkbenchError
from workbench.kernels.edits.registry import EDITS
from workbench.skills.card import Skill, parse_card, read_card
from workbench.skills.card_faults import nearest
from workbench.skills.library import user_folder
from workbench.skills.records import Admission, Card, EvidenceRow, Proof, Risk

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_BLOCKS = re.compile(r"(?m)^(?=\[)")
"""Separates the tables of a card's file."""
_SEEN = re.compile(r"seen\s*=")


class Added(Struct, frozen=True, kw_only=True):
    """What was written to a card's file."""

    card: str
    path: Path
    evidence: int
    admission: int
    known: int
    """Rows that the card had already."""


def skeleton(card_id: str, edit: str = "") -> str:
    """A card that can be read as it stands, with every key explained.

    With an edit, its parameters and their usual values are filled in; without, a sketch is asked
    for. Raises WorkbenchError for an id or edit that cannot be.
    """
    if not _ID.fullmatch(card_id):
        raise WorkbenchError(
            f"{card_id!r} is not an id for a card", todo="use lower-case words joined by hyphens"
        )
    if edit and edit not in EDITS:
        near = [word for word in (nearest(edit, EDITS),) if word]
        every = f"there are {', '.join(sorted(EDITS))}"
        raise WorkbenchError(f"there is no edit {edit!r}", todo="; ".join([*near, every]))
    return _SKELETON.format(id=card_id, carrier=_carrier(edit))


def _carrier(edit: str) -> str:
    if not edit:
        return 'sketch = """\n- what stands there now\n+ what should stand there\n"""'
    lines = [f'edit = "{edit}"']
    for one in EDITS[edit].parameters:
        grid = one.grid or (one.default,)
        values = tomli_w.dumps({"v": list(grid)}).partition("= ")[2].strip()
        values = " ".join(values.split()).replace("[ ", "[").replace(", ]", "]")
        lines.append(f"grid.{one.name} = {values}  # {one.says}")
    return "\n".join(lines)


_SKELETON = """\
# One card. `workbench skills lint` checks it; `workbench facts --catalogue` lists what a condition
# may be about. Until a recorded step of it was kept it is a draft, and is chosen only when pinned.
id = "{id}"
title = "What it does, in a few words"
intent = "What it is for, in one sentence."
order = 60                # coarse techniques first: 10 algorithm, 40 tiles, 60 launch, 80 hints
anchor = "what must be found in the code, in words"
# requires = []           # features that an accepted card must have provided
# provides = []           # features that the code has afterwards
# conflicts = []          # features with which it cannot be
# methods = []            # of the policy, beyond those that the edit gives it

[scope]
families = ["*"]          # "gemm", "attention", "normalization", ...
platforms = ["*"]         # "sm80", "sm90", "sm100", "sm120"
# after = []              # cards that must have been accepted before
# not_after = []          # cards after which it makes no sense

[carrier]
{carrier}

# One for each thing that must hold: of data types, layout, storage, pipeline or hardware.
[[precondition]]
says = "why this must hold, in words"
when = "code.loop_count > 0"
category = "pipeline"

[[effect]]
metric = "time"
direction = "down"
low = 1.0
high = 1.2

[[risk]]
says = "when it is known to hurt"
when = "static.registers > 128"
seen = ""                 # the session and commit where that was seen
"""


def file_for_trials(skill: Skill, *, shipped: bool = False) -> Path:
    """The file that takes what trials say of a card; it need not be there yet.

    A shipped card's own file only where `shipped` asks for it: that card belongs to everybody, and
    trials to whoever made them. Else one in the person's folder, which stands in for the shipped
    one by its id. Raises WorkbenchError where another card of the person's has that file.
    """
    if shipped:
        return skill.replaces or skill.path
    if skill.origin != "shipped":
        return skill.path
    path = user_folder() / f"{skill.card.id}.toml"
    if path.exists() and (other := read_card(path).card.id) != skill.card.id:
        raise WorkbenchError(
            f"your own copy of `{skill.card.id}` cannot be made: the file holds the card `{other}`",
            where=str(path),
            todo=f"name that file {other}.toml",
        )
    return path


def add_evidence(
    path: Path,
    rows: Sequence[EvidenceRow],
    trials: Sequence[Admission] = (),
    *,
    into: Path | None = None,
) -> Added:
    """Append evidence and admission trials that the card does not have yet.

    With `into` that file gets them: what it holds already, or else a copy of the card, which is
    made only for something new. Every byte of the file stays, and the result is read back before
    it is put in place. Raises CardFault for a card that cannot be read and WorkbenchError for one
    that cannot be written.
    """
    path, goal = _both(path, into)
    before = path.read_bytes().decode("utf-8") if path.is_file() else ""
    card = read_card(path).card
    known = {(row.session, row.commit) for row in card.evidence}
    tried = {(trial.session, trial.commit) for trial in card.admission}
    new = [row for row in rows if (row.session, row.commit) not in known]
    fresh = [trial for trial in trials if (trial.session, trial.commit) not in tried]
    done = Added(
        card=card.id,
        path=goal,
        evidence=len(new),
        admission=len(fresh),
        known=len(rows) + len(trials) - len(new) - len(fresh),
    )
    if not new and not fresh:
        return done
    tables = [_table("evidence", row) for row in new] + [_table("admission", t) for t in fresh]
    evidence, admission = (*card.evidence, *new), (*card.admission, *fresh)
    wanted = structs.replace(card, evidence=evidence, admission=admission)
    write_whole(goal, _appended(before, tables, wanted, path))
    return done


def add_proofs(path: Path, proofs: Sequence[Proof], *, into: Path | None = None) -> int:
    """Append what was found right on the CPU and is not in the card yet; how many were written.

    `into` and errors as in `add_evidence`. A candidate that the evidence holds needs no proof.
    """
    path, goal = _both(path, into)
    before = path.read_bytes().decode("utf-8") if path.is_file() else ""
    card = read_card(path).card
    known = {one.commit for one in card.proof} | {row.commit for row in card.evidence}
    new = [one for one in proofs if one.commit not in known]
    if new:
        wanted = structs.replace(card, proof=(*card.proof, *new))
        tables = [_table("proof", one) for one in new]
        write_whole(goal, _appended(before, tables, wanted, path))
    return len(new)


def _appended(before: str, tables: Sequence[str], wanted: Card, path: Path) -> str:
    """The text with tables behind it. Raises WorkbenchError where it does not read back so."""
    text = before + ("" if before.endswith("\n") else "\n") + "\n" + "\n".join(tables)
    again = parse_card(text, path).card
    for key in ("evidence", "proof", "admission"):
        if getattr(again, key) != getattr(wanted, key):
            raise WorkbenchError(
                f"evidence cannot be appended: the card holds `{key} = [...]` written inline",
                where=str(path),
                todo=f"write it as [[{key}]] tables at the end",
            )
    return text


def _both(path: Path, into: Path | None) -> tuple[Path, Path]:
    """The file that is read, and the one that is written."""
    if into is None:
        return path, path
    return (into if into.is_file() else path), into


def add_risks(
    path: Path, met: Mapping[str, str], new: Sequence[Risk], *, into: Path | None = None
) -> int:
    """Say of known risks, by their words, where they were met, and append risks; how many changed.

    A risk that was seen before keeps its place, and no risk is written twice; `into` as in
    `add_evidence`. Raises CardFault for a card that cannot be read and WorkbenchError for one that
    cannot be written.
    """
    path, goal = _both(path, into)
    text = path.read_bytes().decode("utf-8") if path.is_file() else ""
    card = read_card(path).card
    blocks = _BLOCKS.split(text)
    changed = 0
    for number, block in enumerate(blocks):
        if block.startswith("[[risk]]") and (seen := _newly_met(block, met)):
            blocks[number] = _with_seen(block, seen)
            changed += 1
    known = {risk.says for risk in card.risk}
    fresh = [risk for risk in new if risk.says not in known]
    if not changed and not fresh:
        return 0
    text = "".join(blocks)
    text += ("" if text.endswith("\n") else "\n") + "".join(f"\n{_table('risk', r)}" for r in fresh)
    parse_card(text, path)
    write_whole(goal, text)
    return changed + len(fresh)


def _newly_met(block: str, met: Mapping[str, str]) -> str:
    """Where the block's risk was met, if it does not list that yet."""
    (risk,) = tomllib.loads(block)["risk"]
    return "" if risk.get("seen") else met.get(risk["says"], "")


def _with_seen(block: str, seen: str) -> str:
    kept = [line for line in block.rstrip("\n").split("\n") if not _SEEN.match(line)]
    tail = block[len(block.rstrip("\n")) :]
    return "\n".join([*kept, tomli_w.dumps({"seen": seen}).rstrip("\n")]) + tail


def _table(name: str, record: EvidenceRow | Proof | Admission | Risk) -> str:
    # What is not said is not written; a part may be a table, which no set can be asked for.
    kept = {k: v for k, v in msgspec.to_builtins(record).items() if v or v in (0, False)}
    return f"[[{name}]]\n" + "".join(_line(key, value) for key, value in kept.items())


def _line(key: str, value: object) -> str:
    """`key = value`; a table stays in its line, since one of its own would end the row."""
    if isinstance(value, dict):
        parts = [_line(k, v).rstrip("\n") for k, v in value.items()]
        return f"{key} = {{ {', '.join(parts)} }}\n"
    return tomli_w.dumps({key: value})


def write_whole(path: Path, text: str) -> None:
    """Put a card's text in place at once, so that a kill leaves the old one or the new one.

    Raises WorkbenchError where it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(text.encode("utf-8"))
        draft.replace(path)
    except OSError as fault:
        draft.unlink(missing_ok=True)
        raise WorkbenchError(
            f"the card cannot be written: {fault.strerror}",
            where=str(path),
            todo="name a folder that you can write to, or free some space there",
        ) from fault
