"""Runner of one multi-agent env with dicts by agent id: assigns agents to slots, and writes step results to arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from numpy.typing import NDArray

from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.env_watch import watched_env_call
from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.envs.spaces import SpaceMismatch, Spaces, mismatch
from rlrun.engine.envs.step_columns import column_number
from rlrun.engine.envs.vector_env import BadReturn, close_or_warn, env_error
from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.policy_slots import PolicySlots, Seat
from rlrun.engine.worlds.world import World
from rlrun.engine.worlds.world_checks import (
    Refusal,
    ends_refusal,
    observations_refusal,
    other_spaces,
    silence_refusal,
    step_refusal,
    strange_reward,
    taken_slots,
)

MOST_ENDED = 65_536
"""Limit on the number of remembered agents that ended in the current episode; the latest are kept."""

_REMEMBERED = 4096
"""Cache size for agents with validated spaces, since a world may give every agent a new id."""


class RunningWorld:
    """Runner of one multi-agent env (world), which writes agents' observations, rewards and ends to their slots.

    Args:
        world_id: Name of the world in messages.
        world: The world.
        number: Index of the world among the W worlds.
        worker_index: Index of the rollout worker, for messages.
        policies: The slots of each policy in all worlds.
        mapping: Mapping from agents to policies.
        clock: Time axis of experience: one row per world step, or one row per agent's decision.
        max_episode_steps: Steps after which all living agents are truncated; None for no limit.

    Attributes:
        place: Current position of the world: episode number, seed and episode length so far.
        awaiting: Whether the episode has ended, so that the next step is a reset.
        infos: Infos of agents that ended in the last step, by policy and slot.
        missing_finals: Number of agents truncated in the last step without a final observation.
        dropped_rewards: Number of rewards that were discarded because their agent had ended, or never appeared in the
            episode.
        state: Global state, [D]; None without a state space.
    """

    def __init__(
        self,
        world_id: str,
        world: World,
        number: int,
        worker_index: int,
        policies: Mapping[str, PolicySlots],
        mapping: PolicyMapping,
        clock: WorldClock,
        max_episode_steps: int | None,
    ) -> None:
        self.infos: dict[str, dict[int, Mapping[str, Any]]] = {}
        self.missing_finals = self.dropped_rewards = 0
        self.awaiting = False
        self._id = world_id
        self._world = world
        self._number = number
        self._worker_index = worker_index
        self._policies = policies
        self._mapping = mapping
        self._reads_columns = any(slots.rows.columns for slots in policies.values())
        self._acts_at_once = clock == "parallel"
        self._limit = max_episode_steps
        self._state_space = world.state_space
        self._checked_spaces: set[tuple[str, str]] = set()
        self._seen: set[str] = set()  # agents that have had an observation in this episode
        self._living: dict[str, Seat] = {}
        self._acting: dict[str, Seat] = {}
        self._ended: list[Seat] = []
        self._early = EarlyRewards()
        self._episode = self._seed = self._length = 0

    @property
    def place(self) -> EpisodePosition:
        """Returns the world's current position: episode number, seed and episode length so far."""
        return EpisodePosition(self._episode, self._seed, self._length)

    @watched_env_call(lambda own: own["self"]._where())
    def reset(self, place: EpisodePosition) -> None:
        """Starts the episode that a position names, and fully validates the values that the world's `reset` returns.

        Raises:
            EnvError: The world raised an exception, or returned an invalid value.
        """
        self._begin(place)
        try:
            observations = self._world.reset(self._seed)
        except (Exception, SystemExit) as error:
            starts = place.episode == 0
            raise env_error(self._id, "reset()", self._where(), error, starts=starts) from error
        if refusal := observations_refusal(observations, self._slots_of):
            self._refuse("reset()", refusal)
        for agent, observation in observations.items():
            seat = self._born(agent)
            seat.write(seat.slot, observation)
            seat.acts[seat.slot] = True
            self._acting[agent] = seat

    @watched_env_call(lambda own: own["self"]._where())
    def step(self, actions: Mapping[str, Sequence[Any]], closely: bool) -> None:
        """Steps the world and writes the result to its agents' slots, which the caller must have cleared.

        Args:
            actions: Actions of the K slots that each policy has in the world, by policy.
            closely: Whether to validate all return values, instead of running only the cheap checks of each step.

        Raises:
            EnvError: The world raised an exception, or returned an invalid value.
        """
        for seat in self._ended:
            self._policies[seat.policy].free(self._number, seat.index)
        self._ended = []
        self.infos = {}
        self.missing_finals = self.dropped_rewards = 0
        acted = self._acting
        joint = {agent: actions[seat.policy][seat.index] for agent, seat in acted.items()}
        self._length += 1
        try:
            result = self._world.step(joint)
        except (Exception, SystemExit) as error:
            raise env_error(self._id, "step()", self._where(), error) from error
        if closely:
            self._validate_step(result)
        try:
            self._show(*result, acted)
        except RlrunError:
            raise
        except Exception as error:  # full validation finds out what was wrong
            self._validate_step(result)
            raise env_error(self._id, "step()", self._where(), error) from error

    @watched_env_call(lambda own: own["self"]._where())
    def state(self) -> NDArray[Any]:
        """Returns the world's global state, a vector of D numbers, [D].

        Raises:
            EnvError: The world raised an exception, or returned a state outside its `state_space`.
        """
        try:
            state = self._world.state()
        except (Exception, SystemExit) as error:
            raise env_error(self._id, "state()", self._where(), error) from error
        if reason := mismatch(self._state_space, state):
            self._refuse("state()", Refusal(reason.replace("the observation", "the state")))
        return state

    def digest(self) -> str:
        """Returns a digest of the world's state: the agents in the slots, which of them act, and observations."""
        shown = sorted((seat.policy, seat.slot) for seat in [*self._living.values(), *self._ended])
        text = "\n".join(f"{policy}:{self._policies[policy].digest(slot)}" for policy, slot in shown)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def refuse(self, agent: str, reason: str) -> NoReturn:
        """Raises the error for an invalid value that the world returned for an agent in the last step or reset."""
        self._refuse("step()" if self._length else "reset()", Refusal(reason, agent))

    @watched_env_call(lambda own: own["self"]._where())
    def render(self) -> NDArray[Any] | None:
        """Renders the world as an RGB image [height, width, 3]; None without rendering.

        Raises:
            EnvError: The world raised an exception.
        """
        try:
            return self._world.render()
        except (Exception, SystemExit) as error:
            raise env_error(self._id, "render()", self._where(), error) from error

    def close(self) -> None:
        """Closes the world."""
        close_or_warn(self._world.close, self._id, self._where())

    def _begin(self, place: EpisodePosition) -> None:
        self._episode, self._seed, self._length = place.episode, place.seed, 0
        self.awaiting = False
        self._seen = set()
        self._living = {}
        self._acting = {}
        self._ended = []
        self._early = EarlyRewards()
        self.infos = {}
        self.missing_finals = self.dropped_rewards = 0
        for slots in self._policies.values():
            slots.clear(self._number)

    def _show(
        self,
        observations: Mapping[str, Any],
        rewards: Mapping[str, float],
        terminateds: Mapping[str, bool],
        truncateds: Mapping[str, bool],
        infos: Mapping[str, Mapping[str, Any]],
        ended: bool,
        acted: Mapping[str, Seat],
    ) -> None:
        """Writes a step's result to the slots: observations, rewards, and agents' episode starts and ends."""
        living = self._living
        self.awaiting = over = bool(ended) or self._length == self._limit
        self._acting = acting = {}
        born: list[str] = []
        for agent, observation in observations.items():
            seat = living.get(agent)
            if seat is None:
                self._seen.add(agent)
                if over or terminateds.get(agent) or truncateds.get(agent):
                    continue  # an agent that never acts has no episode
                seat = self._born(agent)
                born.append(agent)
            slot = seat.slot
            seat.write(slot, observation)
            seat.acts[slot] = True
            acting[agent] = seat
        for agent, reward in rewards.items():
            seat = living.get(agent)
            if seat is not None:
                seat.rewards[seat.slot] = reward
            elif reward:
                self.dropped_rewards += self._early.keep_or_drop(agent, reward)
        if self._early.rewards:
            if over:  # until then, agents may still join the episode
                known = dict.fromkeys([*self._world.possible_agents, *sorted(self._seen)])
                if refusal := strange_reward(self._early.rewards, known):
                    self._refuse("step()", refusal)
                self.dropped_rewards += self._early.drop()
            for agent in born:
                seat = living[agent]
                seat.rewards[seat.slot] += self._early.take(agent)
        if self._reads_columns:
            self._read_columns(infos, acted)
        if over or any(terminateds.values()) or any(truncateds.values()):
            if refusal := ends_refusal(terminateds, truncateds, ended):
                self._refuse("step()", refusal)
            self._end_agents(over, terminateds, truncateds, infos)
        if self._acts_at_once and len(acting) != len(living):
            self._refuse("step()", silence_refusal(living, acting))

    def _read_columns(self, infos: Mapping[str, Mapping[str, Any]], acted: Mapping[str, Seat]) -> None:
        """Reads recorded columns from the infos of living agents; required in infos of agents that acted."""
        for agent, seat in self._living.items():
            info = infos.get(agent, {})
            for name, column in self._policies[seat.policy].rows.columns.items():
                if agent in acted or name in info:
                    try:
                        column[seat.slot] = column_number(info, name)
                    except SpaceMismatch as mismatch:
                        self.refuse(agent, str(mismatch))

    def _end_agents(
        self,
        over: bool,
        terminateds: Mapping[str, bool],
        truncateds: Mapping[str, bool],
        infos: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """Ends the episodes of terminated or truncated agents, or of all living agents at the world's end."""
        for agent in list(self._living):
            terminated = bool(terminateds.get(agent))
            truncated = bool(truncateds.get(agent)) or (over and not terminated)
            if not (terminated or truncated):
                continue
            seat = self._living.pop(agent)
            self._early.ended[agent] = None
            if self._acting.pop(agent, None) is None and not terminated:
                self.missing_finals += 1
            self._policies[seat.policy].end(seat.slot, terminated, truncated)
            self._ended.append(seat)
            if info := infos.get(agent):
                self.infos.setdefault(seat.policy, {})[seat.slot] = info
        if len(self._early.ended) > MOST_ENDED:
            self._early.forget_oldest()

    def _born(self, agent: str) -> Seat:
        """Allocates a slot for a newly born agent."""
        slots = self._slots_of(agent)
        seat = slots.take(self._number, agent)
        if seat is None:
            self.refuse(agent, taken_slots(self._policy_of(agent), slots.per_world))
        self._living[agent] = seat
        self._early.ended.pop(agent, None)
        return seat

    def _slots_of(self, agent: str) -> PolicySlots:
        """Returns the slots of an agent's policy; for a new agent, validates its spaces."""
        policy = self._policy_of(agent)
        slots = self._policies[policy]
        if (agent, policy) not in self._checked_spaces:
            spaces = self._spaces(agent)
            if spaces != slots.spaces:
                raise other_spaces(self._id, policy, {slots.example: slots.spaces, agent: spaces})
            if len(self._checked_spaces) >= _REMEMBERED:
                self._checked_spaces.clear()
            self._checked_spaces.add((agent, policy))
        return slots

    def _spaces(self, agent: str) -> Spaces:
        try:
            return self._world.spaces(agent)
        except (Exception, SystemExit) as error:
            raise env_error(self._id, "spaces()", f"{self._where()}, agent '{agent}'", error) from error

    def _policy_of(self, agent: str) -> str:
        seat = self._living.get(agent)
        return self._mapping.policy_of(agent, self._episode) if seat is None else seat.policy

    def _validate_step(self, result: Any) -> None:
        if refusal := step_refusal(result, self._slots_of):
            self._refuse("step()", refusal)

    def _refuse(self, doing: str, refusal: Refusal) -> NoReturn:
        where = self._where() if refusal.agent is None else f"{self._where()}, agent '{refusal.agent}'"
        raise BadReturn(f"env {self._id} returned an invalid result from {doing} ({where}): {refusal.reason}")

    def _where(self) -> str:
        return f"worker {self._worker_index}, world {self._number}, {self.place}"


class EarlyRewards:
    """Rewards that a world gives agents before their first observation in an episode.

    Attributes:
        rewards: Sum and number of the rewards so far, by agent.
        ended: Agents that have ended in the episode, in order.
    """

    def __init__(self) -> None:
        self.rewards: dict[str, tuple[float, int]] = {}
        self.ended: dict[str, None] = {}

    def keep_or_drop(self, agent: str, reward: float) -> int:
        """Keeps a reward for an agent that has yet to appear, or discards it if the agent has ended.

        Returns:
            Number of discarded rewards, 0 or 1.
        """
        if agent in self.ended:
            return 1
        total, number = self.rewards.get(agent, (0.0, 0))
        self.rewards[agent] = total + float(reward), number + 1
        return 0

    def take(self, agent: str) -> float:
        """Removes and returns the sum of the rewards kept for an agent that has just appeared."""
        return self.rewards.pop(agent, (0.0, 0))[0]

    def drop(self) -> int:
        """Discards the rewards of agents that had not appeared by the episode's end; returns the number discarded."""
        dropped = sum(number for _, number in self.rewards.values())
        self.rewards = {}
        return dropped

    def forget_oldest(self) -> None:
        """Forgets the agents that ended first, so that at most `MOST_ENDED` are remembered."""
        while len(self.ended) > MOST_ENDED:
            del self.ended[next(iter(self.ended))]
