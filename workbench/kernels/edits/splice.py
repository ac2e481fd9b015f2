"""Replaces exact spans of a text, so that every byte outside them stays as it was."""

import ast
import re
from bisect import bisect_right
from codecs import BOM_UTF8
from collections.abc import Mapping

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.splice_tokens import closing, pieces, tokens
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel

_BREAK = re.compile(rb"\r\n|\r|\n")


class Splice:
    """Collects replacements of spans of one text and makes them all at once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._bytes = source.text.encode("utf-8")
        mark = len(self._bytes) - len(self._bytes.removeprefix(BOM_UTF8))
        self._starts = [mark, *(m.end() for m in _BREAK.finditer(self._bytes))]
        match = _BREAK.search(self._bytes)
        self.newline = match.group().decode() if match else "\n"
        self._changes: list[tuple[int, int, int, bytes]] = []

    def result(self) -> str:
        """The edited text. Raises EditRefused when two replacements want the same bytes."""
        out: list[bytes] = []
        at = 0
        for start, end, _, text in sorted(self._changes, key=lambda c: (c[0], c[2])):
            if start < at:
                raise EditRefused("two parts of the edit want the same text")
            out += [self._bytes[at:start], text]
            at = end
        return b"".join([*out, self._bytes[at:]]).decode("utf-8")

    # Places.

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _span(self, node: ast.AST) -> tuple[int, int]:
        if not isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword):
            raise TypeError(f"{type(node).__name__} has no place in the text")
        end_line, end_column = node.end_lineno, node.end_col_offset
        if end_line is None or end_column is None:
            raise TypeError("the tree was not made from the text")
        return self._at(node.lineno, node.col_offset), self._at(end_line, end_column)

    def text(self, node: ast.AST) -> str:
        """The exact text of an expression or statement."""
        start, end = self._span(node)
        return self._bytes[start:end].decode("utf-8")

    def text_with(self, node: ast.AST, replaced: Mapping[ast.AST, str]) -> str:
        """The text of a node with other text where some nodes inside it stand."""
        start, end = self._span(node)
        out, at = [], start
        for inner, text in sorted(replaced.items(), key=lambda item: self._span(item[0])):
            inner_start, inner_end = self._span(inner)
            out += [self._bytes[at:inner_start].decode("utf-8"), text]
            at = inner_end
        return "".join([*out, self._bytes[at:end].decode("utf-8")])

    def line_text(self, line: int) -> str:
        """One line, without its end."""
        start = self._starts[line - 1]
        match = _BREAK.search(self._bytes, start)
        return self._bytes[start : match.start() if match else len(self._bytes)].decode("utf-8")

    def indentation(self, statement: ast.stmt) -> str:
        """White space that a statement's line begins with."""
        return _white(self.line_text(self._first_line(statement)))

    def _first_line(self, statement: ast.stmt) -> int:
        """Line on which a statement begins, that of its first decorator if it has any."""
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        return min([statement.lineno, *(self._decorator_line(d) for d in decorators)])

    def _decorator_line(self, decorator: ast.expr) -> int:
        """Line of a decorator's `@`: what stands in parentheses may begin further below."""
        line = decorator.lineno
        while line > 1 and not self.line_text(line).lstrip().startswith("@"):
            line -= 1
        return line

    # Changes.

    def _put(self, start: int, end: int, text: str) -> None:
        self._changes.append((start, end, len(self._changes), text.encode("utf-8")))

    def replace(self, node: ast.AST, text: str) -> None:
        """Put other text where an expression stands."""
        self._put(*self._span(node), text)

    def surround(self, node: ast.AST, before: str, after: str) -> None:
        """Put text in front of an expression and behind it; what is inside may change as well.

        To be asked for before changes inside that begin where the expression does.
        """
        start, end = self._span(node)
        self._put(start, start, before)
        self._put(end, end, after)

    def replace_operator(self, node: ast.BinOp, text: str) -> None:
        """Put another operator between the two sides of an operation."""
        start, end = self._span(node.left)[1], self._span(node.right)[0]
        operators = [t for t in tokens(self._bytes, start, end) if t[0] not in {"(", ")"}]
        if len(operators) != 1:
            raise EditRefused(f"the operator of line {node.lineno} could not be read")
        self._put(operators[0][1], operators[0][2], text)

    def replace_atom(self, node: ast.AST, text: str) -> None:
        """As `replace`, with a name or call: parentheses around the expression go with it."""
        start, end = self._span(node)
        before, after = self._bytes[:start].rstrip(b" \t"), self._bytes[end:].lstrip(b" \t")
        if before.endswith(b"(") and after.startswith(b")"):
            opened = len(before) - 1
            closed = len(self._bytes) - len(after) + 1
            # Behind a name or a bracket the parenthesis calls something.
            if not re.search(rb"[\w\])]$", self._bytes[:opened].rstrip(b" \t")):
                start, end = opened, closed
        self._put(start, end, text)

    def append_item(self, sequence: ast.Tuple, text: str) -> None:
        """One more item of a tuple, last."""
        start, end = self._span(sequence.elts[-1])[1], self._span(sequence)[1]
        comma = next((t for t in tokens(self._bytes, start, end) if t[0] == ","), None)
        if comma is not None:
            self._put(comma[2], comma[2], f" {text}")
            return
        closed = self._bytes[start:end].rstrip(b" \t").endswith(b")")
        at = end - 1 if closed else end
        self._put(at, at, f", {text}")

    def insert_before(self, statement: ast.stmt, *lines: str) -> None:
        """New lines above a statement, at its indentation."""
        self._alone(statement)
        indentation = self.indentation(statement)
        start = self._starts[self._first_line(statement) - 1]
        self._put(start, start, self._lines(indentation, lines))

    def insert_above(self, decorator: ast.expr, *lines: str) -> None:
        """New lines above a decorator, at its indentation."""
        line = self._decorator_line(decorator)
        start = self._starts[line - 1]
        self._put(start, start, self._lines(_white(self.line_text(line)), lines))

    def insert_after(self, statement: ast.stmt, *lines: str) -> None:
        """New lines below a statement, at its indentation."""
        self._alone(statement)
        end = self._line_end(statement)
        text = self._lines(self.indentation(statement), lines)
        if end == len(self._bytes) and not self._bytes.endswith((b"\n", b"\r")):
            text = self.newline + text.removesuffix(self.newline)
        self._put(end, end, text)

    def remove_decorator(self, decorator: ast.expr) -> None:
        """Take a decorator out with its lines."""
        first, last = self._decorator_line(decorator), decorator.end_lineno or decorator.lineno
        while self.line_text(last + 1).lstrip().startswith(")"):
            last += 1
        self._put(self._starts[first - 1], self._starts[last], "")

    def remove(self, statement: ast.stmt, *, paragraph: bool = False) -> None:
        """Take a statement out with its lines; a `paragraph` goes with the blank line below it."""
        self._alone(statement)
        end = self._line_end(statement)
        after = (statement.end_lineno or statement.lineno) + 1
        if paragraph and after < len(self._starts) and not self.line_text(after).strip():
            end = self._starts[after]
        self._put(self._starts[self._first_line(statement) - 1], end, "")

    def replace_statement(self, statement: ast.stmt, *lines: str) -> None:
        """Other lines where a whole statement stands, at its indentation."""
        self._alone(statement)
        text = self._lines(self.indentation(statement), lines)
        self._put(self._starts[self._first_line(statement) - 1], self._line_end(statement), text)

    def _lines(self, indentation: str, lines: tuple[str, ...]) -> str:
        return "".join(f"{indentation if line else ''}{line}{self.newline}" for line in lines)

    def _line_end(self, statement: ast.stmt) -> int:
        last = statement.end_lineno or statement.lineno
        return self._starts[last] if last < len(self._starts) else len(self._bytes)

    def _alone(self, statement: ast.stmt) -> None:
        """Refuse when other code shares the statement's first or last line."""
        first, last = self._first_line(statement), statement.end_lineno or statement.lineno
        before = self.line_text(first)
        start = self._span(statement)[0] - self._starts[statement.lineno - 1]
        own = statement.lineno != first or not before.encode("utf-8")[:start].strip()
        after = self.line_text(last).encode("utf-8")[statement.end_col_offset or 0 :].strip()
        if not own or (after and not after.startswith(b"#")):
            raise EditRefused(f"line {statement.lineno} holds several statements")

    def reindent(self, body: list[ast.stmt], old: str, new: str) -> None:
        """Move whole statements from one indentation to another; strings keep their bytes."""
        for statement in body:
            self._alone(statement)
        first, last = self._first_line(body[0]), body[-1].end_lineno or body[-1].lineno
        held = _lines_in_strings(body)
        for line in range(first, last + 1):
            text = self.line_text(line)
            if line not in held and text.strip() and _white(text).startswith(old):
                start = self._starts[line - 1] + text.index(_white(text) + text.lstrip())
                self._put(start, start + len(old.encode("utf-8")), new)

    def indent(self, body: list[ast.stmt], unit: str) -> None:
        """Move whole statements one level in, with the comments between them."""
        old = self.indentation(body[0])
        self.reindent(body, old, old + unit)

    def unwrap(self, loop: ast.For | ast.While, *header: str) -> None:
        """Keep a loop's body once, at the loop's indentation, with other lines as its header."""
        if loop.body[0].lineno == loop.lineno:
            raise EditRefused(f"the loop of line {loop.lineno} has its body on the same line")
        if loop.orelse:
            raise EditRefused(f"the loop of line {loop.lineno} has an else")
        outer, inner = self.indentation(loop), self.indentation(loop.body[0])
        start = self._starts[loop.lineno - 1]
        body_start = self._starts[self._first_body_line(loop) - 1]
        self._put(start, body_start, self._lines(outer, header))
        self.reindent(loop.body, inner, outer)

    def _first_body_line(self, loop: ast.For | ast.While) -> int:
        """First line below a loop's header, comments above its first statement included."""
        line = self._first_line(loop.body[0])
        header_end = (loop.iter if isinstance(loop, ast.For) else loop.test).end_lineno
        while line - 1 > (header_end or loop.lineno) and self.line_text(line - 1).strip()[:1] in {
            "",
            "#",
        }:
            line -= 1
        return line

    # Calls and signatures.

    def set_keyword(self, call: ast.Call, name: str, text: str) -> None:
        """Give a call a keyword argument, in place of the one it has or after the last."""
        given = next((k for k in call.keywords if k.arg == name), None)
        if given is not None:
            self.replace(given.value, text)
            return
        self._append(self._span(call), f"{name}={text}")

    def drop_keyword(self, call: ast.Call, name: str) -> None:
        """Take a keyword argument out of a call, with its comma."""
        given = next((k for k in call.keywords if k.arg == name), None)
        if given is None:
            return
        self._drop_item(self._span(call), self._span(given))

    def drop_parameter(self, kernel: JitKernel, name: str) -> None:
        """Take a parameter out of a kernel's signature, with its comma."""
        parameter = kernel.parameter(name)
        if parameter is None:
            raise EditRefused(f"`{kernel.name}` has no parameter `{name}`")
        self._drop_item(self._signature(kernel), self._span(parameter.argument))

    def _drop_item(self, whole: tuple[int, int], item: tuple[int, int]) -> None:
        """Take one item out of the parenthesis that ends a span, with its comma."""
        found = pieces(self._bytes, *whole)
        index = next(i for i, (a, b) in enumerate(found) if a <= item[0] and item[1] <= b)
        if index > 0:
            self._put(found[index - 1][1], found[index][1], "")
        else:
            after = found[1][0] if len(found) > 1 else found[0][1]
            self._put(found[0][0], after, "")

    def add_parameter(self, kernel: JitKernel, text: str) -> None:
        """Append a parameter to a kernel's signature; `text` may have an annotation and a default.

        Without a default it gets one if the parameter before it has one, as Python demands.
        """
        arguments = kernel.node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
            raise EditRefused(f"`{kernel.name}` takes starred or keyword-only parameters")
        if arguments.defaults and "=" not in text:
            text = f"{text} = 1"
        self._append(self._signature(kernel), text)

    def _signature(self, kernel: JitKernel) -> tuple[int, int]:
        """Span from `def` to just after the parenthesis that closes the parameters."""
        start = self._at(kernel.node.lineno, kernel.node.col_offset)
        returns = kernel.node.returns
        stop = self._span(kernel.node.body[0])[0] if returns is None else self._span(returns)[0]
        return start, closing(self._bytes, start, stop)

    def _append(self, span: tuple[int, int], text: str) -> None:
        """One more item before the parenthesis that ends a span."""
        words = [t for t in tokens(self._bytes, *span) if t[1] < span[1] - 1]
        last, _, last_end = words[-1]
        found = pieces(self._bytes, *span)
        if not found:
            self._put(last_end, last_end, text)
            return
        column = self._column_alone(found[-1][0])
        if column is None:
            trailing = last == "," and _BREAK.search(self._bytes, last_end, span[1]) is not None
            gap = " " if last == "," else ", "
            self._put(last_end, last_end, f"{gap}{text}" + ("," if trailing else ""))
            return
        if last != ",":
            self._put(last_end, last_end, ",")
        # Behind a comment that belongs to the last item.
        match = _BREAK.search(self._bytes, last_end)
        behind = match.start() if match and match.start() < span[1] - 1 else last_end
        self._put(behind, behind, f"{self.newline}{column}{text}" + ("," if last == "," else ""))

    def _column_alone(self, start: int) -> str | None:
        """The white space before an item that begins its line; None when something is before it."""
        line = bisect_right(self._starts, start) - 1
        before = self._bytes[self._starts[line] : start]
        return before.decode("utf-8") if not before.strip() else None


def _white(line: str) -> str:
    """The white space that indents a line; to Python what comes before a form feed is nothing."""
    white = line[: len(line) - len(line.lstrip())]
    return white.rpartition("\f")[2]


def _lines_in_strings(body: list[ast.stmt]) -> frozenset[int]:
    """Lines that begin inside a string."""
    held: set[int] = set()
    for statement in body:
        for node in ast.walk(statement):
            is_text = isinstance(node, ast.JoinedStr) or (
                isinstance(node, ast.Constant) and isinstance(node.value, str)
            )
            if is_text and isinstance(node, ast.expr):
                held.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    return frozenset(held)
