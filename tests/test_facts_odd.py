"""Files that hardly anyone writes: facts or unknowns, edits undone to the byte, never an error."""

import pytest

from workbench.kernels.edits.base import EditRefused, undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts import read_facts
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.kernels.source import read_source
from workbench.kernels.target import target

SM90 = target("sm90")
HEAD = "import torch, triton\nimport triton.language as tl\n"
LOAD = (
    "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "x = tl.load(x_ptr + i, mask=i < N, other=0.0)\n"
)
STORE = "tl.store(out_ptr + i, x, mask=i < N)"
LAUNCH = (
    "class ModelNew(torch.nn.Module):\n    def forward(self, x, out, n):\n"
    "        k[(1,)](x, out, n, BLOCK=128, num_warps=4)\n"
)
PLAIN = "x_ptr, out_ptr, N, BLOCK: tl.constexpr"


def kernel(body, *, args=PLAIN, decorator="@triton.jit", head=HEAD):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{head}{decorator}\ndef k({args}):\n{lines}{LAUNCH}"


def inside(body, **more):
    """A kernel with the lines between its load and its store."""
    return kernel(f"{LOAD}{body}\n{STORE}", **more)


def nested(head, deepest, levels):
    lines = ["    " * depth + head.format(depth) for depth in range(levels)]
    return "\n".join([*lines, "    " * levels + deepest])


CHAIN = "\n".join(f"a{n + 1} = a{n} * 2" for n in range(300))
HELPERS = "".join(f"@triton.jit\ndef h{n}(x):\n    return h{n + 1}(x)\n" for n in range(300))
CONFIGS = ", ".join(f'triton.Config({{"BLOCK": {2 ** (n % 10)}}})' for n in range(200))
ODD = {
    "a sum of 20,000 terms": inside("y = x" + " + x" * 20000),
    "300 names, each from the last": kernel(f"a0 = N\n{CHAIN}\n{LOAD}x += a300\n{STORE}"),
    "5,000 parentheses": inside("y = " + "(" * 5000 + "x" + ")" * 5000),
    "3,000 signs": inside("y = " + "-" * 3000 + "x"),
    "3,000 subscripts": inside("y = x" + "[0]" * 3000),
    "2,000 choices": inside("y = " + "x if N else " * 2000 + "x"),
    "loops in loops": inside(nested("for l{} in range(N):", "x += l0", 18)),
    "conditions in conditions": inside(nested("if N > {}:", "x += 1", 90)),
    "300 functions in a row": inside("x = h0(x)", head=HEAD + HELPERS),
    "names in a circle": inside("a = b\nb = a\nc = c + 1\nfor s in range(a, b, c):\n    x += s"),
    "functions in a circle": inside("x = k(x, x, N, BLOCK)"),
    "numbers of 4,000 digits": inside(f"for s in range({10**4000}):\n    x += s * {2**5000}"),
    "numbers that nobody can work out": inside(
        "for s in range(9 ** 9 ** 9, 1 << 10**9):\n    x += s"
    ),
    "a division by nothing": inside("for s in range(0, 1 // 0, 1 % 0):\n    x += s // 0"),
    "steps of nothing": inside("for s in range(0, N, 0):\n    x += tl.load(x_ptr + s)"),
    "ranges of anything": inside("for s in range(*N):\n    x += s\nfor t in range():\n    x += t"),
    "loads of nothing": inside("a = tl.load()\nb = tl.load(*x)\ntl.store()\nc = tl.load(**x)"),
    "products of nothing": inside(
        "a = tl.dot()\nb = tl.dot(*x)\nc = tl.dot(x, x, input_precision=1)"
    ),
    "blocks of nothing": inside("a = tl.arange()\nb = tl.arange(*N)\nc = tl.arange(0, BLOCK, 2)"),
    "programs of no axis": inside(
        "a = tl.program_id()\nb = tl.program_id(N)\nc = tl.program_id(7)"
    ),
    "a variable type": f"{HEAD}@triton.jit\ndef k[T](x_ptr, N: tl.constexpr):\n    pass\n",
    "everything imported": inside(
        "", head="from triton import *\nimport triton.language as tl\n", decorator="@jit"
    ),
    "decorators on decorators": inside(
        "", decorator="@a\n@b(1)(2)\n@(lambda f: f)\n@triton.jit\n@c[0]"
    ),
    "configurations from anywhere": inside(
        "",
        decorator="@triton.autotune(configs=[*f(), *[C(**c) for c in CS]], key=KEY)\n@triton.jit",
    ),
    "200 configurations": inside(
        "", decorator=f"@triton.autotune(configs=[{CONFIGS}], key=['N'])\n@triton.jit"
    ),
    "arguments of any number": inside("", args="*args, **kw"),
    "defaults of any kind": inside(
        "", args="x_ptr=None, out_ptr=[], N=f(), BLOCK: tl.constexpr = 1 << 3"
    ),
    "another language of that name": inside("", head=f"{HEAD}tl = tl\n"),
    "masks in every direction": inside(
        "y = tl.load(x_ptr + i, mask=(N > i) & True & ~(i >= N) | (0 < i < N))"
    ),
    "arms for every case": inside(
        "match N:\n    case [a, *b]:\n        x = a\n    case {'k': v, **r}:\n        x = v"
    ),
    "targets in targets": inside("a, (b, *c), d[0], e.f = tl.load(x_ptr), 1, 2, 3\nx_ptr[0] += 1"),
    "launches of every kind": inside("")
    + "k[()]()\nk[(1, 2, 3, 4)](*a)\nk[k[(1,)]](k)\nk(1)\nk.run(1)\n",
    "a kernel within a function": f"{HEAD}def f():\n    @triton.jit\n"
    "    def k(x, N: tl.constexpr):\n        pass\n    k[(1,)](1, N=2)\n",
    "one line": f"{HEAD}@triton.jit\ndef k(x, N: tl.constexpr): tl.store(x, N); return\n"
    "k[(1,)](1, N=2)\n",
    "old line ends": inside("").replace("\n", "\r"),
    "a mark before the first byte": "\ufeff" + inside(""),
    "half a character": inside("") + "# \ud800\n",
    "a byte of zero": inside("") + "\0",
}


def test_most_odd_files_can_be_read_nevertheless():
    read = [name for name, text in ODD.items() if read_source(text).launched]
    edited = [n for n in read if any(e.anchors(ODD[n], "k") for e in EDITS.values())]
    assert len(read) > len(ODD) / 2
    assert len(edited) > len(ODD) / 2


@pytest.mark.parametrize("name", ODD)
def test_an_odd_file_has_every_fact_or_unknowns(name):
    text = ODD[name]
    for one in {*read_source(text).launched, "k", "missing"}:
        assert set(read_facts(text, one, target=SM90)) == set(CATALOGUE)


@pytest.mark.parametrize("name", ODD)
def test_what_an_edit_makes_of_an_odd_file_is_undone_to_the_byte(name):
    text = ODD[name]
    for one in read_source(text).launched:
        for edit in EDITS.values():
            for anchor in edit.anchors(text, one)[:1]:
                try:
                    applied = edit.apply(text, one, anchor.parameters)
                except EditRefused:
                    continue
                assert undo(applied.source, applied.undo) == text
