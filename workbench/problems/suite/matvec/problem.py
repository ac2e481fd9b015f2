"""A wide matrix times a column vector."""

import torch
from torch import nn

M = 2048
K = 262144


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, 1)]


def get_init_inputs():
    return []
