import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        s = x.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        return torch.round(x / s).clamp(-128, 127).to(torch.int8), s


def get_inputs():
    return [torch.randn(12, 80)]


def get_init_inputs():
    return []
