"""The reply of the canary job."""

from msgspec import Struct


class CanaryResult(Struct, frozen=True, kw_only=True):
    """What the canary found."""

    wrong: str
    """What did not come out as it must; empty when all did."""
    seconds: float
