"""The policy follows a use to what it is, however it is spelled, and lets honest code alone."""

import ast
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.gate.policy.check import LARGEST_SOURCE, check, check_bytes, input_kinds
from workbench.gate.policy.names import allowed, explain_policy, policy_text
from workbench.gate.policy.refusals import REFUSALS
from workbench.gate.records import Outcome, Stage
from workbench.isolation.flavors import environment_of, setup_of
from workbench.isolation.records import Flavor
from workbench.isolation.scratch import PLACES

SAMPLES = Path(__file__).parent / "corpus" / "policy"
HEAD = (SAMPLES / "head.txt").read_text()


def sections(pattern: str) -> dict[str, str]:
    """Title to text of the sample files: titles are the lines that begin with `### `."""
    files = sorted(SAMPLES.glob(pattern))
    parts = [part for file in files for part in file.read_text().split("### ")[1:]]
    return {title: body for title, _, body in (part.partition("\n") for part in parts)}


REFUSED = {tuple(title.split(" :: ")): body for title, body in sections("refused*.txt").items()}
ALLOWED = sections("allowed*.txt")


RUNS = "class ModelNew(nn.Module):\n    def forward(self, a):\n        return run(a)\n"


def codes(source: str, *inputs: str) -> list[str]:
    """The codes of all findings, the decisive one first."""
    return [finding.code for finding in check(source, inputs).findings]


def model(forward: str, init: str = "") -> str:
    """A file whose ModelNew has that one-line forward."""
    made = f"    def __init__(self):\n        super().__init__()\n        {init}\n" if init else ""
    body = f"    def forward(self, a, b):\n        {forward}\n"
    return f"{HEAD}\nclass ModelNew(nn.Module):\n{made}{body}"


@pytest.mark.parametrize(("title", "code"), list(REFUSED), ids=[t for t, _ in REFUSED])
def test_a_spelling_of_a_cheat_is_refused_for_what_it_is(title, code):
    report = check(HEAD + REFUSED[title, code])
    assert report.outcome is Outcome.FAILED
    assert report.findings[0].code == code
    assert report.stage is Stage.POLICY


def test_no_variable_of_a_worker_s_environment_may_be_asked_for():
    setup = setup_of(
        Flavor.INTERPRET,
        on_gpu=False,
        preload=(),
        hidden=(),
        share_device_memory=False,
        namespaces=False,
    )
    for name in (*environment_of(setup, None), *PLACES):
        asked = f"import os\nFLAG = os.getenv('{name}')\n"
        assert "policy.forbidden-name" in codes(HEAD + asked), name
    assert codes(HEAD + "import os\nFLAG = os.getenv('MINE_DEBUG')\n" + RUNS) == []


@pytest.mark.parametrize("title", list(ALLOWED))
def test_honest_host_code_is_let_alone(title):
    report = check(HEAD + ALLOWED[title])
    assert report.outcome is Outcome.PASSED, report.says
    assert report.findings == ()


GENERIC = """
type Shape = tuple[int, ...]
class Box[T]:
    def __init__(self, value: T) -> None:
        self.value = value
def first[T](items: list[T]) -> T:
    return items[0]
class ModelNew(nn.Module):
    def forward(self, x):
        return first([Box({what})]).value(x)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is Python 3.12's")
def test_generic_classes_functions_and_aliases_are_followed():
    assert codes(HEAD + GENERIC.format(what="run")) == []
    cheat = codes(HEAD + GENERIC.format(what="lambda x: torch.relu(run(x))"))
    assert cheat == ["policy.torch-compute"]


def test_a_refusal_says_where_what_and_what_to_do():
    source = model("return torch.relu(run(a))")
    (finding,) = check(source).findings
    assert finding.line == source.splitlines().index("        return torch.relu(run(a))") + 1
    assert finding.evidence["name"] == "torch.relu"
    assert "Triton kernel" in str(finding.evidence["todo"])
    assert "torch.relu" in finding.says


@pytest.mark.parametrize(
    ("written", "advised"),
    [
        ("torch.library.register_kernel('mine::x', 'cpu')", "one function for every device"),
        ("torch.ops.aten.relu(a)", "torch.ops.mine.scale"),
        ("__import__('importlib').util.find_spec('triton')", "write the code in the file"),
        ("os.getenv('TRITON_INTERPRET')", "a variable of your own"),
        ("torch.cuda.CUDAGraph()", "would replay old inputs"),
        ("torch.cuda.set_device(0)", "the gate sets device and stream"),
        ("time.time()", "which only a script runs"),
        ("a.max(b.item())", "pass the tensor to the kernel"),
    ],
)
def test_a_refusal_of_a_common_spelling_says_what_to_write_instead(written, advised):
    source = model(f"return run({written})").replace("import math", "import math, os, time")
    found = check(source).findings
    assert advised in " ".join(str(finding.evidence["todo"]) for finding in found), found


def test_what_inductor_prints_is_told_from_its_first_line_on():
    source = f"from ctypes import c_int\nimport torch._inductor.utils\n{model('return run(a)')}"
    first, second = check(source).findings
    assert (first.code, second.code) == ("policy.inductor-output", "policy.forbidden-import")
    assert "leave --kernel away" in str(first.evidence["todo"])


def test_what_is_there_is_said_before_what_is_missing():
    assert codes(model("return torch.relu(a)")) == ["policy.torch-compute", "policy.no-launch"]


def test_one_use_is_refused_once_per_line():
    assert (
        codes(model("return torch.exp(run(a)), torch.exp(run(b))")).count("policy.torch-compute")
        == 1
    )


def test_a_number_among_the_inputs_is_a_number_only_if_the_problem_says_so():
    body = "k[(1,)](a, torch.empty_like(a), b * 2, BLOCK=16)\n        return run(a)"
    assert codes(model(body)) == ["policy.operator-on-tensor"]
    assert codes(model(body), "tensor", "tensor") == ["policy.operator-on-tensor"]
    assert codes(model(body), "tensor", "number") == []


def test_an_annotation_does_not_turn_a_tensor_into_a_number():
    source = HEAD + (
        "class ModelNew(nn.Module):\n"
        "    def forward(self, a: float, b: float):\n"
        "        run(a)\n"
        "        return a * b\n"
    )
    assert codes(source, "tensor", "tensor") == ["policy.operator-on-tensor"]
    assert codes(source, "tensors") == ["policy.operator-on-tensor"]


@pytest.mark.parametrize(
    ("returned", "kinds"),
    [
        ("[torch.rand(3), 0.5]", ("tensor", "number")),
        ("torch.rand(3), (torch.rand(2), torch.rand(2))", ("tensor", "several")),
        ("[torch.rand(3) for _ in range(4)]", ("tensors",)),
        ("[x.half(), None, N]", ("tensor", "number", "number")),
        ("make()", ()),
    ],
)
def test_the_kinds_of_inputs_are_read_from_the_problem(returned, kinds):
    source = (
        f"import torch\nN = 4\ndef get_inputs():\n    x = torch.randn(N)\n    return {returned}\n"
    )
    assert input_kinds(source) == kinds


def test_in_place_bookkeeping_is_for_buffers_of_the_state():
    update = "self.b.mul_(0.9).add_(run(a), alpha=0.1)\n        return run(a)"
    buffer = 'self.register_buffer("b", torch.zeros(3)'
    assert codes(model(update, f"{buffer})")) == []
    assert codes(model(update, f"{buffer}, persistent=False)")) == ["policy.torch-compute"]
    assert codes(model(update, "self.b = torch.zeros(3)")) == ["policy.torch-compute"]


def test_an_address_may_be_looked_at_but_not_remembered():
    assert codes(model("run(a)\n        return b if a.data_ptr() % 16 else run(b)")) == []
    kept = "self.c[a.data_ptr()] = run(a)\n        return self.c[a.data_ptr()]"
    assert codes(model(kept, "self.c = {}"))[0] == "policy.caches-output"


def test_inline_assembly_is_allowed_and_mentioned():
    kernel = (
        "@triton.jit\n"
        "def kk(x_ptr, o_ptr, n, BLOCK: tl.constexpr):\n"
        "    x = tl.load(x_ptr + tl.arange(0, BLOCK))\n"
        "    y = tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r', [x], tl.float32, True, 1)\n"
        "    tl.store(o_ptr + tl.arange(0, BLOCK), y)\n"
    )
    source = (
        HEAD
        + kernel
        + (
            "class ModelNew(nn.Module):\n"
            "    def forward(self, a):\n"
            "        o = torch.empty_like(a)\n"
            "        kk[(1,)](a, o, 4, BLOCK=16)\n"
            "        return o\n"
        )
    )
    report = check(source)
    assert report.outcome is Outcome.PASSED
    assert [f.says for f in report.findings] == ["a kernel uses `inline_asm_elementwise`"]


def test_what_only_a_script_runs_is_not_judged_but_what_nothing_runs_is_searched():
    script = "if __name__ == '__main__':\n    exec('1')\n"
    unused = "def unused():\n    exec('1')\n"
    honest = model("return run(a)")
    assert codes(honest + script) == []
    assert codes(honest + unused) == ["policy.dynamic-code"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "policy.no-model"),
        (b"\xff\xfe\x00", "policy.not-text"),
        (b"#\r# coding: utf-7\nx = 1", "policy.not-text"),
        (b"# vim: set fileencoding=raw_unicode_escape :\n# \\u000aimport os", "policy.not-text"),
        (b"# coding: nobody-knows\n", "policy.not-text"),
        (b"# -*- coding: utf8 -*-\n", "policy.no-model"),
        (b"x = 1\x00", "policy.syntax"),
        (b"def f(:\n", "policy.syntax"),
        (b"(" * 100_000, "policy.syntax"),
        (b"-" * 100_000 + b"1", "policy.too-deep"),
        (b"x" + b".a" * 5_000, "policy.too-deep"),
        (b"x" + b".a" * 50_000, "policy.syntax"),
        (b"x = 1" + b" + 1" * 100_000, "policy.too-deep"),
        (b"#" * (LARGEST_SOURCE + 1), "policy.too-large"),
        ("\ufeff".encode() + HEAD.encode(), "policy.no-model"),
        (
            b"".join(b"def f%d(x):\n return f%d(x)\n" % (i, i + 1) for i in range(60)) + b"f0(1)",
            None,
        ),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_damaged_or_hostile_file_is_a_finding(content, code):
    report = check_bytes(content)
    assert report.outcome is Outcome.FAILED
    assert code is None or report.findings[0].code == code


def test_recursion_and_growing_values_come_to_an_end():
    assert codes("def f(x):\n  return f((x, x))\nf(1)\n") == ["policy.no-model"]
    grown = "def f(x):\n  return (x, x)\ny = 1\n" + "y = f(y)\n" * 300
    assert codes(grown) == ["policy.no-model"]
    calls = "".join(f"def f{i}(x, *a):\n  return f{i * 7 % 50}(*a, x, f{i})\n" for i in range(50))
    assert codes(calls + "f0(1)\n")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(ALLOWED)))
def test_damage_never_raises(seed, title):
    rng = random.Random(seed)
    content = bytearray((HEAD + ALLOWED[title]).encode())
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(content))
        match rng.randrange(4):
            case 0:
                content[at] = rng.randrange(256)
            case 1:
                del content[at : at + rng.randrange(40)]
            case 2:
                content[at:at] = content[: rng.randrange(len(content))]
            case _:
                content[at:at] = rng.choice(
                    [b"(", b"\n\n", b"*", b" if ", b"@", b"async ", b"yield "]
                )
    report = check_bytes(bytes(content))
    assert report.outcome in (Outcome.PASSED, Outcome.FAILED)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_removing_any_statement_of_an_honest_file_never_raises(data):
    tree = ast.parse(HEAD + ALLOWED[data.draw(st.sampled_from(sorted(ALLOWED)))])
    blocks = [n.body for n in ast.walk(tree) if isinstance(getattr(n, "body", None), list)]
    block = data.draw(st.sampled_from([b for b in blocks if b]))
    block.pop(data.draw(st.integers(0, len(block) - 1)))
    for body in blocks:
        if not body:
            body.append(ast.Pass())
    assert check(ast.unparse(ast.fix_missing_locations(tree))).stage is Stage.POLICY


def test_every_code_has_a_sentence_and_something_to_do():
    for code, refusal in REFUSALS.items():
        assert code.startswith("policy.")
        assert refusal.says
        assert refusal.todo


def test_the_allow_list_explains_itself_as_text_and_as_data():
    text, data = policy_text(), explain_policy()
    assert "torch. allocation: make a tensor" in text
    listed = {name for group in data["names"] for name in group["names"]}
    assert "torch.empty_like" in listed
    assert "torch.matmul" not in listed
    assert listed == set(allowed().names)


def test_every_allowed_name_of_torch_exists():
    import torch

    def exists(path: str) -> bool:
        found = torch
        for part in path.split(".")[1:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True

    named = [path for path in allowed().names if path.startswith("torch.")]
    missing = [path for path in named if not exists(path)]
    assert len(named) > 100
    assert [path for path in missing if "FunctionCtx" not in path and "float8" not in path] == []


def test_checking_needs_neither_torch_nor_triton():
    code = (
        "import sys; from workbench.gate.policy.check import check; check('import torch');"
        "sys.exit(any(m in sys.modules for m in ('torch', 'triton', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
