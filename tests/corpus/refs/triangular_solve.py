import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        n = a.shape[-1]
        t = torch.tril(a, -1) * 0.3 + torch.eye(n, device=a.device)
        return torch.linalg.solve_triangular(t, b, upper=False, unitriangular=True)


def get_inputs():
    return [torch.randn(3, 16, 16), torch.randn(3, 16, 8)]


def get_init_inputs():
    return []
