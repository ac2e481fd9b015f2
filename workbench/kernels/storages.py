"""Which memory a tensor lies in."""

import torch


def storage_address(tensor: torch.Tensor) -> int:
    """Address of the first byte of the tensor's storage; 0 for meta and for empty storages."""
    return int(tensor.untyped_storage().data_ptr())
