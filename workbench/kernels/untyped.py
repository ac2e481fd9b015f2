"""A name for objects of triton and torch that have no types."""

from typing import Any

Untyped = Any
"""An object of a library: triton publishes no types, and torch's hooks may return anything."""
