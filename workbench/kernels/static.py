"""Reads a compiled kernel's resources and SASS from the binary, with NVIDIA's tools."""

import hashlib
import re
import subprocess
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.kernels.occupancy import occupancy
from workbench.kernels.records import StaticProfile
from workbench.kernels.target import Target
from workbench.kernels.toolchain import tool

GROUPS: tuple[tuple[str, str], ...] = (
    # Asynchronous copies come first: LDGSTS and LDGDEPBAR begin like the plain loads below.
    ("LDGSTS.128", r"LDGSTS\b.*\.128"),
    ("LDGSTS", r"LDGSTS\b"),
    ("LDGDEPBAR", r"LDGDEPBAR"),
    ("UTMALDG", r"UTMALDG"),
    ("UTMASTG", r"UTM(ASTG|AREDG)"),
    ("UBLKCP", r"UBLK(CP|RED)"),
    ("LDG.256", r"LDG\b.*\.256"),
    ("LDG.128", r"LDG\b.*\.128"),
    ("LDG.64", r"LDG\b.*\.64"),
    ("LDG.16-", r"LDG\b.*\.[US](8|16)\b"),
    ("LDG.32", r"LDG\b"),
    ("STG.256", r"STG\b.*\.256"),
    ("STG.128", r"STG\b.*\.128"),
    ("STG.64", r"STG\b.*\.64"),
    ("STG.16-", r"STG\b.*\.[US](8|16)\b"),
    ("STG.32", r"STG\b"),
    ("LDL", r"LDL"),
    ("STL", r"STL"),
    ("LDSM", r"LDSM"),
    ("STSM", r"STSM"),
    ("LDS", r"LDS\b"),
    ("STS", r"STS\b"),
    ("HGMMA", r"[HIQB]GMMA"),
    ("UTCMMA", r"UTC\w*MMA"),
    ("LDTM", r"LDTM|STTM|UTCCP"),
    ("HMMA", r"[HIDQO]MMA"),
    ("FFMA", r"FFMA"),
    ("FADD/FMUL", r"F(ADD|MUL)2?\b"),
    ("HFMA2", r"H(FMA2|ADD2|MUL2)"),
    ("DFMA", r"D(FMA|ADD|MUL)"),
    ("MUFU", r"MUFU"),
    ("F2F", r"F2F|F2I|I2F|FRND"),
    ("BAR", r"BAR\b"),
    ("SYNCS", r"SYNCS"),
    ("WARPSYNC", r"WARPSYNC"),
    ("SHFL", r"SHFL|REDUX"),
    ("RED/ATOM", r"RED[GS]?\b|ATOM"),
    ("BRA", r"BRA|BRX|JMP"),
    ("CALL", r"CALL"),
    ("IMAD", r"IMAD"),
)
"""Groups of SASS opcodes; the first match wins, and anything else counts as `other`."""

_GROUPS = tuple((name, re.compile(pattern)) for name, pattern in GROUPS)
_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)", re.MULTILINE
)
_USAGE = re.compile(r"\b(REG|STACK)\s*:\s*(\d+)")
_SECONDS = 60
"""Deadline of one of NVIDIA's tools, which takes some 0.1 s (ours)."""


def static_profile(
    cubin: bytes,
    target: Target,
    *,
    shared: int,
    threads: int,
    spill_store_bytes: int,
    spill_load_bytes: int,
    disassembled: bool = True,
) -> StaticProfile:
    """The profile of one cubin.

    Registers and stack are read from the binary, the SASS mix from its disassembly; where that is
    not asked for, the mix is empty and the code has no bytes: it takes as long as compiling a
    small kernel, whatever is in the binary. `threads` is per program. `shared` is
    the bytes that triton requests at launch: it declares none statically, and what the tools report
    is the system's reserve. Spill bytes are per thread and must be given
    too, because only the log of the ptxas run that made the binary has them. Raises WorkbenchError
    when NVIDIA's tools cannot read the binary.
    """
    usage, mix = _usage(cubin), _mix(cubin) if disassembled else {}
    fit = occupancy(target, registers=usage["REG"], shared=shared, threads=threads)
    return StaticProfile(
        registers=usage["REG"],
        spill_store_bytes=spill_store_bytes,
        spill_load_bytes=spill_load_bytes,
        stack_bytes=usage.get("STACK", 0),
        shared_bytes=shared,
        threads=threads,
        programs_per_sm=fit.programs_per_sm,
        occupancy=fit.occupancy,
        limiter=fit.limiter,
        code_bytes=mix.get("total", 0) * 16,
        mix=mix,
    )


def registers_and_spills(cubin: bytes) -> tuple[int, int]:
    """What the driver says of a loaded kernel: registers, and local memory in words, per thread.

    Raises WorkbenchError when NVIDIA's tools cannot read the binary.
    """
    usage = _usage(cubin)
    return usage["REG"], usage.get("STACK", 0) // 4


def instruction_mix(sass: str) -> dict[str, int]:
    """Number of instructions by group of `GROUPS`, and `total`; padding NOPs are left out."""
    counts = Counter(_INSTRUCTION.findall(sass))
    counts.pop("NOP", None)
    mix: Counter[str] = Counter()
    for opcode, count in counts.items():
        group = next((name for name, pattern in _GROUPS if pattern.match(opcode)), "other")
        mix[group] += count
    return {**mix, "total": counts.total()}


@lru_cache(maxsize=8)
def sass(cubin: bytes) -> str:
    """Disassembly as `nvdisasm` prints it, code only."""
    # Without dataflow analysis, which only names branch targets and takes a quarter of the time.
    return _ask("nvdisasm", ("-c", "-ndf"), cubin)


_usages: dict[str, dict[str, int]] = {}
"""Resource usage, by the binary's hash."""
_mixes: dict[str, dict[str, int]] = {}
"""Instruction mix, by the binary's hash."""


def _usage(cubin: bytes) -> dict[str, int]:
    digest = hashlib.sha256(cubin).hexdigest()
    if digest not in _usages:
        said = _ask("cuobjdump", ("-res-usage",), cubin)
        usage = {name: int(value) for name, value in _USAGE.findall(said)}
        if "REG" not in usage:
            raise _unread("cuobjdump", "it does not say how many registers the kernel uses")
        _usages[digest] = usage
    return _usages[digest]


def _mix(cubin: bytes) -> dict[str, int]:
    digest = hashlib.sha256(cubin).hexdigest()
    if digest not in _mixes:
        _mixes[digest] = instruction_mix(sass(cubin))
    return _mixes[digest]


def _ask(name: str, options: tuple[str, ...], cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [_path(name), *options, file.name]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as fault:
            raise _unread(name, str(fault)) from fault
    if ran.returncode != 0:
        raise _unread(name, ran.stderr.strip()[:300])
    return ran.stdout


def _unread(name: str, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"{name} cannot read the compiled kernel: {why}",
        where=_path(name),
        todo="run `workbench doctor`; if the program is broken, reinstall triton",
    )


@lru_cache
def _path(name: str) -> str:
    path: Path = tool(name)
    return str(path)
