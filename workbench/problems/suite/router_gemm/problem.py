"""The router of a mixture of experts while it decodes: few tokens, long rows, fp32 scores."""

import torch
from torch import nn

TOKENS = 64
EXPERTS = 256
HIDDEN = 7168


class Model(nn.Module):
    def forward(self, x, weight):
        return torch.matmul(x.float(), weight.float().T)


def get_inputs():
    x = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16)
    weight = torch.randn(EXPERTS, HIDDEN, dtype=torch.bfloat16)
    return [x, weight * HIDDEN**-0.5]


def get_init_inputs():
    return []
