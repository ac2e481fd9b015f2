"""A dilated 3x3 convolution with bias and ReLU in bf16, channels last, as in segmentation heads."""

import torch
from torch import nn
from torch.nn import functional

BATCH = 4
HEIGHT = 64
WIDTH = 64
CHANNELS = 256
FILTERS = 128
KERNEL = 3
DILATION = 2


class Model(nn.Module):
    def forward(self, x, weight, bias):
        images = x.permute(0, 3, 1, 2)
        filters = weight.permute(0, 3, 1, 2)
        reach = DILATION * (KERNEL // 2)
        out = functional.conv2d(images, filters, bias, padding=reach, dilation=DILATION)
        return torch.relu(out).permute(0, 2, 3, 1).contiguous()


def get_inputs():
    x = torch.randn(BATCH, HEIGHT, WIDTH, CHANNELS, dtype=torch.bfloat16)
    weight = torch.randn(FILTERS, KERNEL, KERNEL, CHANNELS, dtype=torch.bfloat16)
    bias = torch.randn(FILTERS, dtype=torch.bfloat16)
    return [x, weight * (CHANNELS * KERNEL**2) ** -0.5, bias]


def get_init_inputs():
    return []
