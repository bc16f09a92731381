"""Conversions of settings for replayed sequences: R2D2 and QMIX.

RLlib counts the steps of sequences. RLlib's QMIX replays complete episodes, rlrun's QMIX sequences of up to
`replay.length` steps.
"""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, ForeignSettings
from rlrun.bridges.translation.remarks import Impact
from rlrun.bridges.translation.rllib_settings.units import fragment_steps
from rlrun.bridges.translation.settings import Conversions, only

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""

LONGEST = 20
"""Steps of a sequence where whole episodes are replayed and their length is not known."""


def _steps(foreign: ForeignSettings) -> int:
    longest = int(foreign.get("model.max_seq_len"))
    return longest if foreign.algorithm == "R2D2" else min(longest, foreign.horizon or LONGEST)


@conversion
def sequence_length(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Steps of a sequence in the loss; each sequence begins where the previous one ended."""
    steps = _steps(foreign)
    if steps < value and foreign.horizon is None:
        foreign.tell(key, f"whole episodes there, sequences of {steps} steps here: set replay.length to an episode's")
    foreign.put("config.replay.stride", steps, key)
    if foreign.algorithm == "QMIX":
        foreign.put("config.replay.burn_in", 0, key)
    return steps


@conversion
def sequences(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Sequences per minibatch; RLlib counts their steps, including the burn-in."""
    steps = _steps(foreign) + int(foreign.get("replay_buffer_config.replay_burn_in", 0))
    return max(-(-int(value) // steps), 1)


@conversion
def rounds_kept(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Capacity of the replay buffer in env steps; RLlib counted fragments of workers until 2.0."""
    if foreign.source.version >= (2, 0):
        return int(value)
    foreign.tell(key, "env steps here; there fragments of a worker, which end with an episode")
    return int(value) * (fragment_steps(foreign) or 1) * int(foreign.get("num_envs_per_worker"))


@conversion
def layers_of_heads(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Layers between R2D2's recurrent core and the values."""
    if value:
        foreign.tell(key, f"values follow from the core at once; there layers of {value} are between them")
    return OMIT


@conversion
def first_states(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Recurrent state before a replayed sequence: stored or zero."""
    is_written = any(name.endswith("zero_init_states") for name in foreign.written)
    if value and (key in foreign.written or not is_written):
        foreign.tell(key, "replayed sequences begin with the recorded state here, with zeros there")
    return OMIT


conversion["only_rescaled"] = only((True, 1), "values are always rescaled by h here", Impact.LEARNING)
conversion["only_epsilon_of_h"] = only((1e-3,), "the epsilon of h is 0.001 here", Impact.SLIGHT)
conversion["only_epsilon_of_adam"] = only((), "Adam's epsilon is 1e-5 here", Impact.SLIGHT)
