"""What is read of a candidate's text."""

import ast

import pytest
from kernel_texts import (
    ALIASED,
    CONFIGS,
    EVERY,
    ROW_NORM,
    SEEDS,
    SHARED_CONSTANT,
    STRANGE,
    TUTORIAL_MATMUL,
)

from workbench.kernels.source import Source, normalized_sha256, read_source
from workbench.kernels.source_flow import conjuncts


def kernel(text, name=None):
    source = read_source(text)
    found = source.kernel(name or source.launched[0])
    assert found is not None
    return found


def test_kernels_parameters_and_launches_are_read_under_any_import_name():
    source = read_source(ALIASED)
    assert source.launched == ("scale",)
    scale = kernel(ALIASED)
    assert scale.constexprs == ("B",)
    assert [a.kind for a in scale.accesses] == ["load", "store"]
    assert [a.base for a in scale.accesses] == ["src", "dst"]
    (launch,) = source.launches
    assert launch.from_forward
    assert ast.unparse(launch.argument(scale, "B")) == "ROWS_BLOCK"


def test_a_mask_by_position_is_a_mask():
    assert [ast.unparse(a.mask) for a in kernel(ALIASED).accesses] == ["keep", "keep"]


def test_device_helpers_are_kernels_but_not_launched():
    source = read_source(SHARED_CONSTANT)
    assert [k.name for k in source.kernels] == ["double", "helper", "bump"]
    assert source.launched == ("double", "bump")


def test_launches_that_forward_does_not_reach_are_told_apart():
    text = SHARED_CONSTANT.replace("return run(x)", "return x")
    assert read_source(text).launched == ()
    assert len(read_source(text).launches) == 3


def test_configurations_are_found_behind_a_name():
    source = read_source(CONFIGS)
    configs = source.configs(source.kernel("add"))
    assert [ast.unparse(c.values["BLOCK"]) for c in configs] == ["256", "1024"]
    assert [ast.unparse(c.options["num_warps"]) for c in configs] == ["4", "8"]


def test_loops_know_their_bounds_and_what_stands_in_them():
    softmax = kernel(SEEDS["softmax"])
    assert [(ast.unparse(x.stop), ast.unparse(x.step)) for x in softmax.loops] == [
        ("N", "BLOCK")
    ] * 3
    assert [len(a.loops) for a in softmax.accesses] == [1, 1, 1, 1]
    conv = kernel(SEEDS["group_conv"])
    assert [x.depth for x in conv.loops] == [0, 1, 2]
    assert [len(a.loops) for a in conv.accesses] == [3, 3, 0]


def test_pointers_are_followed_to_the_argument_they_start_from():
    assert {a.base for a in kernel(TUTORIAL_MATMUL).accesses} == {"a_ptr", "b_ptr", "c_ptr"}
    assert {a.base for a in kernel(SEEDS["group_conv"]).accesses} == {"x_ptr", "w_ptr", "out_ptr"}


def test_a_value_is_worked_out_from_what_the_launch_gave():
    gemm = kernel(SEEDS["gemm"])
    width = gemm.flow.single("num_n")
    assert gemm.flow.evaluate(width, {"N": 4096, "BLOCK_N": 64}) == 64
    assert gemm.flow.evaluate(width, {"N": 4096}) is None


def test_blocks_are_the_parameters_that_size_an_arange():
    assert kernel(SEEDS["sdp_attention"]).blocks == ("BLOCK_M", "HEAD_DIM", "BLOCK_N")


def test_masks_are_taken_apart_through_names_and_flags():
    gemm = kernel(SEEDS["gemm"])
    bounds = {gemm.bound(c)[0] for _, c in gemm.masks()}
    assert bounds == {"M", "N", "K"}
    flagged = ast.parse("None if EVEN else (a < b) & (c < d)", mode="eval").body
    assert [ast.unparse(c) for c in conjuncts(flagged)] == ["a < b", "c < d"]


@pytest.mark.parametrize("name", EVERY)
def test_layout_comments_quotes_and_docstrings_do_not_change_the_hash(name):
    text = EVERY[name]
    rewritten = ast.unparse(ast.parse(text))
    commented = "# another comment\n\n\n" + rewritten.replace("\n\n", "\n\n# and one\n\n")
    assert normalized_sha256(commented) == normalized_sha256(text)


def test_a_docstring_is_not_part_of_the_hash_but_another_text_is():
    base = "def f():\n    'one'\n    return 'x'\n"
    assert normalized_sha256(base) == normalized_sha256(base.replace("one", "two"))
    assert normalized_sha256(base) != normalized_sha256(base.replace("x", "y"))


def test_what_the_code_does_changes_the_hash():
    for name, text in SEEDS.items():
        changed = text.replace("num_warps=4", "num_warps=8")
        assert normalized_sha256(changed) != normalized_sha256(text), name
    assert normalized_sha256("x = 1") != normalized_sha256("x = 1.0")
    assert normalized_sha256("x = 1") != normalized_sha256("x = True")


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_file_is_read_without_an_error(name):
    text = STRANGE[name]
    source = Source(text)
    assert isinstance(source.fault, str)
    for found in source.kernels:
        assert isinstance(found.accesses, tuple)
        assert isinstance(found.blocks, tuple)
        list(found.masks())
        source.configs(found)
    assert isinstance(source.launches, tuple)
    assert len(normalized_sha256(text)) == 64


def test_text_that_is_not_python_says_why():
    assert read_source("def (:").fault
    assert "nested more than" in read_source(STRANGE["long sum"]).fault


def test_a_row_norm_in_another_hand_is_read_alike():
    norm = kernel(ROW_NORM)
    assert [x.kind for x in norm.loops] == ["tl.range", "tl.range"]
    assert {a.base for a in norm.loads} == {"x_ptr", "w_ptr"}
