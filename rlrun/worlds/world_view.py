"""What a policy can be built for in a world of many agents, besides its agents' own spaces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gymnasium

    from rlrun.envs.env_config import WorldClock
    from rlrun.worlds.array_game import ArrayGame


@dataclass(frozen=True)
class WorldView:
    """What a policy can be built for in a world, besides its agents' own spaces.

    Attributes:
        state_space: Space of the whole world's state; None where there is none.
        slots: Most agents of a world that the policy acts for at a time, K.
        clock: What a row of experience is.
        game: The same world as a game that can be searched in; None where there is none.
    """

    state_space: gymnasium.spaces.Box | None
    slots: int
    clock: WorldClock
    game: ArrayGame | None = field(default=None, repr=False, compare=False)
