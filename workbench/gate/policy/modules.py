"""Methods that every nn module has: they declare state, list it, and walk over modules."""

import ast

from workbench.gate.policy.library import Library
from workbench.gate.policy.state import Frame
from workbench.gate.policy.values import (
    BUFFER,
    EMPTY,
    FRESH,
    NOTHING,
    PLAIN,
    STATE,
    Arguments,
    Atom,
    Bound,
    Descriptor,
    Function,
    Holder,
    Instance,
    Items,
    Phase,
    Tuple,
    Value,
    has_tensor,
    join,
)


class Modules(Library):
    """The layer that calls methods of modules."""

    def call_module(
        self,
        atom: Holder | Instance | Items,
        name: str,
        arguments: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """A method that every nn module has."""
        group = self.allowed.module_methods[name][0]
        if isinstance(atom, Instance) and frame.phase is Phase.CALL:
            self._call_overrides(atom, node, frame)
        if group.returns == "self":
            return frozenset({atom})
        if isinstance(atom, Instance) and name in ("register_buffer", "register_parameter"):
            temporary = dict(arguments.keywords).get("persistent", EMPTY)
            kind = FRESH if temporary else BUFFER if name == "register_buffer" else STATE
            if frame.phase is Phase.CALL:
                kind = arguments.get(1, "tensor") | arguments.get(1, "param")
            given = arguments.get(1, "tensor") | arguments.get(1, "param")
            named = _literal_argument(node)
            held = kind if has_tensor(given) else EMPTY
            self.set_member(atom.node, named or "*", held | (given & NOTHING))
            return NOTHING
        if isinstance(atom, Instance) and name in ("add_module", "register_module"):
            self.set_member(atom.node, _literal_argument(node) or "*", arguments.get(1, "module"))
            return NOTHING
        if name == "apply":
            each = self._submodules(atom) | {atom}
            for function in self.functions_in(arguments.all()):
                self.call_anyhow(function, each, node, frame.phase)
            return frozenset({atom})
        return self._list_module(atom, name, node)

    def _call_overrides(self, atom: Instance, node: ast.AST, frame: Frame) -> None:
        """A method of a module may call others: evaluate those that the class overrides."""
        for name in (*self.allowed.module_methods, "training"):
            for method in self.find_member(atom.node, name):
                if isinstance(method, Descriptor):
                    self.call_special(atom, (name,), node)
                    for setter in method.setter:
                        self.call_anyhow(setter, frozenset({atom}) | PLAIN, node, frame.phase)
                if isinstance(method, Function):
                    bound = Bound(method, frozenset({atom}))
                    self.call_anyhow(bound, PLAIN, node, frame.phase)

    def _list_module(self, atom: Holder | Instance | Items, name: str, node: ast.AST) -> Value:
        kind = STATE if "parameter" in name else BUFFER if "buffer" in name else STATE | BUFFER
        if "children" in name or "modules" in name:
            kind = self._submodules(atom) | (frozenset({atom}) if "modules" in name else EMPTY)
        if name.startswith("named_"):
            return self.make_list(node, frozenset({Tuple((PLAIN, kind))}))
        if name == "state_dict":
            items = Items(node, "dict")
            self.put(items, kind)
            return frozenset({items})
        if name in ("parameters", "buffers", "children", "modules"):
            return self.make_list(node, kind)
        return kind if name.startswith("get_") else PLAIN

    def _submodules(self, atom: Holder | Instance | Items) -> Value:
        if isinstance(atom, Holder):
            return frozenset({atom})
        if isinstance(atom, Items):
            return self.contents(atom).all()
        found: set[Atom] = set()
        waiting: list[Atom] = [atom]
        while waiting:
            one = waiting.pop()
            held = EMPTY
            if isinstance(one, Instance):
                lineage = self.lineage(one.node)
                held = join(join(self.every_member(c).values()) for c in lineage)
            elif isinstance(one, Items):
                held = self.contents(one).all()
            inner = {m for m in held if isinstance(m, Holder | Instance | Items)} - found
            found |= inner
            waiting += inner
        return frozenset(found)


def _literal_argument(node: ast.AST) -> str:
    """The first argument where it is a literal string, such as the name of a buffer."""
    if isinstance(node, ast.Call):
        named = [k.value for k in node.keywords if k.arg == "name"]
        match [*node.args[:1], *named]:
            case [ast.Constant(value=str(text))]:
                return text
            case [ast.JoinedStr(values=[ast.Constant(value=str(text)), *_])]:
                return text + "*"
    return ""
