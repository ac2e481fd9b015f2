"""Candidates that are wrong, each in one way, with the code under which it must be refused."""

from gate_kit import ADD_RELU, ADD_RELU_KERNEL, SCALE, SCALE_KERNEL, model
from msgspec import Struct


class Cheat(Struct, frozen=True):
    """A candidate that must be refused under `code`."""

    code: str
    reference: str
    candidate: str


COUNTING_SCALE = SCALE.replace(
    "torch.ones(n))", "torch.ones(n)); self.register_buffer('seen', torch.zeros(()))"
).replace("return x", "self.seen += x.sum(); return x")

OUT = "out = torch.empty_like(inputs[0])\n"
WEIGHT = "self.weight = nn.Parameter(torch.ones(n))"


def adding(body: str, kernel: str = ADD_RELU_KERNEL, init: str = "") -> str:
    return kernel + model(body, init)


def scaling(body: str, init: str = WEIGHT, kernel: str = SCALE_KERNEL) -> str:
    return kernel + model(body, init, "self, n")


ROW_SOFTMAX = """
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)

def get_inputs():
    return [torch.randn(6, 33)]

def get_init_inputs():
    return []
"""

NO_MAXIMUM = """
@triton.jit
def softmax(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    e = tl.exp(x)
    tl.store(o_ptr + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)
""" + model(OUT + "softmax[(6,)](inputs[0], out, 33, BLOCK=64)\nreturn out")

ON_AN_OFFSET = """
class Model(nn.Module):
    def forward(self, x, y):
        return 1.0 + 1e-4 * torch.tanh(x + y)

def get_inputs():
    return [torch.randn(13, 29), torch.randn(13, 29)]

def get_init_inputs():
    return []
"""

LAST_OF_EQUALS = """
@triton.jit
def argmax(x_ptr, o_ptr, N: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + row * N + at)
    best = tl.max(x, axis=0)
    tl.store(o_ptr + row, tl.max(tl.where(x == best, at, -1), axis=0).to(tl.int64))
""" + model(
    "out = torch.empty(5, dtype=torch.int64, device=inputs[0].device)\n"
    "argmax[(5,)](inputs[0], out, N=16)\n"
    "return out"
)

ARGMAX = """
class Model(nn.Module):
    def forward(self, x):
        return torch.argmax(x, dim=-1)

def get_inputs():
    return [torch.randn(5, 16)]

def get_init_inputs():
    return []
"""

ONE_PLACE_FOR_ALL = """
@triton.jit
def top(x_ptr, v_ptr, i_ptr, N: tl.constexpr, K: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + row * N + at)
    kept = x
    for k in tl.static_range(K):
        best = tl.max(x, axis=0)
        place = tl.min(tl.where(kept == best, at, N), axis=0)
        tl.store(v_ptr + row * K + k, best)
        tl.store(i_ptr + row * K + k, place.to(tl.int64))
        first = tl.min(tl.where(x == best, at, N), axis=0)
        x = tl.where(at == first, -float("inf"), x)
""" + model(
    """
    x, = inputs
    values = torch.empty(5, 3, device=x.device)
    places = torch.empty(5, 3, dtype=torch.int64, device=x.device)
    top[(5,)](x, values, places, N=16, K=3)
    return values, places
    """
)

TRANSPOSE = """
class Model(nn.Module):
    def forward(self, x):
        return x.t().contiguous()

def get_inputs():
    return [torch.randn(12, 7)]

def get_init_inputs():
    return []
"""

TOTAL = """
class Model(nn.Module):
    def forward(self, x):
        return x.sum().reshape(1)

def get_inputs():
    return [torch.randn(1000)]

def get_init_inputs():
    return []
"""

RACY_SUM = """
@triton.jit
def total(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0)
    tl.store(o_ptr, tl.load(o_ptr) + part)
""" + model(
    "out = torch.zeros(1, device=inputs[0].device)\n"
    "total[(8,)](inputs[0], out, 1000, BLOCK=128)\n"
    "return out"
)

UNMASKED = ADD_RELU_KERNEL.replace(", mask=mask)", ")", 1)

CHEATS = {
    "half precision inside": Cheat(
        "error-above-bound",
        ADD_RELU,
        adding(
            OUT + "return launch(*inputs, out)",
            ADD_RELU_KERNEL.replace("x + y", "(x + y).to(tl.float16).to(tl.float32)"),
        ),
    ),
    "only the first rows": Cheat(
        "error-above-bound",
        ADD_RELU,
        adding(
            "out = torch.zeros_like(inputs[0])\nadd_relu[(1,)](*inputs, out, 300, BLOCK=512)\n"
            "return out"
        ),
    ),
    "one value for all": Cheat(
        "wrong-shape",
        ADD_RELU,
        adding("return launch(*inputs, torch.empty_like(inputs[0]))[:1]"),
    ),
    "half the bytes": Cheat(
        "wrong-dtype",
        ADD_RELU,
        adding("return launch(*inputs, torch.empty_like(inputs[0], dtype=torch.float16))"),
    ),
    "a tuple for a tensor": Cheat(
        "wrong-structure", ADD_RELU, adding(OUT + "return (launch(*inputs, out),)")
    ),
    "a parameter for a tensor": Cheat(
        "wrong-structure", ADD_RELU, adding(OUT + "return nn.Parameter(launch(*inputs, out))")
    ),
    "an attribute on the output": Cheat(
        "wrong-structure",
        ADD_RELU,
        adding(OUT + "out.float = lambda: launch(*inputs, out)\nreturn out"),
    ),
    "the result over the input": Cheat(
        "aliases-input", ADD_RELU, adding("return launch(*inputs, inputs[0])")
    ),
    "a scratch in the input": Cheat(
        "input-modified",
        ADD_RELU,
        adding(OUT + "launch(*inputs, out)\nlaunch(*inputs, inputs[1])\nreturn out"),
    ),
    "a result in the weights": Cheat(
        "aliases-state",
        SCALE.replace("torch.randn(9, 21)", "torch.randn(1, 21)"),
        scaling("launch(inputs[0], self.weight, self.weight)\nreturn self.weight.data.view(1, 21)"),
    ),
    "a weight that moves": Cheat(
        "state-modified",
        SCALE,
        scaling(
            OUT + "launch(inputs[0], self.weight, out)\n"
            "launch(inputs[0][:1].contiguous(), self.weight, self.weight)\nreturn out"
        ),
    ),
    "a weight under another name": Cheat(
        "state-dict-differs",
        SCALE,
        scaling(
            OUT + "return launch(inputs[0], self.w, out)", "self.w = nn.Parameter(torch.ones(n))"
        ),
    ),
    "a weight of another shape": Cheat(
        "state-dict-differs",
        SCALE,
        scaling(
            OUT + "return launch(inputs[0], self.weight, out)",
            "self.weight = nn.Parameter(torch.ones(n, 1))",
        ),
    ),
    "weights folded when built": Cheat(
        "error-above-bound",
        SCALE,
        scaling(
            OUT + "return launch(inputs[0], self.folded, out)",
            WEIGHT + "\nself.folded = self.weight.detach().clone()",
        ),
    ),
    "weights folded by version": Cheat(
        "error-above-bound",
        SCALE,
        scaling(
            "version = self.weight._version\n"
            "if self.seen != version:\n"
            "    self.seen, self.folded = version, self.weight.detach().clone()\n"
            + OUT
            + "return launch(inputs[0], self.folded, out)",
            WEIGHT + "\nself.seen, self.folded = None, None",
        ),
    ),
    "an initial value taken for granted": Cheat(
        "error-above-bound",
        SCALE,
        scaling(OUT + "return launch(inputs[0], torch.ones_like(self.weight), out)"),
    ),
    "no maximum subtracted": Cheat("non-finite", ROW_SOFTMAX, NO_MAXIMUM),
    "a constant on an offset": Cheat(
        "low-variance-error",
        # A tolerance that a constant meets: only the spread of the output tells.
        ON_AN_OFFSET,
        adding(
            OUT + "return launch(*inputs, out)",
            ADD_RELU_KERNEL.replace("tl.maximum(x + y, 0.0)", "x * 0.0 + 1.0"),
        ),
    ),
    "the last of equal values": Cheat("error-above-bound", ARGMAX, LAST_OF_EQUALS),
    "one place for equal values": Cheat(
        "error-above-bound",
        ARGMAX.replace("torch.argmax(x, dim=-1)", "torch.topk(x, 3, dim=-1)"),
        ONE_PLACE_FOR_ALL,
    ),
    "a copy by torch": Cheat(
        "kernels-are-decoys",
        TRANSPOSE,
        adding(
            "x, = inputs\nlaunch(x, x, torch.empty_like(x))\nreturn x.t().contiguous()",
        ),
    ),
    "a sum by torch": Cheat(
        "torch-compute-at-run-time",
        TOTAL,
        adding("x, = inputs\nlaunch(x, x, torch.empty_like(x))\nreturn x.sum().reshape(1)"),
    ),
    "past the end": Cheat(
        "out-of-bounds", ADD_RELU, adding(OUT + "return launch(*inputs, out)", UNMASKED)
    ),
    "a sum that races": Cheat("race", TOTAL, RACY_SUM),
    "memory that was never written": Cheat(
        "error-above-bound",
        ADD_RELU,
        adding(OUT + "add_relu[(2,)](*inputs, out, 377, BLOCK=128)\nreturn out"),
    ),
    "an answer kept by address": Cheat(
        "error-above-bound",
        ADD_RELU,
        adding(
            "key = (inputs[0].data_ptr(), inputs[1].data_ptr())\n"
            "if key not in self.kept:\n"
            "    self.kept[key] = launch(*inputs, torch.empty_like(inputs[0]))\n"
            "return self.kept[key].clone()",
            init="self.kept = {}",
        ),
    ),
    "an answer kept by its ends": Cheat(
        "reads-values",
        ADD_RELU,
        adding(
            "x, y = inputs\n"
            "key = (x[0, 0].item(), x[-1, -1].item(), y[0, 0].item(), y[-1, -1].item())\n"
            "if key not in self.kept:\n"
            "    self.kept[key] = launch(x, y, torch.empty_like(x))\n"
            "return self.kept[key].clone()",
            init="self.kept = {}",
        ),
    ),
    "right only the first times": Cheat(
        "error-above-bound",
        ADD_RELU,
        adding(
            "self.calls += 1\n"
            "if self.calls < 9:\n"
            "    self.kept = launch(*inputs, torch.empty_like(inputs[0]))\n"
            "return self.kept.clone()",
            init="self.calls = 0",
        ),
    ),
    "one storage for all outputs": Cheat(
        "aliases-earlier-output",
        ADD_RELU,
        adding(
            "if self.out is None:\n    self.out = torch.empty_like(inputs[0])\n"
            "return launch(*inputs, self.out)",
            init="self.out = None",
        ),
    ),
    "an earlier output written later": Cheat(
        "output-overwritten",
        ADD_RELU,
        adding(
            OUT + "launch(*inputs, out)\n"
            "if self.last is not None:\n    self.last.zero_()\n"
            "self.last = out\nreturn out",
            init="self.last = None",
        ),
    ),
    "statistics that stand still": Cheat(
        "side-effect-missing",
        COUNTING_SCALE,
        scaling(
            OUT + "return launch(inputs[0], self.weight, out)",
            WEIGHT + "\nself.register_buffer('seen', torch.zeros(()))",
        ),
    ),
    "an error": Cheat("raised", ADD_RELU, adding("raise ValueError('no')")),
    "an error when built": Cheat("raised", ADD_RELU, adding("return None", init="1 / 0")),
    "no ModelNew": Cheat("raised", ADD_RELU, "def forward(x):\n    return x\n"),
    "no Python": Cheat("raised", ADD_RELU, "def forward(x:\n"),
    "an exit that looks like success": Cheat(
        "exited-early", ADD_RELU, adding("import sys\nsys.exit(0)")
    ),
    "an exit past Python": Cheat("exited-early", ADD_RELU, adding("import os\nos._exit(0)")),
    "a crash": Cheat("crashed", ADD_RELU, adding("import os\nos.abort()")),
}
