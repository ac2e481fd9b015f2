"""Which GPU a name means, where CUDA_VISIBLE_DEVICES hides and reorders them."""

import pytest
from msgspec import structs

from workbench.cli import doctor
from workbench.cli.doctor_gpu import standing, trouble
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
    with pytest.raises(WorkbenchError, match="sm80 does not match"):
        devices.choose_place("cuda:0", "sm80")


def test_a_form_offers_no_gpu_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "DRIVER_FILES", tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert devices.offered_devices() == ("auto", "cpu")
    (tmp_path / "nvidia0").touch()
    assert devices.offered_devices() == ("auto", "cpu", "cuda:0")
    (tmp_path / "nvidia1").touch()
    assert devices.offered_devices() == ("auto", "cpu", "cuda:0", "cuda:1", "cuda:all")


def test_a_uuid_names_a_gpu_wherever_it_stands(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", lambda: [THREE[2], THREE[1]])
    place = devices.choose_place("GPU-11", "")
    assert (place.index, place.device) == (1, "NVIDIA H200 number 1")
    with pytest.raises(WorkbenchError, match="names none"):
        devices.choose_place("GPU-00", "")
    with pytest.raises(WorkbenchError, match="names 2"):
        devices.choose_place("GPU-", "")


def test_a_gpu_in_slices_is_passed_over_and_never_timed_on(monkeypatch):
    split = structs.replace(THREE[0], mig=True)
    monkeypatch.setattr(devices, "list_gpus", lambda: [split, THREE[1]])
    assert devices.choose_place("auto", "").index == 1
    with pytest.raises(WorkbenchError, match="MIG"):
        devices.choose_place("cuda:0", "")
    monkeypatch.setattr(devices, "list_gpus", lambda: [split])
    with pytest.raises(WorkbenchError, match="MIG"):
        devices.choose_place("auto", "")


def test_an_environment_that_names_no_whole_gpu_is_no_machine_without_one(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", list)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1234")
    with pytest.raises(WorkbenchError, match="MIG-1234"):
        devices.choose_place("auto", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices.choose_place("auto", "").index is None


def test_a_busy_gpu_is_named_with_what_runs_there():
    busy = structs.replace(THREE[1], busy=("python3 (4711)", "process 9"), throttle_reasons=0x24)
    assert "python3 (4711), process 9" in standing(busy)
    assert "held down by the power cap, temperature (software)" in standing(busy)
    assert "alone" in trouble(busy)
    assert trouble(THREE[0]) == ""
    assert "errors" in trouble(structs.replace(THREE[0], ecc_errors=3))
    assert "unknown" in standing(structs.replace(THREE[0], processes=None))


ALIKE = [structs.replace(one, name="NVIDIA H200") for one in THREE]


def test_several_gpus_are_named_or_all_taken(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", lambda: ALIKE)

    def indices(word: str) -> list[int | None]:
        return [place.index for place in devices.choose_places(word, "")]

    assert indices("cuda:2, cuda:0") == [2, 0]
    assert indices("GPU-11,cuda:2") == [1, 2]
    assert indices("cuda:all") == [0, 1, 2]
    assert indices("cuda:1") == [1]
    assert indices("cpu") == [None]
    monkeypatch.setattr(
        devices, "list_gpus", lambda: [ALIKE[0], structs.replace(ALIKE[1], mig=True), ALIKE[2]]
    )
    assert indices("cuda:all") == [0, 2], "a split one is left out"


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("cuda:0,cuda:0", "twice"),
        ("cuda:0,auto", "'auto' is not one of several GPUs"),
        ("cuda:0,", "not one of several GPUs"),
        ("cuda:0,cuda:7", "cuda:7 is not on this machine"),
        ("cuda:0,cuda:1", "different models"),
    ],
)
def test_several_that_cannot_work_together_are_refused(monkeypatch, word, says):
    other = structs.replace(ALIKE[1], name="NVIDIA H100")
    monkeypatch.setattr(devices, "list_gpus", lambda: [ALIKE[0], other])
    with pytest.raises(WorkbenchError, match=says):
        devices.choose_places(word, "")


def test_commands_that_use_one_gpu_say_so(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", lambda: ALIKE)
    for word in ("cuda:all", "cuda:0,cuda:1"):
        with pytest.raises(WorkbenchError, match="one GPU is asked for"):
            devices.choose_place(word, "")


def test_doctor_says_which_gpus_work_together(monkeypatch):
    for module in (devices, gpus):
        monkeypatch.setattr(module, "list_gpus", lambda: ALIKE)
    assert doctor._gpu()[-1].found.startswith("run --device cuda:all uses cuda:0,cuda:1,cuda:2;")
    for module in (devices, gpus):
        monkeypatch.setattr(module, "list_gpus", lambda: THREE)
    assert "different models" in doctor._gpu()[-1].found
    for module in (devices, gpus):
        monkeypatch.setattr(module, "list_gpus", lambda: ALIKE[:1])
    assert doctor._gpu()[-1].part == "gpu cuda:0"
