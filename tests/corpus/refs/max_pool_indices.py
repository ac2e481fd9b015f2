import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return F.max_pool2d(x, 3, stride=2, padding=1, return_indices=True)


def get_inputs():
    return [torch.randn(2, 3, 11, 14)]


def get_init_inputs():
    return []
