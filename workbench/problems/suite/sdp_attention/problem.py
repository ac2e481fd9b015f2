"""Scaled dot-product attention in fp32, without a mask."""

import torch
from torch import nn
from torch.nn import functional

BATCH = 8
HEADS = 32
LENGTH = 2048
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, HEAD_DIM) for _ in range(3)]


def get_init_inputs():
    return []
