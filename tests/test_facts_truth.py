"""What facts say of kernels that are spelled in unusual ways: true, or unknown."""

import pytest
from fact_kit import launch, tensor
from kernel_texts import SEEDS

from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts import read_facts
from workbench.kernels.source import read_source

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
MODEL = """

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        k[(4,)](x, out, x.numel(), BLOCK=128)
        return out
"""
AT = "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
LOAD = "x = tl.load(x_ptr + i, mask=i < N)\n"
STORE = "tl.store(out_ptr + i, x, mask=i < N)"
COPY = AT + LOAD + STORE
PLAIN = {"load_count": 1, "store_count": 1, "has_mask": True, "loop_count": 0}
ARGUMENTS = "x_ptr, out_ptr, N, BLOCK: tl.constexpr"
GET = "@triton.jit\ndef get(p, m):\n    return tl.load(p, mask=m)\n\n\n"
ADDED = "@triton.jit\ndef added(x):\n    return tl.sum(x, axis=0)\n\n\n"
TILE = "i = t * BLOCK + tl.arange(0, BLOCK)\n"


def kernel(body, *, head=HEAD, args=ARGUMENTS):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{head}@triton.jit\ndef k({args}):\n{lines}{MODEL}"


def looped(header, body, before="", after="", args=ARGUMENTS):
    inner = "\n".join(f"    {line}" for line in body.split("\n"))
    return kernel(f"{before}{header}\n{inner}{after}", args=args)


NOTHING = "    @triton.jit\n    def k(x_ptr):\n        pass\n"
READS = "    @triton.jit\n    def k(x_ptr):\n        tl.load(x_ptr)\n"
SUM = "total += tl.sum(tl.load(x_ptr + t * BLOCK + tl.arange(0, BLOCK)), axis=0)"
GRID = "x_ptr, out_ptr, N, SMS: tl.constexpr, BLOCK: tl.constexpr"
TRUE = {
    "plain": (kernel(COPY), PLAIN),
    "everything of the language imported": (
        kernel(
            COPY.replace("tl.load", "load").replace("tl.store", "store"),
            head=f"{HEAD}from triton.language import *\n",
        ),
        PLAIN,
    ),
    "an alias of the module": (
        kernel(COPY.replace("tl.load", "read"), head=f"{HEAD}read = tl.load\n"),
        PLAIN,
    ),
    "the language under its whole name": (
        kernel(
            COPY.replace("tl.", "triton.language."),
            head="import torch\nimport triton\nimport triton.language\n",
            args=ARGUMENTS.replace("tl.", "triton.language."),
        ),
        {**PLAIN, "block_parameters": ("BLOCK",)},
    ),
    "names beyond ASCII": (kernel(COPY.replace("i ", "größe ")), PLAIN),
    "a walrus": (kernel(AT + f"tl.store(out_ptr + i, ({LOAD[:1]} := {LOAD[4:-1]}))"), PLAIN),
    "words in a string and a comment": (
        kernel(f"'''for t in range(N): tl.load(x) tl.dot(a, b)'''\n{COPY}  # tl.load("),
        {**PLAIN, "dot_count": 0},
    ),
    "defined twice: the last one counts": (
        kernel("pass").removesuffix(MODEL) + "\n\n" + kernel(COPY)[len(HEAD) :],
        PLAIN,
    ),
    "defined in two branches: not told": (
        f"{HEAD}if torch.cuda.is_available():\n{NOTHING}else:\n{READS}{MODEL}",
        {"load_count": None, "has_mask": None},
    ),
    "a load of a helper": (
        kernel(AT + "x = get(x_ptr + i, i < N)\n" + STORE, head=HEAD + GET),
        {"load_count": 1, "has_mask": True, "rereads_input": None, "invariant_loads": None},
    ),
    "a sum of a helper": (
        looped(
            "for t in range(0, N, BLOCK):",
            "total += added(tl.load(x_ptr + t + tl.arange(0, BLOCK)))",
            before="total = 0.0\n",
        ).replace("@triton.jit\n", ADDED + "@triton.jit\n", 1),
        {"reduction_count": 1, "reduction_in_loop": None},
    ),
    "methods of a tensor": (
        kernel(AT + LOAD + "tl.store(out_ptr, (x * 2).sum(0).sqrt())"),
        {"reduction_count": 1, "special_count": 1},
    ),
    "tiles a grid apart, by a number of the launch": (
        looped("for t in range(tl.program_id(0), N, SMS):", TILE + LOAD + STORE, args=GRID),
        {"is_persistent": True, "loop_count": 1},
    ),
    "tiles a grid apart, by a while": (
        looped(
            "while t < N:",
            TILE + LOAD + STORE + "\nt = t + tl.num_programs(0)",
            before="t = tl.program_id(0)\n",
        ),
        {"is_persistent": True},
    ),
    "parts of one sum a grid apart are no tiles": (
        looped(
            "for t in range(tl.program_id(0), N, SMS):",
            SUM,
            before="total = 0.0\n",
            after="\ntl.atomic_add(out_ptr, total)",
            args=GRID,
        ),
        {"is_persistent": False, "atomic_count": 1, "reduction_in_loop": True},
    ),
    "groups of a written number of tiles": (
        kernel(
            "pid = tl.program_id(0)\nrows = tl.cdiv(N, BLOCK)\ng = 8 * rows\nfirst = pid // g * 8\n"
            "row = first + (pid % g) % 8\ntl.store(out_ptr + row, 1.0)"
        ),
        {"tile_order": "grouped"},
    ),
}


@pytest.mark.parametrize("name", TRUE)
def test_what_is_told_of_an_unusual_text_is_true(name):
    text, wanted = TRUE[name]
    assert not read_source(text).fault
    found = read_facts(text, "k")
    assert {n: found[f"code.{n}"].value for n in wanted} == wanted


ROW = 98304


def of_softmax(*steps, **constexprs):
    """Facts of the shipped softmax after edits, as launched on 4096 rows of `ROW`."""
    text = SEEDS["softmax"]
    for edit, parameters in steps:
        text = EDITS[edit].apply(text, "softmax_kernel", parameters).source
    tensors = {"x_ptr": tensor(4096, ROW), "out_ptr": tensor(4096, ROW)}
    known = {"N": ROW, "rows": 4096}
    given = {"BLOCK": 1024, **constexprs}
    launched = launch("softmax_kernel", (132, 1, 1), tensors, known, given)
    found = read_facts(text, "softmax_kernel", [launched])
    return {name: fact.value for name, fact in found.items()}


@pytest.mark.parametrize("step", [("persistent", {"programs": 132}), ("rows-per-program", {})])
def test_a_walk_over_rows_hides_no_pass_over_a_row_and_is_no_dimension(step):
    plain, walked = of_softmax(), of_softmax(step)
    for name in ("code.passes_over_input", "code.rereads_input", "loop.trip_count", "loop.extent"):
        assert walked[name] == plain[name], name
    assert (plain["code.passes_over_input"], plain["loop.trip_count"]) == (3, 96)


def test_a_part_that_loops_leave_out_is_not_taken_for_the_whole_row():
    plain = of_softmax()
    held = {"part": 4, "block": 16384, "num_warps": 32, "back": True}
    part = of_softmax(("online-softmax", {}), ("part-on-chip", held), BLOCK=16384)
    assert plain["loop.tile_bytes"] == ROW * 4
    assert part["loop.tile_bytes"] is None


def test_the_largest_dimension_is_told_though_another_loop_takes_more_steps():
    text = kernel(
        "total = 0.0\nfor s in range(0, N, 8192):\n"
        "    total += tl.sum(tl.load(x_ptr + s + tl.arange(0, 8192)), axis=0)\n"
        "for t in range(0, 4096, 16):\n    total += t\ntl.store(out_ptr, total)"
    )
    tensors = {"x_ptr": tensor(ROW), "out_ptr": tensor(1)}
    launched = launch("k", (1, 1, 1), tensors, {"N": ROW}, {"BLOCK": 128})
    found = {name: fact.value for name, fact in read_facts(text, "k", [launched]).items()}
    assert (found["loop.trip_count"], found["loop.extent"], found["loop.step"]) == (256, ROW, 8192)


def test_tiles_of_descriptors_have_their_shape_and_not_one_element():
    text = kernel(
        "d = tl.make_tensor_descriptor(x_ptr, [N], [1], [BLOCK])\n"
        "o = tl.make_tensor_descriptor(out_ptr, [N], [1], [BLOCK])\n"
        "for s in range(0, N, BLOCK):\n    o.store([s], d.load([s]) * 2)"
    )
    tensors = {"x_ptr": tensor(ROW), "out_ptr": tensor(ROW)}
    launched = launch("k", (1, 1, 1), tensors, {"N": ROW}, {"BLOCK": 128})
    found = {name: fact.value for name, fact in read_facts(text, "k", [launched]).items()}
    assert (found["launch.block_elements"], found["loop.tile_bytes"]) == (128, ROW * 4)
