"""Reads one streamed reply piece by piece, with a limit on every silence."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

from workbench.agents.model_settings import Timeouts

Kind = Literal["text", "reasoning"]
Hear = Callable[[Kind, str], None]
"""Told every piece as it arrives."""

_THINKING = ("reasoning_content", "reasoning")
"""Where endpoints that show a model's reasoning put it; no standard says."""

_LONGEST_TOKEN = 64
"""Bytes; see `tokens.py`."""


class Silence(Exception):
    """Nothing came for longer than was agreed."""


class TooLong(Exception):
    """More came than the limit on tokens can hold."""


class Gathered:
    """What has arrived of one reply; stays readable when the stream breaks."""

    def __init__(self, reply_tokens: int, hear: Hear) -> None:
        self._pieces: dict[Kind, list[str]] = {"text": [], "reasoning": []}
        self._room = reply_tokens * _LONGEST_TOKEN
        self._hear = hear
        self.refusal = ""
        self.finish = ""
        self.model = ""
        self.usage: object = None
        """As the provider gave it, unchecked."""
        self.events = 0

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._pieces["text"])

    @property
    def reasoning(self) -> str:
        """The visible thinking so far."""
        return "".join(self._pieces["reasoning"])

    def take(self, chunk: Any) -> bool:  # noqa: ANN401 -- an object of another package, any field of which may be missing
        """Take one event in; whether it brought text. Raises TooLong."""
        self.events += 1
        self.model = _text(chunk, "model") or self.model
        self.usage = getattr(chunk, "usage", None) or self.usage
        choices = getattr(chunk, "choices", None) or []
        choice = next((c for c in choices if getattr(c, "index", 0) in {0, None}), None)
        if choice is None:
            return False
        self.finish = _text(choice, "finish_reason") or self.finish
        delta = getattr(choice, "delta", None)
        self.refusal += _text(delta, "refusal")
        thought = next((t for name in _THINKING if (t := _text(delta, name))), "")
        heard = self._add("reasoning", thought)
        return self._add("text", _text(delta, "content")) or heard

    def _add(self, kind: Kind, piece: str) -> bool:
        if not piece:
            return False
        self._pieces[kind].append(piece)
        self._hear(kind, piece)
        self._room -= len(piece)
        if self._room < 0:
            raise TooLong
        return True


def _text(holder: object, name: str) -> str:
    value = getattr(holder, name, None)
    return value if isinstance(value, str) else ""


async def gather(
    stream: AsyncIterator[Any], into: Gathered, limits: Timeouts, began: float
) -> None:
    """Read to the end. Raises Silence, and whatever the stream raises.

    `began`: the loop's time at which the request was sent.
    """
    loop = asyncio.get_running_loop()
    spoken = False
    while True:
        patience = limits.between_tokens if spoken else began + limits.first_token - loop.time()
        left = began + limits.whole - loop.time()
        try:
            async with asyncio.timeout(max(0.0, min(patience, left))):
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError as fault:
            raise Silence(_silence(limits, spoken=spoken, over=left <= patience)) from fault
        spoken = into.take(chunk) or spoken


def _silence(limits: Timeouts, *, spoken: bool, over: bool) -> str:
    if over:
        return f"the reply was not whole after {limits.whole:g} s"
    if spoken:
        return f"nothing more came for {limits.between_tokens:g} s"
    return f"no first token came within {limits.first_token:g} s"
