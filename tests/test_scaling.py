"""What a candidate must do at the full shape when only the smallest was compared."""

from workbench.gate.correctness.protocol import TensorEntry
from workbench.gate.problem.records import ShapeReport
from workbench.gate.scaling import doubt_at_full
from workbench.kernels.records import LaunchTrace, Traffic


def shape(name: str, rows: int, cols: int) -> ShapeReport:
    entry = TensorEntry(
        name="0",
        dtype="float32",
        shape=(rows, cols),
        strides=(cols, 1),
        bytes=4 * rows * cols,
    )
    return ShapeReport(shape=name, input_entries=(entry,), output_entries=(entry,))


TINY, FULL = shape("tiny", 8, 64), shape("full", 4096, 4096)


def trace(rows: int, cols: int, **changes) -> LaunchTrace:
    """A kernel that reads its input twice in loops and writes its output once, all programs run."""
    size = 4 * rows * cols
    fields = {
        "kernel": "softmax",
        "grid": (rows, 1, 1),
        "programs": rows,
        "sampled": rows,
        "traffic": {
            "x_ptr": Traffic(loaded=2 * size, stored=0, unique_sectors=size // 32, footprint=size),
            "out_ptr": Traffic(
                loaded=0,
                stored=size,
                unique_sectors=size // 32,
                stored_sectors=size // 32,
                footprint=size,
            ),
        },
        "masked_fraction": 0.0,
        "sector_efficiency": 1.0,
        "dot_flops": {},
        "vector_flops": 4.0 * rows * cols,
        "special_ops": 0.0,
        "reduced_elements": 0.0,
        "atomics": 0.0,
        "loads": 4.0,
        "load_places": 2,
    }
    return LaunchTrace(**{**fields, **changes})


def doubted(full: LaunchTrace, small: LaunchTrace | None = None) -> str:
    found = doubt_at_full(FULL, [full], [], TINY, [small or trace(8, 64)])
    return found.code if found else ""


def traffic(name: str, **changes) -> dict[str, Traffic]:
    whole = trace(4096, 4096).traffic
    fields = {f: getattr(whole[name], f) for f in Traffic.__struct_fields__}
    return {**whole, name: Traffic(**{**fields, **changes})}


def test_the_same_work_in_proportion_is_not_doubted():
    assert doubted(trace(4096, 4096)) == ""


def test_writing_one_block_over_and_over_is_not_writing_the_output():
    once = traffic("out_ptr", unique_sectors=32, stored_sectors=32)
    assert doubted(trace(4096, 4096, traffic=once)) == "profile.does-less-at-full"


def test_reading_half_of_the_input_twice_is_not_reading_it():
    half = traffic("x_ptr", unique_sectors=4096 * 4096 * 4 // 64)
    assert doubted(trace(4096, 4096, traffic=half)) == "profile.does-less-at-full"


def test_a_precision_that_was_never_compared_is_doubted():
    small = trace(8, 64, dot_flops={"float32/ieee": 1e6})
    full = trace(4096, 4096, dot_flops={"float32/tf32": 1e12})
    assert doubted(full, small) == "profile.other-arithmetic-at-full"
    again = trace(4096, 4096, dot_flops={"float32/ieee": 1e12})
    assert doubted(again, small) == ""


def test_a_loop_that_ran_once_where_it_was_compared_is_doubted():
    assert doubted(trace(4096, 4096), trace(8, 64, loads=2.0)) == "profile.loop-not-proven"
    straight = trace(4096, 4096, loads=2.0)
    assert doubted(straight, trace(8, 64, loads=2.0)) == ""
