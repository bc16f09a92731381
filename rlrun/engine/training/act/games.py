"""Games of trained policies against opponents, in multi-agent envs with two sides."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rlrun.engine.data.action_kind import ActionKind
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.league.matches import SIDES, Matches, other_side
from rlrun.engine.league.scripted_opponent import ScriptedPlayer
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.evaluation import ActsInWorld

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.league.ratings import Outcomes
    from rlrun.engine.policy.behavior import BehaviorPolicy
    from rlrun.engine.training.act.acting import Acting
    from rlrun.engine.training.assemble.description import Description


class Games:
    """Plays games between a training run's policies and opponents, in a multi-agent env with two sides.

    The sides are called `first` and `second`. A policy plays a side if the training's mapping of agents to policies
    assigns the side's agents to it.

    Args:
        description: The training's env, policies and seed.
        acting: The training's policies with current weights.
    """

    def __init__(self, description: Description, acting: Acting) -> None:
        self._description = description
        self._acting = acting

    def play(
        self,
        opponent: Games | str,
        episodes: int = 20,
        *,
        seed: int = 0,
        actions: ActionKind | None = None,
        policy: str = "",
        opponent_policy: str = "",
    ) -> dict[str, Outcomes]:
        """Plays games against an opponent; returns wins, draws and losses for each side that this training plays.

        Args:
            opponent: `Games` of another training, or the import path `package.module:Name` of a scripted opponent.
            episodes: Number of games, half of them on each side; if both sides are played, rounded up to an even
                number.
            seed: Seed of the games.
            actions: Whether actions are greedy or sampled; None for the training's default. With greedy actions, all
                games in a deterministic env are identical.
            policy: Name of the policy that plays; "" for the first learning policy of each side.
            opponent_policy: Name of the opponent's policy; "" for the first learning policy of each side.

        Raises:
            UsageError: There is no such policy, the opponent's spaces differ, or the env does not have two sides.
        """
        kind = actions or self._description.actions
        pairs: dict[str, tuple[ActsInWorld, ActsInWorld]] = {}
        for side in SIDES:
            mine = self._playing(side, policy)
            spaces = self._matches.spaces[other_side(side)]
            other: ActsInWorld | None
            if isinstance(opponent, str):
                example = np.asarray(spaces.action.sample())
                other = ScriptedPlayer(opponent, example.dtype, example.shape, child_seed(seed, "script"))
            else:
                other = opponent._playing(other_side(side), opponent_policy, spaces)
            if mine is not None and other is not None:
                pairs[side] = mine, other
        if not pairs:
            raise UsageError("both policies play the same side, so they never meet")
        games = -(-episodes // len(pairs))
        return {
            side: self._matches.play(mine, other, games, seed, sides=(side,), actions=kind)[side]
            for side, (mine, other) in pairs.items()
        }

    def player(self, side: str, *, policy: str = "") -> BehaviorPolicy:
        """Returns the policy that plays one side of the game, with current weights.

        Args:
            side: `first` or `second`, as in `play`.
            policy: Name of the policy; "" for the first learning policy of that side.

        Raises:
            UsageError: There is no such policy, no policy plays that side, or the env does not have two sides.
        """
        found = self._playing(side, policy)
        if found is None:
            raise UsageError(f"no learning policy plays the {side} side of {self._description.env.id}")
        return found

    @cached_property
    def _matches(self) -> Matches:
        return self._description.matches()

    def _playing(self, side: str, policy: str, spaces: Spaces | None = None) -> BehaviorPolicy | None:
        """Returns the policy for a side: the named one, or the first learning one there; None if no policy acts there.

        Raises:
            UsageError: There is no policy of this name, or its spaces differ from `spaces`.
        """
        candidates = [policy] if policy else self._description.policies.trained
        found = {name: self._acting.policy(name) for name in candidates}
        playing = [own for name, own in found.items() if side in self._matches.sides_of(name)]
        if not playing:
            return None
        if spaces is not None and playing[0].trainee.spaces != spaces:
            raise UsageError(
                f"the policies cannot play each other: one has {playing[0].trainee.spaces}, but agents on "
                f"that side have {spaces}"
            )
        return playing[0].behavior()
