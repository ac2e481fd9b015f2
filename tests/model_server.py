"""A model endpoint on loopback that says what a test wrote down, over the real protocol.

Answers are taken from a script in order, or made by a function of the request. Every request that
arrived is kept.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

USAGE = object()
"""Stands for counts that fit the texts."""


@dataclass
class Answer:
    """One scripted answer; the defaults make a whole, well-formed stream."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    finish: str | None = "stop"
    usage: Any = USAGE
    status: int = 200
    error: Any = None
    """Body of an answer that is no stream."""
    headers: dict[str, str] = field(default_factory=dict)
    piece: int = 40
    """Characters an event."""
    delay: float = 0.0
    """Seconds before every event."""
    silent_after: int | None = None
    """Events after which nothing comes any more, while the connection stays open."""
    cut_after: int | None = None
    """Events after which the connection ends."""
    raw: list[str] = field(default_factory=list)
    """Lines sent as they are, before the text."""
    done: bool = True
    stream_error: Any = None
    """Sent as an event after the text."""
    body: Callable[[], Iterable[bytes]] | None = None
    """Bytes in place of all that, until the client hangs up; see `headers` for their type."""


@dataclass
class Request:
    """What arrived."""

    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def prompt(self) -> str:
        return "\n".join(m["content"] for m in self.body["messages"])


class ModelServer:
    """`with ModelServer([...]) as server: server.url`."""

    def __init__(self, script: Iterable[Answer] | Callable[[Request, int], Answer]) -> None:
        self._script = script if callable(script) else None
        self._answers = [] if callable(script) else list(script)
        self.requests: list[Request] = []
        self.whole: dict[str, int] = {}
        """How often each prompt was answered to the end."""
        self.sent = 0
        """Events that went out."""
        self.poured = 0
        """Bytes of bodies that went out."""
        self._lock = threading.Condition()
        self.closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server.serve(self)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Clients are killed on purpose."""

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    def wait_until(self, sent: int, timeout: float) -> bool:
        """Whether so many events went out in time."""
        with self._lock:
            return self._lock.wait_for(lambda: self.sent >= sent, timeout)

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        request = Request(body, {k.lower(): v for k, v in handler.headers.items()})
        with self._lock:
            self.requests.append(request)
            answer = self._next(request)
        if answer.body is None and (answer.status != 200 or answer.error is not None):
            self._refuse(handler, answer)
            return
        try:
            if answer.body is not None:
                self._pour(handler, answer, answer.body())
                return
            self._stream(handler, answer, request)
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True

    def _next(self, request: Request) -> Answer:
        if self._script is not None:
            return self._script(request, len(self.requests))
        if not self._answers:
            return Answer(status=500, error={"error": {"message": "the script is at its end"}})
        return self._answers.pop(0)

    def _refuse(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        data = answer.error if isinstance(answer.error, str) else json.dumps(answer.error)
        handler.send_response(answer.status)
        handler.send_header("Content-Type", "application/json")
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data.encode())))
        handler.end_headers()
        handler.wfile.write(data.encode())

    def _pour(self, handler: BaseHTTPRequestHandler, answer: Answer, body: Iterable[bytes]) -> None:
        handler.close_connection = True
        handler.send_response(answer.status)
        for name, value in {"Content-Type": "text/event-stream", **answer.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        for part in body:
            if self.closing.is_set():
                return
            handler.wfile.write(part)
            with self._lock:
                self.poured += len(part)

    def _stream(self, handler: BaseHTTPRequestHandler, answer: Answer, request: Request) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for sent, line in enumerate(self._lines(answer, request)):
            if answer.silent_after == sent:
                self.closing.wait(60)
                return
            if answer.cut_after == sent:
                handler.close_connection = True
                return
            if answer.delay:
                time.sleep(answer.delay)
            data = line.encode()
            handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            handler.wfile.flush()
            with self._lock:
                self.sent += 1
                self._lock.notify_all()
        handler.wfile.write(b"0\r\n\r\n")
        handler.wfile.flush()
        with self._lock:
            self.whole[request.prompt] = self.whole.get(request.prompt, 0) + 1

    def _lines(self, answer: Answer, request: Request) -> Iterable[str]:
        yield from answer.raw
        yield event({"role": "assistant", "content": ""})
        for name, whole in (
            ("reasoning_content", answer.reasoning),
            ("refusal", answer.refusal),
            ("content", answer.text),
        ):
            for at in range(0, len(whole), answer.piece):
                yield event({name: whole[at : at + answer.piece]})
        if answer.stream_error is not None:
            yield f"data: {json.dumps(answer.stream_error)}\n\n"
        if answer.finish is not None:
            yield event({}, finish=answer.finish)
        usage = answer.usage
        if usage is USAGE:
            usage = counts(len(request.prompt) // 4, len(answer.text + answer.reasoning) // 4)
        if usage is not None and "stream_options" in request.body:
            yield f"data: {json.dumps({**_head(), 'choices': [], 'usage': usage})}\n\n"
        if answer.done:
            yield "data: [DONE]\n\n"


def counts(prompt: Any, reply: Any, cached: Any = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reply,
        "total_tokens": prompt + reply if isinstance(prompt, int) and isinstance(reply, int) else 0,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def event(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({**_head(), 'choices': [choice]})}\n\n"


def _head() -> dict[str, Any]:
    return {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1"}
