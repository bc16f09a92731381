"""Real observations for comparing an exported policy with the original: from its env, or from a data set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.deploy.export.check import SLOTS, ObservationStream
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.make import check_same_spaces
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.evaluation import parallel_episodes
from rlrun.engine.worlds.make import make_vector_world

if TYPE_CHECKING:
    from rlrun.engine.datasets.data_set import DataSet
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.training.training import Training
    from rlrun.engine.worlds.vector_world import SlotRows

STEPS = -(-1_000 // SLOTS)
"""Number of observations in each of the `SLOTS` streams, 1,000 in total."""

MOST_STEPS = 10 * STEPS
"""Maximum number of env steps for collecting observations, in worlds whose agents rarely act."""


def of_env(training: Training, policy: str, env: EnvConfig, seed: int) -> ObservationStream:
    """Observations collected while a policy acts in its env or world.

    Args:
        training: The training run, with all policies of the world.
        policy: Name of the policy.
        env: The env or world.
        seed: Seed of the episodes.

    Raises:
        UsageError: No agent of the policy appears in the world.
    """
    described = training.description
    _, seeds = parallel_episodes(SLOTS, seed)
    worlds = make_vector_world(env, SLOTS, seeds, described.policies.agent_mapping(), described.policies.slots)
    behaviors = training.acting.behaviors()
    watched = [_Slot() for _ in range(worlds.slots[policy])]
    try:
        rows = worlds.reset()
        for _ in range(MOST_STEPS):
            actions = {}
            for name, behavior in behaviors.items():
                shown = rows.policies[name]
                behavior.begin_episodes(shown.starts)
                actions[name] = behavior.actions(shown.observations, None, shown.acts)
            _watch(watched, rows.policies[policy])
            rows = worlds.step(actions)
            for name, behavior in behaviors.items():
                behavior.take_rewards(rows.policies[name].rewards)
            for slot, reward in zip(watched, rows.policies[policy].rewards, strict=True):
                slot.reward += float(reward)
            if sum(len(slot.rows) for slot in watched) >= STEPS * SLOTS:
                break
    finally:
        worlds.close()
    return _stream([row for slot in watched for row in slot.rows], f"env {env.id}")


def of_data(data_set: DataSet, spaces: Spaces) -> ObservationStream:
    """First observations of a data set, arranged in `SLOTS` parallel streams of consecutive episodes.

    Raises:
        UsageError: The data set has different spaces, or too few observations.
    """
    own = Spaces(data_set.observation_space, data_set.action_space)
    check_same_spaces(f"data set {data_set.folder}", own, spaces)
    batch = data_set.rows(np.arange(min(data_set.num_rows, 2 * STEPS * SLOTS)), ("obs", "rewards", "valid"))
    rows, starts, reward = [], True, 0.0
    for i in np.arange(len(batch["valid"])):
        if batch["valid"][i]:
            rows.append((map_tree(lambda leaf: leaf[i], batch["obs"]), reward, starts))  # noqa: B023
            starts, reward = False, float(batch["rewards"][i])
        else:
            starts, reward = True, 0.0
    return _stream(rows[: STEPS * SLOTS], f"data set {data_set.folder}")


@dataclass
class _Slot:
    """Observations of a slot: (observation, previous reward, whether an episode begins) of each step."""

    rows: list[tuple[Any, float, bool]] = field(default_factory=list)
    reward: float = 0.0


def _watch(watched: list[_Slot], shown: SlotRows) -> None:
    for b in shown.acts.nonzero()[0]:
        slot = watched[b]
        observation = map_tree(lambda leaf: leaf[b].copy(), shown.observations)  # noqa: B023
        starts = bool(shown.starts[b])
        slot.rows.append((observation, 0.0 if starts else slot.reward, starts))
        slot.reward = 0.0


def _stream(rows: list[tuple[Any, float, bool]], origin: str) -> ObservationStream:
    """Distributes rows over the slots so that each slot begins one episode at its start and another one later.

    Episodes that are too long for this are split in two, so that memory is reset.
    """
    length = len(rows) // SLOTS
    if not length:
        raise UsageError(f"{origin} has only {len(rows)} observations for the policy, too few for a comparison")
    rows = rows[: length * SLOTS]
    observations, rewards, starts = zip(*rows, strict=True)

    def by_slot(array: Any) -> Any:
        return np.swapaxes(array.reshape(SLOTS, length, *array.shape[1:]), 0, 1)

    whole = map_tree(lambda *parts: by_slot(np.stack(parts)), *observations)
    begins = by_slot(np.array(starts, np.bool_)).copy()
    begins[0] = True
    begins[length // 2, begins.sum(0) == 1] = True
    return ObservationStream(whole, by_slot(np.array(rewards)), begins)
