"""Bounds what an endpoint can make us read: neither a reply nor a refusal is read without end."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from workbench.agents.model_stream import TooLong, Unasked

_PER_TOKEN = 2048
"""Bytes of the stream for every token that was asked for; ours. An event around one token takes 200
to 400 bytes, and an endpoint may send several kinds of them."""
_BESIDE = 1 << 18
"""Bytes beside the tokens, for events without any; ours."""
_REFUSAL = 1 << 16
"""Bytes of a refusal that are read; ours. Only its message is told, in 300 characters."""
_REFUSED = 400
"""The first HTTP status that is a refusal."""

PLAIN = {"Accept-Encoding": "identity"}
"""Asked for, since a few compressed bytes can stand for gigabytes."""

_Raw = Callable[..., AsyncIterator[bytes]]


def bounded_client(reply_tokens: int) -> Any:  # noqa: ANN401 -- of httpx or httpx2, as openai has it
    """The HTTP client that the `openai` package makes for itself, with a bound on every body.

    Reading beyond it raises TooLong, and a compressed body Unasked; a refusal just ends there.
    """
    import openai

    async def bound(response: Any) -> None:  # noqa: ANN401 -- as above
        refused = response.status_code >= _REFUSED
        most = _REFUSAL if refused else _BESIDE + reply_tokens * _PER_TOKEN
        # All that reads a body, as a stream or at once, reads it by this method.
        response.aiter_raw = _until(response, most, quietly=refused)

    return openai.DefaultAsyncHttpxClient(event_hooks={"response": [bound]})


def _until(response: Any, most: int, *, quietly: bool) -> _Raw:  # noqa: ANN401 -- as above
    """The body as it comes, which ends after so many bytes, `quietly` or with TooLong."""
    raw: _Raw = response.aiter_raw
    encoding = response.headers.get("content-encoding", "identity").strip().lower()

    async def read(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        left = most
        if encoding != "identity":
            raise Unasked("the endpoint compresses its reply although it was asked not to")
        async for chunk in raw(chunk_size):
            if len(chunk) > left:
                if not quietly:
                    raise TooLong
                yield chunk[:left]
                return
            left -= len(chunk)
            yield chunk

    return read
