"""The generated code of a kernel: named by its instructions, kept as text without our folders."""

import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch

from workbench.kernels.generated import kept, machine_code_sha256
from workbench.kernels.record import recording
from workbench.kernels.target import target

KERNELS = Path(__file__).parent / "recorded" / "kernels.py"


def recorded(file: Path, warps: int = 4):
    spec = spec_from_file_location("generated_kernels", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    with recording(target("sm90"), source=str(file), host="meta") as recorder:
        module.run_copy(torch.empty(4096, device="meta"), num_warps=warps)
    return recorder


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The same kernels in another folder, and no compiler cache that knows them."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "one"))
    return Path(shutil.copy(KERNELS, tmp_path / "kernels.py"))


def test_machine_code_has_one_name_in_every_folder(elsewhere, monkeypatch):
    (there,) = recorded(elsewhere).launches
    monkeypatch.setenv("TRITON_CACHE_DIR", str(elsewhere.parent / "other"))
    (here,) = recorded(KERNELS).launches
    assert here.cubin_sha256 != there.cubin_sha256
    assert here.code_sha256 == there.code_sha256
    (other,) = recorded(KERNELS, warps=8).launches
    assert other.code_sha256 != here.code_sha256


def test_every_launched_kernel_is_kept_as_ttgir_ptx_and_sass(elsewhere):
    recorder = recorded(elsewhere)
    (code,) = recorder.code.values()
    assert (code.kernel, code.target) == ("copy", "sm90")
    assert code.code_sha256 == recorder.launches[0].code_sha256
    assert "tt.load" in code.ttgir
    assert "ld.global" in code.ptx
    assert "LDG.E.128" in code.sass
    assert set(code.toolchain) == {"torch", "triton", "ptxas"}


def test_folders_and_debug_sections_are_not_kept(elsewhere):
    (code,) = recorded(elsewhere).code.values()
    for text in (code.ttgir, code.ptx, code.sass):
        assert str(elsewhere.parent) not in text
    assert 'loc("kernels.py"' in code.ttgir
    assert '.file\t1 "kernels.py"' in code.ptx
    assert ".debug_info" not in code.ptx


def test_a_text_that_is_too_long_is_not_kept_by_half():
    assert kept("x" * (2 << 20)) != ""
    assert kept("x" * ((2 << 20) + 1)) == ""


@pytest.mark.parametrize(
    "damaged",
    [b"", b"\x7fELF\x02", b"\x7fELF\x02" + b"\xff" * 80],
    ids=["empty", "cut off", "lying"],
)
def test_what_is_no_binary_is_refused(damaged):
    with pytest.raises(ValueError, match="ELF"):
        machine_code_sha256(damaged)
