"""Jobs that attack the worker they run in; each is what a hostile candidate could do."""

# Jobs have one signature, and a hostile one takes the shortest way.
# ruff: noqa: ARG001, PTH102, PTH115, PTH208, PTH211, S102

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from workbench.isolation.wire import HEADER, MAGIC, Answer, Blob, frame, heads


def echo(bench, request, blobs):
    return request, blobs


def text_hash(bench, request, blobs):
    return {"hash": hash(request["text"])}, []


def remember(bench, request, blobs):
    bench.state.setdefault("calls", []).append(request["word"])
    return {"calls": bench.state["calls"]}, []


def surroundings(bench, request, blobs):
    return {
        "environ": dict(os.environ),
        "scratch": str(bench.scratch),
        "cwd": str(Path.cwd()),
        "stdin": sys.stdin.read(),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    }, []


def torch_sum(bench, request, blobs):
    from workbench.isolation.tensors import from_blob, to_blob

    first, second = (from_blob(blob, bench.device) for blob in blobs)
    return {}, [to_blob(first + second)]


def torch_turn(bench, request, blobs):
    """Send tensors through and back, transposed and expanded on the way."""
    from workbench.isolation.tensors import from_blob, to_blob

    tensors = [from_blob(blob, bench.device) for blob in blobs]
    return {"strides": [list(t.stride()) for t in tensors]}, [to_blob(t.T) for t in tensors]


def torch_dtypes(bench, request, blobs):
    import torch

    from workbench.isolation.tensors import from_blob, to_blob

    same = {}
    for name in request["dtypes"]:
        tensor = torch.arange(12).reshape(3, 4).to(getattr(torch, name)).T
        back = from_blob(to_blob(tensor))
        same[name] = back.dtype == tensor.dtype and back.stride() == tensor.stride()
        bits = [t.contiguous().view(torch.uint8) for t in (back, tensor)]
        same[name] &= torch.equal(*bits)
    return same, []


def interpret_kernel(bench, request, blobs):
    import importlib.util

    path = bench.scratch / "candidate.py"
    path.write_text(request["source"])
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {"answer": module.run()}, []


def compile_c(bench, request, blobs):
    source, library = bench.scratch / "stub.c", bench.scratch / "stub.so"
    source.write_text("int seven(void) { return 7; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    answer = ctypes.CDLL(str(library)).seven()
    if request.get("seal"):
        bench.forbid_exec()
        subprocess.run(["cc", "--version"], check=True)
    return {"answer": answer}, []


# Endings.


def fail_in_scratch(bench, request, blobs):
    path = bench.scratch / "candidate.py"
    path.write_text("x = 1\n\nraise ValueError('line three')\n")
    exec(compile(path.read_text(), str(path), "exec"))


def exit_zero(bench, request, blobs):
    os._exit(0)


def system_exit(bench, request, blobs):
    raise SystemExit(0)


def kill_itself(bench, request, blobs):
    os.kill(os.getpid(), signal.SIGKILL)


def segfault(bench, request, blobs):
    ctypes.string_at(0)


def abort(bench, request, blobs):
    os.abort()


def stop_itself(bench, request, blobs):
    os.kill(os.getpid(), signal.SIGSTOP)


def spin(bench, request, blobs):
    while True:
        pass


def sleep_on(bench, request, blobs):
    time.sleep(1000)


def unprintable(bench, request, blobs):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    raise Odd


def burn_cpu(bench, request, blobs):
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass


def burn_aside(bench, request, blobs):
    threading.Thread(target=spin, args=(bench, request, blobs), daemon=True).start()
    return {}, []


# The channel.


def _channel():
    """The descriptor is no secret: a hostile job finds it by trying."""
    for name in os.listdir("/proc/self/fd"):
        try:
            found = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        return int(name), found
    raise AssertionError


def close_everything(bench, request, blobs):
    os.closerange(0, 400)
    signal.pause()


def answer_garbage(bench, request, blobs):
    _channel()[1].sendall(b"PASSED" * 100)
    signal.pause()


def answer_unasked(bench, request, blobs):
    """A true answer, and after it a second one that nobody asked for."""
    later = threading.Timer(0.05, lambda: _channel()[1].sendall(b"again"))
    later.start()
    bench.state["later"] = later
    return {}, []


def wait_for_it(bench, request, blobs):
    bench.state["later"].join()
    return {}, []


def _reply_to_this_turn(bench, body, blobs=()):
    """Forge the answer to the call in progress: the turn's nonce lies in the caller's frame."""
    turn = sys._getframe(2).f_locals["turn"]
    return frame(turn, Answer(body=body, blobs=heads(blobs)), blobs)


def answer_twice(bench, request, blobs):
    for piece in _reply_to_this_turn(bench, {"forged": True}):
        _channel()[1].sendall(piece)
    return {"forged": False}, []


def claim_terabytes(bench, request, blobs):
    first = bytearray(_reply_to_this_turn(bench, {})[0])
    first[24:32] = (1 << 43).to_bytes(8, "little")
    _channel()[1].sendall(first)
    signal.pause()


def answer_nonsense(bench, request, blobs):
    whole = bytearray(b"".join(_reply_to_this_turn(bench, {"a": 1})))
    whole[32:] = b"\xc1" * (len(whole) - 32)
    _channel()[1].sendall(whole)
    signal.pause()


def answer_half(bench, request, blobs):
    _channel()[1].sendall(b"".join(_reply_to_this_turn(bench, {"a": 1}))[:-3])
    os._exit(0)


def lie_about_shape(bench, request, blobs):
    turn = sys._getframe(1).f_locals["turn"]
    blob = {"dtype": "float32", "shape": [1000], "strides": [1], "kind": "host", "bytes": 4}
    head = msgspec.msgpack.encode({"type": "answer", "body": {}, "blobs": [blob]})
    _channel()[1].sendall(HEADER.pack(MAGIC, turn, len(head), 4) + head + bytes(4))
    signal.pause()


def big_reply(bench, request, blobs):
    data = bytes(request["bytes"])
    return {}, [Blob(dtype="uint8", shape=(len(data),), strides=(1,), data=data)]


# Appetite.


def eat_memory(bench, request, blobs):
    held = []
    while True:
        held.append(bytearray(64 << 20))


def eat_shared_memory(bench, request, blobs):
    held = []
    while True:
        part = mmap.mmap(-1, 32 << 20)
        part.write(b"x" * (32 << 20))
        held.append(part)


def eat_disk(bench, request, blobs):
    for number in range(1000):
        (bench.scratch / f"part{number}").write_bytes(bytes(8 << 20))
    signal.pause()


def eat_unlinked_disk(bench, request, blobs):
    held = []
    while True:
        path = bench.scratch / "part"
        held.append(path.open("wb"))
        path.unlink()
        held[-1].write(bytes(8 << 20))


def big_file(bench, request, blobs):
    with (bench.scratch / "big").open("wb") as big:
        big.truncate(1 << 40)


def keep(bench, request, blobs):
    """As a compiler keeps what it made: in folders of its own below HOME."""
    place = Path.home() / "cache" / "kernel"
    place.mkdir(parents=True)
    (place / "code").write_text(request["text"])
    return {"text": (place / "code").read_text()}, []


def flood(bench, request, blobs):
    line = b"PASSED " * 4096
    for _ in range(request["lines"]):
        os.write(1, line)
    os.write(2, b"the end")
    return {"written": len(line) * request["lines"]}, []


def many_threads(bench, request, blobs):
    gate = threading.Event()
    for _ in range(request["threads"]):
        threading.Thread(target=gate.wait, daemon=True).start()
    gate.wait()


def fork_bomb(bench, request, blobs):
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)


def daemon(bench, request, blobs):
    """Leave the session twice over, with no parent left to be found by."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writer, str(os.getpid()).encode())
            os.closerange(0, 400)
            while True:
                signal.pause()
        os._exit(0)
    pid = int(os.read(reader, 20))
    return {"pid": pid, "namespace": os.readlink("/proc/self/ns/pid")}, []


def pretend_to_seal(bench, request, blobs):
    """Turn the job that gives up processes into one that only says so."""
    type(bench).forbid_exec = lambda _context: None
    return {}, []


def litter(bench, request, blobs):
    """Folders that a careless removal cannot enter or is too deep for."""
    deep = bench.scratch
    for _ in range(1200):
        os.mkdir("d")
        os.chdir("d")
    closed = deep / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").touch()
    os.symlink("/etc", deep / "link")
    os.umask(0o777)
    (deep / "unreadable").mkdir()
    return {}, []


def limits(bench, request, blobs):
    """What the kernel holds this process to, soft and hard, by name."""
    import resource

    names = ("CORE", "CPU", "DATA", "FSIZE", "NOFILE", "MSGQUEUE")
    return {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in names}, []


def many_folders(bench, request, blobs):
    """Many folders with a file each."""
    for number in range(request["folders"]):
        os.mkdir(f"{number}")
        Path(f"{number}", "file").touch()
    return {}, []
