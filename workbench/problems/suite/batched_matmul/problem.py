"""A batch of fp32 matrix products, where TF32 is allowed."""

import torch
from torch import nn

BATCH = 64
M = 512
N = 1024
K = 1024


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, M, K), torch.randn(BATCH, K, N)]


def get_init_inputs():
    return []
