"""Prompts are files with named slots; what does not fit is left out by a stated rule, and told.

A file in `prompts/` has a TOML head between `+++` lines (version, the order in which slots give
way), then parts headed `## system` and `## user` with `{{slot}}` in them. What all steps share goes
first, so that providers can cache it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from msgspec import Struct

from workbench.agents.records import Message, Role
from workbench.agents.secrecy import sealed
from workbench.agents.tokens import estimate_prompt

_SLOT = re.compile(r"\{\{(\w+)\}\}")
_WRONG = 1500
"""Characters of a reason that a model is told; ours."""
_REPLIES = (24_000, 6_000, 400)
"""Characters of a model's own reply that are put to it again, the first that fits; ours. The whole
of a file of 600 lines, its ends, or the beginning alone."""
_PART = re.compile(r"^## (system|user)\n", re.MULTILINE)


class Head(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The head of a prompt's file."""

    version: int
    trim: tuple[str, ...]
    """Slots that give way, first to last; each goes to its shortest text before the next."""


class Template(Struct, frozen=True, kw_only=True):
    """A prompt's file."""

    head: Head
    parts: tuple[tuple[Literal["system", "user"], str], ...]

    @property
    def slots(self) -> frozenset[str]:
        """Names that must be filled."""
        return frozenset(name for _, text in self.parts for name in _SLOT.findall(text))


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt as it is sent."""

    role: Role
    version: int
    messages: tuple[Message, ...]
    tokens: int
    """Estimated."""
    trimmed: tuple[str, ...] = ()
    """What gave way: `history: shorter (2 of 3)`."""
    because: str = ""
    """Of a second turn: why the first reply was handed back."""

    def followed(self, reply: str, wrong: str, room: int) -> "Prompt":
        """The prompt of a second turn: the reply, and why it was handed back.

        Of a long reply the middle is left out, so that it never takes the prompt's own room.
        """
        wrong = shortened(wrong, _WRONG)
        back = _SLOT.sub(lambda _: wrong, _file("handed_back"))
        for limit in _REPLIES:
            messages = (
                *self.messages,
                Message(role="assistant", content=shortened(reply, limit) or "(no text)"),
                Message(role="user", content=back.strip()),
            )
            tokens = estimate_prompt(messages)
            if tokens <= room:
                break
        return msgspec.structs.replace(self, messages=messages, tokens=tokens, because=wrong)


def shortened(text: str, limit: int) -> str:
    """A text with its middle left out, and said so, when it is longer than the limit."""
    if len(text) <= limit:
        return text
    half = (limit - 40) // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


class DoesNotFit(Exception):
    """What must stay in a prompt is larger than what the model can read."""


Slots = Mapping[str, Sequence[str]]
"""For every slot its texts, from whole to shortest."""


def fill(role: Role, slots: Slots, room: int) -> Prompt:
    """The prompt of a role in at most `room` estimated tokens. Raises DoesNotFit.

    Whatever a slot's text holds, keys and folders of this machine are not sent.
    """
    template = template_of(role)
    slots = {name: [sealed(text) for text in slots[name]] for name in template.slots}
    level = dict.fromkeys(template.slots, 0)
    while True:
        messages = _messages(template, {name: slots[name][level[name]] for name in level})
        tokens = estimate_prompt(messages)
        if tokens <= room:
            return Prompt(
                role=role,
                version=template.head.version,
                messages=messages,
                tokens=tokens,
                trimmed=tuple(
                    f"{name}: shorter ({level[name]} of {len(slots[name]) - 1})"
                    for name in template.head.trim
                    if level.get(name)
                ),
            )
        longer = [n for n in template.head.trim if n in level and level[n] + 1 < len(slots[n])]
        if not longer:
            raise DoesNotFit(
                f"the {role} prompt has about {tokens} tokens when everything that may be left out"
                f" is, and the model reads {room} beside its reply"
            )
        level[longer[0]] += 1


def _messages(template: Template, texts: Mapping[str, str]) -> tuple[Message, ...]:
    return tuple(
        Message(role=part, content=_SLOT.sub(lambda slot: texts[slot.group(1)], text).strip())
        for part, text in template.parts
    )


@cache
def template_of(role: Role) -> Template:
    """The shipped prompt of a role."""
    _, head, body = _file(role.value).split("+++\n", 2)
    shared = _file("shared")
    pieces = _PART.split(body)
    parts = [(kind, text) for kind, text in zip(pieces[1::2], pieces[2::2], strict=True)]
    return Template(
        head=msgspec.toml.decode(head, type=Head),
        parts=msgspec.convert(
            (("system", shared), *parts), tuple[tuple[Literal["system", "user"], str], ...]
        ),
    )


def _file(name: str) -> str:
    folder = resources.files("workbench.agents").joinpath("prompts")
    return folder.joinpath(f"{name}.md").read_text(encoding="utf-8")
