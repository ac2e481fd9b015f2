"""Recorded launches are what a GPU would have been given, compiled for the target."""

import importlib.util
import linecache
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from msgspec import structs
from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver

from workbench.kernels import static
from workbench.kernels.facts_launch import grid_facts
from workbench.kernels.faults import CompileFailed, TooLarge
from workbench.kernels.record import recording
from workbench.kernels.records import DescriptorArgument, ScalarArgument, TensorArgument
from workbench.kernels.target import target

FILE = Path(__file__).parent / "recorded" / "kernels.py"
SM90 = target("sm90")


def load():
    """The kernels anew: triton has compiled none of these functions in this process."""
    spec = importlib.util.spec_from_file_location("recorded_kernels", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kernels():
    return load()


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """One compiler cache for this file: the second compilation of a kernel is a warm one."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("triton")
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        yield folder


def meta(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device="meta")


def record(call, target=SM90, host="meta"):
    with recording(target, source=str(FILE), host=host) as recorder:
        call()
    return recorder.launches


def line_of(text):
    lines = linecache.getlines(str(FILE))
    return next(n for n, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("grid", "seen", "programs"),
    [
        ((np.int64(5),), (5, 1, 1), 5),
        ((-4,), (-4, 1, 1), 0),
        ((0, 3), (0, 3, 1), 0),
    ],
)
def test_a_grid_is_told_in_plain_numbers_and_of_nothing_no_program_runs(
    kernels, grid, seen, programs
):
    x = meta(5000)
    (launch,) = record(lambda: kernels.copy[grid](x, x, 5000, 0.5, BLOCK=1024))
    assert (launch.grid, launch.programs) == (seen, programs)
    assert msgspec.json.encode(launch)
    assert {name: value for name, value, _ in grid_facts(launch, 1, SM90)}


def test_a_grid_that_is_divided_without_rounding_is_told_with_its_line(kernels):
    x = meta(5000)
    with pytest.raises(CompileFailed, match=r"its grid has 5\.0 along x, which is no whole number"):
        record(lambda: kernels.copy[(5000 / 1000,)](x, x, 5000, 0.5, BLOCK=1024))


def test_a_kernel_that_triton_refuses_by_its_name_is_told_with_tritons_words(tmp_path):
    file = tmp_path / "named.py"
    text = FILE.read_text().replace("copy", "größer")
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("named_kernels", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(CompileFailed, match="invalid function identifier: größer"):
        record(lambda: module.run_größer(meta(5000)))


def test_a_launch_has_its_grid_arguments_constants_and_line(kernels):
    (launch,) = record(lambda: kernels.run_copy(meta(5000), num_warps=8))
    assert (launch.kernel, launch.grid, launch.programs) == ("copy", (5, 1, 1), 5)
    x = launch.arguments["x"]
    assert x == TensorArgument(
        dtype="float32", shape=(5000,), strides=(1,), alignment=256, bytes=20000
    )
    assert launch.arguments["n"] == ScalarArgument(value=5000)
    assert launch.arguments["scale"] == ScalarArgument(value=0.5)
    assert launch.constexprs == {"BLOCK": 1024}
    assert launch.num_warps == 8
    assert launch.static.threads == 256
    assert launch.line == line_of("# the launch")


def test_tensors_on_the_cpu_record_the_same_launch(kernels):
    (one,) = record(lambda: kernels.run_copy(meta(4096)))
    (other,) = record(lambda: kernels.run_copy(torch.empty(4096)), host="cpu")
    assert one.cubin_sha256 == other.cubin_sha256
    assert one.arguments["n"] == other.arguments["n"]


def test_nothing_is_run(kernels):
    x = torch.ones(64)
    out = {}
    record(lambda: out.update(y=kernels.run_copy(x)), host="cpu")
    assert torch.equal(x, torch.ones(64))
    assert out["y"].shape == (64,)


def test_alignment_decides_the_vector_width(kernels):
    (whole,) = record(lambda: kernels.run_copy(meta(4096)))
    (shifted,) = record(lambda: kernels.run_copy(meta(4097)[1:]))
    assert shifted.arguments["x"].alignment == 4
    assert whole.static.mix["LDG.128"] == 2
    assert shifted.static.mix["LDG.32"] == 8
    assert "LDG.128" not in shifted.static.mix


def test_only_who_asks_for_instructions_pays_for_a_disassembly():
    def disassembled():
        return static.sass.cache_info().misses

    before, kernels = disassembled(), load()
    with recording(SM90, source=str(FILE), host="meta", disassembled=False) as recorder:
        kernels.run_copy(meta(4096), num_warps=2)
    (bare,) = recorder.launches
    assert disassembled() == before
    assert (bare.static.mix, bare.static.code_bytes, recorder.code) == ({}, 0, {})
    (whole,) = record(lambda: kernels.run_copy(meta(4096), num_warps=2))
    assert disassembled() == before + 1
    assert whole.static.code_bytes > 0
    same = structs.replace(whole.static, mix={}, code_bytes=0)
    assert (bare.static, bare.code_sha256) == (same, whole.code_sha256)


def test_each_target_gets_its_own_binary(kernels):
    by_target = {
        name: record(lambda: kernels.run_copy(meta(4096)), target(name))[0]
        for name in ("sm80", "sm90", "sm100", "sm120")
    }
    assert len({launch.cubin_sha256 for launch in by_target.values()}) == 4
    again = record(lambda: kernels.run_copy(meta(4096)))[0]
    assert again.cubin_sha256 == by_target["sm90"].cubin_sha256


def spilling(kernels, x):
    out = torch.empty_like(x)
    kernels.row_softmax[(4,)](x, out, 32768, BLOCK=32768, num_warps=4, maxnreg=64)


def test_spills_are_told_cold_and_warm(cache):
    seen, binaries = [], []
    for _ in range(2):
        kernels = load()
        x = meta(4, 32768)
        seen += record(lambda k=kernels, x=x: spilling(k, x))
        binaries.append(sorted(cache.rglob("*.cubin")))
    cold, warm = seen
    assert binaries[0] == binaries[1]
    assert cold.static.spill_store_bytes > 0
    assert cold.static.spill_load_bytes > 0
    assert cold.static.registers <= 64
    assert cold.static == warm.static


def test_too_much_shared_memory_is_told_with_its_line(kernels):
    x = meta(256, 256)
    with pytest.raises(TooLarge) as fault:
        record(lambda: kernels.large[(1,)](x, torch.empty_like(x), 256, num_warps=8))
    found = fault.value
    assert (found.kernel, found.resource, found.limit) == ("large", "shared memory", 227 * 1024)
    assert found.required > found.limit


def test_too_few_registers_for_an_instruction_are_told_with_their_number(kernels):
    x = meta(256, 256)
    with pytest.raises(TooLarge) as fault:
        record(lambda: kernels.large[(1,)](x, torch.empty_like(x), 256, num_warps=32))
    found = fault.value
    assert (found.resource, found.limit) == ("registers per thread", 64)
    assert found.required > 64


def test_an_error_in_the_language_names_the_candidates_line(kernels):
    with pytest.raises(CompileFailed) as fault:
        record(lambda: kernels.odd[(1,)](meta(64), meta(64), 64))
    assert fault.value.line == line_of("tl.arange(0, 100)")
    assert "power of 2" in fault.value.what
    assert len(fault.value.what) < 500


def test_an_error_in_a_helper_names_the_helpers_line(kernels):
    with pytest.raises(CompileFailed) as fault:
        record(lambda: kernels.broken[(1,)](meta(64), meta(64), 64))
    assert fault.value.kernel == "broken"
    assert fault.value.line == line_of("return tl.dot(a, b)")


def test_what_host_code_raises_passes_unchanged():
    def call():
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        record(call)


def test_an_autotuner_records_the_first_configuration_that_fits(kernels):
    x = meta(256, 256)
    (launch,) = record(lambda: kernels.tuned[(1,)](x, torch.empty_like(x)))
    assert launch.constexprs == {"N": 32}
    assert launch.config == 1
    assert [text.split(",")[0] for text in launch.configs] == ["N: 256", "N: 32"]


def test_heuristics_descriptors_and_tuples_are_recorded(kernels):
    x = meta(64, 64)
    (guessed,) = record(lambda: kernels.guessed[(1,)](meta(100), meta(100), 100))
    assert guessed.constexprs == {"BLOCK": 128}
    (described,) = record(lambda: kernels.run_described(x))
    assert isinstance(described.arguments["x"], DescriptorArgument)
    assert described.arguments["x"].block == (16, 32)
    assert described.static.mix["UTMALDG"] >= 1
    (paired,) = record(lambda: kernels.paired[(1,)]((meta(64), 3.0), meta(64), 64))
    assert paired.arguments["xs[0]"].bytes == 256
    assert paired.arguments["xs[1]"] == ScalarArgument(value=3.0)


def test_a_kernel_that_is_compiled_first_tells_the_registers_of_its_launch(kernels):
    """Triton's softmax tutorial makes its grid of them."""
    x, told = meta(64, 1000), {}

    def call():
        args = (x, meta(64, 1000), 1000, 1024)
        compiled = kernels.row_softmax.warmup(*args, num_warps=8, grid=(1,))
        compiled._init_handles()
        told.update(registers=compiled.n_regs, spills=compiled.n_spills)
        compiled[(64, 1, 1)](*args)

    with recording(SM90, source=str(FILE), host="meta") as recorder:
        call()
    (launch,), (build,) = recorder.launches, recorder.builds
    assert launch.grid == (64, 1, 1)
    assert launch.num_warps == 8
    assert (build.registers, build.options) == (launch.static.registers, {"num_warps": "8"})
    assert build.metadata["shared"] == launch.static.shared_bytes
    assert told["registers"] == launch.static.registers > 0
    assert told["spills"] == launch.static.stack_bytes // 4


def test_host_code_sees_the_target_while_it_records():
    seen = {}

    def call():
        properties = torch.cuda.get_device_properties("cuda")
        x = torch.empty(4, device="cuda")
        with torch.cuda.device(x.device):
            seen.update(
                sms=properties.multi_processor_count,
                capability=torch.cuda.get_device_capability(),
                available=torch.cuda.is_available(),
                here=(x.is_cuda, x.device.type, x.cuda().is_cuda, x.to("cuda:0").is_cuda),
                triton=driver.active.get_current_target().arch,
            )

    record(call, target("sm100"))
    assert seen == {
        "sms": 148,
        "capability": (10, 0),
        "available": True,
        "here": (True, "cuda", True, True),
        "triton": 100,
    }


def test_everything_is_as_before_afterwards(kernels):
    before = (
        CUDABackend.make_cubin,
        Autotuner.run,
        torch.cuda.is_available,
        torch.cuda.get_device_properties,
        driver._active,
        knobs.compilation.listener,
        dict(os.environ),
        knobs.nvidia.dump_ptxas_log,
        knobs.cache.dir,
    )
    record(lambda: kernels.run_copy(meta(64)))
    with pytest.raises(CompileFailed):
        record(lambda: kernels.odd[(1,)](meta(64), meta(64), 64))
    after = (
        CUDABackend.make_cubin,
        Autotuner.run,
        torch.cuda.is_available,
        torch.cuda.get_device_properties,
        driver._active,
        knobs.compilation.listener,
        dict(os.environ),
        knobs.nvidia.dump_ptxas_log,
        knobs.cache.dir,
    )
    assert after == before
    assert not torch.empty(1).is_cuda


def test_the_compilers_chatter_is_not_let_through(capfd):
    record(lambda: load().run_copy(meta(64, 64)))
    assert capfd.readouterr().out == ""
