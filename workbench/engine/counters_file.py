"""Reads Nsight Compute results from another machine: its raw page as CSV, or our own record."""

from pathlib import Path

import msgspec

from workbench.errors import WorkbenchError
from workbench.measure.ncu.parse import parse_raw
from workbench.measure.ncu.records import NcuRecord, NcuState


def read_counters(path: Path) -> NcuRecord:
    """The counters in a file.

    Either the output of `ncu --csv --page raw`, or an `NcuRecord` as JSON (`gate.ncu` of a
    transition). Raises WorkbenchError when it is neither, or holds no launch.
    """
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise WorkbenchError(
            f"the profile cannot be read: {fault.strerror}",
            where=str(path),
            todo="give a file that `ncu --csv --page raw` printed",
        ) from fault
    record = _record(data)
    if record is None:
        printed = parse_raw(data.decode("utf-8", "replace"))
        record = NcuRecord(
            state=NcuState.PROFILED, says=f"read from {path.name}", launches=printed.launches
        )
    if not record.launches:
        raise WorkbenchError(
            "the profile holds no launch that can be read",
            where=str(path),
            todo="give what `ncu --csv --page raw` printed",
        )
    return record


def _record(data: bytes) -> NcuRecord | None:
    if not data.lstrip().startswith(b"{"):
        return None
    try:
        return msgspec.json.decode(data, type=NcuRecord)
    except msgspec.DecodeError:
        return None
