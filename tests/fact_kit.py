"""Launches and traces with lawful defaults, as the recorder and the tracer would give them."""

from workbench.kernels.records import (
    Launch,
    LaunchTrace,
    ScalarArgument,
    StaticProfile,
    TensorArgument,
    Traffic,
)


def tensor(*shape, dtype="float32", strides=None, alignment=256):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "int64": 8}[dtype]
    contiguous, elements = [], 1
    for extent in reversed(shape):
        contiguous.insert(0, elements)
        elements *= extent
    return TensorArgument(
        dtype=dtype,
        shape=shape,
        strides=tuple(contiguous) if strides is None else strides,
        alignment=alignment,
        bytes=elements * size,
    )


def static(**changes):
    values = {
        "registers": 32,
        "spill_store_bytes": 0,
        "spill_load_bytes": 0,
        "stack_bytes": 0,
        "shared_bytes": 16,
        "threads": 128,
        "programs_per_sm": 16,
        "occupancy": 1.0,
        "limiter": "warps",
        "code_bytes": 4096,
        "mix": {"LDG.128": 6, "STG.128": 2, "total": 256},
    }
    return StaticProfile(**{**values, **changes})


def launch(kernel, grid, tensors, scalars=None, constexprs=None, **changes):
    arguments = {**tensors, **{n: ScalarArgument(value=v) for n, v in (scalars or {}).items()}}
    values = {
        "num_warps": 4,
        "num_stages": 3,
        "num_ctas": 1,
        "line": 38,
        "cubin_sha256": "0" * 64,
        "static": static(),
        "compile_seconds": 0.1,
    }
    return Launch(
        kernel=kernel,
        grid=grid,
        arguments=arguments,
        constexprs=constexprs or {},
        **{**values, **changes},
    )


def softmax_launch(rows=4096, cols=98304, block=1024, **changes):
    return launch(
        "softmax_kernel",
        (rows, 1, 1),
        {"x_ptr": tensor(rows, cols), "out_ptr": tensor(rows, cols)},
        {"N": cols},
        {"BLOCK": block},
        **changes,
    )


def softmax_trace(rows=4096, cols=98304, passes=3):
    size = rows * cols * 4
    return LaunchTrace(
        kernel="softmax_kernel",
        grid=(rows, 1, 1),
        programs=rows,
        sampled=4,
        traffic={
            "x_ptr": Traffic(loaded=passes * size, stored=0, unique_sectors=9, footprint=size),
            "out_ptr": Traffic(loaded=0, stored=size, unique_sectors=9, footprint=size),
        },
        masked_fraction=0.0,
        sector_efficiency=1.0,
        dot_flops={},
        vector_flops=1e9,
        special_ops=1e8,
        reduced_elements=1e8,
        atomics=0,
    )
