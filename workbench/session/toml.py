"""Records as the files of a transition's commit, and back to the very same records.

`transition.toml` is for a person to read, so launches, traces, samples and counters go to
`profile.json`; the two together decode to the record exactly. TOML has no null: a field that is
None is left out, and an evidence value that is None is written as an empty table, `{}`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any, TypeVar

import msgspec
import tomli_w
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.kernels.records import Launch, LaunchTrace
from workbench.measure.ncu.records import NcuRecord
from workbench.measure.records import PairSamples
from workbench.problems.foreign import TomlFault, toml_tables
from workbench.session.records import FORMAT, SessionSettings, Transition

T = TypeVar("T")
Json = Mapping[str, Any]
"""Any JSON object; its producer knows its shape."""


class Profile(Struct, frozen=True, kw_only=True):
    """`profile.json`: what is too long for a person to read in `transition.toml`."""

    launches: tuple[Launch, ...] = ()
    traces: tuple[LaunchTrace, ...] = ()
    samples: tuple[PairSamples, ...] = ()
    ncu: NcuRecord | None = None
    """What Nsight Compute said, or why nothing."""
    extra: dict[str, Any] = {}
    """Whatever else a profiler said."""


_LONG = ("launches", "traces", "samples", "ncu")
"""Fields of the gate's report that `profile.json` holds."""


def encode_settings(settings: SessionSettings) -> bytes:
    """`session.toml`."""
    return _dump(_without_none(msgspec.to_builtins(settings)))


def decode_settings(data: bytes, where: str) -> SessionSettings:
    """Settings back; what only a newer workbench can have meant is refused as that.

    A limit or a mode that we do not know must not be ignored, and writing the settings anew would
    lose it.
    """
    raw = _load(data, where)
    version = raw.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise NewerError(f"format {version}; this one reads up to {FORMAT}", where)
    settings = _convert(raw, SessionSettings, where)
    strange = _unknown(raw, msgspec.to_builtins(settings))
    if strange:
        raise NewerError(f"unknown here: {', '.join(strange)}", where)
    return settings


class NewerError(WorkbenchError):
    """Something that a newer workbench wrote; nothing of it is lost by refusing it."""

    def __init__(self, says: str, where: str) -> None:
        super().__init__(
            f"a newer workbench wrote this session ({says})",
            where=where,
            todo="update this one, `workbench --version`, or go on with that one; nothing was"
            " changed, and plain git reads all of it",
        )


_BEYOND = re.compile(r"Invalid enum value|Object contains unknown field")
"""How the decoder begins to say that a word or a field is none that it knows."""


def _unknown(raw: object, known: object, at: str = "") -> list[str]:
    """Dotted names of what `raw` holds and its record does not."""
    if isinstance(raw, dict) and isinstance(known, dict):
        found: list[str] = []
        for key, value in raw.items():
            name = f"{at}.{key}" if at else key
            found += _unknown(value, known[key], name) if key in known else [name]
        return found
    if isinstance(raw, list) and isinstance(known, list | tuple):
        pairs = enumerate(zip(raw, known, strict=False))
        return [name for i, (a, b) in pairs for name in _unknown(a, b, f"{at}[{i}]")]
    return []


def encode_transition(transition: Transition, extra: Json) -> tuple[bytes, bytes]:
    """`transition.toml` and `profile.json`; WorkbenchError when they would not read back."""
    gate = transition.gate
    profile = Profile(
        launches=gate.launches,
        traces=gate.traces,
        samples=gate.samples,
        ncu=gate.ncu,
        extra=dict(extra),
    )
    raw = msgspec.to_builtins(transition)
    for long in _LONG:
        del raw["gate"][long]
    _each_evidence(raw, _none_to_table)
    text = _dump(_without_none(raw))
    table = msgspec.json.format(
        msgspec.json.encode(_printable(msgspec.to_builtins(profile))), indent=1
    )
    # Nothing may be committed that cannot be read next year.
    where = f"transition {transition.number}"
    again = decode_transition(text, table, where)[0]
    if not _same(msgspec.to_builtins(again), _printable(msgspec.to_builtins(transition))):
        raise WorkbenchError(
            "a transition would not read back as it was written",
            where=where,
            todo="report this as a fault of the workbench; nothing was committed",
        )
    return text, table + b"\n"


def decode_transition(text: bytes, profile: bytes, where: str) -> tuple[Transition, dict[str, Any]]:
    """The transition and the extras of its profile."""
    raw, table = _loaded(text, profile, where)
    return _convert(raw, Transition, where), table.extra


def refuse_newer(text: bytes, profile: bytes, where: str) -> None:
    """Raise NewerError where rewriting a transition would lose fields that we do not know."""
    raw, table = _loaded(text, profile, where)
    known = msgspec.to_builtins(_convert(raw, Transition, where))
    strange = _unknown(raw, known)
    whole = msgspec.json.decode(profile or b"{}")
    strange += [f"profile.json: {name}" for name in _unknown(whole, msgspec.to_builtins(table))]
    if strange:
        raise NewerError(f"what would be lost here: {', '.join(strange)}", where)


def _loaded(text: bytes, profile: bytes, where: str) -> tuple[dict[str, Any], Profile]:
    """The fields of a transition from both of its files, and the profile."""
    raw = _load(text, where)
    try:
        _each_evidence(raw, _table_to_none)
        table = msgspec.json.decode(profile or b"{}", type=Profile)
        for long in _LONG:
            raw["gate"][long] = msgspec.to_builtins(getattr(table, long))
    except (KeyError, TypeError, AttributeError, msgspec.DecodeError) as fault:
        raise _unreadable(where, str(fault)) from fault
    return raw, table


def encode_exchange(exchange: Sequence[Json]) -> bytes:
    """`exchange.jsonl`: one prompt or reply a line."""
    return b"".join(msgspec.json.encode(_printable(dict(item))) + b"\n" for item in exchange)


def decode_exchange(data: bytes, where: str) -> list[dict[str, Any]]:
    """Prompts and replies back."""
    try:
        return [
            msgspec.json.decode(line, type=dict[str, Any]) for line in data.split(b"\n") if line
        ]
    except msgspec.DecodeError as fault:
        raise _unreadable(where, f"exchange.jsonl: {fault}") from fault


def _each_evidence(raw: dict[str, Any], change: Callable[[Any], Any]) -> None:
    """Evidence is the only table of a transition whose values may be None."""
    for stage in raw["gate"].get("stages", ()):
        for finding in stage.get("findings", ()):
            evidence = finding.get("evidence", {})
            finding["evidence"] = {key: change(value) for key, value in evidence.items()}


def _none_to_table(value: object) -> object:
    return {} if value is None else value


def _table_to_none(value: object) -> object:
    return None if value == {} else value


def _without_none(value: Any) -> Any:  # noqa: ANN401 -- builtins of any shape
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value


def _printable(value: Any) -> Any:  # noqa: ANN401 -- builtins of any shape
    """The value with text that UTF-8 can encode: a lone surrogate becomes its escape."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_printable(item) for item in value)
    return value


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401 -- builtins of any shape
    """Equality under which a number that is not one (an error of nan) equals itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float) and isnan(one):
        return isnan(other)
    return bool(one == other)


def _dump(raw: Any) -> bytes:  # noqa: ANN401 -- builtins of any shape
    return tomli_w.dumps(_printable(raw)).encode()


def _load(data: bytes, where: str) -> dict[str, Any]:
    try:
        return toml_tables(data.decode("utf-8"))
    except (UnicodeDecodeError, TomlFault) as fault:
        raise _unreadable(where, str(fault)) from fault


def _convert(raw: object, type_: type[T], where: str) -> T:
    try:
        return msgspec.convert(raw, type_)
    except msgspec.ValidationError as fault:
        if _BEYOND.match(str(fault)):
            raise NewerError(str(fault), where) from fault
        raise _unreadable(where, str(fault)) from fault


def _unreadable(where: str, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"a record of the session cannot be read: {why}",
        where=where,
        todo="other commits are untouched; import a bundle of the session, or start a new one",
    )
