"""What an answer is made of, read from what crossed the border and not from a worker's word."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.gate.correctness.layout import entry as entry_of
from workbench.gate.correctness.layout import (
    guards_hold,
    inside,
    raise_guards,
    same_bits,
)
from workbench.gate.correctness.nest import (
    ForeignLeaf,
    aligned,
    difference,
    flatten,
    rebuild,
    tensor_paths,
)
from workbench.gate.correctness.protocol import (
    Expected,
    Made,
    OutputFacts,
    Returned,
    TensorEntry,
    decode,
    encode,
)
from workbench.gate.correctness.structure import check_state, check_structure
from workbench.isolation.wire import Blob


def described(*shape: int, dtype: str = "float32", name: str = "") -> TensorEntry:
    size = 4 * math.prod(shape)
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return TensorEntry(name=name, dtype=dtype, shape=shape, strides=strides, bytes=size)


def returned(*entries: TensorEntry, storage: int = 1 << 20, overlaps: tuple[str, ...] = ()):
    value = tuple(torch.empty(0) for _ in entries) if len(entries) != 1 else torch.empty(0)
    facts = [
        OutputFacts(
            entry=one, device="cpu", storage_bytes=storage, offset_bytes=0, overlaps=overlaps
        )
        for one in entries
    ]
    return Returned(outputs=flatten(value, lambda _: "")[0], facts=tuple(facts))


def blobs(*entries: TensorEntry) -> list[Blob]:
    return [
        Blob(dtype=e.dtype, shape=e.shape, strides=e.strides, data=bytes(e.bytes)) for e in entries
    ]


def made(*entries: TensorEntry, aliased: bool = False) -> Made:
    value = tuple(torch.empty(0) for _ in entries) if len(entries) != 1 else torch.empty(0)
    nest = flatten(value, lambda _: "")[0]
    expected = tuple(Expected(entry=e, aliased=aliased) for e in entries)
    return Made(
        inputs=nest, entries=(), outputs=nest, expected=expected, changes_state=False, fp64=True
    )


def codes(*arguments) -> list[str]:
    return [f.code.removeprefix("correctness.") for f in check_structure(*arguments, "cpu")]


def test_structure_is_read_from_the_blobs_not_from_the_workers_word():
    want, small = described(4, 4), described(2, 2)
    honest = returned(want)
    assert codes(made(want), honest, blobs(want)) == []
    assert codes(made(want), honest, blobs(small)) == ["wrong-shape"]
    assert codes(made(want), honest, blobs(described(4, 4, dtype="int32"))) == ["wrong-dtype"]
    assert codes(made(want), honest, []) == ["wrong-structure"]
    assert codes(made(want), Returned(), []) == ["wrong-structure"]
    assert codes(made(want, want), honest, blobs(want)) == ["wrong-structure"]


def test_an_output_belongs_where_the_inputs_are():
    want = described(4, 4)
    (finding,) = check_structure(made(want), returned(want), blobs(want), "cuda:0")
    assert finding.code == "correctness.wrong-device"


def test_an_output_must_lie_in_memory_of_its_own():
    want = described(4, 4)
    assert codes(made(want), returned(want, storage=60), blobs(want)) == ["wrong-structure"]
    for owner, code in {
        "input 0": "aliases-input",
        "the state's weight": "aliases-state",
        "an output of an earlier call": "aliases-earlier-output",
    }.items():
        assert codes(made(want), returned(want, overlaps=(owner,)), blobs(want)) == [code]
        aliased = made(want, aliased=True)
        assert codes(aliased, returned(want, overlaps=(owner,)), blobs(want)) == []


def test_state_needs_the_references_names_shapes_and_dtypes_and_may_have_more():
    want = [described(3, name="weight")]
    assert check_state(want, [*want, described(9, name="scratch")]) == []
    for wrong in ([], [described(4, name="weight")], [described(3, name="weight", dtype="int8")]):
        assert check_state(want, wrong)[0].code == "correctness.state-dict-differs"


NESTS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.just(torch.float16),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(NESTS)
@settings(max_examples=60)
def test_a_nesting_crosses_the_border_and_comes_back(value):
    nest, tensors = flatten(value, lambda leaf: f"a {type(leaf).__name__}")
    message = Returned(outputs=nest)
    again = decode(encode(message), Returned).outputs
    assert again == nest
    assert rebuild(again, tensors) == value


def test_tensors_keep_their_order_whatever_the_order_of_keys():
    x, y = torch.ones(1), torch.zeros(1)
    want, _ = flatten({"a": x, "b": [y]}, lambda _: "")
    got, _ = flatten({"b": (y,), "a": x}, lambda _: "")
    assert tensor_paths(want) == ("a", "b.0")
    assert difference(want, got) == ""
    assert aligned(want, got) == [1, 0]


@pytest.mark.parametrize(
    ("got", "says"),
    [
        ([1.0], "a list of 1 instead of a list of 2"),
        ({"a": 1.0, "b": 2.0}, "a dict of 2 instead of a list of 2"),
        ([1.0, [2.0]], "a list of 1 at `1` instead of the float 2.0"),
        ([1.0, object()], "an object at `1` instead of the float 2.0"),
        ([1.0, {1: 2.0}], "a dict with keys that are not text at `1` instead of the float 2.0"),
    ],
)
def test_a_difference_in_nesting_is_told_with_its_place(got, says):
    want, _ = flatten([1.0, 2.0], lambda _: "an object")
    found, _ = flatten(got, lambda _: "an object")
    assert difference(want, found) == says


def test_what_cannot_cross_is_never_rebuilt():
    with pytest.raises(ValueError, match="a thread"):
        rebuild(ForeignLeaf("a thread"), [])


def test_guards_notice_a_byte_on_either_side():
    tensor = torch.randn(5, 3).t()
    place = entry_of("", tensor)
    for at in (0, 4095, -1, -4096):
        buffer = torch.empty(place.bytes + 2 * 4096, dtype=torch.uint8)
        raise_guards(buffer)
        inside(buffer, place).copy_(tensor)
        assert guards_hold(buffer)
        assert same_bits(inside(buffer, place), tensor)
        buffer[at] += 1
        assert not guards_hold(buffer)


def test_bits_tell_zeros_apart_and_nans_together():
    zeros, negative = torch.zeros(2), -torch.zeros(2)
    assert not same_bits(zeros, negative)
    assert same_bits(torch.full((2,), math.nan), torch.full((2,), math.nan))
    assert same_bits(torch.ones(2, 3).t(), torch.ones(3, 2))
    assert not same_bits(torch.ones(2), torch.ones(2).double())
