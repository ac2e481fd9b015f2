"""Cross-entropy of every token over a language model's vocabulary: bf16 logits, losses in fp32."""

import torch
from torch import nn
from torch.nn import functional

TOKENS = 2048
VOCABULARY = 50304


class Model(nn.Module):
    def forward(self, logits, targets):
        return functional.cross_entropy(logits.float(), targets, reduction="none")


def get_inputs():
    logits = torch.randn(TOKENS, VOCABULARY, dtype=torch.bfloat16)
    return [logits, torch.randint(0, VOCABULARY, (TOKENS,))]


def get_init_inputs():
    return []
