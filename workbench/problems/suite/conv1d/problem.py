"""The first convolution of a speech encoder: 80 mel bands of 30 s of sound, three frames wide."""

import torch
from torch import nn

BATCH = 16
BANDS = 80
CHANNELS = 512
FRAMES = 3000
KERNEL = 3


class Model(nn.Module):
    def __init__(self, bands, channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv1d(bands, channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, BANDS, FRAMES)]


def get_init_inputs():
    return [BANDS, CHANNELS, KERNEL]
