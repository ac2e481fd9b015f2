"""Asks a model over the chat-completions protocol: one reply, or a named ending; never a guess."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import structs

from workbench.agents.model_faults import Fault, fault_of, without_key
from workbench.agents.model_settings import OWN_URL, ModelSettings, key_of
from workbench.agents.model_stream import (
    LOOK_EVERY,
    Gathered,
    Kind,
    Leaving,
    Silence,
    TooLong,
    Unasked,
    ended,
    gather,
    within,
)
from workbench.agents.records import WORTH_A_RETRY, Ending, Message, Reply
from workbench.agents.tokens import checked_usage

_NO_KEY = "none"
"""What the client is given where no key is wanted: it refuses to be made without one."""


_READ = {Ending.SLOW, Ending.LOST, Ending.TRUNCATED}
"""Endings before whose first event an endpoint may have read the prompt, and may bill it."""


class Meter(Protocol):
    """Who pays: told before each request, while it runs and after it."""

    def asking(self, attempt: int) -> None:
        """A request is about to be sent. May raise, and then it is not."""

    def heard(self, kind: Kind, piece: str) -> None:
        """A piece of the reply arrived."""

    def answered(self, attempt: int, reply: Reply) -> None:
        """The request ended, well or not."""

    def waiting(self, seconds: float, reply: Reply) -> None:
        """A passing fault; the next attempt comes after this many seconds."""


class _OursError(Exception):
    """A fault of whoever listens, on its way through the foreign client."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(str(fault))
        self.fault = fault


def _guarded(hear: Callable[[Kind, str], None]) -> Callable[[Kind, str], None]:
    def heard(kind: Kind, piece: str) -> None:
        try:
            hear(kind, piece)
        except Exception as fault:
            raise _OursError(fault) from fault

    return heard


class Model:
    """One model, as one role asks it. Blocks; holds no key and no connection between calls."""

    def __init__(
        self,
        settings: ModelSettings,
        *,
        rng: random.Random,
        sleep: Callable[[float], None] | None = None,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`leaving` says that the workbench ends: neither a reply nor a pause is then waited for
        any longer. `sleep` takes the place of the pauses.
        """
        self.settings = settings
        self._rng = rng
        self._sleep = sleep or self._rest
        self._leaving = leaving
        self._refused: set[str] = set()
        """Optional parts of the request that the endpoint does not take."""

    def ask(self, messages: Sequence[Message], meter: Meter) -> Reply:
        """The reply to a prompt. Faults that may pass are retried; the last one is returned.

        Raises WorkbenchError when there is no key, or no way to the endpoint that could be tried,
        and what `meter.asking` raises.
        """
        from workbench.agents.model_wire import check_way

        check_way(self.settings)
        attempt = 1
        while True:
            meter.asking(attempt)
            reply, refused = asyncio.run(self._request(messages, meter.heard))
            meter.answered(attempt, reply)
            if refused and refused not in self._refused:
                # Not a fault that waiting cures, and not one that costs: ask again without it.
                self._refused.add(refused)
                attempt += 1
                continue
            over = attempt > self.settings.retries.times or self._leaving()
            if reply.ending not in WORTH_A_RETRY or over:
                return reply
            pause = self._pause(attempt, reply)
            if pause is None:
                return reply
            meter.waiting(pause, reply)
            self._sleep(pause)
            if self._leaving():
                return reply
            attempt += 1

    def _rest(self, seconds: float) -> None:
        """Sleep, but not once the workbench ends: a provider may ask for minutes."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._leaving():
            time.sleep(min(left, LOOK_EVERY))

    def _pause(self, attempt: int, reply: Reply) -> float | None:
        """Seconds before the next attempt, never less than the endpoint asks; None to give up.

        Full jitter: a random part of the backoff, so that many clients do not come back at once.
        """
        rule = self.settings.retries
        asked = reply.retry_after or 0.0
        if asked > rule.patience:
            return None
        backoff = min(rule.longest, rule.backoff * 2.0 ** (attempt - 1))
        return asked + backoff * self._rng.random()

    async def _request(
        self, messages: Sequence[Message], hear: Callable[[Kind, str], None]
    ) -> tuple[Reply, str]:
        """One request: its reply, and which optional part of it was refused."""
        from workbench.agents.model_wire import proxy_of

        key = key_of(self.settings)
        gathered = Gathered(self.settings.reply_tokens, _guarded(hear))
        began = time.monotonic()
        try:
            await self._stream(messages, key, gathered)
            fault = ended(gathered)
        except _OursError as ours:
            raise ours.fault from None
        except Leaving:
            fault = Fault(ending=Ending.LOST, says="the workbench ended while the reply came")
        except Silence as silence:
            fault = Fault(ending=Ending.SLOW, says=str(silence))
        except Unasked as answer:
            fault = Fault(ending=Ending.UNREADABLE, says=str(answer))
        except TooLong:
            fault = Fault(ending=Ending.TRUNCATED, says="the reply is longer than its token limit")
        except Exception as broken:  # noqa: BLE001 -- a foreign client's faults; each gets its name
            fault = fault_of(
                broken,
                key,
                begun=gathered.begun or gathered.events > 0,
                proxy=proxy_of(self.settings),
            )
        reply = self._reply(messages, gathered, fault, key)
        return structs.replace(reply, seconds=time.monotonic() - began), fault.parameter

    async def _stream(self, messages: Sequence[Message], key: str, into: Gathered) -> None:
        import openai

        from workbench.agents.model_wire import PLAIN, bounded_client

        limits = self.settings.timeouts
        began = asyncio.get_running_loop().time()
        async with openai.AsyncOpenAI(
            api_key=key or _NO_KEY,
            base_url=self.settings.base_url,
            max_retries=0,
            timeout=openai.Timeout(limits.whole, connect=limits.connect),
            default_headers=PLAIN,
            http_client=bounded_client(self.settings),
        ) as client:
            try:
                stream = await within(
                    client.chat.completions.create(**self._parameters(messages)),
                    limits.connect + limits.first_token,
                    self._leaving,
                )
            except TimeoutError as fault:
                raise Silence(f"no answer within {limits.first_token:g} s") from fault
            kind = stream.response.headers.get("content-type", "")
            into.kind = kind.partition(";")[0].strip()
            # A whole reply in JSON is not what we asked for, but it may be billed.
            into.begun = into.kind in {"text/event-stream", "application/json"}
            try:
                await gather(aiter(stream), into, limits, began, self._leaving)
            finally:
                await stream.close()

    def _parameters(self, messages: Sequence[Message]) -> dict[str, Any]:
        settings = self.settings
        optional: dict[str, Any] = {
            "stream_options": {"include_usage": True},
            "temperature": settings.temperature,
            "reasoning_effort": settings.reasoning_effort or None,
            self._limit_name(): settings.reply_tokens,
        }
        return {
            "model": settings.model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "stream": True,
            **{
                name: value
                for name, value in optional.items()
                if value is not None and name not in self._refused
            },
        }

    def _limit_name(self) -> str:
        """The newer name where it comes from, the older elsewhere; the other when it is refused."""
        names = ["max_completion_tokens", "max_tokens"]
        if self.settings.base_url.rstrip("/") != OWN_URL:
            names.reverse()
        return next((name for name in names if name not in self._refused), names[0])

    def _reply(
        self, messages: Sequence[Message], gathered: Gathered, fault: Fault, key: str
    ) -> Reply:
        written = gathered.reasoning + gathered.text + gathered.refusal + gathered.called
        usage = checked_usage(gathered.usage, messages, written, self.settings.reply_tokens)
        read = gathered.events or gathered.begun or fault.ending in _READ
        if not read:
            # Refused before any work was done: no provider bills that.
            usage = structs.replace(usage, prompt_tokens=0, reply_tokens=0, says="nothing was read")
        return Reply(
            ending=fault.ending,
            text=gathered.text,
            reasoning=gathered.reasoning,
            usage=usage,
            model=without_key(gathered.model, key) or self.settings.model,
            says=fault.says,
            retry_after=fault.retry_after,
        )
