import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0, x * 3.0


def get_inputs():
    return [torch.randn(20, 50)]


def get_init_inputs():
    return []
