"""Reads a JSON form out of a reply: the object, whatever prose and fences stand around it."""

import json
import re
from typing import Any, TypeVar

import msgspec

from workbench.agents.reply_blocks import fences, without_thinking
from workbench.agents.reply_records import HandedBack
from workbench.agents.reply_text import plain

T = TypeVar("T")

_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"'})
_TRAILING = re.compile(r",(\s*[}\]])")


def read_form(text: str, form: type[T]) -> T | HandedBack:
    """The form that a reply fills in, or why it does not. Never raises.

    Trailing commas and typographic quotes are put right; a field that is missing or of another type
    is named. Unknown fields are left out.
    """
    found = _object(without_thinking(plain(text)))
    if found is None:
        return HandedBack(code="no-json", reason="the reply holds no JSON object")
    try:
        return msgspec.convert(found, form, strict=False)
    except msgspec.ValidationError as fault:
        return HandedBack(code="form", reason=f"the object does not fit the form: {fault}")
    except RecursionError:
        return HandedBack(code="form", reason="the object is nested too deeply")


def _object(text: str) -> dict[str, Any] | None:
    """The largest JSON object: fenced ones first, then any in the text."""
    blocks, _ = fences(text)
    for part in (*(block.code for block in blocks), text):
        for reading in (
            part,
            part.translate(_QUOTES),
            _TRAILING.sub(r"\1", part.translate(_QUOTES)),
        ):
            found = _largest(reading)
            if found is not None:
                return found
    return None


def _largest(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder(strict=False)
    best: tuple[int, dict[str, Any]] | None = None
    at = text.find("{")
    for _ in range(50):
        if at < 0:
            break
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        if isinstance(value, dict) and (best is None or end - at > best[0]):
            best = (end - at, value)
        at = text.find("{", end)
    return best[1] if best else None
