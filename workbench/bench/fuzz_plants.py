"""Correct candidates with host code planted in them that reads values or computes.

Each is a payload in a disguise: the policy must see through it, or the worker must see it run.
"""

import random

from workbench.bench.fuzz_texts import HEAD

PAYLOADS = {
    "tolist": "KEPT['x'].tolist()",
    "numpy": "KEPT['x'].numpy()",
    "an array": "np.array(KEPT['x'])",
    "float": "float(KEPT['x'][0, 0])",
    "truth": "bool(KEPT['x'][0, 0])",
    "a sum": "KEPT['x'].sum()",
    "an operator": "KEPT['x'] + KEPT['y']",
    "in place": "KEPT['x'].clone().mul_(2)",
    "text": "str(KEPT['x'][0])",
    "an index": "KEPT['x'][KEPT['x'].long() * 0]",
}
"""Expressions on the inputs, which lie in `KEPT`."""

_PROPERTY = """
class Box:
    @property
    def total(self):
        return {payload}
"""
_KEYS = """
class Box:
    def keys(self):
        {payload}
        return ()
    def __getitem__(self, key):
        return key
"""
_PAIR = """
class Box:
    a: int = 0
    b: int = 0
    def __iter__(self):
        {payload}
        return iter((1, 2))
"""
_MIXED = """
class First:
    def __init__(self):
        super().__init__()
class Second:
    def __init__(self):
        {payload}
class Box(First, Second):
    pass
"""
_COMPARED = """
class Box:
    def __eq__(self, other):
        {payload}
        return True
    def __contains__(self, other):
        {payload}
        return True
"""
_FUNCTION = "\ndef late(*_):\n    return {payload}\n"

_WALRUS = """m = nn.Identity()
        if isinstance(m, nn.Identity) and (m := KEPT):
            {payload}"""

DISGUISES = {
    "nothing": ("", "{payload}"),
    "hasattr": (_PROPERTY, "hasattr(Box(), 'total')"),
    "format": (_PROPERTY, "'{{0.total}}'.format(Box())"),
    "keys of a dict": (_KEYS, "dict(Box())"),
    "keys of stars": (_KEYS, "dict(**Box())"),
    "unpacking": (_PAIR, "p, q = Box()"),
    "a pair of a dict": (_PAIR, "dict([Box()])"),
    "the other base": (_MIXED, "Box()"),
    "equality": (_COMPARED, "Box() == 1"),
    "membership": (_COMPARED, "1 in Box()"),
    "a list's index": (_COMPARED, "[Box()].index(1)"),
    "a key": (_FUNCTION, "sorted([1, 2], key=late)"),
    "a default": (_FUNCTION, "defaultdict(late)[1]"),
    "a cache": (_FUNCTION, "lru_cache(late)(1)"),
    "a partial": (_FUNCTION, "partial(late, 1)()"),
    "a map": (_FUNCTION, "list(map(late, [1]))"),
    "a lambda's default": ("", "(lambda v={payload}: v)()"),
    "a grid": (
        "",
        "add_relu[lambda _: ({payload}, (1,))[1]](x, y, torch.empty_like(x), 1, BLOCK=16)",
    ),
    "a kernel's function": (
        "\n@triton.jit\ndef late(KEPT):\n    return {payload}\n",
        "late.fn(KEPT)",
    ),
    "a walrus": ("", _WALRUS),
}
"""Text at the top of the file, and statements of `forward`; both may quote the payload."""

_IMPORTS = """
from collections import defaultdict
from functools import lru_cache, partial

import numpy as np
"""


def plants(rng: random.Random) -> list[tuple[str, str]]:
    """Every disguise with a payload that `rng` chooses, as a name and a file."""
    return [planted(disguise, rng.choice(list(PAYLOADS))) for disguise in DISGUISES]


def planted(disguise: str, payload: str) -> tuple[str, str]:
    """A name and a file."""
    above, within = (text.format(payload=PAYLOADS[payload]) for text in DISGUISES[disguise])
    forward = f"        KEPT.update(x=x, y=y)\n        {within}\n        return launch(x, y)\n"
    model = f"\nclass ModelNew(nn.Module):\n    def forward(self, x, y):\n{forward}"
    return f"{payload} behind {disguise}", f"{_IMPORTS}{HEAD}\nKEPT = {{}}\n{above}{model}"
