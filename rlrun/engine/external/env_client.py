"""Runs a Gymnasium env as a client of rlrun, with actions from the server or from its weights in this process.

Copy this file next to rlrun_client.py. It needs NumPy and Gymnasium.

    client = Client("http://127.0.0.1:9900")
    run(gymnasium.make("CartPole-v1"), client, EpisodeUnknown)

With `acts_here=True`, actions are chosen in this process with weights from the server, for simulators that cannot wait
for an answer. The policy must consist of dense layers, and have discrete or Box actions.
"""

from __future__ import annotations

import base64
import itertools
from typing import Any

import numpy as np

ACTIVATIONS: dict[str | None, Any] = {
    None: lambda x: x,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


class LocalPolicy:
    """Copy of the server's policy in this process: dense layers in NumPy, and actions sampled from their outputs.

    An action sampled from a Gaussian may be outside the action space. It is clipped for the env, but logged unclipped,
    since the server computes its probability.

    Args:
        client: A `Client` of rlrun_client.py.
        max_lag: Number of versions by which the local weights may lag behind the server's.
        seed: Seed of the actions; None for a random one.

    Attributes:
        version: Version of the local weights.
    """

    def __init__(self, client: Any, max_lag: int = 0, seed: int | None = None) -> None:
        self.version = -1
        self._client = client
        self._max_lag = max_lag
        self._random = np.random.default_rng(seed)
        self._fetch()

    def act(self, observation: Any) -> Any:
        """Samples an action in the form that is logged, without clipping.

        Discrete actions are sampled by the Gumbel-max trick, Box actions from a Gaussian.
        """
        x = (np.asarray(observation, np.float32).ravel() - self._mean) * self._scale
        if self._clip is not None:
            x = np.clip(x, -self._clip, self._clip)
        for weight, bias, activation in self._layers:
            x = activation(x @ weight + bias)
        if self._box is None:
            return int(np.argmax(x + self._random.gumbel(size=x.shape)) + self._start)
        means, log_stds = np.split(x, 2)
        drawn = means + np.exp(log_stds) * self._random.standard_normal(means.shape, np.float32)
        return drawn.reshape(self._box["middle"].shape) * self._box["half_range"] + self._box["middle"]

    def to_env(self, action: Any) -> Any:
        """Converts a sampled action to the form that the env accepts, for example by clipping."""
        return action if self._box is None else np.clip(action, self._box["low"], self._box["high"])

    def follow(self, version: int | None) -> None:
        """Fetches the server's weights if they are more than `max_lag` versions ahead of the local ones."""
        if version is not None and version - self.version > self._max_lag:
            self._fetch()

    def _fetch(self) -> None:
        found = self._client.get_weights(self.version)
        if "layers" in found:
            self._layers = [
                (_array(layer["weight"]), _array(layer["bias"]), ACTIVATIONS[layer["activation"]])
                for layer in found["layers"]
            ]
            self._mean, self._scale, self._clip = _array(found["mean"]), _array(found["scale"]), found["clip"]
            self._start, box = found.get("start"), found.get("box")
            self._box = None if box is None else {name: _array(array) for name, array in box.items()}
        self.version = found["version"]


def _array(data: dict[str, Any]) -> Any:
    return np.frombuffer(base64.b64decode(data["float32"]), "<f4").reshape(data["shape"])


def run(
    env: Any,
    client: Any,
    unknown: type[Exception],
    episodes: int | None = None,
    seed: int | None = None,
    acts_here: bool = False,
    max_lag: int = 0,
) -> list[float]:
    """Runs episodes of an env with actions chosen by the server, or in this process with the server's weights.

    An episode that the server no longer knows, for example after a restart, is abandoned, and a new one starts.

    Args:
        env: A Gymnasium env.
        client: A `Client` of rlrun_client.py.
        unknown: The class `EpisodeUnknown` of rlrun_client.py.
        episodes: Number of episodes; None for an unlimited number.
        seed: Seed of the first reset and of actions chosen in this process; None for a random seed.
        acts_here: Whether actions are chosen in this process.
        max_lag: Number of versions by which the weights in this process may lag behind the server's.

    Returns:
        The return of each finished episode.
    """
    returns: list[float] = []
    policy = LocalPolicy(client, max_lag, seed) if acts_here else None
    for number in itertools.count():
        if episodes is not None and len(returns) >= episodes:
            break
        episode = client.start_episode()
        observation, _ = env.reset(seed=seed if number == 0 else None)
        total, terminated, truncated = 0.0, False, False
        try:
            while not (terminated or truncated):
                if policy is None:
                    action = client.get_action(episode, observation)
                else:
                    action = policy.act(observation)
                    policy.follow(client.log_action(episode, observation, action, version=policy.version))
                    action = policy.to_env(action)
                observation, reward, terminated, truncated, _ = env.step(action)
                client.log_returns(episode, float(reward))
                total += float(reward)
            client.end_episode(episode, observation, truncated=not terminated)
        except unknown:
            continue
        returns.append(total)
    return returns
