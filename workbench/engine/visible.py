"""Text from a model, a kernel or a stranger's bundle, made safe to print on a terminal."""

import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Control characters except newline and tab, and characters that reorder or hide text: an escape
sequence could clear the screen, and right-to-left text shows code that the file does not have."""


def visible(text: str) -> str:
    r"""The text with every such character replaced by its escape: `\x1b`, `\u202e`."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
