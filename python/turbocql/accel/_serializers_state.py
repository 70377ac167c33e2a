"""What the added module `cassandra.serializers` shares with the part that installs it."""

from __future__ import annotations

from typing import Any

__all__ = ["call_counts", "original_serialize", "vector_types"]

call_counts = [0, 0]
"""The numbers of native calls, and of calls that fell back to the `serialize` of the type."""
original_serialize: dict[Any, Any] = {}
"""Maps each of the driver's types for float, double and int to its `serialize`."""
vector_types: list[Any] = []
"""Contains the driver's `VectorType`, or nothing if the driver has none."""
