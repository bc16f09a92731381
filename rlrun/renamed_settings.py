"""Former names of settings: a spec with one of them is an error that names the present one."""

from __future__ import annotations

from collections.abc import Mapping

RENAMED_SETTINGS: Mapping[str, str] = {
    "lstm": "core_width",  # of recurrent networks
    "train_batch_size": "minibatch_size",  # of algorithms that learn from a replay buffer
}
"""Former name -> present name, for config classes that have a setting of the present name and none of the former."""
