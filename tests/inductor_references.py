"""Small references in KernelBench form that the lift is tried on, as text."""

_FORM = """\
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {parameters}):
        return {result}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def _reference(result: str, inputs: str, *, init: str = "pass", parameters: str = "x") -> str:
    return _FORM.format(init=init, parameters=parameters, result=result, inputs=inputs)


LIFTABLE = {
    "pointwise_chain": _reference(
        "torch.sigmoid(x) * x + torch.tanh(x).clamp(-0.5)", "torch.randn(37, 129)"
    ),
    "softmax": _reference("torch.softmax(x, 1)", "torch.randn(33, 1000)"),
    "linear_gelu": _reference(
        "F.gelu(self.fc(x))", "torch.randn(50, 96)", init="self.fc = nn.Linear(96, 80)"
    ),
    "bf16_product": _reference(
        "x @ y",
        "torch.randn(64, 48).bfloat16(), torch.randn(48, 32).bfloat16()",
        parameters="x, y",
    ),
    "sequential": _reference(
        "self.net(x)",
        "torch.randn(30, 64)",
        init="self.net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32))",
    ),
    "attention": _reference(
        "F.scaled_dot_product_attention(q, k, v)",
        "*[torch.randn(2, 2, 40, 32) for _ in range(3)]",
        parameters="q, k, v",
    ),
    "conv2d": _reference(
        "F.relu(self.conv(x))",
        "torch.randn(2, 16, 14, 14)",
        init="self.conv = nn.Conv2d(16, 24, 3, padding=1)",
    ),
    "grouped": _reference(
        "self.conv(x)",
        "torch.randn(1, 8, 9, 11)",
        init="self.conv = nn.Conv2d(8, 40, 3, groups=2)",
    ),
    "depthwise": _reference(
        "self.conv(x)",
        "torch.randn(2, 8, 14, 14)",
        init="self.conv = nn.Conv2d(8, 8, (3, 5), groups=8, dilation=2, padding=1)",
    ),
    "transposed": _reference(
        "self.conv(x)",
        "torch.randn(1, 4, 5, 6)",
        init="self.conv = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)",
    ),
    "batch_norm": _reference(
        "self.bn(x)", "torch.randn(4, 6, 9, 9)", init="self.bn = nn.BatchNorm2d(6)"
    ),
    "max_pool": _reference("F.max_pool2d(x, 3, 2, 1)", "torch.randn(2, 4, 15, 15)"),
    "cross_entropy": _reference(
        "F.cross_entropy(x, y)",
        "torch.randn(50, 10), torch.randint(0, 10, (50,))",
        parameters="x, y",
    ),
    "embedding": _reference(
        "self.table(x).sum(1)",
        "torch.randint(0, 100, (7, 9))",
        init="self.table = nn.Embedding(100, 32)",
    ),
    "cumsum": _reference("torch.cumsum(x, 1)", "torch.randn(9, 5000)"),
    "argmax": _reference("torch.argmax(x, dim=1)", "torch.randn(5, 60, 30)"),
    "variance": _reference("x.var(1) + x.std(1)", "torch.randn(20, 3000)"),
    "multihead": _reference(
        "self.mix(x, x, x)[0]",
        "torch.randn(2, 17, 32)",
        init="self.mix = nn.MultiheadAttention(32, 4, batch_first=True)",
    ),
    "gru": _reference(
        "self.rnn(x)[0]",
        "torch.randn(2, 3, 16)",
        init="self.rnn = nn.GRU(16, 16, batch_first=True)",
    ),
    "constants": _reference(
        "{'a': [x * self.s + self.t]}",
        "torch.randn(30, 32)",
        init="self.t = torch.arange(32.0); self.s = torch.linspace(0, 1, 5)[2].item()",
    ),
}

REFUSED = {
    "dropout": (
        _reference("self.d(x)", "torch.randn(9, 9)", init="self.d = nn.Dropout(0.5)"),
        "draws random numbers",
    ),
    "library": (
        _reference("torch.linalg.svdvals(x)", "torch.randn(9, 9)"),
        "no Triton for aten._linalg_svd",
    ),
    "top_k": (_reference("torch.topk(x, 5)[0]", "torch.randn(9, 9)"), "no Triton for aten.topk"),
    "number": (
        _reference("x * s", "torch.randn(9, 9), 3.0", parameters="x, s"),
        "input 1 is a float",
    ),
    "constant": (
        _reference("x * self.t", "torch.randn(640)", init="self.t = torch.arange(640.0)"),
        "constant tensor of 640",
    ),
    "hidden_buffer": (
        _reference(
            "x * self.t",
            "torch.randn(9)",
            init="self.register_buffer('t', torch.ones(9), persistent=False)",
        ),
        "not in the reference's state_dict",
    ),
    "written_input": (_reference("x.add_(1)", "torch.randn(9, 9)"), "writes into its own input"),
    "only_views": (_reference("x.T", "torch.randn(9, 9)"), "only makes views"),
    "raises": (_reference("x @ y", "torch.randn(9, 8)"), "cannot be traced: NameError"),
}
