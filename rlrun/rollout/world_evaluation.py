"""Evaluation in worlds: returns of each policy's agents over a fixed number of the world's episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.tree import map_tree
from rlrun.envs.env_watch import INTERRUPT_S, Watched
from rlrun.envs.spaces import first_bad_row
from rlrun.envs.vector_env import EnvError
from rlrun.functional.seeding import generator
from rlrun.rollout.endless_episodes import AwaitedEpisodes
from rlrun.rollout.evaluation import EvaluationResult, episodes_side_by_side
from rlrun.worlds.make import make_vector_world
from rlrun.worlds.mapping import PolicyMapping
from rlrun.worlds.vector_world import SlotRows, VectorWorld
from rlrun.worlds.world_config import WorldConfig


class ActsInWorld(Protocol):
    """Interface of a policy in an evaluation, as behavior policies have it."""

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Resets recurrent state in slots [B] whose next observation starts an episode."""
        ...

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Takes the rewards [B] of the last step, for policies that observe them."""
        ...

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Returns actions for the world, [B, ...], of the slots that act: sampled, or the best without generator."""
        ...


def evaluate_world(
    behaviors: Mapping[str, ActsInWorld],
    world: WorldConfig,
    mapping: PolicyMapping,
    slots: Mapping[str, int],
    episodes: int,
    seed: int,
    explore: bool = False,
    draw: Callable[[NDArray[Any] | None], None] | None = None,
) -> EvaluationResult:
    """Evaluates policies over a fixed number of a world's episodes.

    Episodes are assigned to the parallel worlds beforehand, as their seeds are.

    Args:
        behaviors: Behavior policies by name.
        world: The world, whose raw rewards are summed.
        mapping: Mapping of agents to policies.
        slots: Slots of policies in each world, as in training.
        episodes: Number of episodes.
        seed: Seed of the episodes and of the actions.
        explore: Whether actions are sampled instead of the most likely ones.
        draw: Called with a picture of the world [height, width, 3] at each of its steps, None where it has none; the
            episodes then run one after the other.

    Returns:
        The returns of all agents together by episode of the world; and of each policy the returns of its agents'
        episodes, in the order of the world's episodes.

    Raises:
        UsageError: There are no episodes to run.
        EnvError: The world raises, or an episode does not end.
        KeyboardInterrupt: The user has interrupted the run, `INTERRUPT_S` ago.
    """
    side_by_side, seeds = episodes_side_by_side(episodes, seed, None if draw is None else 1)
    worlds = make_vector_world(world, side_by_side, seeds, mapping, slots)
    draws = generator(seed, "evaluation") if explore else None
    name = f"env {world.id}: evaluation"
    try:
        with Watched(name, worlds.places):
            awaited = AwaitedEpisodes(name, world.max_episode_steps, INTERRUPT_S)
            return _run(behaviors, worlds, name, episodes, draws, draw, awaited)
    finally:
        worlds.close()


def _run(
    behaviors: Mapping[str, ActsInWorld],
    worlds: VectorWorld,
    name: str,
    episodes: int,
    draws: np.random.Generator | None,
    draw: Callable[[NDArray[Any] | None], None] | None,
    awaited: AwaitedEpisodes,
) -> EvaluationResult:
    """Steps all worlds until each has run its episodes; further episodes of a world are ignored."""
    number = worlds.num_worlds
    current = np.arange(number)
    returns, lengths = [0.0] * episodes, [0] * episodes
    columns = {name: [0.0] * episodes for name in worlds.columns}
    sums, steps = np.zeros(number), np.zeros(number, np.int64)
    column_sums = {name: np.zeros(number) for name in worlds.columns}
    lives = {policy: _Lives(slots, slots // number, worlds.columns) for policy, slots in worlds.slots.items()}
    rows = worlds.reset()
    if draw is not None:
        draw(worlds.render())
    while current.min() < episodes:
        actions = {}
        for policy, behavior in behaviors.items():
            shown = rows.policies[policy]
            _refuse_bad_observations(worlds, policy, shown, name)
            behavior.begin_episodes(shown.starts)
            actions[policy] = behavior.actions(shown.observations, draws, shown.acts)
            lives[policy].act(shown.acts)
        rows = worlds.step(actions)
        if draw is not None:
            draw(worlds.render())
        steps += rows.stepped
        for policy, own in lives.items():
            shown = rows.policies[policy]
            behaviors[policy].take_rewards(shown.rewards)
            sums += shown.rewards.reshape(number, -1).sum(axis=1)
            for name, column in shown.columns.items():
                column_sums[name] += column.reshape(number, -1).sum(axis=1)
            own.take(shown, current, episodes)
        for world in rows.ended.nonzero()[0]:
            if current[world] < episodes:
                returns[current[world]], lengths[current[world]] = float(sums[world]), int(steps[world])
                for name, found in columns.items():
                    found[current[world]] = float(column_sums[name][world])
            current[world] += number
            sums[world], steps[world] = 0.0, 0
            for totals in column_sums.values():
                totals[world] = 0.0
        awaited.look(int(np.where(current < episodes, steps, 0).max()))
    return EvaluationResult(returns, lengths, {policy: own.result() for policy, own in lives.items()}, columns)


def _refuse_bad_observations(worlds: VectorWorld, policy: str, shown: SlotRows, name: str) -> None:
    """Raises for observations that a policy's agents cannot act on."""
    space = worlds.spaces[policy].observation
    if bad := first_bad_row(space, map_tree(lambda leaf: leaf[shown.acts][None], shown.observations)):
        (_, number), reason = bad
        slot = int(shown.acts.nonzero()[0][number])
        world = slot // (worlds.slots[policy] // worlds.num_worlds)
        place, agent = worlds.places()[world], worlds.owners(policy)[slot]
        raise EnvError(f"{name}, world {world}, {place}, agent {agent!r} of policy {policy}: {reason}")


class _Lives:
    """Returns, lengths and sums of columns of the episodes of a policy's agents.

    Args:
        slots: B, slots in all worlds.
        width: K, slots in each world.
        columns: Names of numbers in agents' infos that become columns.
    """

    def __init__(self, slots: int, width: int, columns: Sequence[str]) -> None:
        self._sums, self._steps = np.zeros(slots), np.zeros(slots, np.int64)
        self._columns = {name: np.zeros(slots) for name in columns}
        self._width = width
        self._found: list[tuple[int, float, int, dict[str, float]]] = []

    def act(self, acts: NDArray[np.bool_]) -> None:
        """Counts the steps of the agents that act."""
        self._steps += acts

    def take(self, shown: SlotRows, current: NDArray[np.int64], episodes: int) -> None:
        """Adds a step's rewards, and records agents' episodes that ended in an evaluated episode of the world."""
        self._sums += shown.rewards
        for name, sums in self._columns.items():
            sums += shown.columns[name]
        for slot in (shown.terminateds | shown.truncateds).nonzero()[0]:
            episode = int(current[slot // self._width])
            if episode < episodes:
                columns = {name: float(sums[slot]) for name, sums in self._columns.items()}
                self._found.append((episode, float(self._sums[slot]), int(self._steps[slot]), columns))
            self._sums[slot], self._steps[slot] = 0.0, 0
            for sums in self._columns.values():
                sums[slot] = 0.0

    def result(self) -> EvaluationResult:
        """Returns the recorded episodes, in the order of the world's episodes."""
        found = sorted(self._found, key=lambda life: life[0])
        columns = {name: [life[3][name] for life in found] for name in self._columns}
        return EvaluationResult([life[1] for life in found], [life[2] for life in found], columns=columns)
