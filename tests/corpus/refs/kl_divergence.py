import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, p, q):
        return F.kl_div(torch.log_softmax(p, -1), torch.softmax(q, -1), reduction="batchmean")


def get_inputs():
    return [torch.randn(20, 64), torch.randn(20, 64)]


def get_init_inputs():
    return []
