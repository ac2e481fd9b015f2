"""Parses compute-sanitizer's printed reports. Pure.

Understands both ways of naming a location, that of 2024 and later (`kernel+0x60 in file.py:4`) and
the earlier one (`0x60 in file.py:4:kernel`), and reports whose lines the tool has wrapped. The
formats are those of NVIDIA's Compute Sanitizer guide and of public issues on Triton kernels.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import structs

from workbench.gate.sanitizer.records import Place, Report, Said, Space, Tool

_MARK = "========="
_HEAD = re.compile(
    r"^(?:Invalid __|Uninitialized __|(?:error|warn(?:ing)?|info):? ?Race reported|Race reported)",
    re.IGNORECASE,
)
_INVALID = re.compile(
    r"^Invalid __(?P<space>global|shared|local)__ (?P<access>\w+|\?) of size (?P<bytes>[\d,]+)"
)
_UNWRITTEN = re.compile(
    r"^Uninitialized __(?P<space>global|shared|local)__ memory read of size (?P<bytes>[\d,]+)"
)
_RACE = re.compile(r"^(?:(?P<severity>error|warn(?:ing)?|info):? ?)?Race reported", re.IGNORECASE)
_ACCESS = re.compile(r"(?P<access>Read|Write|Atomic)\w* access at\s+(?P<place>.*?)(?= and |$)")
_NEW = re.compile(r"(?P<kernel>\S.*?)\+0x[0-9a-fA-F]+(?: in (?P<file>\S+?):(?P<line>\d+))?")
_OLD = re.compile(r"0x[0-9a-fA-F]+(?: in (?:(?P<file>\S+?):(?P<line>\d+):?)?(?P<kernel>[^\[]*))?")
_ADDRESS = re.compile(
    r"^(?:Address|Access to|Access at) (?P<address>0x[0-9a-fA-F]+)(?: (?P<detail>is [a-z ]+))?"
)
_SUMMARY = re.compile(r"^(?:ERROR SUMMARY: (\d+)|RACECHECK SUMMARY: \d+ hazards?.*?\((\d+) error)")
_FAULTS = (
    "Target application terminated before first instrumented API call",
    "No attachable process found",
    "Internal Sanitizer Error",
    "Unable to find",
    "Failed to",
    "not supported",
    "Insufficient permissions",
)


def parse(text: str, tool: Tool) -> Said:
    """The reports that one run of `tool` printed; lines of the program itself are skipped."""
    lines = [line[len(_MARK) :].strip() for line in text.splitlines() if line.startswith(_MARK)]
    counted: dict[Report, int] = {}
    for block in _blocks(lines):
        report = _report(block, tool)
        if report is not None:
            # The first of many: a kernel with a wrong bound is reported once per thread.
            alike = structs.replace(report, address="")
            first = next((r for r in counted if structs.replace(r, address="") == alike), report)
            counted[first] = counted.get(first, 0) + 1
    summaries = [m for line in lines if (m := _SUMMARY.match(line))]
    return Said(
        reports=tuple(structs.replace(report, times=n) for report, n in counted.items()),
        # A run ends with exactly one summary; anything else was not printed by the tool.
        errors=int(summaries[0][1] or summaries[0][2]) if len(summaries) == 1 else None,
        faults=tuple(line for line in lines if any(words in line for words in _FAULTS)),
    )


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """The lines of each report, up to its host backtrace or the empty line that ends it."""
    block: list[str] = []
    for line in lines:
        if _HEAD.match(line):
            if block:
                yield block
            block = [line]
        elif not line or line.startswith(("Saved host backtrace", "Host Frame")):
            if block:
                yield block
            block = []
        elif block:
            block.append(line)
    if block:
        yield block


def _report(block: Sequence[str], tool: Tool) -> Report | None:
    head = block[0]
    if (found := _INVALID.match(head) or _UNWRITTEN.match(head)) is not None:
        told = next((m for line in block[1:] if (m := _ADDRESS.match(line))), None)
        access = found.groupdict().get("access") or "read"
        return Report(
            tool=tool,
            place=_place(next((ln[3:] for ln in block[1:] if ln.startswith("at ")), "")),
            access=access,
            space=Space(found["space"]),
            detail=(told["detail"] or "").strip() if told else "",
            address=told["address"] if told else "",
            bytes=int(found["bytes"].replace(",", "")),
        )
    if (race := _RACE.match(head)) is not None:
        sides = list(_ACCESS.finditer(" ".join(block)))
        if not sides:
            return None
        severity = (race["severity"] or "error").lower()
        return Report(
            tool=tool,
            place=_place(sides[0]["place"]),
            access=" and ".join(dict.fromkeys(side["access"].lower() for side in sides)),
            space=Space.SHARED,
            detail="warning" if severity.startswith("warn") else severity,
        )
    return None


def _place(text: str) -> Place:
    found = _NEW.match(text) or _OLD.match(text)
    if found is None:
        return Place(text.strip()[:200])
    line = found["line"]
    return Place(_bare(found["kernel"] or ""), found["file"] or "", int(line) if line else None)


def _bare(kernel: str) -> str:
    """`void softmax<float>(float *)` as `softmax`."""
    return kernel.strip().removeprefix("void ").partition("(")[0].partition("<")[0].strip()
