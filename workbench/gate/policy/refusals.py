"""What the policy refuses and why: a stable code each, with a sentence and an alternative."""

import ast

from msgspec import Struct

from workbench.gate.policy.advice import advice
from workbench.gate.records import Finding


class Refusal(Struct, frozen=True):
    """Why a kind of code is refused."""

    says: str
    """A sentence with `{name}` for what was found."""
    todo: str
    """What to write instead."""


_COMPUTE = "do the arithmetic in a Triton kernel; host code may allocate, view, cast and copy"

REFUSALS = {
    "policy.syntax": Refusal("the file is not Python: {name}", "correct the syntax"),
    "policy.not-text": Refusal("the file is not UTF-8 text: {name}", "save it as UTF-8"),
    "policy.too-large": Refusal("the file is too large: {name}", "send only what the kernel needs"),
    "policy.too-deep": Refusal("the code nests too deeply: {name}", "flatten it"),
    "policy.too-complex": Refusal(
        "the code is too tangled to be followed: {name}", "call helpers directly, with fewer layers"
    ),
    "policy.no-model": Refusal(
        "no class ModelNew is defined at the top of the file",
        "define `class ModelNew(nn.Module)` with the reference's constructor and forward",
    ),
    "policy.no-launch": Refusal(
        "no Triton kernel is launched when ModelNew is called",
        "launch a `@triton.jit` function as `kernel[grid](...)` from forward",
    ),
    "policy.torch-compute": Refusal("`{name}` computes outside a kernel", _COMPUTE),
    "policy.operator-on-tensor": Refusal("`{name}` is arithmetic on a tensor", _COMPUTE),
    "policy.reads-values": Refusal(
        "`{name}` reads a tensor's values into Python",
        "let kernels read them; host code may use shapes, strides and dtypes",
    ),
    "policy.module-called": Refusal(
        "`{name}` runs a library module",
        "read its weight and bias and pass them to a kernel",
    ),
    "policy.compiler": Refusal(
        "`{name}` hands the work to another compiler or to the dispatcher",
        "write the kernel in Triton",
    ),
    "policy.stream": Refusal(
        "`{name}` takes work off the stream that is timed", "launch on the current stream"
    ),
    "policy.global-state": Refusal(
        "`{name}` changes state that outlives the call", "leave global settings alone"
    ),
    "policy.fallback": Refusal(
        "`{name}` swallows the failure of a kernel launch, so another path may answer",
        "let the launch raise; only imports may be guarded",
    ),
    "policy.dynamic-code": Refusal(
        "`{name}` runs code that cannot be read here", "write the code in the file"
    ),
    "policy.dynamic-name": Refusal(
        "`{name}` reaches a member by a name that is computed", "write the member's name"
    ),
    "policy.private-name": Refusal(
        "`{name}` reaches into the internals of Python or of a library", "use public names"
    ),
    "policy.forbidden-import": Refusal(
        "`{name}` may not be imported", "see `workbench gate --explain-policy` for what may"
    ),
    "policy.inductor-output": Refusal(
        "`{name}` belongs to what TorchInductor prints, whose kernels are texts that it compiles",
        "leave --kernel away: the workbench lifts Inductor's kernels itself; or write each text "
        "as a `@triton.jit` function of this file, launch it as `kernel[grid](...)`, and take "
        "buffers from torch.empty_strided",
    ),
    "policy.forbidden-name": Refusal(
        "`{name}` may not be used", "see `workbench gate --explain-policy` for what may"
    ),
    "policy.patches-object": Refusal(
        "assigning to `{name}` changes an object that is not the candidate's",
        "keep state on self or in the candidate's own variables",
    ),
    "policy.base-class": Refusal(
        "a class may not derive from `{name}`", "derive from nn.Module, or from nothing"
    ),
    "policy.special-method": Refusal(
        "`{name}` changes how Python treats the object", "write an ordinary method"
    ),
    "policy.unresolved": Refusal(
        "cannot show what `{name}` is, and it may compute",
        "call or use things by names that are defined in the file",
    ),
    "policy.caches-output": Refusal(
        "`{name}` remembers results by the identity or the address of tensors",
        "compute from the contents on every call",
    ),
    "policy.address": Refusal(
        "`{name}` depends on where something lies in memory, or on who runs the kernels",
        "ask an address for its alignment, or whether two tensors share memory, and nothing more; "
        "name a kernel by its __name__",
    ),
    "policy.endless-loop": Refusal("`{name}` never ends", "give the loop an end"),
    "policy.kernel-name": Refusal(
        "inside a kernel `{name}` is neither Triton's nor a kernel nor a constant",
        "use triton.language, other @triton.jit functions and numbers",
    ),
    "policy.kernel-text": Refusal(
        "Triton would take another text for the kernel `{name}` than Python does",
        "let no other line from its decorators to its end begin with `def`, and wrap no function",
    ),
    "policy.kernel-argument": Refusal(
        "the launch passes `{name}`, which is not a tensor, number or kernel",
        "pass tensors to pointers and numbers to tl.constexpr parameters",
    ),
}

_STREAMS = ("Stream", "stream", "Event", "CUDAGraph", "graph", "make_graphed_callables", "nvtx")
_COMPILERS = (
    "torch.compile",
    "torch.jit",
    "torch.ops",
    "torch.fx",
    "torch.library",
    "torch.export",
    "torch.utils",
    "torch.classes",
    "torch.overrides",
    "torch.func",
    "triton.compile",
    "triton.compiler",
)
_DYNAMIC = frozenset(
    {"exec", "eval", "compile", "__import__", "globals", "locals", "vars", "input"}
)


def code_of_name(path: str) -> str:
    """The code under which a library name that is not on the allow-list is refused."""
    first, _, rest = path.partition(".")
    last = path.rsplit(".", 1)[-1]
    if first == "builtins":
        return "policy.dynamic-code" if rest in _DYNAMIC else "policy.forbidden-name"
    if any(part.startswith("_") for part in path.split(".")[1:]):
        return "policy.private-name"
    if path.startswith(_COMPILERS):
        return "policy.compiler"
    if path.startswith("torch.cuda.") and rest.split(".")[1].startswith(_STREAMS):
        return "policy.stream"
    if first == "torch" and (
        last.startswith(("set_", "use_", "manual_seed", "seed")) or "backends" in rest
    ):
        return "policy.global-state"
    asks = last.startswith(("is_", "get_", "are_", "current_", "has_"))
    return "policy.torch-compute" if first == "torch" and not asks else "policy.forbidden-name"


def code_of_import(module: str) -> str:
    """The code under which a module that may not be imported is refused."""
    inductor = module.startswith("torch._inductor")
    return "policy.inductor-output" if inductor else "policy.forbidden-import"


def finding(code: str, name: str, line: int | None = None, says: str = "") -> Finding:
    """The finding for one refusal; `says` replaces the table's sentence where it can be sharper."""
    refusal = REFUSALS[code]
    return Finding(
        code=code,
        says=says or refusal.says.format(name=name),
        line=line,
        evidence={"name": name, "todo": advice(name) or refusal.todo},
    )


NOTED = "policy.recorded"
"""The code of what is allowed and mentioned; it refuses nothing."""


def noted(name: str, line: int) -> Finding:
    """The finding for something that is allowed and mentioned."""
    return Finding(code=NOTED, says=f"a kernel uses `{name}`", line=line, evidence={"name": name})


def spelled(node: ast.AST) -> str:
    """An expression as source, cut to fit on a line."""
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):
        text = type(node).__name__
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
