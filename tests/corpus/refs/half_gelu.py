import torch
from torch import nn
from torch.nn import functional

ROWS = 37
COLS = 515


class Model(nn.Module):
    def forward(self, x):
        return functional.gelu(x)


def get_inputs():
    return [torch.randn(ROWS, COLS, dtype=torch.float16)]


def get_init_inputs():
    return []
