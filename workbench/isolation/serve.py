"""The worker's own loop: take a call, run the job it names, answer, until the judge hangs up."""

import importlib
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workbench.isolation.context import Job, JobContext
from workbench.isolation.wire import (
    HEADER,
    NONCE_BYTES,
    Answer,
    Failure,
    Hello,
    cut,
    decode_call,
    frame,
    heads,
    read_header,
)

_MESSAGE_CAP = 16 << 10
_TRACE_CAP = 32 << 10


def serve(channel: socket.socket, bench: JobContext, hello: Hello) -> None:
    """Greet, then answer calls one at a time. Returns when the judge closes the channel."""
    nonce = _receive(channel, NONCE_BYTES)
    if nonce is None:
        return
    _send(channel, frame(bytes(nonce), hello))
    while (raw := _receive(channel, HEADER.size)) is not None:
        turn = bytes(raw[4 : 4 + NONCE_BYTES])
        # The judge is trusted: its lengths need no cap here.
        head_bytes, data_bytes = read_header(bytes(raw), turn, sys.maxsize)
        head, data = _receive(channel, head_bytes), _receive(channel, data_bytes)
        if head is None or data is None:
            return
        _send(channel, _answer(turn, head, data, bench))


def _answer(
    turn: bytes, head: bytearray, data: bytearray, bench: JobContext
) -> Sequence[bytes | memoryview]:
    call = decode_call(memoryview(head))
    try:
        body, blobs = _job(call.job)(bench, call.body, list(cut(call.blobs, memoryview(data))))
        return frame(turn, Answer(body=body, blobs=heads(blobs)), blobs)
    except BaseException as fault:  # noqa: BLE001 -- a candidate may raise SystemExit to look done
        return frame(turn, _failure(fault, bench.scratch))


def _job(name: str) -> Job:
    module, _, function = name.partition(":")
    job: Job = getattr(importlib.import_module(module), function)
    return job


def _failure(fault: BaseException, scratch: Path) -> Failure:
    root = str(scratch)
    lines = [
        line
        for entry, line in traceback.walk_tb(fault.__traceback__)
        if entry.f_code.co_filename.startswith(root)
    ]
    return Failure(
        kind=type(fault).__name__[:200],
        message=_text(lambda: str(fault))[:_MESSAGE_CAP],
        line=lines[-1] if lines else getattr(fault, "lineno", None) if _syntax(fault) else None,
        trace=_text(lambda: "".join(traceback.format_exception(fault)))[-_TRACE_CAP:],
    )


def _syntax(fault: BaseException) -> bool:
    return isinstance(fault, SyntaxError)


def _text(make: Callable[[], Any]) -> str:
    """Text of a foreign exception, whose `__str__` may itself raise or return no text."""
    try:
        return str(make()).encode("utf-8", "replace").decode()
    except Exception as fault:  # noqa: BLE001 -- whatever it is, the failure must still be reported
        return f"<unprintable: {type(fault).__name__}>"


def _receive(channel: socket.socket, size: int) -> bytearray | None:
    """Exactly `size` bytes, or None at the end of the stream."""
    buffer = bytearray(size)
    view, got = memoryview(buffer), 0
    while got < size:
        count = channel.recv_into(view[got:])
        if not count:
            return None
        got += count
    return buffer


def _send(channel: socket.socket, pieces: Sequence[bytes | memoryview]) -> None:
    for piece in pieces:
        channel.sendall(piece)
