"""How the file registers operators with torch, and what it registers for them."""

import ast

from workbench.gate.policy.operators import OPERATORS
from workbench.gate.policy.refusals import code_of_name
from workbench.gate.policy.state import Frame
from workbench.gate.policy.stories import Stories
from workbench.gate.policy.values import (
    INPUT,
    NOTHING,
    PLAIN,
    UNKNOWN,
    Arguments,
    Decorator,
    Function,
    Known,
    Partial,
    Phase,
    Value,
)

CONTEXT: Value = frozenset({Known("torch.autograd.function.FunctionCtx")})
"""What an autograd function keeps for its backward."""
_FAKE, _AUTOGRAD = "torch.library.register_fake", "torch.library.register_autograd"


class Registering(Stories):
    """The layer that registers operators."""

    def tell(self, path: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
        """The result of calling `path`; None where the rules define it."""
        if path in OPERATORS:
            self._check_devices(arguments, node)
            return self.decorate(path, arguments, self._written_name(path, arguments, node, frame))
        if path not in (_FAKE, _AUTOGRAD):
            return super().tell(path, arguments, node, frame)
        own = self.operators.get(self._written_name(path, arguments, node, frame))
        self.asked.add((self, "operators"))
        if own is None:
            self.refuse(code_of_name(path), node, path)
            return UNKNOWN
        others = Arguments(arguments.positional[1:], arguments.keywords, arguments.rest)
        if path == _FAKE and not others.all():
            return frozenset({Decorator(path, Arguments((own,)))})
        for operator in own:
            if isinstance(operator, Partial):
                self.register(operator, path.rsplit(".", 1)[-1], others, node, frame)
        return others.all() if path == _FAKE else NOTHING

    def apply_decorator(self, decorator: Decorator, value: Value) -> Value:
        """What a library decorator returns for a function, a kernel or a class."""
        if decorator.path != _FAKE:
            return super().apply_decorator(decorator, value)
        for operator in decorator.given.all():
            if isinstance(operator, Partial):
                self._keep_fake(operator, value)
        return value

    def register(
        self, operator: Partial, name: str, given: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """What an operator keeps for others: no backward runs in a call of a model."""
        if name == "register_fake":
            functions = given.all()
            self._keep_fake(operator, functions)
            return functions
        self.accounted |= {a.node for a in given.get(0, "backward") if isinstance(a, Function)}
        setup = dict(given.keywords).get("setup_context", given.rest) - NOTHING
        passed = Arguments((CONTEXT, INPUT | PLAIN, INPUT))
        self.call(setup, passed, node, Frame(frame.scope, Phase.CALL))
        return NOTHING

    def _keep_fake(self, operator: Partial, functions: Value) -> None:
        self.accounted |= {a.node for a in functions if isinstance(a, Function)}
        self.add_fake(operator, functions)

    def _check_devices(self, arguments: Arguments, node: ast.Call) -> None:
        """Refuse an operator that may be none on a GPU: a host would run it all the same."""
        if dict(arguments.keywords).get("device_types", NOTHING) == NOTHING:
            return
        written = [k.value for k in node.keywords if k.arg == "device_types"]
        if not any(map(_has_cuda, written)):
            says = "`device_types` leaves out cuda: on a GPU the operator has no kernel"
            self.refuse("policy.compiler", node, says=says)

    def _written_name(self, path: str, arguments: Arguments, node: ast.Call, frame: Frame) -> str:
        """The operator's name where it is a literal of this very call."""
        direct = self.evaluate(node.func, frame) == {Known(path)}
        if direct and len(arguments.positional) == len(node.args):
            match node.args:
                case [ast.Constant(value=str(name)), *_]:
                    return name
        return ""


def _has_cuda(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value="cuda"):
            return True
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(map(_has_cuda, parts))
    return False
