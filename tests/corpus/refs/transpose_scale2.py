import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (2.0 * x).t()


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return []
