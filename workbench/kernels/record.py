"""Records every `kernel[grid](...)` of a candidate with its compiled kernel, without a GPU."""

import contextlib
import hashlib
import operator
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from msgspec import Struct
from triton import knobs
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.language.core import dtype as triton_dtype
from triton.runtime.autotuner import Config
from triton.runtime.errors import OutOfResources, PTXASError

from workbench.errors import WorkbenchError
from workbench.kernels.autotune import choosing
from workbench.kernels.blame import KernelErrors, line_in
from workbench.kernels.builds import noting_builds
from workbench.kernels.faults import CompileFailed, TooLarge
from workbench.kernels.generated import kept, machine_code_sha256
from workbench.kernels.ptxas_log import keeping_logs, read_log
from workbench.kernels.records import (
    Argument,
    Build,
    DescriptorArgument,
    KernelCode,
    Launch,
    Scalar,
    ScalarArgument,
    TensorArgument,
)
from workbench.kernels.standin import StandInDriver, standing_in
from workbench.kernels.static import registers_and_spills, sass, static_profile
from workbench.kernels.target import Target
from workbench.kernels.toolchain import versions
from workbench.kernels.untyped import Untyped

Grid = tuple[int, int, int]

_MOST_PROGRAMS = (2**31 - 1, 65_535, 65_535)
"""Largest grid along each axis, for every compute capability (CUDA guide, technical limits)."""
_WIDEST = 256
"""Largest alignment in bytes that is recorded: torch's CUDA allocator guarantees it."""


class Recorder:
    """The launches inside one `recording` context, in order."""

    def __init__(self, target: Target, source: str, *, disassembled: bool) -> None:
        self.target = target
        self._disassembled = disassembled
        self.launches: list[Launch] = []
        self.code: dict[str, KernelCode] = {}
        """Texts of compiled kernels, by `code_sha256`."""
        self.builds: list[Build] = []
        """Kernels that were compiled without a launch."""
        self._source = source
        self._configs: tuple[tuple[str, ...], int] = ((), 0)

    def configs_chosen(self) -> dict[str, int]:
        """Index of the recorded configuration of each autotuned kernel, by name."""
        return {launch.kernel: launch.config for launch in self.launches if launch.configs}

    def launched(
        self, launcher: "_Launcher", cubin: bytes, grid: Grid, args: Sequence[Untyped]
    ) -> None:
        """Record one launch; triton calls this through the `_Launcher` that the driver supplies."""
        metadata = launcher.metadata
        kernel = launcher.source.fn.fn.__name__
        grid = self._checked(kernel, grid)
        log = read_log(metadata)
        configs, config = self._configs
        arguments, constexprs = _bound(launcher.source, args)
        self.launches.append(
            Launch(
                kernel=kernel,
                grid=grid,
                arguments=arguments,
                constexprs=constexprs,
                num_warps=metadata.num_warps,
                num_stages=metadata.num_stages,
                num_ctas=metadata.num_ctas,
                line=line_in(self._source, sys._getframe()),  # noqa: SLF001 -- no public walk up
                cubin_sha256=hashlib.sha256(cubin).hexdigest(),
                static=static_profile(
                    cubin,
                    self.target,
                    shared=metadata.shared,
                    threads=metadata.num_warps * 32,
                    spill_store_bytes=log.spill_stores,
                    spill_load_bytes=log.spill_loads,
                    disassembled=self._disassembled,
                ),
                compile_seconds=_seconds.get(metadata.hash, 0.0),
                configs=configs,
                config=config,
                code_sha256=self._keep(kernel, cubin, metadata.hash),
            )
        )

    def _checked(self, kernel: str, grid: Grid) -> Grid:
        """The grid as plain numbers.

        Raises CompileFailed for what triton's launcher refuses, TooLarge for what the driver would
        refuse with `invalid argument`.
        """
        line = line_in(self._source, sys._getframe())  # noqa: SLF001 -- no public walk up
        plain = []
        for axis, programs, most in zip("xyz", grid, _MOST_PROGRAMS, strict=True):
            try:
                plain.append(operator.index(programs))
            except TypeError as fault:
                raise CompileFailed(
                    f"its grid has {programs!r} along {axis}, which is no whole number",
                    kernel=kernel,
                    line=line,
                    todo="divide with // or triton.cdiv",
                ) from fault
            if plain[-1] > most:
                raise TooLarge(
                    kernel=kernel,
                    line=line,
                    resource=f"programs along {axis}",
                    required=plain[-1],
                    limit=most,
                    target=self.target.name,
                    todo="put the long axis first, or let a program do more",
                )
        x, y, z = plain
        return x, y, z

    def _keep(self, kernel: str, cubin: bytes, made: str) -> str:
        """Keep the texts of the compilation with triton's hash `made`; return `code_sha256`."""
        name = machine_code_sha256(cubin)
        if name not in self.code and self._disassembled:
            self.code[name] = KernelCode(
                kernel=kernel,
                code_sha256=name,
                target=self.target.name,
                toolchain=versions(self.target.arch),
                sass=kept(sass(cubin)),
                **_texts.get(made, {}),
            )
        return name

    def choose(self, _kernel: str, configs: list[Config], launch: Untyped) -> Untyped:
        """Launch the first configuration that compiles and fits."""
        names = tuple(str(config) for config in configs)
        for index, config in enumerate(configs):
            self._configs = (names, index)
            try:
                return launch(config)
            except (OutOfResources, PTXASError, CompileTimeAssertionFailure):
                if index == len(configs) - 1:
                    raise
            finally:
                self._configs = ((), 0)
        raise AssertionError("an autotuner has at least one configuration")


class _Loaded(Struct, frozen=True):
    """Takes the place of the handle of a loaded function."""

    cubin: bytes


class _Launcher:
    """What triton calls instead of `cuLaunchKernel`; it outlives the recorder that made it."""

    def __init__(self, source: Untyped, metadata: Untyped) -> None:
        self.source = source
        self.metadata = metadata

    def __call__(
        self, x: int, y: int, z: int, _stream: int, function: _Loaded, *rest: Untyped
    ) -> None:
        _packed, _launch, _enter, _exit, *args = rest
        if not _recorders:
            raise WorkbenchError("a kernel was launched after its recording had ended")
        _recorders[-1].launched(self, function.cubin, (x, y, z), args)


_recorders: list[Recorder] = []
"""Active recorders, the innermost last."""
_seconds: dict[str, float] = {}
"""Seconds to compile each kernel, by triton's hash; a kernel compiles once in a process."""
_texts: dict[str, dict[str, str]] = {}
"""Intermediate code of each kernel, by triton's hash and then by level (`ttgir`, `ptx`)."""


def _compiled(
    *,
    metadata: dict[str, Untyped],
    metadata_group: dict[str, str],
    times: Untyped,
    **_: object,
) -> None:
    """Triton's compilation listener: keeps the time and the intermediate code of a kernel."""
    _seconds.setdefault(metadata["hash"], times.total * 1e-6)
    if metadata["hash"] not in _texts:
        files = {Path(path).suffix[1:]: Path(path) for path in metadata_group.values()}
        _texts[metadata["hash"]] = {
            level: kept(files[level].read_text(encoding="utf-8", errors="replace"))
            for level in ("ttgir", "ptx")
            if level in files
        }


class _Driver(StandInDriver):
    launcher_cls = _Launcher

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.utils.load_binary = self._load

    def _load(self, _name: str, cubin: bytes, _shared: int, _device: object) -> tuple[Untyped, ...]:
        # No module handle, because triton would later ask whatever driver is active to unload it.
        registers, spills = registers_and_spills(cubin)
        return None, _Loaded(cubin), registers, spills, self.target.threads_per_program


@contextlib.contextmanager
def recording(
    target: Target, *, source: str = "", host: str = "cpu", disassembled: bool = True
) -> Iterator[Recorder]:
    """Compile every launch in the block for `target` and record it; nothing is run.

    Tensors may be on the CPU or on the meta device; `host` is where host code gets tensors that it
    asks for on `cuda`. `source` is the path of the candidate's file, to which lines refer. Without
    `disassembled`, for who asks for neither instructions nor texts, there are none of both. Of an
    autotuned kernel the first configuration that compiles and fits is recorded. Raises
    CompileFailed or TooLarge, with the candidate's line, where a launch would fail on the GPU;
    other exceptions of the host code pass unchanged. Everything is restored on exit. Needs a
    process where TRITON_INTERPRET was not set when triton was imported.
    """
    if knobs.runtime.interpret:
        raise WorkbenchError(
            "launches cannot be recorded where TRITON_INTERPRET is set",
            todo="record in a process of its own",
        )
    recorder = Recorder(target, source, disassembled=disassembled)
    listener = knobs.compilation.listener
    with (
        keeping_logs(),
        standing_in(target, host=host, driver=_Driver(target), source=source),
        choosing(recorder.choose),
        noting_builds(recorder.builds, target.threads_per_program),
        KernelErrors(source, target.name),
    ):
        _recorders.append(recorder)
        knobs.compilation.listener = _compiled
        try:
            yield recorder
        finally:
            knobs.compilation.listener = listener
            _recorders.remove(recorder)


def _bound(
    source: Untyped, args: Sequence[Untyped]
) -> tuple[dict[str, Argument], dict[str, Scalar]]:
    arguments: dict[str, Argument] = {}
    constexprs: dict[str, Scalar] = {}
    for parameter, value in zip(source.fn.params, args, strict=True):
        if parameter.is_constexpr:
            constexprs[parameter.name] = _scalar(value)
        else:
            _describe(parameter.name, value, arguments)
    return arguments, constexprs


def _describe(name: str, value: Untyped, into: dict[str, Argument]) -> None:
    if isinstance(value, tuple | list):
        for field, item in zip(_fields(value), value, strict=True):
            _describe(f"{name}{field}", item, into)
    elif hasattr(value, "block_shape"):
        into[name] = DescriptorArgument(base=_tensor(value.base), block=tuple(value.block_shape))
    elif hasattr(value, "data_ptr"):
        into[name] = _tensor(value)
    else:
        into[name] = ScalarArgument(value=_scalar(value))


def _fields(value: Untyped) -> list[str]:
    named = getattr(value, "_fields", None)
    if named:
        return [f".{field}" for field in named]
    return [f"[{i}]" for i in range(len(value))]


def _tensor(value: Untyped) -> TensorArgument:
    """Describe a tensor, or triton's wrapper of one, whose dtype then counts."""
    tensor: Untyped = value if isinstance(value, torch.Tensor) else value.base
    with torch._C.DisableTorchFunction():  # noqa: SLF001 -- past the stand-in's own mode
        # The offset in the storage, which a GPU's allocator aligns. The address on the CPU is
        # accidental and would make equal launches look different.
        begins = tensor.storage_offset() * tensor.element_size()
        return TensorArgument(
            dtype=str(value.dtype).removeprefix("torch."),
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            alignment=min(begins & -begins, _WIDEST) if begins else _WIDEST,
            bytes=tensor.numel() * tensor.element_size(),
        )


def _scalar(value: Untyped) -> Scalar:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, triton_dtype):
        return str(value.name)
    return str(getattr(value, "__name__", value))
