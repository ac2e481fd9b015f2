"""Scaled dot-product attention in fp16, without a mask."""

import torch
from torch import nn
from torch.nn import functional

BATCH = 8
HEADS = 64
LENGTH = 2048
HEAD_DIM = 128


class Model(nn.Module):
    def forward(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, HEAD_DIM, dtype=torch.float16) for _ in range(3)]


def get_init_inputs():
    return []
