"""Lifts TorchInductor's kernels into a plain candidate without a GPU; start with `lift`."""
