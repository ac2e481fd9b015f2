"""What the judge and its canary say to each other."""

from msgspec import Struct


class Sung(Struct, frozen=True, kw_only=True):
    """What the canary found."""

    wrong: str
    """What did not come out as it must; empty when all did."""
    seconds: float
