"""Sections of a training run's checkpoint, with version numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.engine.messages.errors import CheckpointError

SECTION_VERSIONS = {
    "training": 1,
    "workers": 1,
    "learner": 1,
    "filters": 1,
    "flow": 1,
    "league": 1,
    "output": 1,
    "hooks": 1,
}
"""Version number of each checkpoint section."""


def section(owner: str, state: Any) -> dict[str, Any]:
    """Wraps the state of a part of the training as a checkpoint section, with the part's version number."""
    return {"version": SECTION_VERSIONS[owner], "state": state}


def section_state(sections: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Returns the state in a checkpoint section, after checking the section's version.

    Raises:
        CheckpointError: The section is missing or malformed, or has a different version.
    """
    try:
        found = sections[owner]
        version, state = found["version"], found["state"]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"the checkpoint has no state of its {owner}") from error
    if type(version) is not int or not isinstance(state, dict):
        raise CheckpointError(f"the checkpoint's state of its {owner} is invalid")
    if version != SECTION_VERSIONS[owner]:
        raise CheckpointError(
            f"the checkpoint's state of its {owner} has version {version}, but this rlrun reads version "
            f"{SECTION_VERSIONS[owner]}"
        )
    return dict(state)
