"""Runs a candidate's kernels on the CPU, program by program, with accesses checked and counted."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton import knobs
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.autotuner import Config
from triton.runtime.errors import InterpreterError

from workbench.errors import WorkbenchError
from workbench.kernels.autotune import choosing
from workbench.kernels.faults import CannotJudge, KernelFault, KernelRaised
from workbench.kernels.interpret_arguments import Converter, bind
from workbench.kernels.interpret_branches import recording_branches
from workbench.kernels.interpret_following import (
    following,
    most_beside,
    tracked,
    unfollowed,
)
from workbench.kernels.interpret_language import language
from workbench.kernels.interpret_order import order, place_of
from workbench.kernels.interpret_settings import TraceSettings
from workbench.kernels.path_coverage import PathCoverage, number_of
from workbench.kernels.records import LaunchTrace
from workbench.kernels.standin import standing_in
from workbench.kernels.target import target
from workbench.kernels.trace_launch import (
    Grid,
    LaunchWatch,
    ProbeDone,
    Span,
    candidate_line,
    is_library,
)
from workbench.kernels.trace_trips import FEW_PROGRAMS, mean_trips
from workbench.kernels.trace_values import Book, BookWatch
from workbench.kernels.untyped import Untyped

_PROBES = 256
"""Consecutive programs whose first loads show which sectors neighbours share: about one wave."""
_PROBES_WORK = 16_000_000
"""Work limit of the probes together (ours): about 3 s. No further probe starts beyond it."""
_FEW_WORK = 3
"""Factor on the work limit of a launch with few programs: each does much, and they differ (ours).
"""
_EVERYTHING = TraceSettings()


class Trace:
    """The launches of one `tracing` block, in order."""

    def __init__(self, settings: TraceSettings) -> None:
        self.launches: list[LaunchTrace] = []
        self.choices: dict[str, int] = {}
        """Number of configurations that each autotuned kernel could choose from, by kernel."""
        self._settings = settings
        self._stored: set[Span] = set()
        """Storages that the launches so far have stored to."""

    def launch(self, executor: Untyped, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Interpret one `kernel[grid](...)`; triton's grid executor hands its call over."""
        function = executor.fn
        bound = bind(function, args, named)
        for hook in executor.pre_run_hooks:
            hook(*bound.values())
        asked = executor.grid(bound) if callable(executor.grid) else executor.grid
        x, y, z = (*(int(g) for g in asked), 1, 1)[:3]
        grid = (x, y, z)
        converter = Converter()
        # Converting a tensor descriptor runs builder operations: watched, but not counted.
        triton_interpreter.interpreter_builder.watch = self._settings.watching(
            function.__name__, [], line=0, counting=False, raising=False
        )
        values = {
            name: value if name in executor.constexprs else converter.convert(name, value)
            for name, value in bound.items()
        }
        watch = self._settings.watching(
            function.__name__,
            converter.regions,
            line=candidate_line(),
            counting=self._settings.count,
            raising=self._settings.on_out_of_bounds == "raise",
        )
        if named.get("launch_pdl"):
            watch.unfinished = frozenset(self._stored)
        ran = self._run_noting(watch, function, bound, values, grid)
        self._stored |= watch.wrote
        self.launches.append(watch.trace(grid, ran))

    def choose(self, kernel: str, configs: list[Config], launch: Untyped) -> Untyped:
        """Take the configuration recorded for this autotuned kernel, else the one of number
        `config`.
        """
        self.choices[kernel] = max(len(configs), self.choices.get(kernel, 0))
        wanted = self._settings.configs.get(kernel)
        if wanted is None:
            return launch(configs[self._settings.config % len(configs)])
        return launch(configs[min(wanted, len(configs) - 1)])

    def rehearse(self, run: Callable[[], None]) -> None:
        """Run a kernel once as an autotuner's benchmark would, without listing it; not where a
        sample is traced or nothing runs.
        """
        asked = self._settings
        if asked.book is not None or asked.sample is not None or asked.ghost or asked.count:
            return
        before = len(self.launches)
        run()
        del self.launches[before:]

    def _run_noting(
        self,
        watch: LaunchWatch,
        function: Untyped,
        bound: dict[str, Any],
        values: dict[str, Any],
        grid: Grid,
    ) -> int:
        """Run a launch and, with a book, record what it leaves in memory; returns how many programs
        ran.
        """
        settings, total = self._settings, grid[0] * grid[1] * grid[2]
        book = settings.book
        if book is None:
            return 0 if settings.ghost else self._run(watch, function, values, grid)
        part = settings.ghost or (settings.sample is not None and settings.sample < total)
        if settings.programs is not None:
            chosen = settings.programs.get(len(self.launches), ())
            return self._run_chosen(book, watch, function, bound, values, grid, chosen)
        book.begin(function, bound, partial=part)
        if settings.ghost:
            book.end(partial=True)
            return 0
        if isinstance(watch, BookWatch):
            watch.book = book
        if not part and settings.sample is None:
            ran = self._run(watch, function, values, grid)
            book.end(partial=ran < total)
            return ran
        # A launch cut short by the work limit is a sample too.
        chosen = list(self._order(grid))
        seed = settings.sample_seed + len(self.launches)
        coverage = PathCoverage(grid, seed, [number_of(program, grid) for program in chosen])
        with following(coverage):
            ran = self._run(watch, function, values, grid)
            if ran < total:
                book.coverage[book.launch] = coverage
                self._run_beside(book, watch, function, values, grid, ran)
        book.end(partial=ran < total)
        return ran

    def _order(self, grid: Grid) -> Iterator[Grid]:
        asked = self._settings
        return order(grid, asked.sample, asked.sample_seed, asked.shuffle)

    def _run_beside(
        self,
        book: Book,
        watch: LaunchWatch,
        function: Untyped,
        values: dict[str, Any],
        grid: Grid,
        ran: int,
    ) -> None:
        """Run the last program, and one program of each path that the sample did not take.

        The last one has the tail block and the largest offsets. None of them is counted, since
        counts are scaled from the sample.
        """
        program: Grid | None = place_of(grid[0] * grid[1] * grid[2] - 1, grid)
        most = most_beside(watch, ran, self._settings.work)
        while program is not None and most >= 0:
            _run_one(book, watch, function, values, grid, program)
            program, most = book.coverage[book.launch].draw(), most - 1

    def _run_chosen(
        self,
        book: Book,
        watch: LaunchWatch,
        function: Untyped,
        bound: dict[str, Any],
        values: dict[str, Any],
        grid: Grid,
        chosen: Sequence[Grid],
    ) -> int:
        """Run some programs of one launch, uncounted."""
        partial = len(chosen) < grid[0] * grid[1] * grid[2]
        book.begin(function, bound, partial=partial)
        for program in chosen:
            _run_one(book, watch, function, values, grid, program)
        book.end(partial=partial)
        return len(chosen)

    def _run(
        self, watch: LaunchWatch, function: Untyped, values: dict[str, Any], grid: Grid
    ) -> int:
        """Run the programs of one launch; returns how many ran."""
        builder = triton_interpreter.interpreter_builder
        builder.watch = watch
        builder.grid_dim = grid
        ran, work = 0, self._settings.work
        if work is not None and grid[0] * grid[1] * grid[2] <= FEW_PROGRAMS:
            work *= _FEW_WORK
        branches = recording_branches(
            self._settings.branches if self._settings.book is None else None
        )
        with _host_modes_off(), np.errstate(all="ignore"), _blamed(watch), branches:
            if self._settings.sample is not None and watch.counting:
                _probe(watch, function, values, grid)
            for program in self._order(grid):
                builder.grid_idx = program
                watch.begin_program(program)
                with tracked(builder, program):
                    function(**values)
                watch.end_program()
                ran += 1
                if work is not None and watch.work > work:
                    break
        return ran


@contextlib.contextmanager
def tracing(settings: TraceSettings = _EVERYTHING) -> Iterator[Trace]:
    """Interpret every launch on CPU tensors until the block ends, as `settings` say.

    Raises CannotJudge where the interpreter would be wrong, KernelRaised where the kernel itself
    fails, AccessOutOfBounds where that is asked for. Import the candidate inside the block or after
    one was entered: libdevice functions are bound at import. Needs TRITON_INTERPRET=1 before triton
    is imported; raises WorkbenchError otherwise.
    """
    if not knobs.runtime.interpret:
        raise WorkbenchError(
            "kernels cannot be interpreted: TRITON_INTERPRET was not set",
            todo="set TRITON_INTERPRET=1 before triton is imported",
        )
    trace = Trace(settings)
    stands = standing_in(settings.stands_for or target("sm90"), source=settings.source)
    chosen = choosing(trace.choose, trace.rehearse)
    with language(trace.launch, settings.builds), stands, chosen:
        yield trace


@contextlib.contextmanager
def _host_modes_off() -> Iterator[None]:
    """Suspend the host code's torch modes while a kernel runs."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():  # noqa: SLF001 -- torch has no public name for it
        yield


@contextlib.contextmanager
def _blamed(watch: LaunchWatch) -> Iterator[None]:
    """Turn whatever a kernel raises into a fault with its name and the candidate's line."""
    try:
        yield
    except KernelFault:
        raise
    except NotImplementedError as missing:
        line = _line_of(missing)
        raise CannotJudge(str(missing), kernel=watch.kernel, line=line) from missing
    except Exception as error:
        said = str(error) or repr(error)
        if _innermost(error).endswith(_TRACKING):
            what = f"what programs of this kernel differ in ({said[:200]})"
            raise CannotJudge(what, kernel=watch.kernel, line=_line_of(error)) from error
        if not isinstance(error, InterpreterError):
            said = f"{type(error).__name__}: {said}"
        raise KernelRaised(said[:400], kernel=watch.kernel, line=_line_of(error)) from error


_TRACKING = (
    "/path_coverage.py",
    "/intervals.py",
    "/interpret_intervals.py",
    "/interpret_spreads.py",
)
"""Modules whose errors are not the kernel's fault."""


def _innermost(error: BaseException) -> str:
    """Name of the file that raised the error."""
    step, name = error.__traceback__, ""
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        step = step.tb_next
    return name


def _line_of(error: BaseException) -> int:
    """Line of the innermost frame in the candidate's file."""
    line = 0
    step = error.__traceback__
    while step is not None:
        if not is_library(step.tb_frame.f_code.co_filename):
            line = step.tb_lineno
        step = step.tb_next
    return line


def _run_one(
    book: Book,
    watch: LaunchWatch,
    function: Untyped,
    values: dict[str, Any],
    grid: Grid,
    program: Grid,
) -> None:
    """Run one program, uncounted, and record what it leaves in memory."""
    one = BookWatch(watch.kernel, watch.regions, line=watch.line, counting=False, raising=True)
    one.book = book
    builder = triton_interpreter.interpreter_builder
    builder.watch, builder.grid_idx, builder.grid_dim = one, program, grid
    with _host_modes_off(), np.errstate(all="ignore"), _blamed(watch):
        one.begin_program(program)
        with tracked(builder, program):
            function(**values)
        one.end_program()


def _probe(watch: LaunchWatch, function: Untyped, values: dict[str, Any], grid: Grid) -> None:
    """Run the first programs up to their second loads, uncounted, to see what they share."""
    builder = triton_interpreter.interpreter_builder
    total = grid[0] * grid[1] * grid[2]
    probe = LaunchWatch(watch.kernel, watch.regions, line=watch.line, counting=False, raising=True)
    builder.watch = probe

    def trips(number: int) -> int | None:
        """Trip count of the first loop of one program, which is left as soon as it loads again."""
        program = place_of(number, grid)
        builder.grid_idx = program
        probe.begin_probe(program)
        with contextlib.suppress(ProbeDone):
            function(**values)
        return probe.trips[-1]

    first: list[int | None] = []
    with unfollowed():
        while len(first) < min(_PROBES, total) and probe.work <= _PROBES_WORK:
            first.append(trips(len(first)))
        watch.mean_trips = mean_trips(first, total, trips)
    builder.watch = watch
