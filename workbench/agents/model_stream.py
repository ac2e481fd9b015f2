"""Reads one streamed reply piece by piece, with a limit on every silence."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, TypeVar

from workbench.agents.model_faults import Fault, without_key
from workbench.agents.model_settings import Timeouts
from workbench.agents.records import Ending

T = TypeVar("T")
LOOK_EVERY = 0.25
"""Seconds between two looks at whether the workbench ends."""

Kind = Literal["text", "reasoning", "finish"]
Hear = Callable[[Kind, str], None]
"""Told every piece as it arrives; `finish` is the endpoint's word for why the reply is over."""

_THINKING = ("reasoning_content", "reasoning")
"""Where endpoints that show a model's reasoning put it; no standard says."""

_MOST_PER_TOKEN = 12
"""Characters; ours. Code with deep indents comes to 6 a token, so what is longer than this many for
every token that was asked for has passed the limit, and the connection to an endpoint that ignores
it is closed.
"""


_FINISHES = {
    "length": Ending.TRUNCATED,
    "max_tokens": Ending.TRUNCATED,
    "content_filter": Ending.REFUSED,
    "refusal": Ending.REFUSED,
}


class Silence(Exception):
    """Nothing came for longer than was agreed."""


class TooLong(Exception):
    """More came than the limit on tokens can hold."""


class Unasked(Exception):
    """What came is nothing that we asked for; the text says what."""


class Gathered:
    """What has arrived of one reply; stays readable when the stream breaks."""

    def __init__(self, reply_tokens: int, hear: Hear) -> None:
        self._pieces: dict[Kind, list[str]] = {"text": [], "reasoning": [], "finish": []}
        self._room = reply_tokens * _MOST_PER_TOKEN
        self._hear = hear
        self.refusal = ""
        self.called = ""
        """What the model gave to tools, of which it was offered none."""
        self.kind = ""
        """The type of what the endpoint answers, as it says."""
        self.model = ""
        self.usage: object = None
        """As the provider gave it, unchecked."""
        self.events = 0
        self.begun = False
        """Whether the endpoint has begun to stream: it read the prompt, and may bill it."""

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._pieces["text"])

    @property
    def reasoning(self) -> str:
        """The visible thinking so far."""
        return "".join(self._pieces["reasoning"])

    @property
    def finish(self) -> str:
        """Why the endpoint says that the reply is over; empty while it is not. Of several words
        the last, unless one of them says that it is not whole."""
        said = self._pieces["finish"]
        return next((word for word in said if word in _FINISHES), "".join(said[-1:]))

    def take(self, chunk: Any) -> bool:  # noqa: ANN401 -- an object of another package, any field of which may be missing
        """Take one event in; whether it brought text. Raises TooLong."""
        self.events += 1
        self.model = _text(chunk, "model") or self.model
        self.usage = getattr(chunk, "usage", None) or self.usage
        choices = getattr(chunk, "choices", None) or []
        choice = next((c for c in choices if getattr(c, "index", 0) in {0, None}), None)
        if choice is None:
            return False
        delta = getattr(choice, "delta", None) or getattr(choice, "message", None)
        refusal, call = _text(delta, "refusal"), _call(delta)
        self.refusal += refusal
        self.called += call
        self._take_room(refusal + call)
        thought = next((t for name in _THINKING if (t := _text(delta, name))), "")
        heard = self.add("reasoning", thought)
        heard = self.add("text", _text(delta, "content")) or heard
        self.add("finish", _text(choice, "finish_reason"))
        return heard

    def add(self, kind: Kind, piece: str) -> bool:
        """Take one piece in; whether there is one. Raises TooLong."""
        if not piece:
            return False
        self._pieces[kind].append(piece)
        self._hear(kind, piece)
        self._take_room(piece)
        return True

    def _take_room(self, piece: str) -> None:
        self._room -= len(piece)
        if self._room < 0:
            raise TooLong


def _text(holder: object, name: str) -> str:
    """A text by name; of a list of parts, as some endpoints send it, those that are text."""
    value = _field(holder, name)
    if isinstance(value, list):
        return "".join(_text(part, "text") for part in value if _field(part, "type") == "text")
    return value if isinstance(value, str) else ""


def _field(holder: object, name: str) -> object:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


def _call(delta: object) -> str:
    """What an event gives to a tool; a space where it calls one with nothing."""
    one, many = _field(delta, "function_call"), _field(delta, "tool_calls")
    calls = [_field(c, "function") for c in many] if isinstance(many, list) else []
    return "".join(_text(c, "arguments") or " " for c in (one, *calls) if c is not None)


class Leaving(Exception):
    """The workbench ends; the reply is not waited for."""


async def gather(
    stream: AsyncIterator[Any],
    into: Gathered,
    limits: Timeouts,
    began: float,
    leaving: Callable[[], bool],
) -> None:
    """Read to the end. Raises Silence, Leaving, and whatever the stream raises.

    `began`: the loop's time at which the request was sent.
    """
    loop = asyncio.get_running_loop()
    spoken = False
    while True:
        patience = limits.between_tokens if spoken else began + limits.first_token - loop.time()
        left = began + limits.whole - loop.time()
        try:
            chunk = await within(anext(stream), min(patience, left), leaving)
        except StopAsyncIteration:
            return
        except TimeoutError as fault:
            raise Silence(_silence(limits, spoken=spoken, over=left <= patience)) from fault
        spoken = into.take(chunk) or spoken


async def within(work: Awaitable[T], seconds: float, leaving: Callable[[], bool]) -> T:
    """The result of a wait. Raises TimeoutError, or Leaving soon after somebody asks to."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            left = deadline - loop.time()
            if left <= 0:
                raise TimeoutError
            if leaving():
                raise Leaving
            await asyncio.wait({task}, timeout=min(left, LOOK_EVERY))
        return task.result()
    finally:
        task.cancel()


def _silence(limits: Timeouts, *, spoken: bool, over: bool) -> str:
    if over:
        return f"the reply was not whole after {limits.whole:g} s"
    if spoken:
        return f"nothing more came for {limits.between_tokens:g} s"
    return f"no first token came within {limits.first_token:g} s"


def ended(gathered: Gathered) -> Fault:
    """How a stream that was read to its end ended; the first case that holds."""
    text = bool(gathered.text.strip())
    ending = _FINISHES.get(gathered.finish)
    refusal = without_key(gathered.refusal, "")
    cases = (
        (not gathered.events, Ending.UNREADABLE, _no_event(gathered.kind)),
        (bool(refusal) and not text, Ending.REFUSED, f"the model refused: {refusal}"),
        (ending is Ending.TRUNCATED, Ending.TRUNCATED, "the reply reached its token limit"),
        (ending is Ending.REFUSED, Ending.REFUSED, "the provider's filter stopped the reply"),
        (not gathered.finish, Ending.CUT, "the stream ended before the reply did"),
        (
            bool(gathered.called) and not text,
            Ending.EMPTY,
            "the reply holds no text, only the call of a tool, and no tool was offered",
        ),
        (
            bool(gathered.reasoning) and not text,
            Ending.EMPTY,
            "the reply holds no text, only reasoning",
        ),
        (not text, Ending.EMPTY, "the reply holds no text"),
    )
    found = next(((ending, says) for holds, ending, says in cases if holds), None)
    return (
        Fault(ending=Ending.COMPLETE, says="")
        if found is None
        else Fault(ending=found[0], says=found[1])
    )


def _no_event(kind: str) -> str:
    if "event-stream" in kind:
        return "the endpoint answered without any event"
    return f"the endpoint answered with {kind[:60] or 'nothing'}, not with a stream of events"
