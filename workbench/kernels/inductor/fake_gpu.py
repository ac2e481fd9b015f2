"""A GPU that does not exist: what TorchInductor must believe so that it writes kernels for one.

Everything here changes `torch.cuda` and Inductor for the whole process, for good. Call it only in a
process that does nothing else.
"""

from types import SimpleNamespace

from workbench.kernels.target import Target
from workbench.kernels.untyped import Untyped


def install(target: Target) -> None:
    """Make torch and Inductor see one GPU of `target`'s kind, on which nothing can run."""
    import torch
    import triton
    from torch._subclasses import fake_tensor

    from workbench.kernels.standin import StandInDriver

    # Entering the mode once installs torch's own stand-in for the missing CUDA device guard.
    with fake_tensor.FakeTensorMode():
        pass
    if hasattr(fake_tensor, "init_gpu_context"):
        # It would make a tensor on the GPU, to have a context for backward passes.
        patched: Untyped = fake_tensor
        patched.init_gpu_context = lambda _device: None
    torch._C._ensureCUDADeviceGuardSet()  # noqa: SLF001 -- what FakeTensorMode itself does
    _replace_torch_cuda(_properties(target))
    _replace_device_interface(_properties(target))
    # Inductor asks Triton's driver only which target it compiles for.
    triton.runtime.driver.set_active(StandInDriver(target))


def _properties(target: Target) -> SimpleNamespace:
    """What `torch.cuda.get_device_properties` would say, as far as Inductor asks."""
    return SimpleNamespace(
        name=target.device,
        major=target.arch // 10,
        minor=target.arch % 10,
        multi_processor_count=target.sms,
        warp_size=32,
        max_threads_per_block=1024,
        max_threads_per_multi_processor=target.warps * 32,
        regs_per_multiprocessor=target.regs,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=target.shared_per_program,
        shared_memory_per_multiprocessor=target.shared_per_sm,
        L2_cache_size=target.l2_bytes,
        total_memory=target.memory_bytes,
        gcnArchName="",
        uuid="none",
        pci_bus_id=0,
        is_integrated=0,
    )


def _replace_torch_cuda(properties: SimpleNamespace) -> None:
    import torch

    def constant(value: Untyped) -> Untyped:
        return lambda *_args, **_kwargs: value

    cuda: Untyped = torch.cuda
    for name, value in {
        "_lazy_init": None,
        "current_device": 0,
        "device_count": 1,
        "get_device_capability": (properties.major, properties.minor),
        "get_device_name": properties.name,
        "get_device_properties": properties,
        "is_available": True,
        "is_bf16_supported": True,
        "set_device": None,
        "synchronize": None,
    }.items():
        setattr(cuda, name, constant(value))
    # Inductor's patterns read and restore the generator's state while they are traced.
    cuda.get_rng_state = constant(torch.zeros(16, dtype=torch.uint8))
    cuda.set_rng_state = constant(None)
    version: Untyped = torch.version
    version.cuda = version.cuda or "12.8"


def _replace_device_interface(properties: SimpleNamespace) -> None:
    from torch._dynamo import device_interface as devices

    interface: Untyped = devices.CudaInterface
    capability = properties.major * 10 + properties.minor
    for owner, name, value in (
        (interface, "is_available", True),
        (interface, "current_device", 0),
        (interface, "get_compute_capability", capability),
        (interface, "get_device_properties", properties),
        (interface, "is_triton_capable", True),
        (interface, "raise_if_triton_unavailable", None),
        (interface.Worker, "current_device", 0),
        (interface.Worker, "get_device_properties", properties),
    ):
        setattr(owner, name, staticmethod(lambda *_args, _value=value, **_kwargs: _value))
    devices.init_device_reg()
    devices.register_interface_for_device("cuda", interface)
    devices.register_interface_for_device("cuda:0", interface)
