"""New names of settings: whoever writes an old one is told the new one."""

from __future__ import annotations

from collections.abc import Mapping

RENAMED_SETTINGS: Mapping[str, str] = {}
"""New names by old ones. A config class that has a setting of the old name keeps its meaning."""
