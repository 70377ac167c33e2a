"""How hypothesis runs here: no deadlines on a shared machine, no files left behind."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("turbocql", deadline=None, database=None)
settings.load_profile("turbocql")
