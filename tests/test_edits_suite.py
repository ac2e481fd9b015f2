"""Every edit on real kernels: still right in the interpreter, and compiled for sm_90."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from kernel_texts import OWN, SEEDS

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source

EVEN = {
    "batched_matmul": {"M": 64, "N": 96, "K": 64},
    "conv1d": {"FRAMES": 256},
    "gelu": {"ROWS": 8, "COLS": 256},
    "gemm": {"M": 128, "N": 64, "K": 64},
    "layernorm": {"COLS": 1024},
    "linear_relu_div": {"BATCH": 64, "IN_FEATURES": 64, "OUT_FEATURES": 32},
    "matvec": {"K": 2048},
    "rmsnorm": {"CHANNELS": 8, "HEIGHT": 16, "WIDTH": 16},
    "router_gemm": {"TOKENS": 16, "EXPERTS": 64, "HIDDEN": 128},
    "sdp_attention": {"LENGTH": 64},
    "softmax": {"COLS": 2048},
    "top_k": {"COLS": 256},
    "tutorial_matmul": {"M": 128, "N": 64, "K": 64},
}
"""Sizes at which every masked dimension is a multiple of its block."""
UNRUN = {"literals", "aliased"}
"""One has no edit; the other's `L.constexpr` is a name that triton's interpreter does not know."""
CHECKED = {name: text for name, text in {**SEEDS, **OWN}.items() if name not in UNRUN}
ROUNDING = {"dot-precision": {"precision": "tf32x3"}}
"""The interpreter multiplies in fp32 whatever it is told; only what keeps the promise is run."""
TOO_LARGE = {("dilated_conv", "tile"), ("dilated_conv", "block-size")}
"""There a block counts twice, and what the grids have is more than Triton lets a tensor hold: the
gate says `compile.too-large`."""


def variants(text, *, all_values):
    """(edit, its values, place, edited text) for each anchor, with one value or all of the grid.

    The place is the kernel's name and all parameters.
    """
    for kernel in read_source(text).launched:
        for edit in EDITS.values():
            for anchor in edit.anchors(text, kernel):
                for chosen in values(edit, anchor, all_values):
                    parameters = {**anchor.parameters, **chosen, **ROUNDING.get(edit.id, {})}
                    try:
                        edited = edit.apply(text, kernel, parameters).source
                    except EditRefused:
                        continue
                    yield edit, chosen, (kernel, parameters), edited


def values(edit, anchor, all_values):
    open_ones = [p for p in edit.parameters if p.grid and p.name not in anchor.parameters]
    yield {p.name: p.grid[0] for p in open_ones}
    if all_values:
        for parameter in open_ones:
            yield from ({parameter.name: value} for value in parameter.grid)


@cache
def jobs_of(*, all_values, per_edit):
    """Cases by id; `per_edit` limits how many candidates each edit is tried on."""
    found, used = {}, {}
    for name, text in CHECKED.items():
        for edit, chosen, where, edited in variants(text, all_values=all_values):
            if (name, edit.id) in TOO_LARGE:
                continue
            names = used.setdefault(edit.id, {})
            if name not in names and len(names) >= per_edit:
                continue
            names[name] = None
            case = f"{name} {edit.id} {where[0]} {where[1]}"
            step = {"step": f"{edit.id} {chosen}", "edit": edit.id, "where": where}
            found[case] = {"problem": name, "source": edited, **step}
            if name in EVEN and edit.id in {"drop-masks", "contiguous-offsets"}:
                found[f"{case} even"] = {**found[case], "values": EVEN[name]}
    return found


def to_compile(*, per_edit):
    """Cases on shipped seeds: they have a full shape."""
    found = jobs_of(all_values=False, per_edit=per_edit)
    return {
        case: job
        for case, job in found.items()
        if job["problem"] in SEEDS and not case.endswith("even")
    }


HINTS = {
    *("num_warps", "num_stages", "num_ctas", "maxnreg", "eviction_policy", "cache_modifier"),
    *("loop_unroll_factor", "warp_specialize", "flatten", "disallow_acc_multi_buffer"),
}
"""Arguments of launches, loads, stores and loops that are no part of what is computed."""


class Computed(ast.NodeTransformer):
    """A program without its hints."""

    def visit_Call(self, node):
        self.generic_visit(node)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg not in HINTS]
        return node


def programs(jobs):
    """Each program that computes something else, and every step with each of its values once.

    The interpreter takes hints as they are checked and computes the same.
    """
    kept, computed, steps = {}, set(), set()
    for case, job in jobs.items():
        tree = ast.dump(Computed().visit(ast.parse(job["source"])))
        program = (job["problem"], tree, str(job.get("values")))
        if program not in computed or job["step"] not in steps:
            kept[case] = job
        computed.add(program)
        steps.add(job["step"])
    return kept


KERNELS_EACH = 2
"""Kernels that each value of an edit is run on, beside one value of each edit on every kernel."""


def spread(jobs):
    """Each edit on every kernel, and each of its values on some."""
    kept, tried, used = {}, set(), Counter()
    for case, job in jobs.items():
        place = job["problem"], job["edit"], case.endswith("even")
        if place not in tried or used[job["step"]] < KERNELS_EACH:
            kept[case] = job
            tried.add(place)
            used[job["step"]] += 1
    return kept


def without(jobs, tried):
    return {case: job for case, job in jobs.items() if case not in tried}


VALUES = {
    *("num-warps", "num-stages", "num-ctas", "block-size", "autotune"),
    *("eviction-policy", "cache-modifier", "offset-hints"),
}
"""Edits that set a value or a hint where the text has a place for one."""
SEEDS_EACH = 3
"""Seeds that such an edit is compiled on: it writes the same on all others."""


def once_each(jobs):
    """The first place of each edit in each kernel file: a further one compiles alike."""
    kept, seeds = {}, {}
    for case, job in jobs.items():
        edit, problem = case.split()[1], job["problem"]
        known = seeds.setdefault(edit, {})
        if edit not in VALUES or problem in known or len(known) < SEEDS_EACH:
            known[problem] = None
            kept.setdefault((problem, edit), case)
    return {case: jobs[case] for case in kept.values()}


def outcome(task, jobs, tmp_path, **environment):
    cache = {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "edit_suite_worker.py"), task],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | cache | environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def wrong(found):
    """Cases that are not within the gate's bound, with what is wrong."""
    bad = {}
    for case, got in found.items():
        if "fault" in got:
            bad[case] = got["fault"]
        elif not (got["forms"] and got["state"] and got["inputs kept"] and got["picks"]):
            bad[case] = str(got)
        elif got["error"] > 1:
            bad[case] = f"error {got['error']} of the bound"
    return bad


def test_every_edit_keeps_real_kernels_right(tmp_path):
    jobs = jobs_of(all_values=False, per_edit=2)
    untried = set(EDITS) - {case.split()[1] for case in jobs}
    # These need what no seed has: an invariant load, descriptors (see SEQUENCES), or a form that
    # the walk of an expert leaves (test_rewrites).
    forms = {"pack-counts", "invert-in-blocks", "invert-by-doubling", "square-tiles"}
    forms |= {"sum-to-products", "scan-prefixes"}
    assert untried <= {"hoist-loads", "warp-specialize", "pointers"} | forms
    found = outcome("interpret", jobs, tmp_path, TRITON_INTERPRET="1")
    assert wrong(found) == {}


def test_every_edit_compiles_for_the_target(tmp_path):
    found = outcome("compile", to_compile(per_edit=1), tmp_path, TRITON_INTERPRET="0")
    assert {case: got["fault"] for case, got in found.items() if "fault" in got} == {}


def test_masks_are_gone_where_dimensions_are_even(tmp_path):
    text = EDITS["drop-masks"].apply(SEEDS["softmax"], "softmax_kernel", {}).source
    job = {"problem": "softmax", "source": text}
    jobs = {"odd": job, "even": {**job, "values": EVEN["softmax"]}}
    found = outcome("interpret", jobs, tmp_path, TRITON_INTERPRET="1")
    assert found["odd"]["masked"] > 0
    assert found["even"]["masked"] == 0


ROWS_EACH = {"softmax": {"ROWS": 9}, "layernorm": {"ROWS": 9}, "gemm": {"M": 200, "N": 200}}
"""Enough tiles that a program takes several."""


def test_programs_that_take_several_tiles_keep_kernels_right(tmp_path):
    jobs = {}
    for name, values in ROWS_EACH.items():
        kernel = read_source(SEEDS[name]).launched[0]
        for edit, chosen in (("persistent", {"programs": 2}), ("rows-per-program", {"rows": 4})):
            text = EDITS[edit].apply(SEEDS[name], kernel, chosen).source
            jobs[f"{name} {edit}"] = {"problem": name, "source": text, "values": values}
    found = outcome("interpret", jobs, tmp_path, TRITON_INTERPRET="1")
    assert wrong(found) == {}


SEQUENCES = {
    "softmax": ["online-softmax", "divide-once", "num-warps", "drop-masks", "persistent"],
    "layernorm": ["row-on-chip", "num-warps", "drop-masks", "eviction-policy", "rows-per-program"],
    "rmsnorm": ["loop-to-tile", "divide-once", "constant-dimensions", "drop-masks"],
    "linear_relu_div": ["dot-precision", "group-order", "num-stages", "drop-masks", "persistent"],
    "gemm": [
        *("descriptors", "warp-specialize", "group-order", "persistent", "loop-flatten"),
        *("constant-dimensions", "num-warps"),
    ],
    "top_k": ["count-to-sort", "num-warps"],
    "matvec": ["split-reduction", "num-warps", "loop-stages", "eviction-policy"],
    "group_conv": [
        "tile-programs",
        "sum-to-products",
        "constant-dimensions",
        "block-size",
        "num-warps",
    ],
    "tutorial_matmul": ["contiguous-offsets", "group-order", "dot-precision", "drop-masks"],
}


@pytest.mark.parametrize("even", [False, True])
def test_edits_one_after_the_other_keep_kernels_right(tmp_path, even):
    jobs = {}
    for name, sequence in SEQUENCES.items():
        text = CHECKED[name]
        for edit_id in sequence:
            kernel, edit = read_source(text).launched[0], EDITS[edit_id]
            anchor = edit.anchors(text, kernel)[0]
            open_ones = [p for p in edit.parameters if p.grid and p.name not in anchor.parameters]
            chosen = {p.name: p.grid[0] for p in open_ones}
            text = edit.apply(text, kernel, {**anchor.parameters, **chosen}).source
        values = EVEN.get(name, {}) if even else {}
        jobs[name] = {"problem": name, "source": text, "values": values}
    found = outcome("interpret", jobs, tmp_path, TRITON_INTERPRET="1")
    assert wrong(found) == {}


@pytest.mark.slow
def test_other_values_of_every_grid_keep_real_kernels_right(tmp_path):
    tried = jobs_of(all_values=False, per_edit=2)
    jobs = spread(without(programs(tried | jobs_of(all_values=True, per_edit=99)), tried))
    found = outcome("interpret", jobs, tmp_path, TRITON_INTERPRET="1")
    assert wrong(found) == {}


AT_ONCE = (
    (
        *("eviction-policy", "offset-hints", "loop-stages", "loop-unroll", "num-warps"),
        *("num-stages", "constant-dimensions", "divide-once", "drop-masks"),
    ),
    ("cache-modifier", "static-loops", "dot-precision", "autotune"),
)
"""Edits that leave each other's changes in place, each in an order in which they can be applied."""


def gathered(jobs):
    """Candidates with several edits of a kernel file at once, and the cases that each stands for.

    A compile takes about as long whatever was edited.
    """
    at_once, cases = {}, {}
    for number, edits in enumerate(AT_ONCE):
        of_these = [(case, job) for case, job in jobs.items() if job["edit"] in edits]
        for case, job in sorted(of_these, key=lambda one: edits.index(one[1]["edit"])):
            name = f"{job['problem']} {number}"
            so_far = at_once.get(name, {"source": SEEDS[job["problem"]]})["source"]
            try:
                text = EDITS[job["edit"]].apply(so_far, *job["where"]).source
            except EditRefused:
                continue
            at_once[name] = {"problem": job["problem"], "source": text}
            cases.setdefault(name, []).append(case)
    return at_once, cases


@pytest.mark.slow
def test_every_edit_compiles_on_every_other_seed(tmp_path):
    tried = to_compile(per_edit=1)
    jobs = without(once_each(tried | to_compile(per_edit=99)), tried)
    at_once, cases = gathered(jobs)
    alone = without(jobs, {case for several in cases.values() for case in several})
    assert len(alone) < len(jobs) / 2
    found = outcome("compile", alone | at_once, tmp_path, TRITON_INTERPRET="0")
    suspects = [case for name in at_once if "fault" in found[name] for case in cases[name]]
    if suspects:
        again = {case: jobs[case] for case in suspects}
        found |= outcome("compile", again, tmp_path, TRITON_INTERPRET="0")
    assert {case: got["fault"] for case, got in found.items() if "fault" in got} == {}


OTHER = os.environ.get("WORKBENCH_OTHER_TRITON", "")


@pytest.mark.slow
@pytest.mark.skipif(not OTHER, reason="WORKBENCH_OTHER_TRITON names no folder of another Triton")
def test_every_edit_compiles_with_another_triton(tmp_path):
    jobs = {
        case: job
        for case, job in jobs_of(all_values=False, per_edit=2).items()
        if not case.endswith("even")
    }
    found = outcome("compile", jobs, tmp_path, TRITON_INTERPRET="0", PYTHONPATH=OTHER)
    assert {case: got["fault"] for case, got in found.items() if "fault" in got} == {}
