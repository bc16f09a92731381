"""Recording of a policy's episodes as expert demonstrations, to a file or a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rlrun.engine.data.demonstrations import Demonstrations
from rlrun.engine.data.space_kinds import batched
from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.datasets.layout import LOGP, LOGP_FORM
from rlrun.engine.datasets.notes import env_note
from rlrun.engine.datasets.writer import SetWriter, require_empty
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.make import make_env
from rlrun.engine.envs.spaces import first_bad_row
from rlrun.engine.envs.vector_env import EnvError, close_or_warn
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.endless_episodes import EpisodeWatchdog

Acts = Callable[[Any, bool, float], tuple[Any, float | None]]
"""Policy as a function from (observation, episode start, last reward) to (action, log-probability or None)."""

EPISODES_PER_FILE = 10
"""Episodes per file of a data set; few, since a killed process loses the demonstrations in the open file."""

_DEMONSTRATION_STREAM = 2


@dataclass
class DemonstratedEpisode:
    """Recorded episode of T steps, in which an expert policy acted.

    Attributes:
        seed: Seed that the env was reset with.
        observations: The T + 1 observations, including the final one.
        actions: The T actions, as passed to the env.
        rewards: The T rewards.
        log_probs: Log-probabilities of the actions, None if unknown.
        terminated: Whether the last step terminated the episode.
        truncated: Whether the last step truncated the episode.
    """

    seed: int
    observations: list[Any]
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    log_probs: list[float | None] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False

    @property
    def has_log_probs(self) -> bool:
        """Whether the log-probabilities of the episode's actions are known."""
        return None not in self.log_probs

    def flags(self) -> dict[str, Any]:
        """Returns the columns `terminateds` and `truncateds` of the episode, one entry per step."""
        ends = np.arange(1, len(self.rewards) + 1) == len(self.rewards)
        return {"terminateds": ends & self.terminated, "truncateds": ends & self.truncated}


def demonstrate(acts: Acts, env: EnvConfig, episodes: int, seed: int) -> tuple[Demonstrations, list[float]]:
    """Runs a policy for a number of episodes, one after another, and returns the recorded demonstrations.

    Args:
        acts: Policy whose actions are recorded.
        env: Config of the env.
        episodes: Number of episodes, at least 1.
        seed: Seed of the episodes.

    Returns:
        The recorded episodes, and the return of each.

    Raises:
        UsageError: Actions are not single numbers or vectors.
        EnvError: An observation holds NaN or infinite numbers, or an episode does not end.
    """
    world = make_env(env, seed=seed)
    if isinstance(world.action_space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
        close_or_warn(world.close, env.id, "before all episodes")
        raise UsageError(
            f"env {env.id}: a demonstration file cannot store nested actions: name a folder instead, to write "
            "a data set"
        )
    shown = list(_episodes(world, acts, env, episodes, seed))
    returns = [sum(episode.rewards) for episode in shown]
    columns: dict[str, Any] = {
        # The action in the row of a final observation is ignored.
        "actions": np.array([action for episode in shown for action in (*episode.actions, episode.actions[-1])]),
        "rewards": np.concatenate([[*episode.rewards, 0.0] for episode in shown]),
        "valid": np.concatenate([[*np.ones(len(episode.rewards), np.bool_), False] for episode in shown]),
    }
    for name in ("terminateds", "truncateds"):
        columns[name] = np.concatenate([[*episode.flags()[name], False] for episode in shown])
    observations = [observation for episode in shown for observation in episode.observations]
    about = {"env": env.model_dump(mode="json", exclude_defaults=True), "seed": seed, "returns": returns}
    if isinstance(world.action_space, gymnasium.spaces.Discrete) and world.action_space.start:
        about["first_action"] = int(world.action_space.start)
    stacked = dict(named_leaves(batched(world.observation_space, *observations)))
    return Demonstrations(columns, stacked, about), returns


def demonstrate_to_set(folder: Path, acts: Acts, env: EnvConfig, episodes: int, seed: int) -> tuple[int, list[float]]:
    """Runs a policy for a number of episodes, and writes them to a data set on disk, file by file.

    Args:
        folder: Folder of the new data set.
        acts: Policy whose actions are recorded.
        env: Config of the env.
        episodes: Number of episodes, at least 1.
        seed: Seed of the episodes.

    Returns:
        The number of steps, and the return of each episode.

    Raises:
        UsageError: The folder is not empty.
        EnvError: An observation holds NaN or infinite numbers, or an episode does not end.
    """
    require_empty(folder)  # before spending a demonstrator's time
    world = make_env(env, seed=seed)
    spaces = world.observation_space, world.action_space
    writer: SetWriter | None = None
    steps, returns = 0, []
    try:
        for shown in _episodes(world, acts, env, episodes, seed):
            if writer is None:
                further = {LOGP: LOGP_FORM} if shown.has_log_probs else {}
                about = {"env": env_note(env.model_dump(mode="json", exclude_defaults=True)), "seed": seed}
                writer = SetWriter(folder, *spaces, further=further, about=about, episodes_per_file=EPISODES_PER_FILE)
            writer.add_episode(_rows(shown, *spaces), seed=shown.seed)
            returns.append(sum(shown.rewards))
            steps += len(shown.rewards)
    finally:
        if writer is not None:  # complete episodes are kept, however the recording ended
            writer.close()
    return steps, returns


def _rows(
    shown: DemonstratedEpisode, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
) -> Mapping[str, Any]:
    """Returns the columns of an episode for `SetWriter.add_episode`."""
    return {
        "obs": batched(observation_space, *shown.observations),
        "actions": batched(action_space, *shown.actions),
        "rewards": np.array(shown.rewards),
        **shown.flags(),
        **({LOGP: np.array(shown.log_probs, np.float32)} if shown.has_log_probs else {}),
    }


def _episodes(
    world: gymnasium.Env[Any, Any], acts: Acts, env: EnvConfig, episodes: int, seed: int
) -> Iterator[DemonstratedEpisode]:
    """Yields a policy's episodes in sequence, and closes the env at the end."""
    space = world.observation_space
    seeds = EpisodeSeeds(run_seed=seed, worker_index=0, stream=_DEMONSTRATION_STREAM)
    place = EpisodePosition(0, seeds.seed(0, 0), 0)
    name = f"env {env.id}: demonstration"
    awaited = EpisodeWatchdog(name, env.max_episode_steps)
    try:
        with Watched(name, lambda: [place]):
            for episode in range(episodes):
                place = EpisodePosition(episode, seeds.seed(0, episode), 0)
                observation, _ = world.reset(seed=place.seed)
                _refuse_bad(env.id, space, observation, place)
                shown = DemonstratedEpisode(place.seed, [observation])
                reward = 0.0
                while not (shown.terminated or shown.truncated):
                    action, log_prob = acts(observation, not shown.actions, reward)
                    observation, given, shown.terminated, shown.truncated, _ = world.step(action)
                    reward, place = float(given), replace(place, length=place.length + 1)
                    awaited.look(place.length)
                    _refuse_bad(env.id, space, observation, place)
                    shown.observations.append(observation)
                    shown.actions.append(action)
                    shown.rewards.append(reward)
                    shown.log_probs.append(log_prob)
                yield shown
    finally:
        close_or_warn(world.close, env.id, "after all episodes")


def _refuse_bad(env_id: str, space: gymnasium.Space[Any], observation: Any, place: EpisodePosition) -> None:
    """Validates that an observation is finite and within its space."""
    if bad := first_bad_row(space, map_tree(lambda leaf: leaf[None], batched(space, observation))):
        raise EnvError(f"env {env_id}: {place}: {bad[1]}")
