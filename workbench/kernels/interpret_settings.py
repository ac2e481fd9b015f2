"""How the launches of a block are interpreted: which programs run, and what is recorded."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from workbench.kernels.interpret_branches import BranchOutcomes
from workbench.kernels.records import Build
from workbench.kernels.target import Target
from workbench.kernels.trace_launch import Grid, LaunchWatch
from workbench.kernels.trace_values import Book, BookWatch


class TraceSettings(Struct, frozen=True, kw_only=True):
    """What `tracing` does with every launch; by default it runs and counts every program."""

    sample: int | None = None
    """Programs to run of each launch, spread over its grid; counts are scaled to the whole grid.
    None: all of them."""
    sample_seed: int = 0
    """Which programs a sample draws."""
    work: int | None = None
    """A launch ends after the program that passes this many lanes moved, where every access also
    costs 5,000 and every flop a hundredth; a million takes about 0.2 s. None: no limit."""
    on_out_of_bounds: Literal["raise", "report"] = "raise"
    """Raise AccessOutOfBounds before the access, or mask its lanes and list it in the trace."""
    count: bool = True
    """Count traffic and flops. False only checks bounds, which is faster."""
    shuffle: int | None = None
    """Seed of the order that programs run in. None: by program id."""
    ghost: bool = False
    """Run no program: the launches are only listed."""
    stands_for: Target | None = None
    """The GPU whose properties host code is told. None: sm90."""
    configs: Mapping[str, int] = field(default_factory=dict[str, int])
    """Index of the configuration that each autotuned kernel takes, by its name."""
    config: int = 0
    """Index for every other autotuned kernel, modulo how many configurations it has."""
    builds: Sequence[Build] = ()
    """What host code is told that compiles a kernel ahead of its launch."""
    programs: Mapping[int, Sequence[Grid]] | None = None
    """With a book: the only programs to run, by the launch's number, uncounted."""
    watch: type[LaunchWatch] = LaunchWatch
    """What observes the accesses of a launch where there is no book."""
    book: Book | None = None
    """Records which memory holds final values although only a sample ran; the last program of each
    launch then runs too."""
    source: str = ""
    """The candidate's file: tensors it creates without a device are on the host."""
    branches: BranchOutcomes | None = None
    """Without a book: records the outcomes of branches on loaded values."""

    @property
    def watching(self) -> type[LaunchWatch]:
        """What observes the accesses: a book needs a watch of its own."""
        return self.watch if self.book is None else BookWatch
