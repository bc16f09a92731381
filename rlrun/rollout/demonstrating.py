"""Recording of expert demonstrations from a policy's episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from rlrun.data.demonstrations import Demonstrations
from rlrun.data.space_kinds import batched
from rlrun.data.tree import map_tree, named_leaves
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.env_watch import Watched
from rlrun.envs.episode_place import EpisodePlace, EpisodeSeeds
from rlrun.envs.make import make_env
from rlrun.envs.spaces import first_bad_row
from rlrun.envs.vector_env import EnvError, close_or_warn
from rlrun.errors import UsageError
from rlrun.rollout.endless_episodes import AwaitedEpisodes

Acts = Callable[[Any, bool, float], Any]
"""Policy as a function from an observation, whether an episode starts, and the last reward, to an action."""

_DEMONSTRATION_STREAM = 2


def demonstrate(acts: Acts, env: EnvConfig, episodes: int, seed: int) -> tuple[Demonstrations, list[float]]:
    """Records demonstrations: runs a policy for a fixed number of episodes in sequence.

    Args:
        acts: Policy whose actions are recorded.
        env: The env.
        episodes: Number of episodes, at least 1.
        seed: Seed of the episodes.

    Returns:
        The demonstrations, and the return of each episode.

    Raises:
        UsageError: Actions are not single numbers or vectors.
        EnvError: An observation holds NaN or infinite numbers, or an episode does not end.
    """
    world = make_env(env, seed=seed)
    space = world.observation_space
    seeds = EpisodeSeeds(run_seed=seed, worker_index=0, stream=_DEMONSTRATION_STREAM)
    rows: list[tuple[Any, Any, float, bool, bool, bool]] = []
    returns = []
    place = EpisodePlace(0, seeds.seed(0, 0), 0)
    name = f"env {env.id}: demonstration"
    awaited = AwaitedEpisodes(name, env.max_episode_steps)
    try:
        with Watched(name, lambda: [place]):
            for episode in range(episodes):
                place = EpisodePlace(episode, seeds.seed(0, episode), 0)
                observation, _ = world.reset(seed=place.seed)
                _refuse_bad(env.id, space, observation, place)
                first, ended, total, reward = True, False, 0.0, 0.0
                action: Any = None
                while not ended:
                    action = acts(observation, first, reward)
                    after, given, terminated, truncated, _ = world.step(action)
                    reward, place = float(given), replace(place, length=place.length + 1)
                    awaited.look(place.length)
                    _refuse_bad(env.id, space, after, place)
                    rows.append((observation, action, reward, terminated, truncated, True))
                    observation, first, ended, total = after, False, terminated or truncated, total + reward
                rows.append((observation, action, 0.0, False, False, False))
                returns.append(total)
    finally:
        close_or_warn(world.close, env.id, "after all episodes")
    observations, actions, rewards, terminateds, truncateds, valid = zip(*rows, strict=True)
    if isinstance(actions[0], dict | tuple):
        raise UsageError(f"env {env.id}: demonstrations hold no nested actions")
    columns = {
        "actions": np.array(actions),
        "rewards": np.array(rewards),
        "terminateds": np.array(terminateds, np.bool_),
        "truncateds": np.array(truncateds, np.bool_),
        "valid": np.array(valid, np.bool_),
    }
    stacked = dict(named_leaves(batched(space, *observations)))
    about = {"env": env.model_dump(mode="json", exclude_defaults=True), "seed": seed, "returns": returns}
    if isinstance(world.action_space, gymnasium.spaces.Discrete) and world.action_space.start:
        about["first_action"] = int(world.action_space.start)
    return Demonstrations(columns, stacked, about), returns


def _refuse_bad(env_id: str, space: gymnasium.Space[Any], observation: Any, place: EpisodePlace) -> None:
    """Validates that an observation is finite and within its space."""
    if bad := first_bad_row(space, map_tree(lambda leaf: leaf[None], batched(space, observation))):
        raise EnvError(f"env {env_id}: {place}: {bad[1]}")
