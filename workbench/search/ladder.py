"""The ladder as written down: rungs with their prices and terms, every number with its source."""

import difflib
import tomllib
from functools import cache
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from workbench.errors import WorkbenchError
from workbench.paths import config_home

PATH = Path(__file__).with_name("ladder.toml")
YOURS = "your ladder.toml"
"""Source of a bare number in a person's own file."""
_MEND = "mend that entry; the shipped ladder.toml names every key and its terms"

_MAY_STAND = ("needs_gpu", "use", "pairs_first")
"""Keys of a rung that have a default, so that the shipped file need not have them."""

_COUNTS = {"pairs": 0, "lines": 1, "ahead": 1, "per_technique": 1, "plateau_rounds": 0}
_COUNTS |= {"price_memory": 0, "price_prior": 0}
"""Numbers that count something, with the least that each may be."""
_LEAST = {"model_doubt": 1.0, "plateau_gain": 1.0}
"""Ratios that mean nothing below this."""
_MOST = {"share": 1.0}
"""Shares of a whole."""
_ENDLESS = ("promote_above", "likely_above", "near_limit")
"""Thresholds that may be `inf`, which nothing reaches."""

T = TypeVar("T")
_NotNegative = Annotated[float, Meta(ge=0)]


class Number(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A threshold or price, and who says so."""

    value: _NotNegative
    source: Annotated[str, Meta(min_length=3)]
    """A paper, a measurement, or `ours`."""


class RungSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fidelity of evaluation. What each number means stands at the head of `ladder.toml`."""

    says: str
    gate: Literal[0, 1, 2, 3]
    """What the gate is asked: `GateSettings.rung`."""
    use: Literal["always", "never", "pays"] = "always"
    pairs_first: bool = False
    needs_gpu: bool = False
    gpu: Number
    """Seconds."""
    wall: Number
    """Seconds."""
    share: Number | None = None
    """Of a run's limit of GPU-seconds, 0 to 1; None: it has what the others leave."""
    pairs: Number
    promote_above: Number
    prune_below: Number
    likely_above: Number
    bonus: Number


class SearchSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for the whole search."""

    model_doubt: Number
    """Factor by which a trusted model's ratio may err, either way."""
    lines: Number
    """Kernels that are worked on side by side."""
    ahead: Number
    """Candidates that have passed the bottom rung while another is on the GPU."""
    per_technique: Number
    """How many of them may come from one technique while there are others."""
    plateau_rounds: Number
    plateau_gain: Number
    """Ratio that the best must gain over this many rounds, or the search has stagnated."""
    near_limit: Number
    """Share of the limit from which there is nothing left to gain."""
    last_look: Number
    """Seconds that the last look at a run's best kernel takes of a GPU and of the clock."""
    price_memory: Number
    price_prior: Number


class LadderFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ladder.toml`, decoded; rungs in the order of the file."""

    format: Literal[1]
    rung: dict[str, RungSpec]
    search: SearchSpec


def ladder_file() -> Path:
    """A person's own changes, beside their other settings."""
    return config_home() / "ladder.toml"


@cache
def shipped_ladder() -> LadderFile:
    """The ladder in the package."""
    return _checked(_tables(PATH), PATH)


def load_ladder(user: Path | None = None) -> LadderFile:
    """The shipped ladder with a person's changes; a file that does not exist changes nothing.

    `user` is their file, by default the one in the settings folder. Raises WorkbenchError naming
    file, key and value: for what is not TOML, a rung or key that does not exist, and a number that
    cannot be.
    """
    path = ladder_file() if user is None else user
    if not path.exists():
        return shipped_ladder()
    return _checked(_over(_tables(PATH), _tables(path), path), path)


def _tables(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise WorkbenchError(
            f"the ladder cannot be read: {fault}", where=str(path), todo=_MEND
        ) from fault


def _over(shipped: dict[str, Any], own: dict[str, Any], path: Path, at: str = "") -> dict[str, Any]:
    """The shipped tables with a person's values put in their places."""
    merged = dict(shipped)
    for key, value in own.items():
        here = f"{at}{key}"
        if key not in shipped and not (at.startswith("rung.") and key in _MAY_STAND):
            near = difflib.get_close_matches(key, shipped, n=1, cutoff=0.0)
            raise WorkbenchError(
                f"`{here}` is not a part of the ladder",
                where=str(path),
                todo=f"the nearest is `{at}{near[0]}`" if near else "",
            )
        merged[key] = _replaced(shipped.get(key), value, path, here)
    return merged


def _replaced(was: Any, value: Any, path: Path, here: str) -> Any:  # noqa: ANN401 -- TOML
    if not isinstance(was, dict):
        return value
    if isinstance(value, dict):
        return _over(was, value, path, f"{here}.")
    if "source" in was:
        return {"value": value, "source": YOURS}
    raise WorkbenchError(f"`{here} = {value!r}` is not a table", where=str(path), todo=f"[{here}]")


def _checked(tables: dict[str, Any], path: Path) -> LadderFile:
    if tables["format"] != 1:
        what = f"`format = {tables['format']!r}` is not 1"
        raise WorkbenchError(what, where=str(path), todo=_MEND)
    rungs = {
        name: _converted(table, RungSpec, f"rung.{name}", path)
        for name, table in tables["rung"].items()
    }
    file = LadderFile(
        format=1, rung=rungs, search=_converted(tables["search"], SearchSpec, "search", path)
    )
    for name, rung in rungs.items():
        _check_numbers(rung, f"rung.{name}", path)
        if rung.gate and not rung.pairs.value:
            raise _out_of_range(f"rung.{name}.pairs", rung.pairs.value, "at least 1", path)
    _check_numbers(file.search, "search", path)
    for name, rung in rungs.items():
        if rung.prune_below.value > rung.promote_above.value:
            raise WorkbenchError(
                f"`rung.{name}.prune_below` = {rung.prune_below.value:g} is above `promote_above`"
                f" = {rung.promote_above.value:g}: one interval would be both",
                where=str(path),
                todo=_MEND,
            )
    return file


def _check_numbers(record: Struct, at: str, path: Path) -> None:
    """Raise WorkbenchError for a number that its key has no use for."""
    for key in record.__struct_fields__:
        number = getattr(record, key)
        if not isinstance(number, Number):
            continue
        value, here = number.value, f"{at}.{key}"
        if key in _COUNTS and not (value.is_integer() and value >= _COUNTS[key]):
            expected = f"a whole number, at least {_COUNTS[key]}"
            raise _out_of_range(here, value, expected, path)
        if value < _LEAST.get(key, 0.0):
            raise _out_of_range(here, value, f"at least {_LEAST[key]:g}", path)
        if value > _MOST.get(key, inf):
            raise _out_of_range(here, value, f"at most {_MOST[key]:g}", path)
        if not isfinite(value) and key not in _ENDLESS:
            raise _out_of_range(here, value, "a finite number", path)


def _out_of_range(here: str, value: float, expected: str, path: Path) -> WorkbenchError:
    what = f"`{here} = {value:g}`: expected {expected}"
    return WorkbenchError(what, where=str(path), todo=_MEND)


def _converted(table: dict[str, Any], kind: type[T], at: str, path: Path) -> T:
    """A table as a record; the decoder's own path starts at `at`."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as fault:
        what, _, inside = str(fault).partition(" - at `$.")
        keys = inside.rstrip("`").split(".") if inside else []
        value: object = table
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        key = ".".join([at, *keys]).removesuffix(".value")
        hint = get_type_hints(kind).get(keys[0]) if keys else None
        if get_origin(hint) is Literal:
            what = f"expected one of {', '.join(map(str, get_args(hint)))}"
        what = f"`{key} = {value!r}`: {what}"
        raise WorkbenchError(what, where=str(path), todo=_MEND) from fault
