"""Frozen opponents that act for groups of agents (seats) in a multi-agent env, and the league that chooses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.league.frozen_policy import FrozenPolicy
from rlrun.engine.league.league import League
from rlrun.engine.league.league_settings import SeatSettings
from rlrun.engine.league.matches import Matches
from rlrun.engine.league.seat_behavior import SeatBehavior
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.save.saved_opponents import SavedOpponent, read_opponent

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.learner.learner import Learner
    from rlrun.engine.training.assemble.policies import Policies
    from rlrun.engine.training.assemble.policies_in_world import PoliciesInWorld


class Seats:
    """Seats of a multi-agent env: groups of agents for which frozen opponents act.

    Opponents are past versions of trained policies, scripts, and policies from checkpoints.

    Args:
        policies: The policies, with the settings of the seats.
        world: Spaces of the policies and seats, and properties of the env.
        start_learners: For each policy, a function that returns its learner, and starts it on the first call.
        copied: Opponents that a resumed run saved as copies, by the path of their checkpoint; others are loaded from
            their paths.

    Raises:
        CheckpointError: There is no such checkpoint, or it cannot be used.
        UsageError: A checkpoint lacks the policy, or the policy's spaces differ from those of the seat's agents.
    """

    def __init__(
        self,
        policies: Policies,
        world: PoliciesInWorld,
        start_learners: Mapping[str, Callable[[], Learner]],
        copied: Mapping[str, SavedOpponent],
    ) -> None:
        self._policies = policies
        self._world = world
        self._start_learners = start_learners
        self._saved = _saved_opponents(policies.seats, world, copied)

    def behaviors(self) -> dict[str, SeatBehavior]:
        """Creates the acting policy of each seat, which lets the opponents in the seat's lineup act."""
        return {seat: self._seat(seat) for seat in self._policies.seats}

    def league(self, env: EnvConfig, trainees: Mapping[str, Trainee], seed: int) -> League:
        """Creates the league, which keeps opponents and ratings, and chooses the learning policies' opponents."""
        policies = self._policies
        return League(
            policies.league,
            policies.seats,
            {policy: trainees[policy] for policy in policies.trained},
            {seat: partial(self._seat, seat) for seat in policies.seats},
            Matches(env.in_evaluation(), policies.agent_mapping(), policies.seats),
            self._saved,
            child_seed(seed, "league"),
        )

    def _seat(self, seat: str) -> SeatBehavior:
        """Creates a seat's behavior: the frozen policies (past selves and checkpoints) that can act there.

        Raises:
            UsageError: The policies whose past selves play there have different spaces, or different kinds of actions.
        """
        checkpoints = self._policies.seats[seat].checkpoints
        behaviors = {name: self._start_learners[name]().policy.behavior() for name in self._policies.seats[seat].selves}
        for name in behaviors:
            if self._world.spaces[name] != self._world.spaces[seat]:
                raise UsageError(
                    f"seats.{seat}: its agents have {self._world.spaces[seat]}, but policy {name} has "
                    f"{self._world.spaces[name]}"
                )
        behaviors |= {path: self._saved[path].make() for path in checkpoints}
        first = next(iter(behaviors.values()))
        if any(type(behavior.action_space) is not type(first.action_space) for behavior in behaviors.values()):
            raise UsageError(f"seats.{seat}: {', '.join(behaviors)} have different kinds of actions")
        return SeatBehavior(behaviors, first.action_space)


def _saved_opponents(
    seats: Mapping[str, SeatSettings], world: PoliciesInWorld, copied: Mapping[str, SavedOpponent]
) -> dict[str, FrozenPolicy]:
    """Loads the frozen opponents that seats name by checkpoint path; returns them by path.

    Raises:
        CheckpointError: There is no such checkpoint, or it cannot be used.
        UsageError: A checkpoint lacks the policy, or the policy's spaces differ from those of the seat's agents.
    """
    found: dict[str, FrozenPolicy] = {}
    for seat, settings in seats.items():
        for path in settings.checkpoints:
            opponent = copied[path] if path in copied else read_opponent(path)
            try:
                found[path] = opponent.in_world(world.spaces[seat], world.views[seat])
            except UsageError as error:
                raise UsageError(f"seats.{seat}.checkpoints: {path} {error}") from error
    return found
