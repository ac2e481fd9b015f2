import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.to(torch.bfloat16)


def get_inputs():
    return [torch.randn(12, 70)]


def get_init_inputs():
    return []
