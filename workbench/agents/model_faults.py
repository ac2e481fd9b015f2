"""What a fault of the `openai` package means: one named ending, in words without the key."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from msgspec import Struct

from workbench.agents.records import Ending
from workbench.agents.secrecy import masked

OPTIONAL = (
    "stream_options",
    "temperature",
    "reasoning_effort",
    "max_completion_tokens",
    "max_tokens",
)
"""Parts of a request that some endpoints refuse and that it can do without."""

_OVERFLOW = re.compile(
    r"context.{0,12}(length|window|size)|maximum context|prompt (is )?too long"
    r"|too many (input )?tokens|input.{0,20}too (long|large)",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing|credit", re.IGNORECASE)
_LONGEST = 300


_STATUS = {
    401: Ending.FORBIDDEN,
    402: Ending.QUOTA,
    403: Ending.FORBIDDEN,
    404: Ending.UNKNOWN_MODEL,
    408: Ending.SERVER,
    409: Ending.SERVER,
    425: Ending.SERVER,
    429: Ending.LIMITED,
}


class Fault(Struct, frozen=True, kw_only=True):
    """One refusal of an endpoint, or of the way to it."""

    ending: Ending
    says: str
    retry_after: float | None = None
    parameter: str = ""
    """Which optional part of the request was refused."""


def fault_of(fault: BaseException, key: str, *, begun: bool = False, proxy: str = "") -> Fault:
    """Name a fault of the client. Nothing in the answer holds the key or what looks like one.

    `begun`: parts of a reply had arrived, so a broken connection is one that was there. `proxy`:
    the variable whose proxy stands between, if one does.
    """
    import openai

    says = without_key(_message(fault), key)
    if isinstance(fault, openai.APIStatusError):
        return _by_status(fault, says)
    if isinstance(fault, openai.APIConnectionError) and not isinstance(
        fault, openai.APITimeoutError
    ):
        cause = fault.__cause__ or fault
        why = without_key(str(cause) or type(cause).__name__, key)
        if begun:
            return Fault(ending=Ending.CUT, says=f"the connection ended inside the reply: {why}")
        through = f" through the proxy of {proxy}" if proxy else ""
        says = f"no connection to the endpoint{through}: {why}{_hint(why)}"
        return Fault(ending=Ending.UNREACHABLE, says=says)
    kind = type(fault).__name__
    ending, told = Ending.CUT, f"the reply broke off ({kind}: {says})"
    if isinstance(fault, openai.APITimeoutError):
        ending, told = Ending.SLOW, "the endpoint did not answer in time"
    elif isinstance(fault, openai.APIError):
        # Sent inside a stream that began well.
        overflow = _OVERFLOW.search(says)
        ending = Ending.OVERFLOW if overflow else Ending.SERVER
        told = f"the endpoint stopped its reply: {says}"
    elif isinstance(fault, ValueError):
        ending, told = Ending.UNREADABLE, "a part of the reply is not JSON"
    return Fault(ending=ending, says=told[:_LONGEST])


_HINTS = {
    "CERTIFICATE_VERIFY_FAILED": "; SSL_CERT_FILE may name the certificate that it should have",
    "WRONG_VERSION_NUMBER": "; it may speak http:// and not https://",
    "ReadError": "; it may speak https:// and not http://",
}


def _hint(why: str) -> str:
    return next((hint for word, hint in _HINTS.items() if word in why), "")


def without_key(text: str, key: str) -> str:
    """A short line in which the key, whole or as an endpoint abbreviates it, is not found."""
    if key:
        text = text.replace(key, "(key)")
    text = " ".join(masked(text).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _message(fault: BaseException) -> str:
    """The endpoint's own words, rather than the client's rendering of the whole body."""
    body = getattr(fault, "body", None)
    if isinstance(body, dict):
        for holder in (body.get("error"), body):
            if isinstance(holder, dict) and isinstance(holder.get("message"), str):
                return str(holder["message"])
    status = getattr(fault, "status_code", None)
    return str(fault) if status is None else _phrase(int(status))


def _phrase(status: int) -> str:
    """What a status is called; an answer without a message, a page of HTML, says no more."""
    known = {one.value: one.phrase for one in HTTPStatus}
    return f"{known.get(status, 'a status that HTTP does not know')}, without a message"


def _by_status(fault: object, says: str) -> Fault:
    status = int(getattr(fault, "status_code", 0))
    told = f"{getattr(fault, 'code', None) or ''} {says}"
    ending = _STATUS.get(status, Ending.SERVER if status >= 500 else Ending.BAD_REQUEST)
    if ending is Ending.LIMITED and _QUOTA.search(told):
        ending = Ending.QUOTA
    if ending is Ending.BAD_REQUEST and ("context_length" in told or _OVERFLOW.search(says)):
        ending = Ending.OVERFLOW
    response = getattr(fault, "response", None)
    if 300 <= status < 400:
        return _sent_on(status, getattr(response, "headers", {}))
    refused = ending is Ending.BAD_REQUEST
    return Fault(
        ending=ending,
        says=f"{status}: {says}",
        retry_after=retry_after(getattr(response, "headers", {})),
        parameter=_refused_parameter(str(getattr(fault, "param", "")), says) if refused else "",
    )


def _sent_on(status: int, headers: object) -> Fault:
    """A redirect, which is not followed: the prompt is for the endpoint that a person named."""
    get = getattr(headers, "get", None)
    to = str((get("location") if get else "") or "another place")
    says = f"{status}: the endpoint sends us on to {to}; if you trust that, make it base_url"
    return Fault(ending=Ending.BAD_REQUEST, says=without_key(says, ""))


def _refused_parameter(named: str, says: str) -> str:
    if named in OPTIONAL:
        return named
    # The longer name first: `max_tokens` may be refused in favour of `max_completion_tokens`.
    refused = re.search(
        r"['\"`]?(\w+)['\"`]?(?: \w+)? (?:is|are) not (?:supported|permitted)", says
    )
    if refused and refused.group(1) in OPTIONAL:
        return refused.group(1)
    found = [(says.find(name), name) for name in OPTIONAL if name in says]
    return min(found)[1] if found else ""


def retry_after(headers: object) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or a date; None without one."""
    get = getattr(headers, "get", None)
    if get is None:
        return None
    milliseconds = _seconds(get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = get("retry-after")
    seconds = _seconds(value)
    if seconds is not None or not value:
        return seconds
    try:
        at = parsedate_to_datetime(str(value))
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _seconds(value: object) -> float | None:
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None
