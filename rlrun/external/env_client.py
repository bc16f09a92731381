"""Runs a Gymnasium env as a client of rlrun, with actions of the server, or of its weights in this process.

Copy this file next to rlrun_client.py. It needs NumPy and Gymnasium.

    client = Client("http://127.0.0.1:9900")
    run(gymnasium.make("CartPole-v1"), client, EpisodeUnknown)
"""

from __future__ import annotations

import itertools
from typing import Any


def run(
    env: Any, client: Any, unknown: type[Exception], episodes: int | None = None, seed: int | None = None
) -> list[float]:
    """Runs episodes of an env, whose actions the server chooses.

    An episode that the server does not know any more, as after its restart, is left, and another one begins.

    Args:
        env: A Gymnasium env.
        client: A `Client` of rlrun_client.py.
        unknown: Its `EpisodeUnknown`.
        episodes: Number of episodes; None for no end.
        seed: Seed of the first reset.

    Returns:
        The return of each finished episode.
    """
    returns: list[float] = []
    for number in itertools.count():
        if episodes is not None and len(returns) >= episodes:
            break
        episode = client.start_episode()
        observation, _ = env.reset(seed=seed if number == 0 else None)
        total, terminated, truncated = 0.0, False, False
        try:
            while not (terminated or truncated):
                action = client.get_action(episode, observation)
                observation, reward, terminated, truncated, _ = env.step(action)
                client.log_returns(episode, float(reward))
                total += float(reward)
            client.end_episode(episode, observation, truncated=not terminated)
        except unknown:
            continue
        returns.append(total)
    return returns
