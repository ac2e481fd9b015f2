"""Raw pages in the form in which Nsight Compute prints them, and a program that prints them."""

import csv
import io
import sys
from pathlib import Path

FIXED = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC"),
)
LONG = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
SHORT = "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio"
SELECTED = "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio"
NOT_SELECTED = "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio"
OF_PEAK = ".avg.pct_of_peak_sustained_elapsed"

SOFTMAX = {
    "gpu__time_duration.sum": ("usecond", "1,162.40"),
    f"sm__throughput{OF_PEAK}": ("%", "31.07"),
    f"gpu__dram_throughput{OF_PEAK}": ("%", "91.62"),
    f"lts__throughput{OF_PEAK}": ("%", "48.90"),
    "l1tex__throughput.avg.pct_of_peak_sustained_active": ("%", "40.11"),
    "dram__bytes_read.sum": ("Gbyte", "3.22"),
    "dram__bytes_write.sum": ("Mbyte", "1,604.73"),
    "dram__bytes.sum.per_second": ("Tbyte/second", "4.15"),
    "l1tex__t_sector_hit_rate.pct": ("%", "0"),
    "lts__t_sector_hit_rate.pct": ("%", "33.41"),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct": ("%", "100"),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio": ("byte/sector", "32"),
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": (
        "sector/request",
        "16",
    ),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "61.22"),
    "sm__maximum_warps_per_active_cycle_pct": ("%", "62.50"),
    "launch__occupancy_limit_registers": ("block", "5"),
    "launch__occupancy_limit_shared_mem": ("block", "32"),
    "launch__occupancy_limit_warps": ("block", "8"),
    "launch__occupancy_limit_blocks": ("block", "32"),
    "launch__shared_mem_per_block": ("Kbyte/block", "1.06"),
    "launch__registers_per_thread": ("register/thread", "48"),
    "launch__waves_per_multiprocessor": ("", "6.21"),
    LONG: ("inst", "21.40"),
    SHORT: ("inst", "1.10"),
    SELECTED: ("inst", "1"),
    NOT_SELECTED: ("inst", "1.50"),
    "smsp__sass_branch_targets_threads_uniform.sum": ("", "1,900"),
    "smsp__sass_branch_targets_threads_divergent.sum": ("", "100"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("%", "(!) n/a"),
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": ("", "30.40"),
    "nobody__knows_this.sum": ("inst", "7"),
}
"""Of a softmax over rows: bound by DRAM, with one metric that the GPU does not have."""

PROFILING = """==PROF== Connected to process 4711 (/usr/bin/python3.12)
==PROF== Profiling "softmax" - 0: 0%....50%....100% - 41 passes
==PROF== Disconnected from process 4711
"""
REFUSED = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU"
    " Performance Counters on the target device 0. For instructions on enabling permissions and to"
    " get more information see the web\n"
)
NOTHING = "==WARNING== No kernels were profiled.\n"


def page(*launches: tuple[str, dict[str, tuple[str, str]]], order=None) -> str:
    """A raw page: a header, its units, and a row a launch."""
    names = list(dict.fromkeys(name for _, metrics in launches for name in metrics))
    names = sorted(names) if order is None else order(names)
    units = {name: unit for _, metrics in launches for name, (unit, _) in metrics.items()}
    out = io.StringIO()
    rows = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    rows.writerow([*FIXED, *names])
    rows.writerow(["" for _ in FIXED] + [units[name] for name in names])
    for number, (kernel, metrics) in enumerate(launches):
        fixed = [str(number), "4711", "python3.12", "127.0.0.1", kernel, "1", "7"]
        fixed += ["(128, 1, 1)", "(4096, 1, 1)", "0", "9.0"]
        rows.writerow(fixed + [metrics.get(name, ("", ""))[1] for name in names])
    return out.getvalue()


def ncu(folder: Path, *, log: str = PROFILING, raw: str | None = None, body: str = "") -> Path:
    """A program that behaves like ncu: runs the program, writes a report, reads it back.

    `raw` is the page that the report gives; None writes no report. `body` is Python that runs
    first and may use `run(program)`, `log` and `argv`.
    """
    place = folder / "ncu"
    place.write_text(
        f"#!{sys.executable}\n"
        f"LOG, RAW = {log!r}, {raw!r}\n"
        """
import subprocess, sys
argv = sys.argv[1:]
if "--version" in argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880)")
    sys.exit(0)
if "--import" in argv:
    print(open(argv[argv.index("--import") + 1]).read(), end="")
    sys.exit(0)
log, report = argv[argv.index("--log-file") + 1], argv[argv.index("--export") + 1]
program = argv[argv.index("--log-file") + 2:]
def run():
    return subprocess.run(program).returncode
code = None
"""
        f"{body}\n"
        """
if code is None:
    code = run()
ended = f"==ERROR== The application returned an error code ({code}).\\n" if code else ""
open(log, "w").write(LOG + ended)
if RAW is not None and not code:
    open(report, "w").write(RAW)
sys.exit(code)
""",
        encoding="utf-8",
    )
    place.chmod(0o755)
    return place
