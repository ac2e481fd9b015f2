"""The static profile says what the compiler made of a kernel."""

import pytest

from workbench.errors import WorkbenchError
from workbench.kernels.static import GROUPS, instruction_mix, static_profile
from workbench.kernels.target import target

SASS = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P3 LDG.E.U16 R8, desc[UR6][R10.64] ;
        /*0020*/                   LDG.E.128 R4, desc[UR6][R2.64] ;
        /*0030*/                   LDG.E.LTC128B R4, desc[UR6][R2.64] ;
        /*0040*/                   LDGSTS.E.BYPASS.128 [R3], desc[UR4][R4.64] ;
        /*0050*/                   LDGDEPBAR ;
        /*0060*/              @P0  STG.E.64 desc[UR6][R2.64], R4 ;
        /*0070*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*0080*/                   HMMA.1688.F32.TF32 R4, R8, R10, R4 ;
        /*0090*/                   HFMA2.MMA R9, -RZ, RZ, 0, -INF  ;
        /*00a0*/             @UP0 UTMALDG.2D [UR16], [UR6], desc[URZ] ;
        /*00b0*/                   LDL R4, [R1] ;
        /*00c0*/                   MUFU.EX2 R5, R5 ;
        /*00d0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*00e0*/                   NOP;
        /*00f0*/                   BRA `(.L_x_1);
"""


def test_every_instruction_is_in_its_group():
    assert instruction_mix(SASS) == {
        "other": 1,
        "LDG.16-": 1,
        "LDG.128": 1,
        "LDG.32": 1,
        "LDGSTS.128": 1,
        "LDGDEPBAR": 1,
        "STG.64": 1,
        "HGMMA": 1,
        "HMMA": 1,
        "HFMA2": 1,
        "UTMALDG": 1,
        "LDL": 1,
        "MUFU": 1,
        "BAR": 1,
        "BRA": 1,
        "total": 15,
    }


def test_asynchronous_copies_are_not_taken_for_loads():
    names = [name for name, _ in GROUPS]
    assert names.index("LDGSTS") < names.index("LDG.32")
    assert instruction_mix("        /*0040*/   LDGSTS.E [R3], desc[UR4][R4.64] ;")["LDGSTS"] == 1


def test_what_is_no_binary_is_refused():
    with pytest.raises(WorkbenchError):
        static_profile(
            b"not a cubin",
            target("sm90"),
            shared=0,
            threads=128,
            spill_store_bytes=0,
            spill_load_bytes=0,
        )
