"""Which GPU a name means, where CUDA_VISIBLE_DEVICES hides and reorders them."""

import pytest

from workbench.engine import devices
from workbench.errors import WorkbenchError
from workbench.measure import gpus
from workbench.measure.gpus import Gpu, idlest


def gpu(index: int, *, processes: int = 0) -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-{index}{index}aa",
        name=f"NVIDIA H200 number {index}",
        cc=90,
        memory_bytes=1 << 37,
        driver="580",
        utilization=0,
        processes=processes,
    )


THREE = [gpu(0), gpu(1, processes=2), gpu(2)]


@pytest.mark.parametrize(
    ("variable", "seen"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("GPU-11", [1]),
        ("1,7,0", [1]),
        ("1, 2", [1, 2]),
    ],
)
def test_visible_gpus_are_counted_as_cuda_counts_them(monkeypatch, variable, seen):
    if variable is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert [g.index for g in gpus._visible(THREE)] == seen


def test_cuda_n_is_the_nth_visible_one_and_auto_the_idlest(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", lambda: [THREE[1], THREE[2]])
    assert devices.choose_place("cuda:0", "").device == "NVIDIA H200 number 1"
    place = devices.choose_place("auto", "")
    assert (place.device, place.index, place.target) == ("NVIDIA H200 number 2", 1, "sm90")
    assert idlest(THREE) is THREE[0]


def test_what_is_not_there_is_refused_with_what_is(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", lambda: [THREE[0]])
    with pytest.raises(WorkbenchError, match="cuda:3 is not on this machine") as told:
        devices.choose_place("cuda:3", "")
    assert "cuda:0 NVIDIA H200 number 0" in told.value.todo
    with pytest.raises(WorkbenchError, match="sm80 is not what"):
        devices.choose_place("cuda:0", "sm80")
