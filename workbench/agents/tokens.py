"""Token counts of our own: estimates before a call, and a check on what a provider claims."""

from collections.abc import Iterable

from workbench.agents.records import Message, Usage

BYTES_PER_TOKEN = 3
"""Of UTF-8 text. Ours: byte-pair encodings of code and English take 3 to 4.5 bytes a token, and an
estimate that guards a budget should rather be too high."""

_FRAME = 8
"""Tokens around each message; ours, above the 3 or 4 that chat formats take."""

_LONGEST_TOKEN = 64
"""Bytes; ours. Vocabularies hold longer runs of blanks, but no text is made of these alone."""


def estimate(text: str) -> int:
    """Tokens of a text: one for every three bytes, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def estimate_prompt(messages: Iterable[Message]) -> int:
    """Tokens of a prompt with its framing."""
    return sum(estimate(m.content) + _FRAME for m in messages)


def checked_usage(
    claimed: object, messages: Iterable[Message], written: str, reply_limit: int
) -> Usage:
    """The provider's counts where they can be true, else our own, labelled, with the reason.

    `written` is everything that was streamed, reasoning too. A tokenizer makes at most one token of
    a byte, so a prompt cannot have more tokens than bytes (with framing); a reply cannot pass the
    limit that was sent with the request, hidden reasoning included.
    """
    messages = tuple(messages)
    counted = Usage(prompt_tokens=estimate_prompt(messages), reply_tokens=estimate(written))
    wrong = _wrong(claimed, messages, written, reply_limit)
    if wrong:
        return Usage(
            prompt_tokens=counted.prompt_tokens, reply_tokens=counted.reply_tokens, says=wrong
        )
    prompt, reply = _number(claimed, "prompt_tokens"), _number(claimed, "completion_tokens")
    cached = _number(getattr(claimed, "prompt_tokens_details", None), "cached_tokens") or 0
    return Usage(
        prompt_tokens=prompt or 0,
        reply_tokens=reply or 0,
        cached_tokens=cached if 0 <= cached <= (prompt or 0) else 0,
        source="provider",
    )


def _wrong(claimed: object, messages: tuple[Message, ...], written: str, reply_limit: int) -> str:
    """Why claimed counts cannot be true; empty when they can."""
    if claimed is None:
        return "the provider gave no token counts"
    prompt, reply = _number(claimed, "prompt_tokens"), _number(claimed, "completion_tokens")
    if prompt is None or reply is None:
        return "the provider's token counts are not numbers"
    sent = sum(_bytes(m.content) for m in messages)
    most = sent + 64 * len(messages) + 64
    if not sent // _LONGEST_TOKEN <= prompt <= most:
        return f"the provider counts {prompt} prompt tokens for {sent} bytes"
    if not _bytes(written) // _LONGEST_TOKEN <= reply <= reply_limit + 64:
        return f"the provider counts {reply} reply tokens for {_bytes(written)} bytes"
    return ""


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _number(holder: object, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
