"""Facts: right where they can be known, unknown where not, never an error."""

import pytest
from fact_kit import launch, softmax_launch, softmax_trace, static, tensor
from kernel_texts import EVERY, SEEDS, STRANGE, TUTORIAL_MATMUL

from workbench.kernels.facts import read_facts
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.kernels.source import read_source
from workbench.kernels.target import target

SM90 = target("sm90")


def facts(text, kernel=None, **known):
    name = kernel or read_source(text).launched[0]
    return {n: f.value for n, f in read_facts(text, name, **known).items()}


def test_every_fact_of_the_catalogue_is_there_with_its_type():
    for text in EVERY.values():
        found = read_facts(text, read_source(text).launched[0])
        assert list(found) == list(CATALOGUE)
        for name, fact in found.items():
            assert (fact.source, fact.unit, fact.says) == (
                CATALOGUE[name].source,
                CATALOGUE[name].unit,
                CATALOGUE[name].says,
            )


def test_without_a_launch_only_code_is_known():
    got = facts(SEEDS["softmax"])
    known = {n for n, v in got.items() if v is not None}
    assert all(n.startswith("code.") for n in known)
    assert got["code.passes_over_input"] == 3
    assert got["code.rereads_input"] is True


@pytest.mark.parametrize(
    ("seed", "name", "value"),
    [
        ("softmax", "code.reduction_in_loop", True),
        ("softmax", "code.special_count", 2),
        ("softmax", "code.tile_order", "none"),
        ("softmax", "code.dot_precision", "none"),
        ("gemm", "code.tile_order", "row-major"),
        ("gemm", "code.dot_precision", "default"),
        ("gemm", "code.tunable_blocks", 3),
        ("gemm", "code.rereads_input", False),
        ("linear_relu_div", "code.dot_precision", "ieee"),
        ("linear_relu_div", "code.division_count", 1),
        ("sdp_attention", "code.dot_count", 2),
        ("sdp_attention", "code.tunable_blocks", 2),
        ("group_conv", "code.loop_depth", 3),
        ("group_conv", "code.has_modulo_offsets", True),
        ("top_k", "code.store_count", 2),
        ("gelu", "code.loop_count", 0),
    ],
)
def test_code_facts_of_the_suite(seed, name, value):
    assert facts(SEEDS[seed])[name] == value


def test_a_two_dimensional_grid_and_a_tf32_switch_are_seen():
    got = facts(TUTORIAL_MATMUL)
    assert got["code.tile_order"] == "grid-2d"
    assert got["code.dot_precision"] == "ieee"


def test_a_launch_gives_trips_extents_waves_and_divisibility():
    got = facts(SEEDS["softmax"], launches=[softmax_launch()], target=SM90)
    assert got["loop.trip_count"] == 96
    assert got["loop.extent"] == 98304
    assert got["loop.extent_bytes"] == 98304 * 4
    assert got["loop.tile_bytes"] == 98304 * 4
    assert got["launch.block_elements"] == 1024
    assert got["launch.elements_per_thread"] == 8
    assert got["launch.waves"] == pytest.approx(4096 / (16 * SM90.sms))
    assert got["arg.divisible"] is True
    assert got["arg.divisible_dims"] == ("N",)
    assert got["arg.output_dtype"] == "float32"
    assert got["arg.output_bytes"] == 4096 * 98304 * 4


def test_a_dimension_that_is_no_multiple_of_its_block_is_told():
    got = facts(SEEDS["softmax"], launches=[softmax_launch(cols=1500)])
    assert got["arg.divisible"] is False
    assert got["arg.divisible_dims"] == ()
    assert got["loop.trip_count"] == 2


@pytest.mark.parametrize(("n", "even"), [(4096, True), (4000, False), (None, None)])
def test_a_block_that_wraps_between_two_blocks_is_told(n, even):
    text = SEEDS["gelu"].replace("x_ptr + places", "x_ptr + places % N")
    tensors = {"x_ptr": tensor(4096), "out_ptr": tensor(4096)}
    scalars = {} if n is None else {"N": n}
    given = launch("gelu_kernel", (16, 1, 1), tensors, scalars, {"BLOCK": 256})
    assert facts(text, launches=[given])["arg.even_wraps"] is even
    assert facts(SEEDS["gelu"], launches=[given])["arg.even_wraps"] is None


def test_strides_and_alignment_of_the_arguments_are_seen():
    loose = launch(
        "softmax_kernel",
        (8, 1, 1),
        {"x_ptr": tensor(8, 64, strides=(128, 1), alignment=8), "out_ptr": tensor(8, 64)},
        {"N": 64},
        {"BLOCK": 64},
    )
    got = facts(SEEDS["softmax"], launches=[loose])
    assert got["arg.contiguous"] is False
    assert got["arg.alignment_min"] == 8


def test_of_several_launches_the_largest_speaks():
    small, large = softmax_launch(rows=2), softmax_launch(rows=64)
    got = facts(SEEDS["softmax"], launches=[small, large, small])
    assert (got["launch.programs"], got["launch.total"]) == (64, 3)


def test_the_static_profile_is_read():
    mix = {"LDG.64": 3, "LDGSTS.128": 2, "HGMMA": 4, "total": 300}
    profile = static(spill_load_bytes=8, spill_store_bytes=4, mix=mix, limiter="registers")
    got = facts(SEEDS["softmax"], launches=[softmax_launch(static=profile)])
    assert got["static.spills"] == 12
    assert got["static.load_width"] == 128
    assert got["static.narrow_loads"] is True
    assert got["static.uses_tensor_cores"] is True
    assert got["static.uses_async_copies"] is True
    assert got["static.limiter"] == "registers"


def test_a_trace_gives_redundancy_and_intensity():
    got = facts(SEEDS["softmax"], traces=[softmax_trace()])
    assert got["trace.load_redundancy"] == 3
    assert got["trace.intensity"] == pytest.approx(1e9 / (4 * 4096 * 98304 * 4))


def test_facts_read_elsewhere_are_taken_over_and_combined():
    got = facts(
        SEEDS["softmax"],
        problem={"problem.flops": 100, "problem.bytes": 50, "problem.family": "normalization"},
    )
    assert got["problem.intensity"] == 2
    assert got["problem.family"] == "normalization"


def test_values_of_the_wrong_type_become_unknown():
    got = facts(
        SEEDS["softmax"],
        problem={"problem.flops": "many", "problem.bytes": float("nan"), "history.steps": True},
    )
    assert got["problem.flops"] is None
    assert got["problem.bytes"] is None
    assert got["history.steps"] is None


def test_a_fact_says_where_it_was_read():
    found = read_facts(SEEDS["softmax"], "softmax_kernel", launches=[softmax_launch()])
    assert found["code.passes_over_input"].evidence == "lines 16, 22, 27"
    assert found["loop.extent_bytes"].evidence == "98304 x 4 B"


@pytest.mark.parametrize("name", STRANGE)
def test_strange_files_give_unknowns_and_no_error(name):
    text = STRANGE[name]
    for kernel in ["k", "nobody", *(k.name for k in read_source(text).kernels)]:
        odd = launch(kernel, (1, 0, 1), {"p": tensor(0)}, {"N": None}, {"B": "text"})
        found = read_facts(text, kernel, [odd], [], None, SM90)
        assert list(found) == list(CATALOGUE)


def test_a_kernel_of_another_name_shares_no_facts():
    got = facts(SEEDS["softmax"], "other", launches=[softmax_launch()])
    assert got["launch.programs"] is None
    assert got["code.loop_count"] is None
