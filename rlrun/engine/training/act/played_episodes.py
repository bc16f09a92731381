"""Plays a policy's episodes step by step, for rendering; an evaluation with the same seed plays the same episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rlrun.engine.data.action_kind import ActionKind
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.envs.make import make_env
from rlrun.engine.envs.vector_env import close_or_warn
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError
from rlrun.engine.rollout.endless_episodes import EpisodeWatchdog
from rlrun.engine.rollout.evaluation import EvaluationSeeds

if TYPE_CHECKING:
    import gymnasium

    from rlrun.engine.training.act.acting_policy import ActingPolicy

TEXT = "ansi"
"""Gymnasium's render mode of envs that are shown as text."""


class Played(NamedTuple):
    """State of an episode that is being played, after its reset or one of its steps.

    Attributes:
        total: Sum of the rewards so far.
        is_over: Whether the episode has ended.
    """

    total: float
    is_over: bool


def played(
    policy: ActingPolicy,
    config: EnvConfig,
    env: gymnasium.Env[Any, Any],
    episodes: int,
    seed: int,
    *,
    actions: ActionKind | None,
) -> Iterator[Played]:
    """Plays episodes of a policy one after another; yields the episode's state after each reset and each step.

    Args:
        policy: The policy.
        config: Settings of the env.
        env: The env; the caller closes it.
        episodes: Number of episodes.
        seed: Seed of the episodes; an evaluation with the same seed plays the same episodes.
        actions: Whether actions are greedy or sampled; None for the policy's default.
    """
    seeds = EvaluationSeeds(run_seed=seed, worker_index=0, stream=1)
    place = EpisodePosition(0, seeds.seed(0, 0), 0)
    name = f"env {config.id}: shown episodes"
    awaited = EpisodeWatchdog(name, config.max_episode_steps)
    with Watched(name, lambda: [place]):
        for episode in range(episodes):
            place = EpisodePosition(episode, seeds.seed(0, episode), 0)
            observation, _ = env.reset(seed=place.seed)
            total, reward, starts, ended = 0.0, 0.0, True, False
            yield Played(total, ended)
            while not ended:
                action = policy.act(observation, actions, episode_start=starts, prev_reward=reward)
                starts = False
                observation, given, terminated, truncated, _ = env.step(action)
                place = replace(place, length=place.length + 1)
                awaited.look(place.length)
                reward = float(given)
                total += reward
                ended = terminated or truncated
                yield Played(total, ended)


def episodes_as_text(
    policy: ActingPolicy, config: EnvConfig, episodes: int, seed: int, *, actions: ActionKind | None = None
) -> list[str]:
    """Plays episodes; returns one string per episode: its return, and the env rendered as text after the last step.

    Args:
        policy: The policy.
        config: Settings of the env.
        episodes: Number of episodes.
        seed: Seed of the episodes.
        actions: Whether actions are greedy or sampled; None for the policy's default.

    Raises:
        EnvironmentUnusable: The env renders no text.
        UsageError: The env is a multi-agent world.
    """
    if config.has_many_agents:
        raise UsageError(
            f"episodes can be shown as text only for single-agent envs, but {config.id} is a multi-agent world"
        )
    _require_text(config, seed)
    env = make_env(config, render_mode=TEXT, seed=seed)
    try:
        steps = played(policy, config, env, episodes, seed, actions=actions)
        return [f"{step.total:g}  {env.render()}" for step in steps if step.is_over]
    finally:
        close_or_warn(env.close, config.id, "after all episodes")


def _require_text(config: EnvConfig, seed: int) -> None:
    """Raises an error for an env that cannot render text; Gymnasium itself only warns."""
    env = make_env(config, seed=seed)
    close_or_warn(env.close, config.id, "before all episodes")
    modes = env.metadata.get("render_modes", [])
    if TEXT not in modes:
        raise EnvironmentUnusable(
            f"env {config.id} cannot be shown as text: it needs the render mode {TEXT}, but has "
            f"{', '.join(modes) or 'none'}"
        )
