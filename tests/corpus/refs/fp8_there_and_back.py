import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-4) / 448.0
        return (x / scale).to(torch.float8_e4m3fn).to(torch.float32) * scale


def get_inputs():
    return [torch.randn(12, 50)]


def get_init_inputs():
    return []
