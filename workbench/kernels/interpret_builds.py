"""Answers for host code that holds a compiled kernel, where the interpreter compiles nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from triton.runtime.driver import driver
from triton.runtime.errors import OutOfResources

from workbench.kernels.builds import described, fits
from workbench.kernels.faults import CannotJudge
from workbench.kernels.records import Build, Scalar
from workbench.kernels.trace_launch import candidate_line
from workbench.kernels.untyped import Untyped


class _Metadata:
    """The metadata of a compiled kernel, as far as it was recorded."""

    def __init__(self, kernel: str, told: Mapping[str, Scalar]) -> None:
        vars(self).update(told)
        self._kernel = kernel

    def __getattr__(self, name: str) -> object:
        """Refuse to judge by what is not known."""
        return _not_recorded(self._kernel, f"metadata.{name}", name)


class _Compiled:
    """What a compiled kernel is to host code; `_told` is its name."""

    _told = ""

    def __repr__(self) -> str:
        # As triton's own: a text must not tell that this is none.
        return f"<triton.compiler.compiler.CompiledKernel object at {id(self):#x}>"

    def __getattr__(self, name: str) -> object:
        """Refuse to judge by what is not known."""
        return _not_recorded(vars(self)["_told"], name, name)


class CompiledByLaunch(_Compiled):
    """Stands in for the compiled kernel that a launch returns, of which nothing is known."""

    def __init__(self, kernel: str) -> None:
        self._told = kernel


class CompiledAhead(_Compiled):
    """Stands in for the compiled kernel that `kernel.warmup(...)` returns.

    It tells the registers, spills and shared memory that the compiler reported for these very
    arguments, and its launches are interpreted where the compiled code would be right for them.
    """

    def __init__(self, kernel: Untyped, build: Build) -> None:
        self._kernel = kernel
        self._build = build
        self._told = build.kernel
        self.name = build.metadata["name"]
        self.metadata = _Metadata(build.kernel, build.metadata)
        self.n_regs = build.registers
        self.n_spills = build.spills
        self.n_max_threads = build.threads

    def _init_handles(self) -> None:
        """Raise as triton does for a kernel that needs more shared memory than there is."""
        shared, most = self._build.metadata["shared"], _shared_of_device()
        if isinstance(shared, int) and shared > most:
            raise OutOfResources(shared, most, "shared memory")

    def __getitem__(self, grid: Untyped) -> Callable[..., None]:
        """What launches it: all parameters by position, constants included."""

        def launch(*args: Any) -> None:  # noqa: ANN401 -- whatever the kernel takes
            given, _ = described(self._kernel.fn, args, {})
            if not fits(self._build.arguments, given):
                what = "a compiled kernel launched on arguments that it was not compiled for"
                raise CannotJudge(what, kernel=self._build.kernel, line=candidate_line())
            self._kernel.run(*args, grid=grid, warmup=False)

        return launch


def found(
    builds: Iterable[Build], kernel: Untyped, args: Sequence[object], named: Mapping[str, object]
) -> CompiledAhead:
    """What was compiled for these arguments and options. Raises CannotJudge where nothing was."""
    arguments, options = described(kernel.fn, args, named)
    for build in builds:
        asked = (kernel.fn.__name__, arguments, options)
        if (build.kernel, build.arguments, build.options) == asked:
            return CompiledAhead(kernel, build)
    what = "host code that depends on the result of compiling (warmup)"
    raise CannotJudge(what, kernel=kernel.fn.__name__, line=candidate_line())


def _shared_of_device() -> int:
    properties = driver.active.utils.get_device_properties(driver.active.get_current_device())
    return int(properties["max_shared_mem"])


def _not_recorded(kernel: str, what: str, name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise CannotJudge(
        f"host code that reads {what} of a compiled kernel", kernel=kernel, line=candidate_line()
    )
