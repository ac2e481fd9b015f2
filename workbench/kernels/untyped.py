"""A name for what triton and torch hand us without types of their own."""

from typing import Any

Untyped = Any
"""A library's object: triton publishes no types, torch's hooks may return anything."""
