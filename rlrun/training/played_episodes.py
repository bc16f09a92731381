"""Episodes of a policy in one env, step by step, to be drawn or read; they are those of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.env_watch import Watched
from rlrun.envs.episode_place import EpisodePlace
from rlrun.envs.make import make_env
from rlrun.envs.vector_env import close_or_warn
from rlrun.errors import EnvironmentUnusable, UsageError
from rlrun.rollout.endless_episodes import AwaitedEpisodes
from rlrun.rollout.evaluation import EvaluationSeeds

if TYPE_CHECKING:
    import gymnasium

    from rlrun.training.acting_policy import ActingPolicy

TEXT = "ansi"
"""Gymnasium's render mode of envs that are shown as text."""


class Played(NamedTuple):
    """State of an episode after its reset or a step.

    Attributes:
        total: Sum of the rewards so far.
        is_over: Whether the episode has ended.
    """

    total: float
    is_over: bool


def played(
    policy: ActingPolicy, config: EnvConfig, env: gymnasium.Env[Any, Any], episodes: int, seed: int, *, explore: bool
) -> Iterator[Played]:
    """Steps an env through episodes of a policy, in sequence; yields after each reset and each step.

    Args:
        policy: The policy.
        config: Settings of the env.
        env: The env, which stays open.
        episodes: Number of episodes.
        seed: Seed of the episodes, which are those of an evaluation with the same seed.
        explore: Whether actions are sampled instead of the most likely ones.
    """
    seeds = EvaluationSeeds(run_seed=seed, worker_index=0, stream=1)
    place = EpisodePlace(0, seeds.seed(0, 0), 0)
    name = f"env {config.id}: episodes to be shown"
    awaited = AwaitedEpisodes(name, config.max_episode_steps)
    with Watched(name, lambda: [place]):
        for episode in range(episodes):
            place = EpisodePlace(episode, seeds.seed(0, episode), 0)
            observation, _ = env.reset(seed=place.seed)
            total, reward, starts, ended = 0.0, 0.0, True, False
            yield Played(total, ended)
            while not ended:
                action = policy.act(observation, explore, episode_start=starts, prev_reward=reward)
                starts = False
                observation, given, terminated, truncated, _ = env.step(action)
                place = replace(place, length=place.length + 1)
                awaited.look(place.length)
                reward = float(given)
                total += reward
                ended = terminated or truncated
                yield Played(total, ended)


def episodes_as_text(policy: ActingPolicy, config: EnvConfig, episodes: int, seed: int, *, explore: bool) -> list[str]:
    """Text of each episode, as its env renders it after the last step, after the episode's return.

    Raises:
        EnvironmentUnusable: The env renders no text.
        UsageError: It is a world of many agents.
    """
    if config.has_many_agents:
        raise UsageError(f"episodes are shown as text of envs with one agent, and {config.id} is a world of many")
    env = make_env(config, render_mode=TEXT, seed=seed)
    try:
        steps = played(policy, config, env, episodes, seed, explore=explore)
        return [f"{step.total:g}  {_text(env)}" for step in steps if step.is_over]
    finally:
        close_or_warn(env.close, config.id, "after all episodes")


def _text(env: gymnasium.Env[Any, Any]) -> str:
    text = env.render()
    if not isinstance(text, str):
        modes = ", ".join(env.metadata.get("render_modes", [])) or "none"
        raise EnvironmentUnusable(f"the env shows no text as {TEXT}; its render modes are: {modes}")
    return text
