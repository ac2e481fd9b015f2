"""The host function around a launch: where lines can go in front, and which names are free."""

import ast

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.source import LaunchSite, Source


def host_names(source: Source, launch: LaunchSite, *stems: str) -> tuple[str, ...]:
    """Names that the host function does not use yet, one a stem."""
    flow = source.host_flow(launch.scope)
    taken = set() if flow is None else set(flow.definitions) | set(flow.parameters)
    taken |= {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)}
    found = []
    for stem in stems:
        name, number = stem, 2
        while name in taken:
            name, number = f"{stem}{number}", number + 1
        taken.add(name)
        found.append(name)
    return tuple(found)


def host_statement(launch: LaunchSite) -> ast.stmt:
    """The statement of the host function's own body that holds a launch."""
    function = launch.scope.function
    for statement in () if function is None else function.body:
        if any(node is launch.call for node in ast.walk(statement)):
            return statement
    raise EditRefused(f"line {launch.line} does not stand in a function's body")
