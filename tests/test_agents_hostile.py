"""Endpoints and surroundings that are not what they should be: one named ending, truly counted."""

import json
import random
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from model_server import Answer, ModelServer, event

from workbench.agents.model import Model
from workbench.agents.model_settings import ModelSettings, Retries, Timeouts, load_models
from workbench.agents.records import Ending, Message, Reply, Role
from workbench.errors import WorkbenchError

PROMPT = [Message(role="user", content="x" * 400)]
ELSEWHERE = "http://no-such-host.invalid/v1"


class Counting:
    """A meter that only counts what is sent."""

    asked = 0

    def asking(self, attempt: int) -> None:
        self.asked = attempt

    def heard(self, kind: str, piece: str) -> None: ...
    def answered(self, attempt: int, reply: Reply) -> None: ...
    def waiting(self, seconds: float, reply: Reply) -> None: ...


def ask(url: str, meter: Counting | None = None, *, key_env: str = "") -> Reply:
    settings = ModelSettings(
        model="m",
        base_url=url,
        key_env=key_env,
        reply_tokens=300,
        timeouts=Timeouts(connect=5.0, first_token=2.0),
        retries=Retries(times=0),
    )
    return Model(settings, rng=random.Random(1)).ask(PROMPT, meter or Counting())


def choice(**fields: Any) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, **fields}]})}\n\n"


CALL = {"tool_calls": [{"index": 0, "function": {"name": "run", "arguments": '{"cmd": "ls"}'}}]}
OLD_CALL = {"function_call": {"name": "run", "arguments": "{}"}}
PARTS = [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "the kernel"}]
HTML = {"Content-Type": "text/html; charset=utf-8"}

FORMS = {
    "a page": (
        Answer(body=lambda: [b"<html><h1>Log in</h1></html>"], headers=HTML),
        Ending.UNREADABLE,
        "text/html",
        0,
    ),
    "a page that says it is a stream": (
        Answer(body=lambda: [b"<html><h1>Log in</h1></html>"]),
        Ending.UNREADABLE,
        "without any event",
        1,
    ),
    "a whole reply where a stream was asked for": (
        Answer(error={"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}),
        Ending.UNREADABLE,
        "application/json",
        1,
    ),
    "headers and then nothing": (Answer(silent_after=0), Ending.SLOW, "no first token", 1),
    "a page of a proxy": (
        Answer(status=502, error="<html>Bad Gateway</html>"),
        Ending.SERVER,
        "502: Bad Gateway",
        0,
    ),
    "the call of a tool": (
        Answer(raw=[choice(delta=CALL)], finish="tool_calls"),
        Ending.EMPTY,
        "the call of a tool",
        1,
    ),
    "the call of a function": (
        Answer(raw=[choice(delta=OLD_CALL)], finish="function_call", usage=None),
        Ending.EMPTY,
        "the call of a tool",
        1,
    ),
    "reasoning alone": (Answer(reasoning="hm " * 9), Ending.EMPTY, "only reasoning", 1),
    "no word for its end": (Answer(text="a kernel", finish=None), Ending.CUT, "ended before", 1),
    "bytes that are no text": (
        Answer(body=lambda: [b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n']),
        Ending.UNREADABLE,
        "not JSON",
        1,
    ),
}


@pytest.mark.parametrize("kind", FORMS)
def test_what_is_no_reply_is_named_and_counted_where_it_may_be_billed(kind):
    answer, ending, says, read = FORMS[kind]
    with ModelServer([answer]) as server:
        reply = ask(server.url)
    assert (reply.ending, reply.text) in {(ending, ""), (ending, answer.text)}
    assert says in reply.says
    assert bool(reply.usage.prompt_tokens) == bool(read)


BOM = "\ufeff"
TAKEN = {
    "a list of parts": (Answer(raw=[choice(delta={"content": PARTS})]), "the kernel"),
    "a message in place of its pieces": (
        Answer(raw=[choice(message={"content": "the kernel"}, finish_reason="stop")], finish=None),
        "the kernel",
    ),
    "a mark of the byte order": (
        Answer(body=lambda: [(BOM + event({"content": "the kernel"}, "stop")).encode()]),
        "the kernel",
    ),
    "ids that come twice": (
        Answer(raw=[f"id: 7\n{event({'content': 'the '})}", f"id: 7\n{event({'content': 'ker'})}"]),
        "the ker",
    ),
    "events of nothing": (
        Answer(
            raw=["data: null\n\n", "data: 3\n\n", 'data: {"choices":null}\n\n', choice(delta=None)],
            text="the kernel",
        ),
        "the kernel",
    ),
    "a word for the end that nobody knows": (Answer(text="the kernel", finish="eos"), "the kernel"),
}


def test_a_reply_that_was_said_to_be_cut_is_not_whole_whatever_is_said_then():
    cut = event({"content": "the ker"}, "length")
    with ModelServer([Answer(raw=[cut])]) as server:
        reply = ask(server.url)
    assert (reply.ending, reply.text) == (Ending.TRUNCATED, "the ker")


@pytest.mark.parametrize("kind", TAKEN)
def test_a_reply_in_an_odd_form_is_read(kind):
    answer, text = TAKEN[kind]
    with ModelServer([answer]) as server:
        reply = ask(server.url)
    assert (reply.ending, reply.text) == (Ending.COMPLETE, text)


@pytest.mark.parametrize(
    "usage",
    [
        "lots",
        [7],
        {},
        {"prompt_tokens": True, "completion_tokens": True},
        {"prompt_tokens": "100", "completion_tokens": "3"},
        {"prompt_tokens": 1e400, "completion_tokens": 2},
        {"prompt_tokens": 100, "completion_tokens": 10**40},
        {"prompt_tokens": -100, "completion_tokens": -3},
    ],
)
def test_counts_of_every_wrong_kind_are_replaced(usage):
    with ModelServer([Answer(text="some words of a reply", usage=usage)]) as server:
        reply = ask(server.url)
    assert (reply.ending, reply.usage.source) == (Ending.COMPLETE, "counted")
    assert 100 < reply.usage.prompt_tokens < 200
    assert 0 < reply.usage.reply_tokens < 30


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_prompt_goes_to_nobody_that_an_endpoint_names(status):
    with ModelServer([Answer(text="stolen")]) as other:
        to = other.url.replace("127.0.0.1", "localhost") + "/chat/completions"
        with ModelServer([Answer(status=status, error={}, headers={"Location": to})]) as server:
            reply = ask(server.url)
        assert other.requests == []
    assert reply.ending is Ending.BAD_REQUEST
    assert to in reply.says
    assert reply.usage.prompt_tokens == 0


@pytest.fixture
def clean(monkeypatch) -> pytest.MonkeyPatch:
    for scheme in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{scheme}_proxy", raising=False)
        monkeypatch.delenv(f"{scheme.upper()}_PROXY", raising=False)
    return monkeypatch


@pytest.mark.parametrize("value", ["http://127.0.0.1:9", "socks5://127.0.0.1:9", "ftp://x", "?"])
def test_a_proxy_of_the_environment_does_not_stand_before_this_machine(clean, value):
    clean.setenv("HTTP_PROXY", value)
    with ModelServer([Answer(text="fine")]) as server:
        assert ask(server.url).text == "fine"


def test_a_proxy_that_is_not_there_is_named(clean):
    clean.setenv("http_proxy", "http://user:hunter2@127.0.0.1:9")
    reply = ask(ELSEWHERE)
    assert reply.ending is Ending.UNREACHABLE
    assert "through the proxy of http_proxy" in reply.says
    assert "hunter2" not in reply.says


@pytest.mark.parametrize(
    ("name", "value"),
    [("ALL_PROXY", "socks5://127.0.0.1:9"), ("HTTP_PROXY", "ftp://x"), ("SSL_CERT_FILE", "/no")],
)
def test_surroundings_that_allow_no_connection_are_named_before_anything_is_asked(
    clean, name, value
):
    clean.setenv(name, value)
    meter = Counting()
    with pytest.raises(WorkbenchError) as fault:
        ask(ELSEWHERE, meter)
    assert name in fault.value.where
    assert fault.value.todo
    assert meter.asked == 0


def test_a_key_that_no_request_can_carry_is_named_and_not_shown(clean):
    clean.setenv("ODD_KEY", "\u201csk-secret\u201d")
    with pytest.raises(WorkbenchError) as fault:
        ask(ELSEWHERE, key_env="ODD_KEY")
    assert "ODD_KEY" in fault.value.where
    assert "secret" not in str(fault.value)


class SixthVersion(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True


def test_an_endpoint_of_ipv6_is_reached():
    with ModelServer([Answer(text="six")]) as server:
        try:
            http = SixthVersion(("::1", 0), server._http.RequestHandlerClass)
        except OSError:
            pytest.skip("this machine has no IPv6")
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        assert ask(f"http://[::1]:{http.server_port}/v1").text == "six"
        http.shutdown()
        http.server_close()


@pytest.mark.parametrize(
    "url", ["http://::1:8000/v1", "http://[::1/v1", "http://h:99999/v1", "http://h:0", "h:80/v1"]
)
def test_an_address_that_is_none_is_refused_when_settings_are_read(tmp_path, url):
    file = tmp_path / "config.toml"
    file.write_text(f'[model]\nmodel = "m"\nbase_url = "{url}"\nkey_env = ""\n')
    with pytest.raises(WorkbenchError, match="not an http address"):
        load_models(file).of(Role.PLANNER)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    made = subprocess.run(
        [*command.split(), "-keyout", folder / "one.pem", "-out", folder / "cert.pem"],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl makes no certificate here")
    (folder / "one.pem").write_bytes(
        (folder / "one.pem").read_bytes() + (folder / "cert.pem").read_bytes()
    )
    return folder / "one.pem"


@pytest.mark.parametrize(
    ("speaks", "asked", "says"),
    [
        ("http", "https", "may speak http://"),
        ("https", "http", "may speak https://"),
        ("https", "https", "SSL_CERT_FILE"),
    ],
)
def test_a_fault_of_tls_says_what_may_be_wrong(certificate, speaks, asked, says):
    with ModelServer([Answer(text="x")]) as server:
        if speaks == "https":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server._http.socket = context.wrap_socket(server._http.socket, server_side=True)
        reply = ask(server.url.replace("http", asked, 1))
    assert reply.ending is Ending.UNREACHABLE
    assert says in reply.says
    assert reply.usage.prompt_tokens == 0


def sends(payload: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(payload)

    return serve


def hangs(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Ty")
    connection.settimeout(30)
    while connection.recv(1 << 16):
        pass


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
SPOKEN = {
    "another protocol": (sends(b"SSH-2.0-OpenSSH_9.2\r\n"), Ending.UNREACHABLE),
    "nothing at all": (sends(b""), Ending.UNREACHABLE),
    "half of its headers": (hangs, Ending.SLOW),
    "a header without end": (
        sends(b"HTTP/1.1 200 OK\r\nX: " + b"a" * (1 << 20)),
        Ending.UNREACHABLE,
    ),
    "nothing but patience": (sends(b"HTTP/1.1 100 Continue\r\n\r\n" * 999), Ending.UNREACHABLE),
    "fewer bytes than said": (sends(STREAM + b"Content-Length: 99\r\n\r\ndata"), Ending.CUT),
    "chunks of no length": (
        sends(STREAM + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
        Ending.CUT,
    ),
    "a status of nobody": (sends(b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"), Ending.SERVER),
}


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one


@pytest.mark.parametrize("kind", SPOKEN)
def test_what_is_no_http_ends_in_one_named_ending(listening, kind):
    serve, ending = SPOKEN[kind]

    def accept() -> None:
        connection, _ = listening.accept()
        with connection:
            serve(connection)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    reply = ask(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
    thread.join(30)
    assert (reply.ending, bool(reply.says)) == (ending, True)
