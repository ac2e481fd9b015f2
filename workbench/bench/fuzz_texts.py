"""What the fuzz feeds the gate: damaged files for the policy, hostile bodies for what is behind it.

`PLANTED` is a name that hostile bodies give to whatever they try to leave outside their scratch.
"""

import random
from collections.abc import Callable

PLANTED = "wb-fuzz-planted"
OURS = ("workbench.isolation.serve", "torch.version", "triton.knobs")
"""Modules whose files the workers read and must not change."""

HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.maximum(x, 0.0), mask=mask)

def launch(x, y):
    out = torch.empty_like(x)
    add_relu[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out
"""

RIGHT = (
    HEAD
    + """
class ModelNew(nn.Module):
    def forward(self, x, y):
        return launch(x, y)
"""
)

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)

def get_inputs():
    return [torch.randn(9, 21), torch.randn(9, 21)]

def get_init_inputs():
    return []
"""

_PLANT = f"""
def plant():
    import os
    home = os.path.dirname(torch.__file__)
    for folder in ("/tmp", "/dev/shm", "/var/tmp", "/", "/root", "/home", home, "..", "../.."):
        try:
            open(os.path.join(folder, "{PLANTED}"), "w").write("x")
        except OSError:
            pass
    import sys
    for name in {OURS!r}:
        try:
            open(sys.modules[name].__file__, "a").write("# {PLANTED}")
        except (OSError, KeyError):
            pass
plant()
"""

AT_IMPORT: dict[str, str] = {
    "writes wherever it can": _PLANT,
    "leaves with 0": "import os; os._exit(0)",
    "leaves by exception": "raise SystemExit(0)",
    "closes its own pipes": "import os; os.closerange(0, 1000)",
    "stops itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "kills itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "kills everybody": "import os, signal; os.kill(-1, signal.SIGKILL)",
    "kills its group": "import os; os.killpg(0, 9)",
    "segfaults": "import ctypes; ctypes.string_at(0)",
    "aborts": "import os; os.abort()",
    "is deaf and spins": (
        "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except OSError: pass\nwhile True: pass"
    ),
    "rings all the time": (
        "import signal\ndef ring(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, ring); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)"
    ),
    "recurses": "import sys; sys.setrecursionlimit(1 << 30)\ndef f(): f()\nf()",
    "floods its outputs for ever": (
        "import os\nwhile True:\n    os.write(1, b'PASSED ' * (1 << 17))\n"
        "    os.write(2, b'Traceback ' * (1 << 17))"
    ),
    "floods its outputs": (
        "import os\nfor _ in range(128):\n    os.write(1, b'PASSED ' * (1 << 17))"
    ),
    "starts threads": (
        "import threading, time\nfor _ in range(2000):\n"
        "    threading.Thread(target=time.sleep, args=(99,)).start()"
    ),
    "forks": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "starts a daemon": (
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', "
        "'import os,time; os.setsid(); time.sleep(999)'])"
    ),
    "starts threads that spin": (
        "import threading\ndef spin():\n    while True: pass\n"
        "for _ in range(20): threading.Thread(target=spin).start()"
    ),
    "kills its parent": "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "stops its parent": "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)",
    "fills shared memory": (
        f"i = 0\nwhile True:\n    open(f'/dev/shm/{PLANTED}', 'ab').write(bytes(8 << 20)); i += 1"
    ),
    "fills TMPDIR": (
        "import tempfile\nkept = []\nwhile True:\n    kept.append(tempfile.TemporaryFile())\n"
        "    kept[-1].write(bytes(8 << 20)); kept[-1].flush()"
    ),
    "never exits": "import atexit, time; atexit.register(time.sleep, 999)",
    "collects slowly": (
        "import gc, time\ngc.callbacks.append(lambda *_: time.sleep(0.5)); gc.collect()"
    ),
    "eats memory": "hoard = []\nwhile True: hoard.append(bytearray(64 << 20))",
    "fills the disk": (
        "i = 0\nwhile True:\n    open(f'part{i}', 'wb').write(bytes(8 << 20)); i += 1"
    ),
    "litters": (
        "import os\nfor _ in range(900):\n    os.mkdir('d'); os.chdir('d')\n"
        "os.umask(0o777); os.mkdir('closed'); os.symlink('/etc', 'link')"
    ),
    "imports without end": (
        "open('loop.py', 'w').write('import importlib, loop\\nimportlib.reload(loop)')\n"
        "import sys; sys.path.insert(0, '.'); import loop"
    ),
    "replaces builtins": (
        "import builtins\nbuiltins.len = builtins.isinstance = builtins.type = lambda *_: True\n"
        "builtins.print = builtins.str = builtins.open = None"
    ),
    "empties the modules": "import sys; sys.modules.clear()",
    "breaks torch": "torch.empty = torch.Tensor.numel = torch.manual_seed = None",
    "traces everything": "import sys; sys.settrace(lambda *_: 1 / 0)",
    "raises what cannot be told": (
        "class Odd(BaseException):\n    def __str__(self): raise self\n    __repr__ = __str__\n"
        "    def __getattribute__(self, name): raise RuntimeError('no')\nraise Odd"
    ),
    "raises half a character": "raise ValueError('\\ud800' * 9)",
    "raises a gigabyte": "raise ValueError('x' * (1 << 30))",
    "raises a long chain": (
        "def chain(n):\n    try:\n        if n: chain(n - 1)\n        raise ValueError(n)\n"
        "    except ValueError as fault:\n        raise KeyError(n) from fault\nchain(300)"
    ),
    "answers for the worker": (
        "import os, socket\nfor fd in os.listdir('/proc/self/fd'):\n"
        "    try: socket.socket(fileno=os.dup(int(fd))).sendall(b'WB1\\n' + bytes(1 << 16))\n"
        "    except OSError: pass"
    ),
    "hangs on its pipe": (
        "import os, socket\nfor fd in os.listdir('/proc/self/fd'):\n"
        "    try: socket.socket(fileno=os.dup(int(fd))).recv(1)\n    except OSError: pass"
    ),
}
"""Run when the file is imported, before `ModelNew` is there; the policy would stop most."""

AS_CLASS: dict[str, str] = {
    "has no class": "",
    "has a class that is none": "ModelNew = 5",
    "has a class that lies": (
        "class Meta(type):\n    def __instancecheck__(cls, other): return True\n"
        "    def __call__(cls, *a, **k): return cls\nclass ModelNew(metaclass=Meta): pass"
    ),
    "hides its state": (
        "class ModelNew(nn.Module):\n    def __getattribute__(self, name): raise SystemExit(0)"
    ),
    "asks for the module's attributes": "def __getattr__(name): raise RecursionError(name)",
}
"""In place of `ModelNew`."""

AS_ANSWER: dict[str, str] = {
    "nests deeply": "out = launch(x, y)\nfor _ in range(100_000): out = [out]\nreturn out",
    "holds itself": "out = []\nout.append(out)\nreturn out",
    "returns a million": "return [launch(x, y)] + [1] * 1_000_000",
    "returns half a character": "return '\\ud800'",
    "returns a gigabyte of text": "return 'x' * (1 << 30)",
    "returns terabytes that are not there": "return torch.zeros(1).expand(1 << 40)",
    "returns a subclass": (
        "class T(torch.Tensor):\n    def __torch_function__(self, *a, **k): raise SystemExit\n"
        "return launch(x, y).as_subclass(T)"
    ),
    "returns a sparse tensor": "return launch(x, y).to_sparse()",
    "returns what raises when looked at": (
        "class Odd:\n    def __getattribute__(self, name): raise SystemExit(0)\nreturn Odd()"
    ),
    "returns a key that is no key": "return {float('nan'): launch(x, y), (1,): 2}",
    "returns a view of freed storage": (
        "out = launch(x, y)\nout.untyped_storage().resize_(0)\nreturn out"
    ),
    "resizes its inputs": "x.resize_(0); y.untyped_storage().resize_(0)\nreturn launch(x, y)",
    "turns its inputs into others": "x.data = x.data.half()\nreturn launch(x, y)",
    "loses its state": "self.__dict__.clear()\nreturn launch(x, y)",
    "generates": "yield launch(x, y)",
    "forks and both answer": "import os\nos.fork()\nreturn launch(x, y)",
}
"""Bodies of `forward`."""


def hostile() -> dict[str, str]:
    """Every hostile candidate by name."""
    files = {name: f"{HEAD}\n{body}\n{_MODEL}" for name, body in AT_IMPORT.items()}
    files |= {name: f"{HEAD}\n{body}\n" for name, body in AS_CLASS.items()}
    for name, body in AS_ANSWER.items():
        lines = "".join(f"        {line}\n" for line in body.splitlines())
        files[name] = f"{HEAD}\nclass ModelNew(nn.Module):\n    def forward(self, x, y):\n{lines}"
    return files


_MODEL = RIGHT.removeprefix(HEAD)

Damage = Callable[[random.Random, bytes], bytes]


def _flipped(rng: random.Random, text: bytes) -> bytes:
    damaged = bytearray(text)
    for _ in range(rng.randint(1, 20)):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


def _cut(rng: random.Random, text: bytes) -> bytes:
    start = rng.randrange(len(text))
    return text[:start] + text[start + rng.randrange(1, 200) :]


def _shuffled(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines)


def _spliced(rng: random.Random, text: bytes) -> bytes:
    at, start = rng.randrange(len(text)), rng.randrange(len(text))
    return text[:at] + text[start : start + rng.randrange(400)] + text[at:]


def _reworded(rng: random.Random, text: bytes) -> bytes:
    words = [b"lambda", b"await", b"yield", b"class", b"*", b"**", b":=", b"@", b"global", b"match"]
    parts = text.split(b" ")
    for _ in range(rng.randint(1, 6)):
        parts[rng.randrange(len(parts))] = rng.choice(words)
    return b" ".join(parts)


def _deep(rng: random.Random, text: bytes) -> bytes:
    count: int = 10 ** rng.randint(2, 5)
    shapes = [
        b"(" * count + b"1" + b")" * count,
        b"-" * count + b"1",
        b"a" + b".a" * count,
        b"f" + b"()" * count,
        b"lambda: " * count + b"1",
        b"1" + b"+1" * count,
        b"[" * count,
        b"f'{" * min(count, 200) + b"1" + b"}'" * min(count, 200),
        b"x = 1 if 1 else " * count + b"1",
        b"9" * count,
    ]
    return text + b"\nz = " + rng.choice(shapes) + b"\n"


def _nested(rng: random.Random, text: bytes) -> bytes:
    word = rng.choice([b"if 1:", b"class A:", b"def f():", b"for i in x:", b"with x:", b"try:"])
    depth = rng.choice([50, 99, 101, 2000])
    return text + b"\n" + b"".join(b" " * i + word + b"\n" for i in range(depth))


def _huge(rng: random.Random, text: bytes) -> bytes:
    filler = rng.choice(
        [b"# x\n", b"import os\n", b"x = 1\n", b"@f\n", b"\0", b"\n", b"torch.empty(1)\n"]
    )
    return text + filler * (rng.choice([1 << 12, 1 << 16, 1 << 22]) // len(filler) * 2)


def _encoded(rng: random.Random, text: bytes) -> bytes:
    coding = rng.choice(["utf-16", "utf-32", "utf-8-sig", "utf-7"])
    return text.decode().encode(coding)


def _binary(rng: random.Random, text: bytes) -> bytes:
    contents: list[bytes] = [
        rng.randbytes(len(text)),
        b"\x7fELF" + rng.randbytes(99),
        b"",
        b"\0" * 99,
    ]
    return rng.choice(contents)


DAMAGES: dict[str, Damage] = {
    "bytes flipped": _flipped,
    "a piece cut": _cut,
    "lines shuffled": _shuffled,
    "a piece spliced in": _spliced,
    "words replaced": _reworded,
    "an expression nested": _deep,
    "statements nested": _nested,
    "a huge file": _huge,
    "another encoding": _encoded,
    "not text": _binary,
}
"""Ways to damage a file that is right."""
