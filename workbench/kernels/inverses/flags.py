"""Compile-time parameters that nothing reads any more, taken out with everything that sets them."""

import ast

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source_kernel import JitKernel


def drop_flags(splice: Splice, kernel: JitKernel, flags: set[str]) -> None:
    """Take flags out of a kernel's signature, its heuristics and its launches.

    Raises EditRefused where a launch passes one by its place.
    """
    for decorator in kernel.node.decorator_list:
        match decorator:
            case ast.Call(args=[ast.Dict(keys=keys, values=values)]) if (
                splice.source.names.dotted(decorator.func) == "triton.heuristics"
            ):
                pass
            case _:
                continue
        held = [str(k.value) if isinstance(k, ast.Constant) else "" for k in keys]
        if set(held) <= flags:
            splice.remove_decorator(decorator)
        elif set(held) & flags:
            kept = [
                f'"{name}": {splice.text(value)}'
                for name, value in zip(held, values, strict=True)
                if name not in flags
            ]
            splice.replace(decorator.args[0], f"{{{', '.join(kept)}}}")
    for flag in sorted(flags):
        splice.drop_parameter(kernel, flag)
        for launch in splice.source.launches_of(kernel.name):
            if launch.keyword(flag) is not None:
                splice.drop_keyword(launch.call, flag)
            elif launch.argument(kernel, flag) is not None:
                raise EditRefused(f"line {launch.line} passes `{flag}` by its place")


def drop_choice(splice: Splice, kernel: JitKernel, name: str) -> None:
    """Take a meta-parameter out of every configuration of a kernel's autotuner.

    Raises EditRefused where one does not spell its values out.
    """
    for config in splice.source.configs(kernel):
        if name not in config.values:
            continue
        match config.call.args[0]:
            case ast.Dict() as given:
                kept = [
                    f'"{key}": {splice.text(value)}'
                    for key, value in config.values.items()
                    if key != name
                ]
                splice.replace(given, f"{{{', '.join(kept)}}}")
            case _:
                raise EditRefused(f"line {config.call.lineno} makes its values in another way")
