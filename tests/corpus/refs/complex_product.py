import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return x * y


def get_inputs():
    return [torch.randn(12, 100, dtype=torch.complex64), torch.randn(100, dtype=torch.complex64)]


def get_init_inputs():
    return []
