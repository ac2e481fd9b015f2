"""Facts about a kernel as it was launched: grid, options, trip counts of loops, arguments."""

import ast
import math
from collections.abc import Iterator, Mapping, Sequence

from workbench.kernels.facts_code import Row, over_tiles
from workbench.kernels.records import (
    Argument,
    DescriptorArgument,
    Launch,
    ScalarArgument,
    TensorArgument,
)
from workbench.kernels.source_flow import Number
from workbench.kernels.source_kernel import Access, JitKernel, Loop, argument
from workbench.kernels.target import Target

_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def chosen_launch(kernel: str, launches: Sequence[Launch]) -> Launch | None:
    """The launch that facts describe: the kernel's first one with the most programs."""
    ours = [launch for launch in launches if launch.kernel == kernel]
    return max(ours, key=lambda launch: launch.programs, default=None)


def known_values(launch: Launch) -> dict[str, Number]:
    """Numeric arguments of the launch, by parameter."""
    scalars = {n: a.value for n, a in launch.arguments.items() if isinstance(a, ScalarArgument)}
    every = {**scalars, **launch.constexprs}
    return {name: value for name, value in every.items() if isinstance(value, int | float)}


def grid_facts(launch: Launch, total: int, target: Target | None) -> Iterator[Row]:
    """Facts of a launch that do not depend on the kernel's text: options, grid, waves."""
    yield "launch.num_warps", launch.num_warps, ""
    yield "launch.num_stages", launch.num_stages, ""
    yield "launch.num_ctas", launch.num_ctas, ""
    yield "launch.programs", launch.programs, f"grid {launch.grid}"
    yield "launch.grid_rank", sum(extent > 1 for extent in launch.grid), f"grid {launch.grid}"
    yield "launch.total", total, ""
    if target is not None and launch.static.programs_per_sm > 0:
        at_once = target.sms * launch.static.programs_per_sm
        waves = launch.programs / at_once
        yield "launch.waves", waves, f"{launch.programs} / {at_once}"
        if waves:
            yield "launch.tail", 1 - waves / math.ceil(waves), f"{waves:.3g} waves"


def launch_facts(kernel: JitKernel, launch: Launch) -> Iterator[Row]:
    """Facts that combine the kernel's text with the launch: blocks, `loop.*` and `arg.*`."""
    known = known_values(launch)
    elements = _block_elements(kernel, launch, known)
    if elements is not None:
        yield "launch.block_elements", elements, ""
        yield "launch.elements_per_thread", elements / (32 * max(launch.num_warps, 1)), ""
    yield from _loop_facts(kernel, launch, known)
    yield from _argument_facts(kernel, launch)
    yield from _divisibility(kernel, known)
    yield from _wraps(kernel, known)


def _block_elements(kernel: JitKernel, launch: Launch, known: Mapping[str, Number]) -> int | None:
    sizes = (_moved(kernel, access, launch, known) for access in kernel.accesses)
    return max((size for size in sizes if size is not None), default=None)


def _moved(
    kernel: JitKernel, access: Access, launch: Launch, known: Mapping[str, Number]
) -> int | None:
    """Elements that an access moves at once; None where the text does not say."""
    if not kernel.by_descriptor(access):
        return _elements(kernel, access.pointer, known)
    given = launch.arguments.get(access.base)
    if isinstance(given, DescriptorArgument):
        return math.prod(given.block)
    made = kernel.flow.resolve(access.pointer)
    shape = argument(made, 3, "block_shape") if isinstance(made, ast.Call) else None
    if not isinstance(shape, ast.List | ast.Tuple):
        return None
    sides = [kernel.flow.evaluate(side, known) for side in shape.elts]
    return None if None in sides else math.prod(int(side) for side in sides if side is not None)


def _elements(kernel: JitKernel, pointer: object, known: Mapping[str, Number]) -> int | None:
    """Elements of a block of addresses: the product of the extents that build it."""
    product = 1
    for extent in kernel.flow.aranges(pointer):  # type: ignore[arg-type]  # an access's pointer
        value = kernel.flow.evaluate(extent, known)
        if value is None:
            return None
        product *= int(value)
    return product


def trip_count(kernel: JitKernel, loop: Loop, known: Mapping[str, Number]) -> int | None:
    """Iterations of a loop as launched; None where a bound is unknown or differs by program."""
    start = kernel.flow.evaluate(loop.start, known)
    stop = kernel.flow.evaluate(loop.stop, known)
    step = 1 if loop.step is None else kernel.flow.evaluate(loop.step, known)
    if start is None or stop is None or not step:
        return None
    return max(0, -int(-(stop - start) // step))


def _loop_facts(kernel: JitKernel, launch: Launch, known: Mapping[str, Number]) -> Iterator[Row]:
    """Of loops over a dimension: one that takes tile after tile is none."""
    loops = [loop for loop in kernel.loops if not over_tiles(kernel, loop)]
    trips = {loop: n for loop in loops if (n := trip_count(kernel, loop, known)) is not None}
    if not loops:
        yield "loop.trip_count", 0, "no loop"
    if loops and len(trips) == len(loops):
        longest = max(trips, key=lambda loop: trips[loop])
        yield "loop.trip_count", trips[longest], f"line {longest.line}"
    found = {loop: kernel.flow.evaluate(loop.stop, known) for loop in trips}
    stops = {loop: stop for loop, stop in found.items() if stop is not None}
    if not stops:
        return
    widest = max(stops, key=lambda loop: stops[loop])
    step = 1 if widest.step is None else kernel.flow.evaluate(widest.step, known)
    yield "loop.step", step, f"line {widest.line}"
    yield "loop.extent", stops[widest], f"line {widest.line}"
    width = _element_bytes(kernel, launch)
    if width is None:
        return
    yield "loop.extent_bytes", stops[widest] * width, f"{stops[widest]} x {width} B"
    held = _held(kernel, launch, known, trips)
    if held is not None:
        yield "loop.tile_bytes", held * width, f"{held} elements x {width} B"


def _held(
    kernel: JitKernel, launch: Launch, known: Mapping[str, Number], trips: Mapping[Loop, int]
) -> int | None:
    """Elements of the largest input that loops load part by part.

    None where nothing is loaded so, the size of a part is unknown, or a loop ends before its
    dimension does and the rest is loaded outside.
    """
    found: list[int] = []
    walked = [a for a in kernel.loads if a.loops and a.loops[0] in trips]
    for access in walked:
        size = _moved(kernel, access, launch, known)
        if size is None:
            return None
        found.append(trips[access.loops[0]] * size)
    short = {a.base for a in walked if not _whole(kernel, a.loops[0])}
    rest = any(not a.loops and a.base in short for a in kernel.loads)
    return None if rest or not found else max(found)


def _whole(kernel: JitKernel, loop: Loop) -> bool:
    """Whether a loop ends where a dimension does: at an argument, or so many blocks of one."""
    stop = kernel.flow.resolve(loop.stop)
    if isinstance(stop, ast.Call) and kernel.names.op(stop) == "cdiv":
        stop = kernel.flow.resolve(argument(stop, 0, "x"))
    return isinstance(stop, ast.Constant | ast.Name)


def _tensor(argument: Argument | None) -> TensorArgument | None:
    match argument:
        case TensorArgument():
            return argument
        case DescriptorArgument(base=base):
            return base
        case _:
            return None


def _element_bytes(kernel: JitKernel, launch: Launch) -> int | None:
    """Size of the widest floating element that is loaded."""
    loaded = [_tensor(launch.arguments.get(a.base)) for a in kernel.loads]
    sizes = [_BYTES[t.dtype] for t in loaded if t is not None and t.dtype in _BYTES]
    return max(sizes, default=None)


def _argument_facts(kernel: JitKernel, launch: Launch) -> Iterator[Row]:
    tensors = {n: t for n, a in launch.arguments.items() if (t := _tensor(a)) is not None}
    if not tensors:
        return
    least = min(tensors, key=lambda n: tensors[n].alignment)
    yield "arg.alignment_min", tensors[least].alignment, least
    loose = [n for n, t in tensors.items() if not _contiguous(t)]
    yield "arg.contiguous", not loose, ", ".join(loose)
    yield "arg.dtypes", tuple(sorted({t.dtype for t in tensors.values()})), ""
    yield "arg.bytes", sum(t.bytes for t in tensors.values()), ""
    largest = max(tensors, key=lambda n: tensors[n].bytes)
    yield "arg.largest_bytes", tensors[largest].bytes, largest
    stored = [a.base for a in kernel.accesses if a.kind != "load" and a.base in tensors]
    if stored:
        yield "arg.output_dtype", tensors[stored[0]].dtype, stored[0]
        outputs = sorted(set(stored))
        yield "arg.output_bytes", sum(tensors[n].bytes for n in outputs), ", ".join(outputs)
    loaded = [a.base for a in kernel.loads if a.base in tensors]
    if loaded and kernel.dots:
        yield "arg.dot_dtype", tensors[loaded[0]].dtype, loaded[0]
    width = _element_bytes(kernel, launch)
    if width is not None:
        yield "arg.element_bytes", width, ""


def _contiguous(tensor: TensorArgument) -> bool:
    expected = 1
    for extent, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= max(extent, 1)
    return True


def _divisibility(kernel: JitKernel, known: Mapping[str, Number]) -> Iterator[Row]:
    """Whether masked dimensions are multiples of the blocks that walk them."""
    answers: dict[str, bool] = {}
    complete = True
    for _, conjunct in kernel.masks():
        bound = kernel.bound(conjunct)
        length = None if bound is None else known.get(bound[0])
        extents = () if bound is None else kernel.flow.aranges(bound[1])
        sizes = [kernel.flow.evaluate(extent, known) for extent in extents]
        if bound is None or length is None or not sizes or None in sizes:
            complete = False
            continue
        fits = all(size and length % size == 0 for size in sizes)
        answers[bound[0]] = answers.get(bound[0], True) and fits
    if not answers:
        return
    yield "arg.divisible_dims", tuple(sorted(n for n, fits in answers.items() if fits)), ""
    loose = sorted(n for n, fits in answers.items() if not fits)
    if loose or complete:
        yield "arg.divisible", not loose, ", ".join(loose)


def _wraps(kernel: JitKernel, known: Mapping[str, Number]) -> Iterator[Row]:
    """Whether some block of offsets wraps at a multiple of its extent: only between two blocks."""
    answers: dict[int, bool | None] = {}
    for node in ast.walk(kernel.node):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
            continue
        extents = kernel.flow.aranges(node.left)
        if len(extents) == 1:
            length, size = (kernel.flow.evaluate(e, known) for e in (node.right, extents[0]))
            answers[node.lineno] = None if not length or not size else length % size == 0
    even = sorted(line for line, fits in answers.items() if fits)
    if even or (answers and None not in answers.values()):
        yield "arg.even_wraps", bool(even), ", ".join(f"line {line}" for line in even)
