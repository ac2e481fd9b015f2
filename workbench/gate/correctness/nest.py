"""Flattens nested tuples, lists and dicts of tensors, so that they can cross a process border.

A problem's inputs and outputs may be any nesting of tensors and plain values. Tensors travel as
blobs beside the message, everything else inside it; nothing is ever pickled.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct

Plain = None | bool | int | float | str


class TensorLeaf(Struct, frozen=True, tag="tensor"):
    """The tensor at that position of the flat list."""

    index: int


class PlainLeaf(Struct, frozen=True, tag="plain"):
    """A value that is not a tensor. `kind` distinguishes types that msgpack would merge."""

    kind: Literal["none", "bool", "int", "float", "str", "dtype", "device"]
    value: Plain


class ForeignLeaf(Struct, frozen=True, tag="foreign"):
    """A value that cannot be sent: only its description is."""

    says: str


class Branch(Struct, frozen=True, tag="branch"):
    """A tuple, list or dict; `keys` is empty except for a dict."""

    kind: Literal["tuple", "list", "dict"]
    items: tuple["Nest", ...]
    keys: tuple[str, ...] = ()


Nest = TensorLeaf | PlainLeaf | ForeignLeaf | Branch


def flatten(value: object, foreign: Callable[[Any], str]) -> tuple[Nest, list[Any]]:
    """The nesting of `value`, and its tensors in order.

    `foreign` checks every leaf that is not plain: it returns a description of what is wrong with
    it, or an empty text when the leaf is a tensor that can be sent.
    """
    tensors: list[Any] = []
    return _visit(value, foreign, tensors), tensors


# Functions of the module, not closures: one that calls itself is a reference cycle, and would keep
# gigabytes of a GPU's memory until Python happens to look for garbage.


def _visit(item: object, foreign: Callable[[Any], str], tensors: list[Any]) -> Nest:
    # Unbound methods: a subclass may override its own.
    if isinstance(item, dict):
        keys = tuple(dict.keys(item))
        if not all(type(key) is str for key in keys):
            return ForeignLeaf("a dict with keys that are not text")
        items = tuple(_visit(v, foreign, tensors) for v in dict.values(item))
        return Branch("dict", items, keys)
    if isinstance(item, tuple):
        return Branch("tuple", tuple(_visit(v, foreign, tensors) for v in tuple.__iter__(item)))
    if isinstance(item, list):
        return Branch("list", tuple(_visit(v, foreign, tensors) for v in list.__iter__(item)))
    return _leaf(item, foreign, tensors)


def _leaf(item: object, foreign: Callable[[Any], str], tensors: list[Any]) -> Nest:
    plain = _plain(item)
    if plain is not None:
        return plain
    wrong = foreign(item)
    if wrong:
        return ForeignLeaf(wrong)
    tensors.append(item)
    return TensorLeaf(len(tensors) - 1)


def rebuild(nest: Nest, tensors: list[Any]) -> object:
    """The value again, with `tensors` at its leaves. ValueError for a foreign leaf."""
    match nest:
        case TensorLeaf(index):
            return tensors[index]
        case PlainLeaf(kind, value):
            return _from_plain(kind, value)
        case ForeignLeaf(says):
            raise ValueError(f"cannot rebuild {says}")
        case Branch("dict", items, keys):
            return {k: rebuild(v, tensors) for k, v in zip(keys, items, strict=True)}
        case Branch("list", items):
            return [rebuild(v, tensors) for v in items]
        case Branch(_, items):
            return tuple(rebuild(v, tensors) for v in items)


def leaves(
    nest: Nest, path: str = ""
) -> Iterator[tuple[str, TensorLeaf | PlainLeaf | ForeignLeaf]]:
    """Every leaf with its path (`0`, `1.scale`; empty for a value without nesting), in order."""
    if not isinstance(nest, Branch):
        yield path, nest
        return
    names = nest.keys or tuple(str(i) for i in range(len(nest.items)))
    for name, item in zip(names, nest.items, strict=True):
        yield from leaves(item, f"{path}.{name}" if path else name)


def tensor_paths(nest: Nest) -> tuple[str, ...]:
    """Paths of the tensors, in the order of the flat list."""
    return tuple(path for path, leaf in leaves(nest) if isinstance(leaf, TensorLeaf))


def difference(want: Nest, got: Nest, path: str = "") -> str:
    """How the nesting of `got` differs from `want`; empty if not. A list may replace a tuple.

    Plain values are not compared here, only that there is one.
    """
    at = f" at `{path}`" if path else ""
    if isinstance(got, ForeignLeaf):
        return f"{got.says}{at} instead of {_says(want)}"
    if not isinstance(want, Branch) or not isinstance(got, Branch):
        return "" if type(want) is type(got) else f"{_says(got)}{at} instead of {_says(want)}"
    if (want.kind == "dict") != (got.kind == "dict") or len(want.items) != len(got.items):
        return f"{_says(got)}{at} instead of {_says(want)}"
    if set(want.keys) != set(got.keys):
        return f"keys {sorted(got.keys)}{at} instead of {sorted(want.keys)}"
    names = want.keys or tuple(str(i) for i in range(len(want.items)))
    theirs = dict(zip(got.keys or names, got.items, strict=True))
    for name, item in zip(names, want.items, strict=True):
        found = difference(item, theirs[name], f"{path}.{name}" if path else name)
        if found:
            return found
    return ""


def aligned(want: Nest, got: Nest) -> list[int]:
    """For each tensor of `want`, its position in the flat list of `got`, nested alike."""
    theirs = dict(leaves(got))
    found = []
    for path, leaf in leaves(want):
        other = theirs.get(path)
        if isinstance(leaf, TensorLeaf) and isinstance(other, TensorLeaf):
            found.append(other.index)
    return found


def _says(nest: Nest) -> str:
    match nest:
        case TensorLeaf():
            return "a tensor"
        case PlainLeaf(kind, value):
            return "None" if kind == "none" else f"the {kind} {value!r}"
        case ForeignLeaf(says):
            return says
        case Branch(kind, items):
            return f"a {kind} of {len(items)}"


def _plain(item: object) -> PlainLeaf | None:
    kinds: dict[type, Literal["bool", "int", "float", "str"]]
    kinds = {bool: "bool", int: "int", float: "float", str: "str"}
    if item is None:
        return PlainLeaf("none", None)
    if type(item) in kinds:
        return PlainLeaf(kinds[type(item)], item)  # type: ignore[arg-type]  # by its type
    name = f"{type(item).__module__}.{type(item).__qualname__}"
    if name == "torch.dtype":
        return PlainLeaf("dtype", str(item).removeprefix("torch."))
    if name == "torch.device":
        return PlainLeaf("device", str(item))
    return None


def _from_plain(kind: str, value: Plain) -> object:
    if kind in {"dtype", "device"}:
        import torch

        return getattr(torch, str(value)) if kind == "dtype" else torch.device(str(value))
    return value
