"""The rivals of the shipped experts: vendors' libraries as candidates, and quoted times.

A rival is a candidate file that calls a library. It does not go through the policy, which would
refuse exactly that.
"""

from msgspec import Struct

KLINEAGE_MEAN = 1.12
"""KLineage's geometric mean over ten pairs of workload and GPU (as their paper reports it)."""

_HEAD = """
import torch
from torch import nn
from torch.nn import functional


class ModelNew(nn.Module):
"""


class Rival(Struct, frozen=True, kw_only=True):
    """A library's implementation of one workload."""

    name: str
    needs: str = ""
    """Module beyond PyTorch that must be installed; empty for none."""
    vendor: bool = True
    """False for a rival that is shown but not counted as a vendor's."""
    body: str
    """Text of the methods of `ModelNew`."""

    @property
    def source(self) -> str:
        """The whole candidate."""
        return _HEAD + self.body


class Quoted(Struct, frozen=True, kw_only=True):
    """A time that was measured elsewhere: it is shown, but used in no ratio."""

    us: float
    says: str


_INIT_K = """
    def __init__(self, k):
        super().__init__()
        self.k = k
"""

RIVALS: dict[str, tuple[Rival, ...]] = {
    "gemm": (
        Rival(
            name="cuBLAS",
            body="""
    def forward(self, x, weight):
        return torch.matmul(x, weight.T)
""",
        ),
    ),
    "conv2d": (
        Rival(
            name="cuDNN",
            body="""
    def forward(self, x, weight):
        images, filters = x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2)
        return functional.conv2d(images, filters, padding=1).permute(0, 2, 3, 1).contiguous()
""",
        ),
    ),
    "fmha": (
        Rival(
            name="SDPA, FlashAttention 2",
            body="""
    def forward(self, q, k, v):
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.FLASH_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v)
""",
        ),
        Rival(
            name="SDPA, cuDNN",
            body="""
    def forward(self, q, k, v):
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.CUDNN_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v)
""",
        ),
    ),
    "gdn": (
        Rival(
            name="FLA, its inputs made in the call",
            needs="fla",
            body="""
    def forward(self, q, k, v, gate, strength):
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule

        shared = v.shape[2] // q.shape[2]
        q, k = (x.repeat_interleave(shared, dim=2) for x in (q, k))
        out, state = chunk_gated_delta_rule(
            q, k, v, functional.logsigmoid(gate), torch.sigmoid(strength),
            output_final_state=True, use_qk_l2norm_in_kernel=True,
        )
        return out.float(), state
""",
        ),
    ),
    "top_k_unsorted": (
        Rival(
            name="torch.topk",
            body=_INIT_K
            + """
    def forward(self, x):
        values, places = torch.topk(x, self.k, dim=-1, sorted=False)
        return values, places
""",
        ),
        Rival(
            name="FlashInfer",
            needs="flashinfer",
            body=_INIT_K
            + """
    def forward(self, x):
        import flashinfer

        values, places = flashinfer.top_k(x, self.k)
        return values, places.long()
""",
        ),
    ),
}
"""Rivals by workload, in the order in which they are timed."""

QUOTED: dict[str, tuple[Quoted, ...]] = {
    "fmha": (Quoted(us=1958.0, says="FlashInfer 0.6.11 (FA3) on an H200"),),
    "gdn": (
        Quoted(us=281.6, says="FlashInfer on an H100 PCIe (KLineage)"),
        Quoted(us=1132.0, says="FLA on an H200, heads expanded beforehand"),
    ),
    "top_k_unsorted": (
        Quoted(us=15.3, says="FlashInfer 0.6.11 on an H200"),
        Quoted(us=16.0, says="FlashInfer on an H100 PCIe (KLineage)"),
    ),
}
"""Times measured by us or by KLineage's authors with other clocks, so they are used in no ratio."""

WORKLOADS = tuple(RIVALS)
