"""Log-probabilities of every word of a language model's vocabulary, in bf16."""

import torch
from torch import nn

TOKENS = 4096
VOCABULARY = 128256


class Model(nn.Module):
    def forward(self, logits):
        return torch.log_softmax(logits, dim=-1)


def get_inputs():
    return [torch.randn(TOKENS, VOCABULARY, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
