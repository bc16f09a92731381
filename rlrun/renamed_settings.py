"""Former names of settings, which are errors in specs; the error names the present name."""

from __future__ import annotations

from collections.abc import Mapping

RENAMED_SETTINGS: Mapping[str, str] = {
    "lstm": "core_width",  # of recurrent networks
    "train_batch_size": "minibatch_size",  # of algorithms that learn from a replay buffer
}
"""Present name by former name, for config classes that have a setting with the present name and none with the
former."""
