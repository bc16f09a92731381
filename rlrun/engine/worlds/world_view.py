"""Properties of an env that policy constructors receive in addition to the agents' spaces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gymnasium

    from rlrun.engine.envs.env_config import WorldClock
    from rlrun.engine.worlds.games.array_game import ArrayGame


@dataclass(frozen=True)
class WorldView:
    """Properties of an env on which a policy's construction depends, in addition to the agents' spaces.

    Attributes:
        state_space: Space of the global state; None if there is no state.
        slots: Maximum number of simultaneous agents per world for which the policy acts, K.
        clock: Time axis of experience: one row per world step, or one row per agent's decision.
        game: Game for tree search that is equivalent to the env; None if there is none.
    """

    state_space: gymnasium.spaces.Box | None
    slots: int
    clock: WorldClock
    game: ArrayGame | None = field(default=None, repr=False, compare=False)
