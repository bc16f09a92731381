"""World wrappers that transform agents' observations, actions, rewards or lifetimes."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Literal

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import ACTION_MASK, has_action_mask
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import Spaces, empty_batch
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.worlds.games.array_game import OBSERVATION
from rlrun.engine.worlds.world import Info, World, WorldStep

AGENT = "agent"


class WrappedWorld(World):
    """Base class of world wrappers; passes all calls on to the wrapped world unless a subclass changes them.

    Args:
        world: The wrapped world.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = world.clock
        self.possible_agents = world.possible_agents
        self.state_space = world.state_space
        self.replays = world.replays

    @property
    @override
    def unwrapped(self) -> Any:
        """The object inside all wrappers and adapters, such as a PettingZoo env."""
        return self.world.unwrapped

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns an agent's spaces in the wrapped world."""
        return self.world.spaces(agent)

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Resets the wrapped world; returns the observations, transformed by `shown`."""
        return {agent: self.shown(agent, seen) for agent, seen in self.world.reset(seed).items()}

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Steps the wrapped world; returns the result, with observations transformed by `shown`."""
        step = self.world.step(actions)
        return step._replace(observations={agent: self.shown(agent, seen) for agent, seen in step.observations.items()})

    def shown(self, agent: str, observation: Any) -> Any:
        """Returns the transformed observation of an agent; unchanged by default."""
        return observation

    @override
    def state(self) -> NDArray[Any]:
        """Returns the wrapped world's global state."""
        return self.world.state()

    @override
    def render(self) -> NDArray[np.uint8] | None:
        """Renders the wrapped world."""
        return self.world.render()

    @override
    def close(self) -> None:
        """Closes the wrapped world."""
        self.world.close()


class AgentIndicator(WrappedWorld):
    """World wrapper that adds a one-hot agent id to observations, so that agents that share a policy can differ.

    The one-hot vector encodes the agent's index among N `possible_agents`; it is all zeros for other agents. It is
    appended to a 1-d Box, or added to a Dict under the key `agent`.

    Raises:
        EnvironmentUnusable: Observations are neither a 1-d Box nor a Dict, or already have the key `agent`.
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
        """Adds the one-hot agent indicator to an observation."""
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
            "AgentIndicator needs observations that are a Box with one axis or a Dict without the key "
            f"{AGENT!r}, but agent {agent} has {space}"
        )


class PadSpaces(WrappedWorld):
    """World wrapper that pads observations and actions to common spaces, for a policy shared by different agents.

    Observations must be Boxes with equal numbers of axes, or Dicts of such Boxes with equal keys; an action mask may be
    one of the keys. Each Box is zero-padded to the largest shape. The spaces of `possible_agents` determine the common
    spaces.

    Discrete actions are padded to the largest number of actions. If numbers of actions differ, an action mask forbids
    the padding, and observations that are not Dicts become {observation, action_mask}. Box actions with equal numbers
    of axes are padded to the largest shape; the world receives each action cropped to the agent's own shape.

    Raises:
        EnvironmentUnusable: The agents' spaces cannot be padded to common ones.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        spaces = [world.spaces(agent) for agent in world.possible_agents]
        actions = [action for _, action in spaces]
        padded_action = _padded_action(actions)
        self._cuts_actions = isinstance(padded_action, Box)
        observations = [observation for observation, _ in spaces]
        # Total number of actions, or 0 if no action is ever forbidden.
        self._num_actions = 0
        if isinstance(padded_action, Discrete) and (
            has_action_mask(observations[0]) or any(action.n < padded_action.n for action in actions)
        ):
            self._num_actions = int(padded_action.n)
        self._is_dict = isinstance(observations[0], Dict)
        self._parts = _padded_parts(observations)
        mask = {ACTION_MASK: MultiBinary(self._num_actions)} if self._num_actions else {}
        padded = Dict({**self._parts, **mask}) if self._is_dict or mask else self._parts[OBSERVATION]
        self._padded = Spaces(padded, padded_action)

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns the padded spaces, common to all agents."""
        return self._padded

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Steps the world with actions cropped to each agent's own action space."""
        if self._cuts_actions:
            actions = {agent: action[_within(self.world.spaces(agent).action)] for agent, action in actions.items()}
        return super().step(actions)

    @override
    def shown(self, agent: str, observation: Any) -> Any:
        """Zero-pads an agent's observation to the shape of the common space."""
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
    """World wrapper that keeps ended agents until the episode's end, with zero observations and actions without effect.

    Like SuperSuit's `black_death`: all `possible_agents` are always present, and end with the world's episode. Agents
    that have not appeared yet also have zero observations. Action masks of ended agents, and of agents yet to appear,
    allow all actions. At the world's end, living agents that are not terminated are truncated, and all others are
    terminated. The agents' final infos are returned at the world's end, too.

    Raises:
        EnvironmentUnusable: The world's agents take turns.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        if world.clock != "parallel":
            raise EnvironmentUnusable("BlackDeath needs a world in which all agents act simultaneously")
        self._black = {agent: _black(world.spaces(agent).observation) for agent in world.possible_agents}
        self._acting: set[str] = set()
        self._infos: dict[str, Info] = {}

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Resets the world; returns observations of all possible agents."""
        observations = self.world.reset(seed)
        self._acting = set(observations)
        self._infos = {}
        return self._filled(observations)

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Steps the world with only the living agents' actions.

        Raises:
            ValueError: An agent appears that is not among `possible_agents`.
        """
        acted = self._acting
        step = self.world.step({agent: action for agent, action in actions.items() if agent in acted})
        if unknown := sorted(step.observations.keys() - self._black.keys()):
            raise ValueError(f"BlackDeath supports only the world's possible agents, not {', '.join(unknown)}")
        over = {agent for flags in (step.terminateds, step.truncateds) for agent, is_over in flags.items() if is_over}
        self._acting = set(step.observations) - over
        self._infos.update(step.infos)
        if not step.ended:
            alive = {agent: step.observations[agent] for agent in self._acting}
            return step._replace(observations=self._filled(alive), terminateds={}, truncateds={}, infos={})
        cut = {agent for agent in acted if not step.terminateds.get(agent)}
        observations = self._filled(step.observations)
        for agent in cut - step.observations.keys():
            del observations[agent]  # zeros would count as its final observation
        terminateds = dict.fromkeys((agent for agent in self.possible_agents if agent not in cut), True)
        return WorldStep(observations, step.rewards, terminateds, dict.fromkeys(cut, True), self._infos, True)

    def _filled(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        """Returns observations with zeros added for missing possible agents."""
        return {
            agent: observations[agent] if agent in observations else map_tree(np.copy, black)
            for agent, black in self._black.items()
        }


class Team(WrappedWorld):
    """World wrapper that joins a group of agents into a single agent with Tuple observations and actions.

    The team acts while any member does; members that do not act have zero observations and actions without effect. The
    team's episode ends when its last living member ends: terminated if all members that end in that step are
    terminated, else truncated.

    Args:
        world: The wrapped world, in which all agents must act at once.
        name: Id of the team.
        members: Agent ids of the team, in the order of the tuples.
        reward: `sum` for the sum of the members' rewards; `once` for the common reward of all acting members.

    Raises:
        EnvironmentUnusable: The world's agents take turns, or a member is not among its possible agents.
    """

    def __init__(self, world: World, name: str, members: Sequence[str], reward: Literal["sum", "once"] = "sum") -> None:
        super().__init__(world)
        if world.clock != "parallel":
            raise EnvironmentUnusable("Team needs a world in which all agents act simultaneously")
        if unknown := sorted(set(members) - set(world.possible_agents)):
            raise EnvironmentUnusable(f"Team {name}: the world has no such agents: {', '.join(unknown)}")
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
        """Returns the spaces of the team, or of an agent outside the team."""
        return self._spaces if agent == self._name else self.world.spaces(agent)

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Resets the wrapped world; returns the observations, with the team's members joined."""
        observations = self.world.reset(seed)
        self._acting = set(observations) & set(self._members)
        return self._joined(observations)

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Steps the world with the actions of those members of the team that act; the others' actions are dropped.

        Raises:
            ValueError: `reward` is `once`, but the members' rewards differ.
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
            # While other members live on, a member that has just ended is shown as zeros.
            self._joined(step.observations if ends else self._without(step.observations, over)),
            {**self._others(step.rewards), **({self._name: self._paid(step.rewards, acted)} if acted else {})},
            {**self._others(step.terminateds), **({self._name: True} if ends and is_terminated else {})},
            {**self._others(step.truncateds), **({self._name: True} if ends and not is_terminated else {})},
            self._told(step.infos),
            step.ended,
        )

    def _paid(self, rewards: Mapping[str, float], acted: set[str]) -> float:
        if self._reward == "sum":
            own = (float(rewards.get(member, 0.0)) for member in self._members)
            return reduce(operator.add, own)  # `sum` rounds floats differently from Python 3.12 on
        given = {float(rewards.get(member, 0.0)) for member in acted}
        if len(given) > 1:
            raise ValueError(
                f"team {self._name}: its members received different rewards, {sorted(given)}: set reward: sum, or give "
                "all members the same reward"
            )
        return given.pop()

    def _joined(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        """Joins the members' observations into one team observation, if any member has one."""
        joined = self._others(observations)
        if any(member in observations for member in self._members):
            joined[self._name] = tuple(
                observations[member] if member in observations else map_tree(np.copy, self._black[member])
                for member in self._members
            )
        return joined

    def _others(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the entries of agents outside the team."""
        return {agent: value for agent, value in told.items() if agent not in self._members}

    def _without(self, told: Mapping[str, Any], agents: set[str]) -> dict[str, Any]:
        return {agent: value for agent, value in told.items() if agent not in agents}

    def _told(self, infos: Mapping[str, Info]) -> dict[str, Info]:
        """Merges the members' infos into the team's info, under the keys `member/key`."""
        members = {f"{member}/{key}": value for member in self._members for key, value in infos.get(member, {}).items()}
        return {**self._others(infos), **({self._name: members} if members else {})}


def _black(space: Space[Any]) -> Any:
    """Returns a zero observation of a space, with all actions allowed by an action mask."""
    zeros = map_tree(lambda leaf: leaf[0], empty_batch(space, 1))
    if has_action_mask(space):
        zeros[ACTION_MASK] = np.ones_like(zeros[ACTION_MASK])
    return zeros


def _widest(spaces: Sequence[Space[Any]]) -> Box:
    """Returns the smallest Box that holds the zero-padded observations of all spaces."""
    if not all(isinstance(space, Box) for space in spaces) or len({len(space.shape) for space in spaces}) > 1:
        raise EnvironmentUnusable(
            f"PadSpaces needs Box observations with the same number of axes, not {spaces[0]} and others"
        )
    shape = np.max([space.shape for space in spaces], axis=0)
    gaps = [[(0, most - size) for most, size in zip(shape, space.shape, strict=True)] for space in spaces]
    low = np.min([np.pad(space.low, gap) for space, gap in zip(spaces, gaps, strict=True)], axis=0)
    high = np.max([np.pad(space.high, gap) for space, gap in zip(spaces, gaps, strict=True)], axis=0)
    return Box(low, high, dtype=spaces[0].dtype)


def _padded_action(actions: Sequence[Space[Any]]) -> Space[Any]:
    """Returns the common action space of the agents.

    Raises:
        EnvironmentUnusable: There is no common action space.
    """
    if all(isinstance(action, Box) for action in actions):
        return _widest_action(actions)
    if all(isinstance(action, Discrete) and action.start == 0 for action in actions):
        return Discrete(max(int(action.n) for action in actions))
    raise EnvironmentUnusable(
        "PadSpaces needs action spaces that are all Discrete starting at 0, or all Box, but the agents have "
        f"{', '.join(dict.fromkeys(map(str, actions)))}"
    )


def _padded_parts(observations: Sequence[Space[Any]]) -> dict[str, Any]:
    """Returns the common spaces of the entries of agents' observations, by key; a non-Dict has the key `OBSERVATION`.

    Raises:
        EnvironmentUnusable: The keys differ, or there are no common spaces.
    """
    first = observations[0]
    if not isinstance(first, Dict):
        return {OBSERVATION: _widest(observations)}
    keys = set(first.spaces) - {ACTION_MASK}
    if any(not isinstance(part, Dict) or set(part.spaces) - {ACTION_MASK} != keys for part in observations):
        raise EnvironmentUnusable("PadSpaces needs observations with the same keys, but two agents differ")
    return {key: _widest([part[key] for part in observations]) for key in sorted(keys)}


def _widest_action(spaces: Sequence[Space[Any]]) -> Box:
    """Returns the smallest Box that holds padded actions of all spaces, each in the leading entries of every axis.

    Each entry has the bounds of the agents whose action spaces include it, which must be equal: policies act in units
    of these bounds.
    """
    boxes = [space for space in spaces if isinstance(space, Box)]
    widest = _widest(boxes)
    low, high = np.zeros(widest.shape, widest.dtype), np.zeros(widest.shape, widest.dtype)
    for box in boxes:
        low[_within(box)], high[_within(box)] = box.low, box.high
    if any((low[_within(box)] != box.low).any() or (high[_within(box)] != box.high).any() for box in boxes):
        raise EnvironmentUnusable(
            "PadSpaces needs the same action bounds for all agents, but the agents have "
            f"{', '.join(dict.fromkeys(map(str, boxes)))}"
        )
    return Box(low, high, dtype=widest.dtype)


def _within(space: Space[Any]) -> tuple[slice, ...]:
    """Returns the slices of a Box's entries within a padded Box."""
    return tuple(slice(size) for size in space.shape or ())
