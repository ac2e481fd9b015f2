"""Reads and checks the TOML file beside a problem, and reports faults in it to a person."""

import ast
import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.problems.arithmetic import ArithmeticFault, evaluate
from workbench.problems.constants import check_values, constants
from workbench.problems.foreign import TomlFault, shown, toml_tables
from workbench.problems.records import (
    FAMILIES,
    Constant,
    Layout,
    Precision,
    Roofline,
    Selection,
    Shape,
    Tolerance,
)

DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_SHAPE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class _Shape(Struct, forbid_unknown_fields=True):
    name: str
    values: dict[str, Constant] = {}


class _Tolerance(Struct, forbid_unknown_fields=True):
    factor: float
    eps: float


class _Roofline(Struct, forbid_unknown_fields=True):
    flops: str
    bytes: str


class Sidecar(Struct, forbid_unknown_fields=True):
    """The decoded file. `records.Problem` explains the keys."""

    family: str = ""
    precision: Precision | None = None
    shape: list[_Shape] = []
    tolerance: dict[str, _Tolerance] = {}
    roofline: _Roofline | None = None
    selection: list[Selection] = []
    layouts: list[Layout] = []

    def shapes(self) -> tuple[Shape, ...]:
        """The shapes as records; empty when the file has none."""
        return tuple(Shape(name=shape.name, values=shape.values) for shape in self.shape)

    def tolerances(self) -> dict[str, Tolerance]:
        """The tolerances as records, by dtype."""
        return {k: Tolerance(factor=v.factor, eps=v.eps) for k, v in self.tolerance.items()}

    def work(self) -> Roofline | None:
        """The roofline as a record; None when the file has none."""
        if self.roofline is None:
            return None
        return Roofline(flops=self.roofline.flops, bytes=self.roofline.bytes)


def read_sidecar(text: str, path: Path, tree: ast.Module) -> Sidecar:
    """Decode the sidecar strictly and check it against the constants of the problem file's `tree`.

    Raises WorkbenchError that names the file, the key, the value and what was expected.
    """
    try:
        raw = toml_tables(text)
    except TomlFault as fault:
        raise WorkbenchError(
            f"the sidecar is not valid TOML: {fault}", where=str(path), todo="correct that place"
        ) from fault
    try:
        sidecar = msgspec.convert(raw, Sidecar)
    except msgspec.ValidationError as fault:
        raise _explain(str(fault), raw, path) from fault
    _check_family(sidecar, path)
    _check_shapes(sidecar, path, constants(tree))
    _check_tolerances(sidecar, path)
    for values in [shape.values for shape in sidecar.shape] or [{}]:
        _check_roofline(sidecar, path, constants(tree, values))
    return sidecar


def _explain(message: str, raw: object, path: Path) -> WorkbenchError:
    """Turn msgspec's message, which ends in a path like `$.shape[0].name`, into an error.

    The error names file, key, value and expectation.
    """
    says, _, place = message.partition(" - at `$")
    key = place.rstrip("`").lstrip(".") or "top level"
    where = f"{path}, key {key}"
    unknown = re.search(r"unknown field `(.*)`", says)
    if unknown:
        name = unknown[1]
        fields = _fields_at(key)
        near = get_close_matches(name, fields, n=1)
        return WorkbenchError(
            f"the sidecar has an unknown key `{name[:200]}`",
            where=where,
            todo=(f"did you mean `{near[0]}`? " if near else "") + f"known: {', '.join(fields)}",
        )
    if key == "precision":
        says = f"Write one of: {', '.join(one.value for one in Precision)}"
    return WorkbenchError(
        f"the sidecar's `{key}` is {_value_at(raw, place)}",
        where=where,
        todo=says[:1].lower() + says[1:],
    )


def _fields_at(key: str) -> tuple[str, ...]:
    owners: dict[str, type[Struct]] = {
        "shape": _Shape,
        "tolerance": _Tolerance,
        "roofline": _Roofline,
        "selection": Selection,
    }
    return owners.get(re.split(r"[.\[]", key)[0], Sidecar).__struct_fields__


def _value_at(raw: object, place: str) -> str:
    """The value at msgspec's path, as text; `[...]` in the path stands for some key of a table."""
    value = raw
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", place):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and index and int(index) < len(value):
            value = value[int(index)]
    return shown(value)


def _check_family(sidecar: Sidecar, path: Path) -> None:
    if sidecar.family and sidecar.family not in FAMILIES:
        raise WorkbenchError(
            f"the sidecar's `family` is {shown(sidecar.family)}",
            where=f"{path}, key family",
            todo=f"write one of: {', '.join(FAMILIES)}",
        )


def _check_shapes(sidecar: Sidecar, path: Path, known: Mapping[str, Constant]) -> None:
    seen: set[str] = set()
    for i, shape in enumerate(sidecar.shape):
        where = f"{path}, key shape[{i}].name"
        if not _SHAPE_NAME.fullmatch(shape.name):
            raise WorkbenchError(
                f"a shape is named {shown(shape.name)}",
                where=where,
                todo="use up to 40 lower-case letters, digits, - and _, as in `tiny`",
            )
        if shape.name in seen:
            raise WorkbenchError(
                f"two shapes are named {shape.name!r}", where=where, todo="give each its own name"
            )
        seen.add(shape.name)
        check_values(known, shape.values, f"{path}, key shape[{i}].values (shape {shape.name})")


def _check_tolerances(sidecar: Sidecar, path: Path) -> None:
    for dtype, tolerance in sidecar.tolerance.items():
        if dtype not in DTYPES:
            near = get_close_matches(dtype, DTYPES, n=1)
            raise WorkbenchError(
                f"the sidecar gives a tolerance for {shown(dtype)}",
                where=f"{path}, key tolerance.{dtype}",
                todo=(f"did you mean {near[0]}? " if near else "")
                + f"write one of: {', '.join(DTYPES)}",
            )
        for key, value in (("factor", tolerance.factor), ("eps", tolerance.eps)):
            if not (value > 0 and math.isfinite(value)):
                raise WorkbenchError(
                    f"the sidecar's `{key}` for {dtype} is {value!r}",
                    where=f"{path}, key tolerance.{dtype}.{key}",
                    todo="write a number above 0",
                )


def _check_roofline(sidecar: Sidecar, path: Path, known: Mapping[str, Constant]) -> None:
    if sidecar.roofline is None:
        return
    for key in ("flops", "bytes"):
        expression = getattr(sidecar.roofline, key)
        try:
            value = evaluate(expression, known)
        except ArithmeticFault as fault:
            raise WorkbenchError(
                f"the sidecar's roofline {key} {expression!r} cannot be worked out: {fault}",
                where=f"{path}, key roofline.{key}",
                todo="use the file's constants, numbers, + - * / // % **, min and max",
            ) from fault
        if value <= 0:
            raise WorkbenchError(
                f"the sidecar's roofline {key} {expression!r} gives {value}",
                where=f"{path}, key roofline.{key}",
                todo="write an expression whose value is above 0",
            )


def family_of(sidecar: str) -> str:
    """The family in a sidecar's text; empty when it has none or is not TOML.

    For recorded sessions, whose sidecar was checked when it was first read.
    """
    try:
        family = toml_tables(sidecar).get("family", "")
    except TomlFault:
        return ""
    return family if isinstance(family, str) else ""
