"""Takes out assignments that nothing reads any more, as an edit leaves them behind."""

import ast

from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, read_source
from workbench.kernels.source_flow import reads_of, statements
from workbench.kernels.source_kernel import JitKernel


def without_unread(text: str, name: str) -> str:
    """The text without a kernel's assignments to names that are never read.

    Only what computes is taken out: a statement that stores, or calls anything but a Triton
    operation without an effect, stays. Comments above a statement stay too.
    """
    while True:
        source = read_source(text)
        kernel = source.kernel(name)
        unread = [] if kernel is None else _unread(kernel)
        if not unread:
            return text
        splice = Splice(source)
        for statement in unread:
            splice.remove(statement)
        text = splice.result()


def drop_unused_local(splice: Splice, launch: LaunchSite, given: ast.expr) -> None:
    """Take out the assignment of a local name that only this argument read."""
    flow = splice.source.host_flow(launch.scope)
    if flow is None or not isinstance(given, ast.Name) or launch.scope.function is None:
        return
    if flow.single(given.id) is None:
        return
    if len(reads_of(given.id, launch.scope.function)) == 1:
        splice.remove(flow.definitions[given.id][0].statement)


def _unread(kernel: JitKernel) -> list[ast.stmt]:
    read = {
        node.id
        for statement in kernel.node.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    writes = {a.call for a in kernel.accesses if a.kind != "load"}
    found: list[ast.stmt] = []
    for statement in statements(kernel.node.body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in read:
                if not any(_acts(kernel, n, writes) for n in ast.walk(value)):
                    found.append(statement)
            case _:
                pass
    bodies = [loop.node.body for loop in kernel.loops] + [kernel.node.body]
    return [s for s in found if not any(body == [s] for body in bodies)]


def _acts(kernel: JitKernel, node: ast.AST, writes: set[ast.Call]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    method = isinstance(node.func, ast.Attribute) and node.func.attr == "to"
    return node in writes or not (kernel.names.op(node) or method)
