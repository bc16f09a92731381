"""New names of settings: whoever writes an old one is told the new one."""

from __future__ import annotations

from collections.abc import Mapping

RENAMED_SETTINGS: Mapping[str, str] = {
    "lstm": "core_width",  # of recurrent networks
    "train_batch_size": "minibatch_size",  # of algorithms that learn from a replay buffer
}
"""New names by old ones, for config classes that have a setting of the new name and none of the old one."""
