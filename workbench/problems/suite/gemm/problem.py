"""A square bf16 matrix product with the second factor stored transposed, as linear layers do."""

import torch
from torch import nn

M = 4096
N = 4096
K = 4096


class Model(nn.Module):
    def forward(self, x, weight):
        return torch.matmul(x, weight.T)


def get_inputs():
    x = torch.randn(M, K, dtype=torch.bfloat16)
    weight = torch.randn(N, K, dtype=torch.bfloat16)
    return [x, weight]


def get_init_inputs():
    return []
