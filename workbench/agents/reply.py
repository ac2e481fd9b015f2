"""Reads a candidate out of a model's reply: deterministic, never raises, never invents.

The text that comes out is made of the reply (and of the base that a change is applied to) plus the
repairs that are recorded. Where two readings are possible the reply is handed back with the reason.
"""

import ast
import re
import textwrap

from workbench.agents.reply_blocks import (
    Block,
    Replacement,
    changes_in_json,
    codes_in_json,
    fences,
    in_heredoc,
    replacements,
    unframed,
    without_thinking,
)
from workbench.agents.reply_code import (
    NAME,
    completed,
    hollow_kernels,
    left_out,
    without_words,
)
from workbench.agents.reply_diff import (
    apply,
    files_named,
    headed,
    hunks,
    looks_like_diff,
    new_file,
)
from workbench.agents.reply_merge import joined, merged
from workbench.agents.reply_records import Form, HandedBack, Parsed, Repair, Signature
from workbench.agents.reply_text import (
    belongs,
    fault_line,
    looks_like_code,
    mended,
    parses,
    plain,
    unescaped_marks,
    unquoted,
    windows,
    with_lines,
)

_ELIDED = re.compile(
    r"^\s*#\s*(\.\.\.|\u2026).*$"
    r"|#.*\b(rest|remainder|remaining part) of (the|your|this) "
    r"(code|kernel|file|function|class|body|implementation|module)\b"
    r"|#.*\b(existing|original|previous) (code|implementation|kernel) (here|goes here|unchanged)"
    r"|#.*\b(same as (before|above)|(code|kernel|function) (omitted|unchanged)|for brevity)"
    r"|^\s*#\s*[\[(<{][^\n]{0,40}\b(unchanged|omitted)\b[^\n]{0,40}[\])>}]\s*$"
    # The same in German, French, Spanish, Russian, Chinese, Japanese and Korean.
    r"|#.*(\brest\w* (bleibt |ist )?unver\u00e4ndert|\breste\b.*\binchang"
    r"|\bresto\b.*\b(igual|sin cambios)"
    r"|\b\u0431\u0435\u0437 \u0438\u0437\u043c\u0435\u043d\u0435\u043d\u0438\u0439"
    r"|(\u5176\u4f59|\u4ee3\u7801).*(\u4e0d\u53d8|\u76f8\u540c|\u7701\u7565)"
    r"|\u4ee5\u4e0b\u7701\u7565|\u5909\u66f4\u306a\u3057|\uc0dd\ub7b5\s*$)",
    re.MULTILINE | re.IGNORECASE,
)
_LANGUAGES = {"", "python", "py", "python3", "triton", "text", "txt", "plaintext", "code"}
_MAKES_MODEL = re.compile(rf"^\s*class {NAME}\b", re.MULTILINE)
_CUT_OFF = Repair(code="prose", says="text around the code was cut off")
_CUT = HandedBack(
    code="truncated",
    reason="the reply ended inside the code; answer shorter: only what changes, as search and"
    " replace blocks",
)

Read = Parsed | HandedBack


def read_reply(
    text: str,
    *,
    base: str = "",
    signature: Signature | None = None,
    truncated: bool = False,
) -> Read:
    """The candidate that a reply holds, or why it holds none.

    `base` is the file that a change would apply to; `truncated` says that the reply reached its
    limit, so that a text that ends without a fence cannot be trusted to be whole.
    """
    said = with_lines(text)
    text, quoting = unquoted(without_thinking(unframed(said)))
    if not text.strip():
        empty = "nothing but thoughts: answer with the code" if said.strip() else "empty"
        return HandedBack(code="no-code", reason=f"the reply is {empty}")
    found = _by_form(text, base, truncated=truncated)
    if isinstance(found, HandedBack):
        return found
    left = _left_out(found, base)
    if left:
        says = f"parts are left out ({left!r}): send the whole file"
        return HandedBack(code="elided", reason=says)
    fixed = completed(found.source, signature)
    if isinstance(fixed, HandedBack):
        return fixed
    source, repairs = fixed
    if not source.endswith("\n"):
        source += "\n"
    return Parsed(source=source, form=found.form, repairs=quoting + found.repairs + repairs)


def _left_out(found: Parsed, base: str) -> str:
    """What stands for code that the model did not write; empty where all is there."""
    elided = _ELIDED.search(found.source)
    if elided and elided.group(0).strip() not in base:
        return elided.group(0).strip()
    hollow = hollow_kernels(found.source) - hollow_kernels(base)
    if hollow:
        return f"the body of {min(hollow)}"
    if found.form in {Form.UNIFIED, Form.SEARCH_REPLACE}:
        return ""
    return "..." if left_out(found.source) and not left_out(base) else ""


def _by_form(text: str, base: str, *, truncated: bool) -> Read:
    """The code by the first form that the reply has the marks of."""
    for reader in (_as_changes, _as_json, _as_diff_blocks, _as_blocks, _as_diff):
        found = reader(text, base, truncated)
        if found is not None:
            return found
    return _CUT if truncated else _unfenced(text)


def _as_changes(text: str, base: str, _: bool) -> Read | None:
    marked, html = unescaped_marks(text)
    changes = replacements(marked)
    if changes is None:
        return _CUT
    if not changes:
        return None
    found = _changed(base, changes, Form.SEARCH_REPLACE, html)
    if isinstance(found, Parsed) and _says_otherwise(marked, found.source, base):
        says = "the changes do not make the file that stands beside them: send one of the two"
        return HandedBack(code="ambiguous", reason=says)
    return found


def _says_otherwise(text: str, made: str, base: str) -> bool:
    """Whether a whole file beside changes is neither what they make nor what they are made to."""
    models = [b for b in fences(text)[0] if _is_model([b]) and not replacements(b.code)]
    trees = [parses(code) for code in (made, base, *(mended(b.code)[0] for b in models))]
    said = [ast.dump(tree) for tree in trees if tree is not None]
    return any(one not in said[:2] for one in said[2:])


def _as_json(text: str, base: str, _: bool) -> Read | None:
    if _is_model(fences(text)[0]):
        return None
    codes = codes_in_json(text)
    if not codes:
        changes = changes_in_json(text)
        return _changed(base, changes, Form.SEARCH_REPLACE) if changes else None
    models = [code for code in codes if _MAKES_MODEL.search(code)]
    if len(models) > 1:
        says = f"{len(models)} fields define {NAME}: send one"
        return HandedBack(code="ambiguous", reason=says)
    return _from_json((models or codes)[0], base)


def _as_diff_blocks(text: str, base: str, truncated: bool) -> Read | None:
    diffs = [b for b in fences(text)[0] if b.language in {"diff", "patch"} or _is_diff(b)]
    if not diffs:
        return None
    if not diffs[-1].closed and truncated:
        return _CUT
    return _from_diff(base, "\n".join(headed(block.code) for block in diffs))


def _as_blocks(text: str, base: str, truncated: bool) -> Read | None:
    blocks, prose = fences(text)
    codes = [b for b in blocks if b.language in _LANGUAGES and b.code.strip()]
    return _from_blocks(codes, prose, base, truncated=truncated) if codes else None


def _as_diff(text: str, base: str, _: bool) -> Read | None:
    text = textwrap.dedent(text)
    if not looks_like_diff(text) or _MAKES_MODEL.search(text):
        return None
    return _from_diff(base, text)


def _is_model(blocks: list[Block]) -> bool:
    return any(_MAKES_MODEL.search(block.code) for block in blocks if block.language != "json")


def _is_diff(block: Block) -> bool:
    return looks_like_diff(block.code) and parses(block.code) is None


def _changed(
    base: str, changes: list[Replacement], form: Form, before: tuple[Repair, ...] = ()
) -> Read:
    if not base:
        return HandedBack(code="no-base", reason="there is no file to change: send the whole file")
    made = apply(base, changes)
    if isinstance(made, HandedBack):
        return made
    source, repairs = made
    if source == base:
        return HandedBack(code="no-change", reason="the changes leave the file as it is")
    return _python(source, form, before + repairs)


def _from_diff(base: str, text: str) -> Read:
    named = files_named(text)
    if len(named) > 1:
        says = f"the diff changes {' and '.join(named)}: only the candidate can be changed"
        return HandedBack(code="ambiguous", reason=says)
    found = hunks(text)
    if found is None:
        says = "a hunk of the diff goes on behind a line that is none of it: send the whole file"
        return HandedBack(code="ambiguous", reason=says)
    whole = new_file(found)
    if whole is not None:
        return _python(whole, Form.UNIFIED, ())
    if not found:
        return HandedBack(code="no-change", reason="the diff changes nothing")
    return _changed(base, found, Form.UNIFIED)


def _from_json(code: str, base: str) -> Read:
    blocks, _ = fences(plain(code))
    inner = blocks[0].code if len(blocks) == 1 else plain(code)
    if looks_like_diff(inner) and not _MAKES_MODEL.search(inner):
        return _from_diff(base, inner)
    changes = replacements(inner)
    if changes:
        return _changed(base, changes, Form.SEARCH_REPLACE)
    return _python(inner, Form.JSON, ())


def _from_blocks(blocks: list[Block], prose: str, base: str, *, truncated: bool) -> Read:
    """The file that fenced blocks make: one of them, all of them, or the base with parts of it."""
    if not blocks[-1].closed and truncated:
        return _CUT
    repairs: tuple[Repair, ...] = ()
    if not blocks[-1].closed:
        repairs = (Repair(code="unclosed-fence", says="the last fence was never closed"),)
    texts: list[str] = []
    for block in blocks:
        code, more = mended(block.code)
        texts.append(code)
        repairs += more
    models = [text for text in texts if _MAKES_MODEL.search(text)]
    if len(models) == 1 and len(texts) > 1 and not _stands_alone(models[0], texts):
        whole = joined(texts)
        if whole is None:
            says = "the blocks do not make one file: send the whole file in one block"
            return HandedBack(code="ambiguous", reason=says)
        joint = Repair(code="joined", says=f"{len(texts)} blocks were joined to one file")
        return _python(whole, Form.FENCED, (*repairs, joint))
    if not models:
        return _without_model(texts, prose, base, repairs)
    return _with_model(models, base, repairs)


def _with_model(models: list[str], base: str, repairs: tuple[Repair, ...]) -> Read:
    """The one block that defines ModelNew; its kernels may be those of the base."""
    # The file to be changed, told again beside what it becomes, is not a second answer.
    distinct = {text.strip() for text in models} - {base.strip()}
    models = [text for text in models if text.strip() in distinct] or models
    if len(distinct) > 1:
        says = f"{len(distinct)} blocks define {NAME}: send one"
        return HandedBack(code="ambiguous", reason=says)
    if base and (_launched(models[0]) - _defined(models[0])) & _defined(base):
        made = merged(base, models[0])
        if not isinstance(made, HandedBack):
            return _python(made[0], Form.FENCED, repairs + made[1])
    return _python(models[0], Form.FENCED, repairs)


def _stands_alone(model: str, texts: list[str]) -> bool:
    """Whether the block with the model launches nothing that another block defines."""
    away = _launched(model) - _defined(model)
    return not any(away & _defined(text) for text in texts)


def _launched(code: str) -> set[str]:
    return set(re.findall(r"\b([A-Za-z_]\w*)\s*\[[^\]\n]*\]\s*\(", code))


def _defined(code: str) -> set[str]:
    return set(re.findall(r"^\s*def (\w+)", code, re.MULTILINE))


def _without_model(texts: list[str], prose: str, base: str, repairs: tuple[Repair, ...]) -> Read:
    """Blocks that do not define ModelNew: a class of another name, or parts of the base."""
    readable = [text for text in texts if parses(text) is not None]
    if not readable:
        return _no_python(max(texts, key=len))
    if _MAKES_MODEL.search(prose):
        return HandedBack(
            code="ambiguous", reason="the code is half inside its fence: send it whole"
        )
    modules = [text for text in readable if re.search(r"^class \w+\(.*Module", text, re.MULTILINE)]
    if len(modules) == 1:
        whole = modules[0] if _stands_alone(modules[0], readable) else joined(readable)
        if whole is not None:
            return _python(whole, Form.FENCED, repairs)
    if not base or len(readable) != 1 or modules:
        says = f"no block defines class {NAME}: send the whole file in one block"
        return HandedBack(code="no-model", reason=says)
    made = merged(base, readable[0])
    if isinstance(made, HandedBack):
        return made
    return _python(made[0], Form.FENCED, repairs + made[1])


def _unfenced(text: str) -> Read:
    """Code between prose, when what is cut off is prose for certain."""
    code, repairs = mended(in_heredoc(text) or text)
    if parses(code) is not None and _MAKES_MODEL.search(code):
        file = without_words(code)
        if file != code:
            repairs = (*repairs, _CUT_OFF)
            file = file.strip("\n") + "\n"
        return Parsed(source=file, form=Form.UNFENCED, repairs=repairs)
    for before, part, after in windows(code):
        if not _MAKES_MODEL.search(part) and "Module)" not in part:
            continue
        if _is_code(before, part, after):
            line, why = fault_line(code)
            says = f"line {line} is not Python ({why}): send the whole file in one fenced block"
            return HandedBack(code="not-python", reason=says)
        file = part.strip("\n") + "\n"
        return Parsed(source=file, form=Form.UNFENCED, repairs=(*repairs, _CUT_OFF))
    if _MAKES_MODEL.search(text):
        line, why = fault_line(code)
        says = f"line {line} is not Python ({why}): send the whole file in one fenced block"
        return HandedBack(code="not-python", reason=says)
    return HandedBack(code="no-code", reason="the reply holds no code: send the whole file, fenced")


def _python(code: str, form: Form, repairs: tuple[Repair, ...]) -> Read:
    """The code once it parses, after repairs that are certain."""
    text, more = mended(code)
    if parses(text) is None:
        cut = _cut_prose(text)
        if cut is not None:
            return Parsed(source=cut[0], form=form, repairs=(*repairs, *more, cut[1]))
        return _no_python(text)
    return Parsed(source=text, form=form, repairs=repairs + more)


def _no_python(code: str) -> HandedBack:
    """Why code does not parse; whether it only ends too early."""
    line, why = fault_line(code)
    end = code.rstrip().count("\n") + 1
    if line >= end or any(word in why for word in ("never closed", "EOF", "unterminated")):
        says = f"the code ends too early (line {line}: {why}); send it whole"
        return HandedBack(code="truncated", reason=says)
    return HandedBack(code="not-python", reason=f"line {line} of the code: {why}")


def _cut_prose(code: str) -> tuple[str, Repair] | None:
    """Code whose only fault is prose before or behind it."""
    for before, part, after in windows(code):
        if _MAKES_MODEL.search(part) and not _is_code(before, part, after):
            return part.strip("\n") + "\n", _CUT_OFF
    return None


def _is_code(before: str, part: str, after: str) -> bool:
    """Whether what would be cut off around a part is code, or may be."""
    return looks_like_code(before) or looks_like_code(after) or belongs(part, after)
