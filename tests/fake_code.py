"""Generated code of two versions of one kernel, as compilers write it."""
# ruff: noqa: E501 -- compilers break no lines

from workbench.engine.generated import VersionCode
from workbench.kernels.records import KernelCode

TTGIR = """\
#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#loc = loc("candidate.py":10:1)
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @rms_kernel(%x_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x_ptr"(#loc))) {
    %row = tt.get_program_id x : i32 loc(#loc1)
    %cols = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32, #blocked> loc(#loc2)
    %x_3 = tt.addptr %x_ptr, %row : !tt.ptr<f32>, i32 loc(#loc2)
    %x_4 = tt.load %x_3 : tensor<1024x!tt.ptr<f32>, #blocked> loc(#loc3)
    tt.return loc(#loc4)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("candidate.py":11:9)
"""
PTX = """\
.version 9.4
.target sm_90a
.visible .entry rms_kernel(
{
\t.reg .b32 \t%r<12>;
\t.loc\t1 11 9                           // candidate.py:11:9
\tmov.u32 \t%r1, %ctaid.x;
\tshl.b32 \t%r2, %r1, 10;
$L__BB0_1:
\tld.global.v4.b32 \t{ %r3, %r4, %r5, %r6 }, [ %rd1 + 0 ];
\tadd.f32 \t%r7, %r3, %r4;
\t@%p1 bra \t$L__BB0_1;
\tret;
}
"""
SASS = """\
\t.section\t.text.rms_kernel,"ax",@progbits
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   S2R R0, SR_CTAID.X ;
.L_x_0:
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/                   FADD R4, R4, R5 ;
        /*0040*/               @P0 BRA `(.L_x_0) ;
        /*0050*/                   EXIT ;
"""


def fake_code(number: int, *, kept: bool = True) -> VersionCode:
    """Versions from 12 on load from global memory with a hint, and number everything anew."""
    if not kept:
        says = f"v{number} is from before generated code was kept"
        lacks = f"{says}; its gate used triton 3.6.0, ptxas 12.8.93"
        return VersionCode(number=number, lacks=lacks, again=True)
    texts = {"ttgir": TTGIR, "ptx": PTX, "sass": SASS}
    if number >= 12:
        hinted = "tt.load %x_5 evictionPolicy = evict_first"
        ttgir = TTGIR.replace("%x_4", "%x_6").replace("%x_3", "%x_5")
        ptx = PTX.replace("%r2", "%r9").replace("%r1,", "%r2,").replace("11 9 ", "14 9 ")
        texts = {
            "ttgir": ttgir.replace("tt.load %x_5", hinted),
            "ptx": ptx.replace("ld.global.v4", "ld.global.L1::evict_first.v4"),
            "sass": SASS.replace("LDG.E.128 R4", "LDG.E.EF.128 R4").replace("R0,", "R6,"),
        }
    name = f"{1 if number < 12 else 2:064x}"
    code = KernelCode(
        kernel="rms_kernel", code_sha256=name, target="sm90",
        toolchain={"triton": "3.9.0", "ptxas": "13.4.59"}, **texts,
    )  # fmt: skip
    return VersionCode(number=number, kernels=(code,))


def fake_code_again(number: int) -> VersionCode:
    """The same, compiled later by another triton."""
    code = fake_code(number)
    made = f"v{number} was compiled now with triton 3.9.0, ptxas 13.4.59"
    return VersionCode(
        number=number,
        kernels=code.kernels,
        made=f"{made}: whether its gate, with triton 3.6.0, ptxas 12.8.93, saw the same is not known",
    )
