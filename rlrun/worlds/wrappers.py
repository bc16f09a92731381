"""Wrappers around a world, each of which changes one thing that its agents see or do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.data.action_masks import ACTION_MASK, has_action_mask
from rlrun.data.tree import map_tree
from rlrun.envs.spaces import Spaces, empty_batch
from rlrun.errors import EnvironmentUnusable
from rlrun.worlds.symmetries import OBSERVATION
from rlrun.worlds.world import Info, World, WorldStep

AGENT = "agent"


class WrappedWorld(World):
    """A world that is another one in all that a subclass does not change.

    Args:
        world: The other world.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = world.clock
        self.possible_agents = world.possible_agents
        self.state_space = world.state_space

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns the other world's."""
        return self.world.spaces(agent)

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Begins an episode."""
        return {agent: self.shown(agent, seen) for agent, seen in self.world.reset(seed).items()}

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Takes a step."""
        step = self.world.step(actions)
        return step._replace(observations={agent: self.shown(agent, seen) for agent, seen in step.observations.items()})

    def shown(self, agent: str, observation: Any) -> Any:
        """Returns what an agent is shown instead of its observation: the same by default."""
        return observation

    @override
    def state(self) -> NDArray[Any]:
        """Returns the other world's state."""
        return self.world.state()

    @override
    def render(self) -> NDArray[np.uint8] | None:
        """Returns the other world's picture."""
        return self.world.render()

    @override
    def close(self) -> None:
        """Closes the other world."""
        self.world.close()


class AgentIndicator(WrappedWorld):
    """Shows each agent which one it is, so that agents of one policy may act differently.

    That is a one-hot of its index among N `possible_agents`, zeros for other agents: N numbers behind those of a Box
    of one axis, or the key `agent` of a Dict.

    Raises:
        EnvironmentUnusable: If observations are of another kind, or have that key.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._one_hots = dict(zip(world.possible_agents, np.eye(len(world.possible_agents)), strict=True))
        self._nobody = np.zeros(len(world.possible_agents))
        self._spaces = {agent: self._with_indicator(agent) for agent in world.possible_agents}

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns the agent's spaces, with the indicator in its observation."""
        return self._spaces.get(agent) or self._with_indicator(agent)

    @override
    def shown(self, agent: str, observation: Any) -> Any:
        """Returns an observation with the indicator."""
        one_hot = self._one_hots.get(agent, self._nobody)
        if isinstance(observation, Mapping):
            return {**observation, AGENT: one_hot.astype(np.float32)}
        return np.concatenate([observation, one_hot.astype(observation.dtype)])

    def _with_indicator(self, agent: str) -> Spaces:
        space, action = self.world.spaces(agent)
        count = len(self._nobody)
        match space:
            case Dict() if AGENT not in space.spaces:
                return Spaces(Dict({**space.spaces, AGENT: Box(0.0, 1.0, (count,))}), action)
            case Box(shape=(_,)):
                low, high = (
                    np.concatenate([bounds, np.full(count, bound, space.dtype)])
                    for bounds, bound in ((space.low, 0), (space.high, 1))
                )
                return Spaces(Box(low, high, dtype=space.dtype), action)
        raise EnvironmentUnusable(
            f"an agent indicator is for observations that are a Box of one axis or a Dict without the key {AGENT!r}; "
            f"those of {agent} are {space}"
        )


class PadSpaces(WrappedWorld):
    """Gives all agents the same spaces, so that one policy can act for agents of different kinds.

    Observations are Boxes with as many axes, padded with zeros to the widest, or Dicts of such with the same keys; an
    action mask may be among them. Spaces are those of `possible_agents`.

    Actions are Discrete, padded to the most. Where agents have different numbers of actions, an action mask forbids
    those that an agent has not. Observations that are no Dicts become {observation, action_mask} then. Or actions are
    Boxes with as many axes, padded to the widest: of an action the world is given the numbers that the agent has.

    Raises:
        EnvironmentUnusable: If spaces are of other kinds.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        spaces = [world.spaces(agent) for agent in world.possible_agents]
        actions = [action for _, action in spaces]
        self._cuts_actions = all(isinstance(action, Box) for action in actions)
        if self._cuts_actions:
            padded_action: Space[Any] = _widest_action(actions)
        elif all(isinstance(action, Discrete) and action.start == 0 for action in actions):
            padded_action = Discrete(max(int(action.n) for action in actions))
        else:
            raise EnvironmentUnusable(
                "padded actions are all Discrete from 0 on, or all Boxes; those of the world's agents are "
                f"{', '.join(dict.fromkeys(map(str, actions)))}"
            )
        observations = [observation for observation, _ in spaces]
        # How many actions there are in all, where some are forbidden.
        self._num_actions = 0
        if isinstance(padded_action, Discrete) and (
            has_action_mask(observations[0]) or any(action.n < padded_action.n for action in actions)
        ):
            self._num_actions = int(padded_action.n)
        if isinstance(observations[0], Dict):
            keys = set(observations[0].spaces) - {ACTION_MASK}
            if any(not isinstance(part, Dict) or set(part.spaces) - {ACTION_MASK} != keys for part in observations):
                raise EnvironmentUnusable("padded observations have the same keys; those of two agents differ")
            self._is_dict = True
            parts = {key: _widest([part[key] for part in observations]) for key in sorted(keys)}
        else:
            self._is_dict = False
            parts = {OBSERVATION: _widest(observations)}
        self._parts = parts
        mask = {ACTION_MASK: MultiBinary(self._num_actions)} if self._num_actions else {}
        padded = Dict({**parts, **mask}) if self._is_dict or mask else parts[OBSERVATION]
        self._padded = Spaces(padded, padded_action)

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns the spaces that all agents have."""
        return self._padded

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Takes a step, with as much of each action as its agent has."""
        if self._cuts_actions:
            actions = {agent: action[_within(self.world.spaces(agent).action)] for agent, action in actions.items()}
        return super().step(actions)

    @override
    def shown(self, agent: str, observation: Any) -> Any:
        """Returns a padded observation."""
        given = observation if self._is_dict else {OBSERVATION: observation}
        padded: dict[str, Any] = {}
        for key, part in self._parts.items():
            padded[key] = np.zeros(part.shape, part.dtype)
            padded[key][tuple(slice(size) for size in given[key].shape)] = given[key]
        if not self._num_actions:
            return padded if self._is_dict else padded[OBSERVATION]
        own = int(self.world.spaces(agent).action.n)
        mask = np.zeros(self._num_actions, np.int8)
        mask[:own] = given.get(ACTION_MASK, 1)
        return {**padded, ACTION_MASK: mask}


class BlackDeath(WrappedWorld):
    """Keeps agents in the world that have ended: they are shown zeros, and their actions have no effect.

    So the number of agents is always that of `possible_agents`, and all end when the world's episode does. As the
    wrapper of that name in SuperSuit. Who has not been born is shown zeros too. Where there is an action mask, all
    actions are allowed to them. At the world's end those are truncated that lived and were not terminated, all
    others terminated; what the last end of each agent had to say is told then.

    Raises:
        EnvironmentUnusable: If agents of the world take turns.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        if world.clock != "parallel":
            raise EnvironmentUnusable("black death is for worlds in which all agents act at once")
        self._black = {agent: _black(world.spaces(agent).observation) for agent in world.possible_agents}
        self._acting: set[str] = set()
        self._infos: dict[str, Info] = {}

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Begins an episode of all possible agents."""
        observations = self.world.reset(seed)
        self._acting = set(observations)
        self._infos = {}
        return self._filled(observations)

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Takes a step, with the actions of those that are alive.

        Raises:
            ValueError: If an agent appears that is not among the possible ones.
        """
        acted = self._acting
        step = self.world.step({agent: action for agent, action in actions.items() if agent in acted})
        if unknown := sorted(step.observations.keys() - self._black.keys()):
            raise ValueError(f"black death knows the possible agents alone, not {', '.join(unknown)}")
        over = {agent for flags in (step.terminateds, step.truncateds) for agent, is_over in flags.items() if is_over}
        self._acting = set(step.observations) - over
        self._infos.update(step.infos)
        if not step.ended:
            alive = {agent: step.observations[agent] for agent in self._acting}
            return step._replace(observations=self._filled(alive), terminateds={}, truncateds={}, infos={})
        cut = {agent for agent in acted if not step.terminateds.get(agent)}
        observations = self._filled(step.observations)
        for agent in cut - step.observations.keys():
            del observations[agent]  # zeros would be taken for its final observation
        terminateds = dict.fromkeys((agent for agent in self.possible_agents if agent not in cut), True)
        return WorldStep(observations, step.rewards, terminateds, dict.fromkeys(cut, True), self._infos, True)

    def _filled(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        """Returns observations of all possible agents."""
        return {
            agent: observations[agent] if agent in observations else map_tree(np.copy, black)
            for agent, black in self._black.items()
        }


class Team(WrappedWorld):
    """Has a group of agents act as one: with a tuple of their observations and a tuple of their actions.

    The team acts while any member does; a member that does not is shown zeros, and its action has no effect. It ends
    when no member lives on: terminated if the last ones are, else truncated.

    Args:
        world: The world; all its agents act at once.
        name: Id of the team.
        members: Its agents, in the order of the tuples.
        reward: `sum` gives the team what its members are given in all; `once` what each of those that act is given,
            which must be the same.

    Raises:
        EnvironmentUnusable: If agents of the world take turns, or a member is not among its possible agents.
    """

    def __init__(self, world: World, name: str, members: Sequence[str], reward: Literal["sum", "once"] = "sum") -> None:
        super().__init__(world)
        if world.clock != "parallel":
            raise EnvironmentUnusable("a team is for worlds in which all agents act at once")
        if unknown := sorted(set(members) - set(world.possible_agents)):
            raise EnvironmentUnusable(f"team {name}: {', '.join(unknown)} are not among the world's possible agents")
        self.possible_agents = [*(agent for agent in world.possible_agents if agent not in members), name]
        spaces = [world.spaces(member) for member in members]
        self._spaces = Spaces(Tuple([own for own, _ in spaces]), Tuple([own for _, own in spaces]))
        self._name = name
        self._members = tuple(members)
        self._black = {member: _black(own) for member, (own, _) in zip(members, spaces, strict=True)}
        self._reward = reward
        self._acting: set[str] = set()

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns the team's spaces, or those of an agent that is in no team."""
        return self._spaces if agent == self._name else self.world.spaces(agent)

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Begins an episode."""
        observations = self.world.reset(seed)
        self._acting = set(observations) & set(self._members)
        return self._joined(observations)

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Takes a step with the actions of the members that act.

        Raises:
            ValueError: If the reward is given `once` and members were given different ones.
        """
        chosen = {agent: action for agent, action in actions.items() if agent != self._name}
        if self._name in actions:
            joint = zip(self._members, actions[self._name], strict=True)
            chosen.update((member, action) for member, action in joint if member in self._acting)
        acted = self._acting
        step = self.world.step(chosen)
        terminated = {member for member in self._members if step.terminateds.get(member)}
        over = terminated | {member for member in self._members if step.truncateds.get(member)}
        self._acting = (set(step.observations) & set(self._members)) - over
        ends = bool(acted) and (step.ended or not self._acting)
        is_terminated = over == terminated and over >= acted
        return WorldStep(
            # While others of the team live on, who has just ended is shown its zeros.
            self._joined(step.observations if ends else self._without(step.observations, over)),
            {**self._others(step.rewards), **({self._name: self._paid(step.rewards, acted)} if acted else {})},
            {**self._others(step.terminateds), **({self._name: True} if ends and is_terminated else {})},
            {**self._others(step.truncateds), **({self._name: True} if ends and not is_terminated else {})},
            self._told(step.infos),
            step.ended,
        )

    def _paid(self, rewards: Mapping[str, float], acted: set[str]) -> float:
        if self._reward == "sum":
            return float(sum(rewards.get(member, 0.0) for member in self._members))
        given = {float(rewards.get(member, 0.0)) for member in acted}
        if len(given) > 1:
            raise ValueError(
                f"team {self._name}: its members were given {sorted(given)}, and a reward that counts once must be the "
                "same for all. Say reward: sum"
            )
        return given.pop()

    def _joined(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        """Returns observations with those of the team in one, if any member has one."""
        joined = self._others(observations)
        if any(member in observations for member in self._members):
            joined[self._name] = tuple(
                observations[member] if member in observations else map_tree(np.copy, self._black[member])
                for member in self._members
            )
        return joined

    def _others(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what is told of agents that are in no team."""
        return {agent: value for agent, value in told.items() if agent not in self._members}

    def _without(self, told: Mapping[str, Any], agents: set[str]) -> dict[str, Any]:
        return {agent: value for agent, value in told.items() if agent not in agents}

    def _told(self, infos: Mapping[str, Info]) -> dict[str, Info]:
        """Returns infos, those of members under `member/key` in that of the team."""
        members = {f"{member}/{key}": value for member in self._members for key, value in infos.get(member, {}).items()}
        return {**self._others(infos), **({self._name: members} if members else {})}


def _black(space: Space[Any]) -> Any:
    """Returns zeros of an observation space; an action mask in it allows all."""
    zeros = map_tree(lambda leaf: leaf[0], empty_batch(space, 1))
    if has_action_mask(space):
        zeros[ACTION_MASK] = np.ones_like(zeros[ACTION_MASK])
    return zeros


def _widest(spaces: Sequence[Space[Any]]) -> Box:
    """Returns a Box that holds the observations of all spaces, each followed by zeros along every axis."""
    if not all(isinstance(space, Box) for space in spaces) or len({len(space.shape) for space in spaces}) > 1:
        raise EnvironmentUnusable(f"padded observations are Boxes with as many axes, not {spaces[0]} and others")
    shape = np.max([space.shape for space in spaces], axis=0)
    gaps = [[(0, most - size) for most, size in zip(shape, space.shape, strict=True)] for space in spaces]
    low = np.min([np.pad(space.low, gap) for space, gap in zip(spaces, gaps, strict=True)], axis=0)
    high = np.max([np.pad(space.high, gap) for space, gap in zip(spaces, gaps, strict=True)], axis=0)
    return Box(low, high, dtype=spaces[0].dtype)


def _widest_action(spaces: Sequence[Space[Any]]) -> Box:
    """Returns a Box whose first numbers along every axis are the actions of each space.

    Bounds of a number are those of the agents that have it, which must be the same: units of the bounds, in which
    policies act, would mean something else for each of them.
    """
    boxes = [space for space in spaces if isinstance(space, Box)]
    widest = _widest(boxes)
    low, high = np.zeros(widest.shape, widest.dtype), np.zeros(widest.shape, widest.dtype)
    for box in boxes:
        low[_within(box)], high[_within(box)] = box.low, box.high
    if any((low[_within(box)] != box.low).any() or (high[_within(box)] != box.high).any() for box in boxes):
        raise EnvironmentUnusable(
            "padded actions have the same bounds for all agents that have them; those of the world's agents are "
            f"{', '.join(dict.fromkeys(map(str, boxes)))}"
        )
    return Box(low, high, dtype=widest.dtype)


def _within(space: Space[Any]) -> tuple[slice, ...]:
    """Returns where an element of a Box stands in a padded one."""
    return tuple(slice(size) for size in space.shape or ())
