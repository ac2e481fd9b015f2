"""The way to an endpoint: what it can make us read has an end, and who stands between is named."""

import codecs
import os
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from workbench.agents.model_settings import ModelSettings
from workbench.agents.model_stream import TooLong, Unasked
from workbench.errors import WorkbenchError

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


def bounded_client(settings: ModelSettings) -> Any:  # noqa: ANN401 -- of httpx or httpx2, as openai has it
    """The HTTP client that the `openai` package makes for itself, with a bound on every body.

    Reading beyond it raises TooLong, and a compressed body Unasked; a refusal just ends there.
    It follows no redirect, since a prompt is for the named endpoint alone, and reaches this machine
    past any proxy. Raises what httpx raises of a proxy or certificates that cannot be used.
    """
    import openai

    async def bound(response: Any) -> None:  # noqa: ANN401 -- as above
        refused = response.status_code >= _REFUSED
        most = _REFUSAL if refused else _BESIDE + settings.reply_tokens * _PER_TOKEN
        # All that reads a body, as a stream or at once, reads it by this method.
        response.aiter_raw = _until(response, most, quietly=refused)

    plain = settings.local and urlsplit(settings.base_url).scheme == "http"
    return openai.DefaultAsyncHttpxClient(
        event_hooks={"response": [bound]}, follow_redirects=False, trust_env=not plain
    )


def check_way(settings: ModelSettings) -> None:
    """Raises WorkbenchError where no connection can even be tried, for what the environment says
    of proxies or certificates."""
    try:
        bounded_client(settings)
    except Exception as fault:
        about = isinstance(fault, OSError) and _named("SSL_CERT_FILE", "SSL_CERT_DIR")
        name = about or proxy_of(settings) or _named("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")
        raise WorkbenchError(
            f"no connection to a model can be made: {fault or type(fault).__name__}",
            where=f"environment variable {name}" if name else settings.base_url,
            todo="correct that variable, or unset it" if name else "see what httpx says of it",
        ) from fault


def proxy_of(settings: ModelSettings) -> str:
    """Name of the variable whose proxy stands between us and the endpoint; empty without one."""
    parts = urlsplit(settings.base_url)
    if (settings.local and parts.scheme == "http") or proxy_bypass(parts.hostname or ""):
        return ""
    proxies = getproxies()
    scheme = next((s for s in (parts.scheme, "all") if s in proxies), "")
    return _named(f"{scheme}_proxy") if scheme else ""


def _named(*names: str) -> str:
    """The first of these variables that is set, in whatever letters."""
    found = {name.lower(): name for name, value in os.environ.items() if value}
    return next((found[name.lower()] for name in names if name.lower() in found), "")


def _until(response: Any, most: int, *, quietly: bool) -> _Raw:  # noqa: ANN401 -- as above
    """The body as it arrives, cut off after this many bytes, `quietly` or with TooLong."""
    raw: _Raw = response.aiter_raw
    encoding = response.headers.get("content-encoding", "identity").strip().lower()

    async def read(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        left, first = most, True
        if encoding != "identity":
            raise Unasked("the endpoint compresses its reply although it was asked not to")
        async for chunk in raw(chunk_size):
            # Events may begin behind a mark of their byte order, and the client would lose one.
            piece = chunk.removeprefix(codecs.BOM_UTF8) if first else chunk
            first = False
            if len(piece) > left:
                if not quietly:
                    raise TooLong
                yield piece[:left]
                return
            left -= len(piece)
            yield piece

    return read
