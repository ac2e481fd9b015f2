"""Bytes that do not add up are refused before memory is spent on them; tensors survive the way."""

import ctypes
import platform
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import WorkbenchError
from workbench.isolation.flavors import visible_device
from workbench.isolation.grants import carve
from workbench.isolation.landlock import RUN, Right
from workbench.isolation.outcome import JobFailed
from workbench.isolation.records import Flavor
from workbench.isolation.seccomp import Program
from workbench.isolation.syscalls import ALSO, MACHINES, NUMBERS
from workbench.isolation.wire import (
    HEAD_CAP,
    HEADER,
    ITEM_BYTES,
    MAGIC,
    NONCE_BYTES,
    Answer,
    Blob,
    WireFault,
    cut,
    decode_from_worker,
    frame,
    heads,
    read_header,
)
from workbench.isolation.workshop import Workshop

NONCE = bytes(range(NONCE_BYTES))

shapes = st.lists(st.integers(0, 5), max_size=4)


@given(st.sampled_from(sorted(ITEM_BYTES)), shapes, st.data())
def test_what_was_framed_is_what_is_cut(dtype, shape, data):
    strides = data.draw(st.lists(st.integers(0, 7), min_size=len(shape), max_size=len(shape)))
    blob = Blob(dtype=dtype, shape=tuple(shape), strides=tuple(strides), data=b"")
    blob.data = bytes(i % 251 for i in range(blob.span_bytes()))
    whole = b"".join(frame(NONCE, Answer(body={"n": 1}, blobs=heads([blob, blob])), [blob, blob]))
    head, size = read_header(whole[: HEADER.size], NONCE, data_cap=1 << 20)
    answer = decode_from_worker(whole[HEADER.size : HEADER.size + head])
    assert isinstance(answer, Answer)
    body = memoryview(whole)[HEADER.size + head :]
    assert body.nbytes == size
    assert [(b.dtype, b.shape, b.strides, bytes(b.data)) for b in cut(answer.blobs, body)] == [
        (dtype, tuple(shape), tuple(strides), blob.data)
    ] * 2


@given(st.binary(min_size=HEADER.size, max_size=HEADER.size))
def test_no_foreign_header_is_taken_for_ours(raw):
    with pytest.raises(WireFault):
        read_header(raw, NONCE, data_cap=1 << 20)


def test_a_header_is_refused_for_another_turn_and_for_more_bytes_than_fit():
    """A hostile worker knows the mark and what it was once asked, not the nonce of this turn."""
    lawful = HEADER.pack(MAGIC, NONCE, HEAD_CAP, 1 << 20)
    assert read_header(lawful, NONCE, data_cap=1 << 20) == (HEAD_CAP, 1 << 20)
    for bad in (
        HEADER.pack(MAGIC, bytes(NONCE_BYTES), 10, 10),
        HEADER.pack(b"WB2\n", NONCE, 10, 10),
        HEADER.pack(MAGIC, NONCE, HEAD_CAP + 1, 10),
        HEADER.pack(MAGIC, NONCE, 10, (1 << 20) + 1),
    ):
        with pytest.raises(WireFault):
            read_header(bad, NONCE, data_cap=1 << 20)


@given(st.binary(max_size=200))
def test_no_foreign_head_escapes_as_anything_but_a_wire_fault(raw):
    try:
        decode_from_worker(raw)
    except WireFault:
        return
    assert msgspec.msgpack.decode(raw)["type"] in {"hello", "answer", "failure"}


def test_deep_nesting_is_a_wire_fault():
    head = msgspec.msgpack.encode({"type": "answer", "blobs": [], "body": {"a": 0}})
    with pytest.raises(WireFault):
        decode_from_worker(head[:-1] + b"\x91" * 100_000 + b"\x00")


@pytest.mark.parametrize(
    ("dtype", "shape", "strides", "size"),
    [
        ("float33", (1,), (1,), 4),
        ("float32", (2,), (1,), 4),
        ("float32", (2,), (1, 1), 8),
        ("float32", (-1,), (1,), 4),
        ("float32", (2,), (-1,), 8),
        ("float32", (1 << 60, 1 << 60), (0, 0), 0),
        ("float32", (1,) * 65, (1,) * 65, 4),
    ],
)
def test_unlawful_descriptions_are_refused(dtype, shape, strides, size):
    with pytest.raises(WireFault):
        heads([Blob(dtype=dtype, shape=shape, strides=strides, data=bytes(size))])


def test_an_expanded_tensor_stays_small():
    blob = Blob(dtype="float32", shape=(1 << 40,), strides=(0,), data=bytes(4))
    assert blob.span_bytes() == 4


def header_numbers(text):
    found = re.findall(r"__NR(?:3264)?_(\w+)\s+(\d+)$", text, re.MULTILINE)
    return {name: int(value) for name, value in found}


@pytest.mark.parametrize(
    ("machine", "path"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_call_numbers_are_the_kernels(machine, path):
    if not Path(path).exists():
        pytest.skip(f"{path} is not installed")
    told = header_numbers(Path(path).read_text())
    ours = {name: both[MACHINES[machine]] for name, both in (NUMBERS | ALSO).items()}
    assert {n: v for n, v in ours.items() if v is not None and told.get(n, v) != v} == {}
    assert {n for n, v in ours.items() if v is None and n in told} == set()


def test_hidden_folders_are_carved_out_and_their_neighbours_kept(tmp_path):
    for name in ("lib/a", "lib/suite", "lib/b/suite"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lib" / "link").symlink_to(tmp_path / "lib" / "suite")
    root = tmp_path / "lib"
    granted = dict(carve(root, [root / "suite", root / "b" / "suite"]))
    assert granted == {root: Right.READ_DIR, root / "a": RUN, root / "b": Right.READ_DIR}
    assert list(carve(root / "suite", [root / "suite"])) == []


@pytest.mark.parametrize(
    ("index", "environment", "expected"),
    [
        (1, {}, "1"),
        (1, {"CUDA_VISIBLE_DEVICES": "3, 5"}, "5"),
        (0, {"CUDA_VISIBLE_DEVICES": "GPU-8f2a"}, "GPU-8f2a"),
    ],
)
def test_a_device_index_counts_among_the_visible(index, environment, expected):
    assert visible_device(index, environment) == expected


@pytest.mark.parametrize("seen", ["", "0"])
def test_a_device_that_is_not_visible_is_an_error(seen):
    with pytest.raises(WorkbenchError, match="no device 1"):
        visible_device(1, {"CUDA_VISIBLE_DEVICES": seen})


def test_a_cuda_worker_needs_a_device():
    with Workshop() as shop, pytest.raises(WorkbenchError, match="no device was chosen"):
        shop.worker(Flavor.CUDA)


def test_a_module_that_does_not_import_is_told_from_the_log():
    with Workshop(preload=["no_such_module"], wrap=False) as shop:
        with pytest.raises(WorkbenchError) as met:
            shop.worker(Flavor.BARE)
        assert "no_such_module" in met.value.where


def test_the_judge_never_imports_torch():
    code = "import sys, workbench.isolation.workshop; print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


@pytest.fixture(scope="module")
def torch_worker():
    with (
        Workshop(preload=["isolation_jobs"], wrap=False) as shop,
        shop.worker(Flavor.REFERENCE) as worker,
    ):
        yield worker


def floats(*values):
    return (ctypes.c_float * len(values))(*values)


def test_tensors_cross_and_come_back(torch_worker):
    blob = Blob(dtype="float32", shape=(2, 2), strides=(2, 1), data=bytes(floats(1, 2, 3, 4)))
    (total,) = torch_worker.call("isolation_jobs:torch_sum", {}, [blob, blob]).blobs
    assert bytes(total.data) == bytes(floats(2, 4, 6, 8))


def test_strides_are_kept_in_both_directions(torch_worker):
    blobs = [
        Blob(dtype="float32", shape=(2, 3), strides=(3, 1), data=bytes(24)),
        Blob(dtype="float32", shape=(4, 2), strides=(0, 3), data=bytes(16)),
        Blob(dtype="float32", shape=(0, 2), strides=(2, 1), data=b""),
    ]
    reply = torch_worker.call("isolation_jobs:torch_turn", {}, blobs)
    assert reply.body["strides"] == [[3, 1], [0, 3], [2, 1]]
    assert [(b.shape, b.strides) for b in reply.blobs] == [
        ((3, 2), (1, 3)),
        ((2, 4), (3, 0)),
        ((2, 0), (1, 2)),
    ]


def test_every_dtype_keeps_its_bits(torch_worker):
    names = [n for n in ITEM_BYTES if not n.startswith("float8")]
    reply = torch_worker.call("isolation_jobs:torch_dtypes", {"dtypes": names})
    assert reply.body == dict.fromkeys(names, True)


def test_eight_bit_floats_keep_their_bits(torch_worker):
    names = ["float8_e4m3fn", "float8_e5m2"]
    reply = torch_worker.call("isolation_jobs:torch_dtypes", {"dtypes": names})
    assert reply.body == dict.fromkeys(names, True)


def test_an_unlawful_blob_fails_in_the_caller_before_anything_is_sent(torch_worker):
    with pytest.raises(WireFault):
        torch_worker.call(
            "isolation_jobs:echo", {}, [Blob(dtype="f", shape=(), strides=(), data=b"")]
        )
    assert torch_worker.call("isolation_jobs:echo", {"a": 1}).body == {"a": 1}


def test_an_unknown_job_is_a_failure_of_the_call(torch_worker):
    with pytest.raises(JobFailed, match="no_such"):
        torch_worker.call("no_such.module:job", {})


def test_a_filter_on_an_unknown_machine_is_an_open_error(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(OSError, match="riscv64"):
        Program()
